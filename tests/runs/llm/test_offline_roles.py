"""The roles of the offline model around the executor: routing, small talk, planning, supervising, composing."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from gatekeeper.types import Intent
from runs.harness.ports import Role, UserMessage
from runs.harness.wire import (
    OUTPUTS,
    ComposerOutput,
    ExecutorEvidence,
    Plan,
    RouterIntent,
    Supervision,
    SystemChatReply,
)
from runs.llm.offline.brief import expression_of, service_named_in, situation
from runs.llm.offline.composer import CHINESE, ENGLISH
from tests.runs.llm.offline_bench import MODEL, ask, request

CHAT, KNOWLEDGE, DIAGNOSIS = Intent.SYSTEM_CHAT, Intent.KNOWLEDGE_QUERY, Intent.DIAGNOSIS

ROUTES = [
    ("hi", CHAT),
    ("Hello there!", CHAT),
    ("thanks a lot", CHAT),
    ("What can you do?", CHAT),
    ("who are you", CHAT),
    ("how does superbiz work?", CHAT),
    ("help", CHAT),
    ("", CHAT),
    ("你好", CHAT),
    ("谢谢！", CHAT),
    ("你能做什么？", CHAT),
    ("What is a connection pool?", KNOWLEDGE),
    ("How do I fix Kafka consumer lag?", KNOWLEDGE),
    ("how to rotate a TLS certificate", KNOWLEDGE),
    ("Is there a runbook for OOMKilled pods?", KNOWLEDGE),
    ("What does SQLSTATE 53300 mean?", KNOWLEDGE),
    ("explain replication lag", KNOWLEDGE),
    ("show me the runbook for high CPU", KNOWLEDGE),
    ("How should I investigate high latency?", KNOWLEDGE),
    ("什么是连接池耗尽？", KNOWLEDGE),
    ("Redis 内存满了怎么处理", KNOWLEDGE),
    ("如何排查 Kafka 积压？", KNOWLEDGE),
    ("SQLSTATE 53300 是什么意思", KNOWLEDGE),
    ("有没有证书过期的运行手册", KNOWLEDGE),
    ("Why is checkout-api failing?", DIAGNOSIS),
    ("checkout-api returns 500 errors", DIAGNOSIS),
    ("orders-api is slow since 10:04", DIAGNOSIS),
    ("pods keep crashing in shop", DIAGNOSIS),
    ("CheckoutHighErrorRate is firing", DIAGNOSIS),
    ("what happened to payments in the last 30 minutes?", DIAGNOSIS),
    ("what is wrong with search-api right now?", DIAGNOSIS),
    ("can you help: checkout-api is down", DIAGNOSIS),
    ("root cause of the latency spike", DIAGNOSIS),
    ("how is checkout-api doing?", DIAGNOSIS),
    ("Is redis healthy?", DIAGNOSIS),
    ("check the logs of orders-api", DIAGNOSIS),
    ("Show me the active alerts", DIAGNOSIS),
    ("hi, why is checkout-api failing?", DIAGNOSIS),
    ("帮我看看 orders-api 的日志", DIAGNOSIS),
    ("当前有哪些告警", DIAGNOSIS),
    ("为什么 checkout-api 一直报错？", DIAGNOSIS),
    ("订单服务超时，帮忙诊断一下", DIAGNOSIS),
    ("支付服务怎么了？", DIAGNOSIS),
    ("数据库刚才挂了", DIAGNOSIS),
]


@pytest.mark.parametrize(("query", "intent"), ROUTES, ids=[query or "empty" for query, _ in ROUTES])
async def test_routes_by_what_is_asked(query: str, intent: Intent) -> None:
    reply = await ask(Role.ROUTER, {"query": query, "history": []})
    assert RouterIntent.model_validate_json(reply.text or "").intent is intent


async def test_small_talk_is_answered_in_the_language_of_the_question() -> None:
    english = SystemChatReply.model_validate_json(
        (await ask(Role.SYSTEM_CHAT, {"query": "What can you do?"})).text or ""
    )
    chinese = SystemChatReply.model_validate_json((await ask(Role.SYSTEM_CHAT, {"query": "你能做什么？"})).text or "")
    assert english.reply.startswith("I am SuperBiz")
    assert "offline model" in english.reply
    assert "离线模型" in chinese.reply


# ---- planning --------------------------------------------------------------------------------

ALERT: dict[str, Any] = {
    "alertname": "CheckoutHighErrorRate",
    "severity": "critical",
    "status": "firing",
    "startsAt": "2026-11-12T10:04:00Z",
    "labels": {"alertname": "CheckoutHighErrorRate", "service": "checkout-api", "severity": "critical"},
    "annotations": {"summary": "checkout-api answers more than 5% of requests with 5xx"},
    "generatorURL": "http://prometheus:9090/graph?g0.expr=rate%28errors%5B5m%5D%29+%3E+0.05&g0.tab=1",
}
TASK: dict[str, Any] = {
    "query": "CheckoutHighErrorRate",
    "alert": ALERT,
    "now": "2026-11-12T10:10:20Z",
    "window": {"start": "2026-11-12T09:34:00Z", "end": "2026-11-12T10:10:20Z"},
}


@pytest.mark.parametrize("role", [Role.AIOPS_PLANNER, Role.CHAT_PLANNER])
@pytest.mark.parametrize(
    "offered", [[], ["query_logs"], ["lookup_knowledge", "query_logs", "query_metrics", "mcp__x__y"]]
)
async def test_a_plan_hints_at_offered_tools_only(role: Role, offered: list[str]) -> None:
    tools = [{"name": name, "description": "…"} for name in offered]
    plan = Plan.model_validate_json((await ask(role, TASK | {"tools": tools})).text or "")
    assert {step.tool_hint for step in plan.steps} == set(offered) - {"mcp__x__y"}
    assert "CheckoutHighErrorRate" in plan.focus


async def test_a_plan_names_the_service_and_the_time_of_the_alert() -> None:
    plan = Plan.model_validate_json(
        (await ask(Role.AIOPS_PLANNER, TASK | {"tools": [{"name": "query_logs"}]})).text or ""
    )
    assert "checkout-api" in plan.steps[0].step
    assert "2026-11-12T10:04:00Z" in plan.steps[0].step


ALL = ["FINISH", "EXECUTE", "PLAN"]
TRIED = [{"tool_name": "query_logs", "status": "OK", "evidence_count": 4}]
FAILED = [{"tool_name": "query_logs", "status": "TIMEOUT", "evidence_count": 0}]
A_PLAN = {"focus": "x", "steps": []}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"plan": None, "tools_tried": [], "claims": 0}, "PLAN"),
        ({"plan": A_PLAN, "tools_tried": [], "claims": 0}, "EXECUTE"),
        ({"plan": A_PLAN, "tools_tried": TRIED, "claims": 3}, "FINISH"),
        ({"plan": A_PLAN, "tools_tried": TRIED, "claims": 0}, "FINISH"),
        ({"plan": A_PLAN, "tools_tried": FAILED, "claims": 0}, "EXECUTE"),
        ({"plan": A_PLAN, "tools_tried": FAILED, "claims": 0, "rounds_left": 0}, "FINISH"),
        ({"plan": A_PLAN, "tools_tried": FAILED + TRIED, "claims": 0}, "FINISH"),
        ({"plan": None, "tools_tried": [], "claims": 0, "allowed": ["EXECUTE"]}, "EXECUTE"),
        ({"plan": A_PLAN, "tools_tried": FAILED, "claims": 0, "allowed": ["FINISH"]}, "FINISH"),
    ],
)
async def test_supervises_plan_then_execute_then_finish(state: dict[str, Any], expected: str) -> None:
    payload = {"alert": ALERT, "round": 1, "rounds_left": 3, "allowed": ALL} | state
    reply = await ask(Role.AIOPS_SUPERVISOR, payload)
    assert Supervision.model_validate_json(reply.text or "").next == expected


# ---- reading the task ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "service"),
    [
        ({"service": "checkout-api", "pod": "other-1"}, "checkout-api"),
        ({"app": "cart"}, "cart"),
        ({"job": "billing", "instance": "10.0.0.1:9100"}, "billing"),
        ({"job": "node-exporter", "instance": "10.0.0.1:9100"}, None),
        ({"pod": "checkout-api-7b5d6c9f88-xw2lp"}, "checkout-api"),
        ({"pod": "postgres-0"}, "postgres"),
        ({"severity": "critical"}, None),
    ],
)
def test_finds_the_service_of_an_alert(labels: dict[str, str], service: str | None) -> None:
    assert situation({"alert": {"alertname": "X", "labels": labels}}).service == service


@pytest.mark.parametrize(
    ("query", "service"),
    [
        ("Why is checkout-api failing?", "checkout-api"),
        ("why is the payments service slow", "payments"),
        ("订单服务 orders-api 为什么超时", "orders-api"),
        ("why is the service slow", None),
        ("why does it fail", None),
    ],
)
def test_finds_the_service_a_question_names(query: str, service: str | None) -> None:
    assert service_named_in(query) == service


def test_reads_the_rule_of_an_alert_from_its_link() -> None:
    assert expression_of(ALERT["generatorURL"]) == "rate(errors[5m]) > 0.05"
    assert expression_of("http://[broken") is None
    assert expression_of("http://prometheus/graph") is None


def test_reads_a_task_with_nothing_in_it() -> None:
    empty = situation({})
    assert empty.service is None
    assert empty.start < empty.end <= datetime(1970, 1, 1, tzinfo=UTC)


# ---- composing -------------------------------------------------------------------------------

POOL = "HikariPool-1 - Connection is not available, request timed out after 30000ms"


def claim(claim_id: str, kind: str, text: str, tool: str, *, critical: bool = False) -> dict[str, Any]:
    path = "$.no_evidence" if kind == "negative_observation" else "$.lines[0].text"
    cited = {
        "source_invocation_id": "inv_1",
        "tool_name": tool,
        "raw_path": path,
        "evidence_excerpt": text,
        "context": text,
    }
    return {"claim_id": claim_id, "kind": kind, "claim_text": text, "critical": critical, "evidence": [cited]}


SYMPTOM = claim("c1", "observation", f"Log: 2026-11-12T09:53:56Z: ERROR: {POOL}", "query_logs", critical=True)
CHANGE = claim("c2", "observation", 'Log: 2026-11-12T09:49:59Z: INFO: values diff: poolSize "50" -> "10"', "query_logs")
LATER = claim("c2", "observation", 'Log: 2026-11-12T10:49:59Z: INFO: values diff: poolSize "50" -> "10"', "query_logs")
METRIC = claim(
    "c3", "observation", "Metric: pending: 59 at 10:10:00Z (last), rose from 0 at 09:51:00Z; min 0", "query_metrics"
)
ADVICE = claim("c4", "guidance", "The runbook advises: Roll back the release.", "lookup_knowledge")
NEGATIVE = claim("c5", "negative_observation", "query_logs found no line with level ERROR.", "query_logs")
TRACE = [
    {"tool_name": "query_logs", "status": "NO_EVIDENCE", "evidence_count": 1},
    {"tool_name": "query_metrics", "status": "TIMEOUT", "evidence_count": 0},
    {"tool_name": "mcp__x__y", "status": "OK", "evidence_count": 0},
]


async def composed(*claims: dict[str, Any], query: str = "why is it failing") -> ComposerOutput:
    payload = {"query": query, "claims": list(claims), "tool_trace_summary": TRACE}
    return ComposerOutput.model_validate_json((await ask(Role.CHAT_COMPOSER, payload)).text or "")


async def test_the_conclusion_says_what_fails_what_came_before_and_what_is_advised() -> None:
    conclusion = (await composed(SYMPTOM, METRIC, CHANGE, ADVICE)).conclusion
    assert conclusion == (
        f"The evidence points to this in the logs: {POOL} (2026-11-12T09:53:56Z). "
        'Before that, the log records a change: values diff: poolSize "50" -> "10" (2026-11-12T09:49:59Z). '
        "The runbook advises: Roll back the release."
    )


async def test_without_a_log_line_the_decisive_metric_is_the_conclusion() -> None:
    conclusion = (await composed(METRIC | {"critical": True}, ADVICE)).conclusion
    assert conclusion == (
        "The metrics show: pending: 59 at 10:10:00Z (last), rose from 0 at 09:51:00Z. "
        "The runbook advises: Roll back the release."
    )


async def test_a_change_that_came_later_is_not_told_as_one_before() -> None:
    conclusion = (await composed(SYMPTOM, LATER)).conclusion
    assert "Before that" not in conclusion
    assert "also records a change" in conclusion


async def test_statements_are_the_claims_own_words() -> None:
    statements = (await composed(SYMPTOM, CHANGE, ADVICE)).statements
    assert [(s.text, s.claim_ids) for s in statements] == [
        (c["claim_text"], [c["claim_id"]]) for c in (SYMPTOM, CHANGE, ADVICE)
    ]


@pytest.mark.parametrize("query", ["why is it failing", "为什么会失败"])
async def test_negatives_alone_are_no_finding_and_no_proof(query: str) -> None:
    output = await composed(NEGATIVE, query=query)
    assert output.conclusion == (ENGLISH.nothing if query.isascii() else CHINESE.nothing)
    everything = output.model_dump_json()
    assert not re.search(r"ruled out|confirmed none|已排除|确认没有", everything)


async def test_without_a_claim_it_says_so() -> None:
    assert (await composed()).conclusion == ENGLISH.nothing_left


async def test_limitations_name_what_failed_and_what_found_nothing() -> None:
    limitations = (await composed(SYMPTOM)).limitations
    assert limitations[0] == "A query of metrics did not succeed; what it would have shown is unknown."
    assert limitations[1] == "A query of logs found nothing; that is no proof of absence."
    assert "offline model" in limitations[2]


async def test_the_scope_names_sources_times_and_question_without_counts() -> None:
    scope = (await composed(METRIC)).scope
    assert scope == (
        "Looked at: logs, metrics, a connected tool. The evidence quoted here is of 09:51:00Z to 10:10:00Z. "
        "Asked: why is it failing"
    )


async def test_the_scope_dates_its_times_where_midnight_lies_between() -> None:
    text = "query_logs found no line with level ERROR from 2026-11-23T21:17:15Z to 2026-11-24T03:23:00Z."
    scope = (await composed(claim("c1", "negative_observation", text, "query_logs"))).scope
    assert "2026-11-23T21:17:15Z to 2026-11-24T03:23:00Z" in scope


# ---- all roles -------------------------------------------------------------------------------

BROKEN = ["", "prose", "[]", "null", '{"query": 5}', '{"alert": "x", "claims": {}, "tools": 1}', '{"claims": [1, {}]}']


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("text", BROKEN)
async def test_a_malformed_task_still_gets_an_answer_of_the_agreed_form(role: Role, text: str) -> None:
    reply = await MODEL.complete(request(role, [UserMessage(text)]))
    assert reply.tool_calls == ()
    OUTPUTS[role].model_validate_json(reply.text or "")


async def test_usage_is_estimated_and_costs_nothing_known() -> None:
    reply = await MODEL.complete(request(Role.ROUTER, [UserMessage(json.dumps({"query": "hi" * 200}))]))
    assert reply.usage is not None
    assert 100 <= reply.usage.input_tokens <= 110
    assert reply.usage.output_tokens == -(-len(reply.text or "") // 4)
    assert reply.usage.cost_usd is None
    assert (reply.model, MODEL.name) == ("offline", "offline")


async def test_no_message_at_all_still_gets_an_answer() -> None:
    reply = await MODEL.complete(request(Role.AIOPS_EXECUTOR, []))
    assert ExecutorEvidence.model_validate_json(reply.text or "").claims == []
