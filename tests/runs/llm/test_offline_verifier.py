"""What the offline verifier supports and what it does not. False support is the error that must not happen."""

import json
import re
from dataclasses import dataclass

import pytest

from gatekeeper.types import ClaimKind, Verdict
from runs.llm.offline.brief import AllowedClaim, Quoted, deliberation
from runs.llm.offline.verifier import FRAME, evaluate, judge_claim, judge_text

POOL = (
    "464 lines like this between 09:53:56Z and 10:10:16Z: 2026-11-12T09:53:56.101Z ERROR 1 --- [checkout-api] "
    "[nio-8080-exec-9] o.h.engine.jdbc.spi.SqlExceptionHelper   : HikariPool-1 - Connection is not available, "
    "request timed out after 30000ms (total=10, active=10, idle=0, waiting=37)"
)
GAUGE = (
    'hikaricp_connections_active{instance="10.42.3.41:8080",job="checkout-api",pod="checkout-api-7b5d-xw2lp",'
    'pool="HikariPool-1",service="checkout-api"}: 10 at 10:10:00Z (last), rose from 4 at 09:51:00Z; '
    "min 4 at 09:51:00Z, max 10 at 09:53:00Z since 09:51:00Z; before that min 3, max 6 between 09:15:00Z and 09:50:00Z"
)
STATUS = (
    'http_requests_total{code="500",pod="orders-1",upstream="200"}: 106 at 14:26:30Z (last), rose from 0 at 13:48:30Z'
)
DEPLOY = "2026-11-12T09:49:59.500Z INFO  deployer release checkout-api 2.30.4 -> 2.31.0 requested by ci"
VALUES = '2026-11-12T09:49:59.500Z INFO deployer values diff checkout-api: MAXIMUM_POOL_SIZE: "50" -> "10"'
JSON_LINE = (
    '{"timestamp":"2026-11-17T14:10:32.889Z","level":"error","service":"orders-api","peer":"billing",'
    '"event":"request failed","error":"canceling statement due to lock timeout"}'
)
RUNBOOK = (
    "Every connection of the pool is in use. If the pool was made smaller by a release, roll back the release. "
    "Do not restart the database.\n1. Compare active with max.\n"
    "2. Roll back with `kubectl rollout undo deployment/NAME`."
)
TWO_POOLS = "pool A: 10 active; pool B: 0 active"
NOTHING = (
    "query_logs found no line with level ERROR, service 'search-api' from 2026-11-24T02:17:15Z to 2026-11-24T03:23:00Z"
    ": 6 files were opened and 6036 lines read. The data covers 2026-11-24T02:24:15Z to 2026-11-24T03:22:59Z."
)
CHINESE = "连接池已耗尽，请求在 30 秒后超时。活动连接从 4 上升到 10。数据库没有重启。如果连接池被改小，请回滚发布。"


@dataclass(frozen=True)
class Case:
    claim: str
    evidence: str
    supported: bool


CASES = [
    # quotations and near-quotations
    Case("HikariPool-1 - Connection is not available, request timed out after 30000ms", POOL, True),
    Case("Log: HikariPool-1 - Connection is not available", POOL, True),
    Case("The log says: request timed out after 30000ms", POOL, True),
    Case("request timed out after 30000 ms", POOL, True),
    Case("Log: ERROR: HikariPool-1 - Connection is not available, request timed out after 30000ms", POOL, True),
    Case("464 lines like this between 09:53:56Z and 10:10:16Z: ERROR: HikariPool-1 - Connection is not available",
         POOL, True),
    Case("HikariPool-1 - Connection isn't available", POOL, True),
    Case("ＨｉｋａｒｉＰｏｏｌ－１ - Connection is not available", POOL, True),
    Case("10 at 10:10:00Z (last), rose from 4 at 09:51:00Z", GAUGE, True),
    Case("10 at 10:10:00Z (last), increased from 4 at 09:51:00Z", GAUGE, True),
    Case('Metric: hikaricp_connections_active{service="checkout-api"}: 10 at 10:10:00Z (last)', GAUGE, True),
    Case('hikaricp_connections_active{pod="checkout-api-7b5d-xw2lp",service="checkout-api"}: 10 at 10:10', GAUGE, True),
    Case("max 10 at 09:53:00Z since 09:51:00Z", GAUGE, True),
    Case("deployer release checkout-api 2.30.4 -> 2.31.0", DEPLOY, False),
    Case("deployer release checkout-api 2.30.4 -> 2.31.0 requested by ci", DEPLOY, True),
    Case("2026-11-12T09:49:59Z: INFO: deployer release checkout-api 2.30.4 -> 2.31.0 requested by ci", DEPLOY, True),
    Case('MAXIMUM_POOL_SIZE: "50" -> "10"', VALUES, True),
    Case("canceling statement due to lock timeout", JSON_LINE, True),
    Case("2026-11-17T14:10:32.889Z: error: canceling statement due to lock timeout", JSON_LINE, True),
    Case("The runbook advises: Do not restart the database.", RUNBOOK, True),
    Case("The runbook advises: If the pool was made smaller by a release, roll back the release.", RUNBOOK, True),
    Case("Every connection of a pool is in use", RUNBOOK, True),
    Case("Compare active with max", RUNBOOK, True),
    Case("Every connection of the pool is in use. Do not restart the database.", RUNBOOK, True),
    Case("pool A: 10 active", TWO_POOLS, True),
    Case(NOTHING, NOTHING, True),
    Case("query_logs found no line with level ERROR, service 'search-api'", NOTHING, True),
    Case("连接池已耗尽", CHINESE, True),
    Case("日志显示：请求在 30 秒后超时", CHINESE, True),
    Case("活动连接从 4 上升到 10", CHINESE, True),
    Case("运行手册建议：如果连接池被改小，请回滚发布。", CHINESE, True),
    # numbers, times, names
    Case("request timed out after 3000ms", POOL, False),
    Case("request timed out after 30000 s", POOL, False),
    Case("HikariPool-2 - Connection is not available", POOL, False),
    Case("465 lines like this between 09:53:56Z and 10:10:16Z", POOL, False),
    Case("464 lines like this between 09:53:56Z and 10:10:17Z", POOL, False),
    Case("10 at 10:01:00Z (last), rose from 4 at 09:51:00Z", GAUGE, False),
    Case("max 4 at 09:53:00Z since 09:51:00Z", GAUGE, False),
    Case("4 at 10:10:00Z (last), rose from 10 at 09:51:00Z", GAUGE, False),
    Case('hikaricp_connections_pending{service="checkout-api"}: 10 at 10:10:00Z (last)', GAUGE, False),
    Case('hikaricp_connections_active{service="HikariPool-1"}: 10 at 10:10:00Z (last)', GAUGE, False),
    Case('http_requests_total{code="200"}: 106 at 14:26:30Z (last)', STATUS, False),
    Case("deployer release checkout-api 2.31.0 -> 2.30.4 requested by ci", DEPLOY, False),
    Case("deployer release payments-api 2.30.4 -> 2.31.0 requested by ci", DEPLOY, False),
    Case('MAXIMUM_POOL_SIZE: "10" -> "50"', VALUES, False),
    Case("活动连接从 10 上升到 4", CHINESE, False),
    Case("请求在 3 秒后超时", CHINESE, False),
    # negation, conditions
    Case("HikariPool-1 - Connection is available", POOL, False),
    Case("request not timed out after 30000ms", POOL, False),
    Case("The runbook advises: Restart the database.", RUNBOOK, False),
    Case("The runbook advises: roll back the release.", RUNBOOK, False),
    Case("the pool was made smaller by a release", RUNBOOK, False),
    Case("Deployment finished", "Deployment has not finished", False),
    Case("Deployment finished", "Deployment finished, but only if the canary passes", False),
    Case("replica is in sync", "No replica is in sync", False),
    Case("disk is full", "disk could be full", False),
    Case("backup completed", "backup completed without any table", False),
    Case("query_logs found a line with level ERROR", NOTHING, False),
    Case("连接池未耗尽", CHINESE, False),
    Case("数据库重启", CHINESE, False),
    Case("连接池被改小", CHINESE, False),
    # direction
    Case("10 at 10:10:00Z (last), fell from 4 at 09:51:00Z", GAUGE, False),
    Case("10 at 10:10:00Z (last), unchanged from 4 at 09:51:00Z", GAUGE, False),
    Case("active connections fell", "active connections rose and errors fell", False),
    Case("latency rose", "latency fell while errors rose", False),
    Case("活动连接从 4 下降到 10", CHINESE, False),
    # parts, trials, questions, and what takes a claim back
    Case("import finished", "import finished in 2 of 7 regions", False),
    Case("import finished in 2 of 7 regions", "import finished in 2 of 7 regions", True),
    Case("workers connected", "0 workers connected", False),
    Case("import finished at 10:02:11Z", "import finished at 10:02:11Z in 2 of 7 regions", False),
    Case("import finished", "import finished at 10:02:11Z", True),
    Case("latency doubled", "latency doubled on shard 4", False),
    Case("dropped table events", "Rehearsal: dropped table events", False),
    Case("Rehearsal: dropped table events", "Rehearsal: dropped table events", True),
    Case("failover to eu-2", "failover to eu-2: cancelled", False),
    Case("tls_verify", "tls_verify=false", False),
    Case("tls_verify=false", "tls_verify=false tls_min=1.2", True),
    Case("tls_min=1.2", "tls_verify=false tls_min=1.2 tls_max=1.3", True),
    Case("tls_verify=true", "tls_verify=false tls_min=1.2", False),
    Case("tls_verify=1.2", "tls_verify=false tls_min=1.2", False),
    Case("debug=true", "if debug=true restart", False),
    Case("the index is corrupt", "Is it so that the index is corrupt?", False),
    Case("the index is corrupt", "asked: the index is corrupt?", False),
    Case("rotate the key", "Once the traffic is gone, rotate the key.", False),
    Case("upstream timed out", "31#31: *90412 upstream timed out, client: 10.2.0.9", True),
    # the head of a system's log line
    Case("Readiness probe failed", "2031-02-03T04:17:52Z kubelet node-17 Readiness probe failed", True),
    Case("就绪探针失败", "2031-02-03 04:17:52 kubelet 就绪探针失败", True),
    Case("Readiness probe failed", "kubelet Readiness probe failed", False),
    Case("Readiness probe failed", "2031-02-03T04:17:52Z canary kubelet Readiness probe failed", False),
    Case("Readiness probe failed", "2031-02-03T04:17:52Z payments Readiness probe failed", False),
    Case("probe failed", "2031-02-03T04:17:52Z kubelet no probe failed", False),
    Case("probes failed", "2031-02-03T04:17:52Z kubelet 0 probes failed", False),
    Case("清空队列", "若积压继续增加，清空队列", False),
    Case("数据迁移完成", "模拟：数据迁移完成", False),
    Case("数据迁移完成", "数据迁移完成（2/7 分区）", False),
    Case("数据迁移完成（2/7 分区）", "数据迁移完成（2/7 分区）", True),
    Case("关机脚本运行", "关机脚本运行：被拒绝", False),
    Case("当前任务数 12", "调度器：当前任务数 12", True),
    # who does what, what belongs to what
    Case("orders-api timed out calling payments-api", "payments-api timed out calling orders-api", False),
    Case("pool B: 10 active", TWO_POOLS, False),
    Case("pool A: 0 active", TWO_POOLS, False),
    Case("checkout-api failed", "checkout-api is fine, payments-api failed", False),
    Case("checkout-api timed out", "checkout-api to payments-api timed out", False),
    Case("payment succeeded", "retry of payment succeeded", False),
    Case("payment failed", "payment failed over to the backup", False),
    Case("orders-api: billing", JSON_LINE, False),
    # additions: causes, amounts, verdicts, other words
    Case("HikariPool-1 - Connection is not available because of the deploy", POOL, False),
    Case("request timed out after 30000ms because the pool is too small", POOL, False),
    Case("All requests timed out after 30000ms", POOL, False),
    Case("request permanently timed out after 30000ms", POOL, False),
    Case("The release caused the errors", DEPLOY, False),
    Case("High CPU is the root cause", "node_cpu{node=\"worker-3\"}: 0.97 at 14:26:30Z (last)", False),
    Case("query_logs found no line with level ERROR, so search-api is healthy", NOTHING, False),
    Case("Errors of search-api are ruled out", NOTHING, False),
    Case("search-api has no problem", NOTHING, False),
    Case("连接池已耗尽，原因是发布", CHINESE, False),
    Case("connections of the pool were used up", POOL, False),
    Case("连接池已耗尽", POOL, False),
    Case("", POOL, False),
    Case("Log:", POOL, False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim[:60] or "empty")
def test_supports_exactly_what_the_evidence_says(case: Case) -> None:
    judged = judge_text(case.claim, [case.evidence])
    assert judged.supported is case.supported, judged.reason
    assert 0 <= judged.coverage <= 1
    assert judged.reason


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(CASES) >= 60
    assert sum(not case.supported for case in CASES) >= 40


def claim(
    text: str, *, kind: ClaimKind = ClaimKind.OBSERVATION, path: str = "$.lines[0].text", context: str = POOL,
    excerpt: str | None = None, critical: bool = False, claim_id: str = "c1",
) -> AllowedClaim:  # fmt: skip
    evidence = (Quoted("query_logs", path, excerpt if excerpt is not None else context, context),)
    return AllowedClaim(claim_id, kind, text, critical, evidence)


def test_an_excerpt_cut_out_of_a_negation_is_judged_in_its_surroundings() -> None:
    cut = claim("a connection leak", excerpt="a connection leak", context="This is not a connection leak")
    assert not judge_claim(cut).supported


def test_a_quoted_negative_is_supported_by_a_query_that_found_nothing_only() -> None:
    negative = ClaimKind.NEGATIVE_OBSERVATION
    assert judge_claim(claim(NOTHING, kind=negative, path="$.no_evidence", context=NOTHING)).supported
    assert not judge_claim(claim(NOTHING, kind=negative, path="$.lines[0].text", context=NOTHING)).supported
    assert not judge_claim(claim(NOTHING, path="$.no_evidence", context=NOTHING)).supported


def test_a_claim_without_evidence_is_not_supported() -> None:
    assert not judge_claim(AllowedClaim("c1", ClaimKind.OBSERVATION, "x failed", False, ())).supported


def payload(*claims: AllowedClaim) -> dict[str, object]:
    return {
        "query": "why",
        "claims": [
            {
                "claim_id": c.claim_id,
                "kind": c.kind,
                "claim_text": c.claim_text,
                "critical": c.critical,
                "evidence": [
                    {
                        "source_invocation_id": "inv_1",
                        "tool_name": e.tool_name,
                        "raw_path": e.raw_path,
                        "evidence_excerpt": e.evidence_excerpt,
                        "context": e.context,
                    }
                    for e in c.evidence
                ],
            }
            for c in claims
        ],
        "tool_trace_summary": [],
    }


GOOD = "request timed out after 30000ms"
WRONG = "request timed out after 30001ms"
VAGUE = "callers have to be patient"


@pytest.mark.parametrize(
    ("texts", "verdict"),
    [
        ([GOOD], Verdict.PASS),
        ([GOOD, GOOD], Verdict.PASS),
        ([GOOD, WRONG], Verdict.LOW_CONFID),
        ([GOOD, VAGUE], Verdict.LOW_CONFID),
        ([VAGUE], Verdict.LOW_CONFID),
        ([WRONG], Verdict.REJECT),
        ([], Verdict.LOW_CONFID),
    ],
)
def test_the_verdict_is_what_its_own_checks_allow(texts: list[str], verdict: Verdict) -> None:
    claims = [claim(text, critical=True, claim_id=f"c{i}") for i, text in enumerate(texts)]
    evaluated = evaluate(deliberation(json.loads(json.dumps(payload(*claims)))))
    assert evaluated.verdict is verdict
    assert [check.claim_id for check in evaluated.claim_checks] == [c.claim_id for c in claims]
    assert [check.supported for check in evaluated.claim_checks] == [text == GOOD for text in texts]
    assert evaluated.critical_fact_count == len(texts)
    assert 0 <= evaluated.groundedness_score <= 1


def forgeries(text: str) -> list[str]:
    """The text with one thing made wrong: a digit, a negation, a word."""
    words = text.split(" ")
    forged = []
    for i, word in enumerate(words):
        before, after = words[:i], words[i + 1 :]
        if any(c.isdigit() for c in word):
            forged.append([*before, re.sub(r"\d", lambda m: str((int(m.group()) + 1) % 10), word, count=1), *after])
        if word.isalpha() and word.isascii():
            forged += [[*before, "not", word, *after], [*before, "billing", *after]]
    return [" ".join(parts) for parts in forged]


@pytest.mark.parametrize("case", [case for case in CASES if case.supported], ids=lambda case: case.claim[:60])
def test_one_thing_made_wrong_is_enough(case: Case) -> None:
    said = FRAME.sub("", case.claim)
    passed = [forged for forged in forgeries(said) if judge_text(forged, [case.evidence]).supported]
    assert passed == []
