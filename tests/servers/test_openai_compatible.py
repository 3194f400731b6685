"""The double server and its brain: honest claims pass the gate, each forgery fails for its own reason."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatekeeper.gate import judge
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import (
    NO_EVIDENCE_PATH,
    Case,
    Citation,
    Claim,
    ClaimKind,
    ClaimResult,
    Draft,
    EvidenceRef,
    EvidenceStatus,
    Invocation,
    Relevance,
    SourceKind,
)
from runs.harness.ports import AssistantMessage, Message, Role, ToolMessage
from runs.harness.structured import parse_reply
from runs.harness.wire import OUTPUTS, ExecutorEvidence
from runs.llm.providers import ProviderModel
from tests.runs.llm.requests import ask, ask_executor
from tests.servers.openai_compatible import Brain, Forgery, Hang, OpenAICompatibleServer

ERROR_LINE = "2026-03-02T10:02:11Z ERROR checkout-api HikariPool-1 - Connection is not available, waited 30000ms"
OTHER_RUNS = {
    "source_invocation_id": "inv_other1",
    "tool_name": "query_logs",
    "raw_path": "$.lines[0].text",
    "evidence_excerpt": "2026-03-01T08:00:00Z ERROR billing-api disk is full",
}


def found(invocation: str, tool: str, status: str, refs: dict[str, str], output: Any = None) -> dict[str, Any]:
    return {
        "invocation_id": invocation,
        "tool_name": tool,
        "status": status,
        "evidence_refs": [{"raw_path": path, "text": text} for path, text in refs.items()],
        "output": output or {},
        "truncated": False,
        "error": None,
    }


ANSWERS = [
    found(
        "inv_k00001",
        "lookup_knowledge",
        "OK",
        {"$.hits[0].text": "Raise the pool size only after the leak is found.", "$.hits[1].text": "About databases."},
        {"hits": [{"relevance": "PRECISE"}, {"relevance": "REFERENCE"}]},
    ),
    found(
        "inv_l00001",
        "query_logs",
        "OK",
        {
            "$.lines[0].text": "2026-03-02T10:01:00Z INFO checkout-api started",
            "$.lines[1].text": ERROR_LINE,
            "$.patterns[0].text": f"812 lines like this: {ERROR_LINE}",
        },
    ),
    found("inv_m00001", "query_metrics", "NO_EVIDENCE", {NO_EVIDENCE_PATH: "query_metrics found no series in 30 min."}),
    found("inv_a00001", "query_alerts", "FAILED", {}),
]

SOURCES = {"lookup_knowledge": SourceKind.KNOWLEDGE}


def gate(evidence: ExecutorEvidence) -> dict[str, ClaimResult]:
    """The shipped rules' results for a draft over `ANSWERS`, by claim id."""
    claims = tuple(
        Claim(c.claim_id, c.kind, c.claim_text, c.critical, tuple(Citation(**e.model_dump()) for e in c.evidence))
        for c in evidence.claims
    )
    invocations = {
        a["invocation_id"]: Invocation(
            a["invocation_id"],
            a["tool_name"],
            EvidenceStatus(a["status"]),
            SOURCES.get(a["tool_name"], SourceKind.TELEMETRY),
            {r["raw_path"]: EvidenceRef(r["raw_path"], r["text"], True, Relevance.PRECISE) for r in a["evidence_refs"]},
        )
        for a in ANSWERS
    }
    result = judge(Case(Draft(evidence.answer_version, claims), invocations), shipped_rule_set())
    return {c.claim.claim_id: c for c in result.claims}


@pytest.fixture
def server() -> Iterator[OpenAICompatibleServer]:
    with OpenAICompatibleServer() as running:
        yield running


@pytest.fixture(params=["native", "tool", "prompted"])
async def model(server: OpenAICompatibleServer, request: pytest.FixtureRequest) -> AsyncIterator[ProviderModel]:
    opened = ProviderModel("openai", "double", base_url=server.base_url, output_mode=request.param, timeout_s=30.0)
    yield opened
    await opened.aclose()


async def seen_all(model: ProviderModel, *more: Message | dict[str, Any]) -> ExecutorEvidence:
    """The executor's draft after it got `ANSWERS`."""
    calls = (await model.complete(ask_executor())).tool_calls
    answers = (ToolMessage(f"t{n}", a["tool_name"], json.dumps(a)) for n, a in enumerate(ANSWERS))
    reply = await model.complete(ask_executor(AssistantMessage(None, calls), *answers, *more))
    return parse_reply(reply.text, ExecutorEvidence)


CLAIMS = [
    {"claim_id": "c1", "kind": "observation", "claim_text": "The pool is empty.", "critical": True, "evidence": []},
    {"claim_id": "c2", "kind": "guidance", "claim_text": "Find the leak.", "critical": False, "evidence": []},
]
INPUTS: dict[Role, dict[str, Any]] = {
    Role.ROUTER: {"query": "why does checkout fail?", "history": []},
    Role.SYSTEM_CHAT: {"query": "hello", "history": []},
    Role.CHAT_PLANNER: {"query": "why?", "alert": None, "tools": [{"name": "query_logs", "description": ""}]},
    Role.AIOPS_PLANNER: {"query": "why?", "alert": {"labels": {}}, "tools": []},
    Role.CHAT_VERIFIER: {"query": "why?", "claims": CLAIMS, "tool_trace_summary": []},
    Role.CHAT_COMPOSER: {"query": "why?", "claims": CLAIMS, "tool_trace_summary": []},
    Role.AIOPS_SUPERVISOR: {"alert": {}, "round": 1, "allowed": ["PLAN", "EXECUTE"], "plan": None, "tools_tried": []},
    Role.CHAT_EXECUTOR: {"query": "why?", "alert": None},
    Role.AIOPS_EXECUTOR: {"query": "why?", "alert": None},
}


@pytest.mark.parametrize("role", Role)
async def test_the_brain_keeps_every_roles_contract_in_every_output_mode(model: ProviderModel, role: Role) -> None:
    reply = await model.complete(ask(role, INPUTS[role]))
    assert isinstance(parse_reply(reply.text, OUTPUTS[role]), OUTPUTS[role])


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ({"plan": None, "tools_tried": [], "allowed": ["PLAN", "EXECUTE"]}, "PLAN"),
        ({"plan": {}, "tools_tried": [], "allowed": ["PLAN", "EXECUTE"]}, "EXECUTE"),
        ({"plan": {}, "tools_tried": [{}], "allowed": ["PLAN", "EXECUTE", "FINISH"]}, "FINISH"),
        ({"plan": {}, "tools_tried": [{}], "allowed": ["EXECUTE"]}, "EXECUTE"),
        ({"round": 3}, "FINISH"),
    ],
)
async def test_the_supervisor_plans_then_executes_then_finishes(
    model: ProviderModel, state: dict[str, Any], wanted: str
) -> None:
    reply = await model.complete(ask(Role.AIOPS_SUPERVISOR, {"alert": {}, **state}))
    assert json.loads(reply.text or "")["next"] == wanted


async def test_the_executor_first_calls_what_is_offered(model: ProviderModel) -> None:
    calls = (await model.complete(ask_executor())).tool_calls
    assert {call.name: json.loads(call.arguments) for call in calls} == {
        "lookup_knowledge": {"query": "CheckoutErrors"},
        "query_logs": {"level": "WARN", "service": "checkout-api"},
    }


async def test_an_executor_that_has_to_conclude_calls_nothing(model: ProviderModel) -> None:
    reply = await model.complete(ask_executor({"conclude_now": True, "reason": "budget"}))
    assert parse_reply(reply.text, ExecutorEvidence).claims == []


async def test_honest_claims_quote_what_was_found_and_pass_the_gate(model: ProviderModel) -> None:
    evidence = await seen_all(model)
    assert [(c.kind, c.evidence[0].raw_path) for c in evidence.claims] == [
        (ClaimKind.GUIDANCE, "$.hits[0].text"),
        (ClaimKind.OBSERVATION, "$.lines[1].text"),
        (ClaimKind.OBSERVATION, "$.lines[0].text"),
        (ClaimKind.NEGATIVE_OBSERVATION, NO_EVIDENCE_PATH),
    ]
    assert [claim_id for claim_id, result in gate(evidence).items() if not result.accepted] == []


async def test_a_repair_drops_the_claims_that_failed(model: ProviderModel) -> None:
    repair = {"repair": {"failed": [{"claim_id": "c2", "rule": "GK005_EXCERPT_SUPPORTED"}]}}
    assert [claim.claim_id for claim in (await seen_all(model, repair)).claims] == ["c1", "c3", "c4"]


@pytest.mark.parametrize(
    ("forgery", "rule"),
    [
        (Forgery.INVENTED_INVOCATION, "GK002_INVOCATION_EXISTS"),
        (Forgery.WRONG_TOOL, "GK003_TOOL_MATCHES"),
        (Forgery.INVENTED_PATH, "GK004_PATH_EXISTS"),
        (Forgery.EDITED_DIGIT, "GK005_EXCERPT_SUPPORTED"),
        (Forgery.OTHER_RUN, "GK002_INVOCATION_EXISTS"),
        (Forgery.NO_EVIDENCE_AT_ALL, "GK002_INVOCATION_EXISTS"),
        (Forgery.POSITIVE_AS_NEGATIVE, "GK006_NEGATIVE_EVIDENCE"),
    ],
)
async def test_each_forgery_is_removed_by_its_own_rule_and_by_itself(
    server: OpenAICompatibleServer, model: ProviderModel, forgery: Forgery, rule: str
) -> None:
    server.brain = Brain(forgeries=(forgery,), other_run=OTHER_RUNS)
    results = gate(await seen_all(model))
    forged = [result for result in results.values() if forgery.marker in result.claim.claim_text]
    assert len(forged) == 1
    assert rule in forged[0].failed_codes
    assert [result for result in results.values() if not result.accepted] == forged


async def test_a_brain_that_only_lies_leaves_nothing(server: OpenAICompatibleServer, model: ProviderModel) -> None:
    server.brain = Brain(forgeries=tuple(Forgery), honest=False, other_run=OTHER_RUNS)
    results = gate(await seen_all(model))
    assert len(results) == len(Forgery)
    assert not any(result.accepted for result in results.values())


def test_every_forgery_has_a_marker_of_its_own() -> None:
    markers = {forgery.marker for forgery in Forgery}
    assert len(markers) == len(Forgery)
    assert all(marker.startswith("FABRICATED-") for marker in markers)


async def test_scripts_come_before_standing_behaviour_before_the_brain(server: OpenAICompatibleServer) -> None:
    server.script("router_intent", {"n": 1}, lambda question: {"n": len(question.messages)})
    server.always({"n": "standing"}, schema="router_intent")
    model = ProviderModel("openai", "double", base_url=server.base_url)
    said = [json.loads((await model.complete(ask(Role.ROUTER))).text or "") for _ in range(3)]
    other = await model.complete(ask(Role.SYSTEM_CHAT))
    await model.aclose()
    assert said == [{"n": 1}, {"n": 2}, {"n": "standing"}]
    assert "reply" in json.loads(other.text or "")
    assert len(server.asked_by("router_intent")) == 3
    assert server.disconnects == []


def test_a_server_stops_while_a_request_hangs() -> None:
    with OpenAICompatibleServer(Hang()) as server, socket.create_connection(("127.0.0.1", server.port)) as caller:
        body = b'{"messages": []}'
        caller.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        server.wait_until(lambda s: s.requests)
        server.stop()
        assert caller.recv(1) == b""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The double as a program that forges: its base URL and the file it records to. SIGINT ends it well."""
    record = tmp_path / "requests.jsonl"
    command = [
        sys.executable,
        "-m",
        "tests.servers.openai_compatible",
        "--forge",
        "EDITED_DIGIT",
        "--record",
        str(record),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), record
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


async def test_it_runs_as_a_program_and_records_what_it_was_asked(program: tuple[str, Path]) -> None:
    base_url, record = program
    model = ProviderModel("openai", "double", base_url=base_url)
    evidence = await seen_all(model)
    await model.aclose()
    assert any(Forgery.EDITED_DIGIT.marker in claim.claim_text for claim in evidence.claims)
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert [line["schema"] for line in lines] == ["executor_evidence_v2"] * 2
