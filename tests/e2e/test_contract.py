"""What other programs rely on, over HTTP on a running instance: shapes, refusals, cursors, streams."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from superbiz.env import BASE_DIR
from tests.e2e.outside import HOOK, Outside, alert_of, check_record, evidence_of, make_callers, read_events
from tests.superbiz.instance import Instance, running, with_tables

RUN_KEYS = {
    "runId", "sessionId", "trigger", "intent", "status", "outcome", "verdict", "releaseDecision", "failureCode",
    "cancelReason", "query", "publishedResult", "safeContent", "selfEvaluation", "ruleSetVersion", "promptSetVersion",
    "model", "tokens", "costUsd", "modelCalls", "toolCalls", "queuedAt", "startedAt", "finishedAt", "url",
}  # fmt: skip
PUBLISHED_KEYS = {
    "query", "conclusion", "scope", "confidence", "statements", "claims", "limitations", "sourceDocuments",
}  # fmt: skip
TRACE_KEYS = {"runId", "chatSession", "session", "run", "steps", "toolInvocations", "timeline", "summary"}
EVENT_KEYS = {
    "sequenceNo", "phase", "eventType", "status", "stepId", "invocationId", "summary", "details", "durationMs",
    "createdAt",
}  # fmt: skip
STEP_KEYS = {
    "id", "runId", "sessionId", "stepIndex", "agentName", "role", "modelInput", "modelOutput", "hasToolCall",
    "toolPlan", "durationMs", "tokenCount", "inputTokens", "outputTokens", "status", "promptVersion", "model",
    "startedAt", "finishedAt",
}  # fmt: skip
INVOCATION_KEYS = {
    "id", "invocationId", "runId", "stepId", "toolName", "inputParams", "outputPreview", "retrievalLayer",
    "l0MatchCount", "l1MatchCount", "retrievalDetails", "relevanceLevel", "dedupReason", "durationMs", "success",
    "status", "errorCode", "errorMessage", "truncated", "startedAt",
}  # fmt: skip
LOOK_AT_READS = """
from audit.models import ReasoningAccess
print([(read.reader, read.run_id) for read in ReasoningAccess.objects.filter(what="reasoning").order_by("id")])
"""
PHASES = {"RUN", "ROUTING", "AGENT", "TOOL", "EVIDENCE", "SEMANTIC", "RELEASE"}
LEAKS = re.compile(rf"Traceback|File \"|SELECT |psycopg|django|{re.escape(str(BASE_DIR))}/|\.py\b", re.IGNORECASE)


@dataclass(frozen=True)
class Site:
    instance: Instance
    machine: Outside
    """Every scope but reasoning:read."""
    reader: Outside
    auditor: Outside
    nobody: Outside
    run: dict[str, Any]
    """A released run."""
    trace: dict[str, Any]

    @property
    def reasoning_path(self) -> str:
        return f"/api/diagnosis/{self.run['sessionId']}/trace/reasoning"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    instance = with_tables(tmp_path_factory.mktemp("contract") / "var")
    with running(instance, SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted")) as up:
        up.sign_in_link()
        tokens = {
            "machine": ["alerts:write", "chat:write", "runs:read", "runs:cancel"],
            "reader": ["runs:read"],
            "auditor": ["runs:read", "reasoning:read"],
        }
        callers = make_callers(instance, tokens)
        machine = callers["machine"]
        run = machine.ended(machine.start(alert_of("pool-exhausted", "00000000000000f1")))
        yield Site(instance, **callers, nobody=Outside(instance.url), run=run, trace=machine.trace(run))


def check_error(answer: httpx.Response, status: int, *codes: str) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert {"code", "message"} <= set(body) <= {"code", "message", "details"}
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", body["code"])
    assert not codes or body["code"] in codes
    assert not LEAKS.search(answer.text), answer.text


# ---- who may --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", HOOK),
        ("GET", "/api/runs"),
        ("GET", "/api/runs/{run}"),
        ("GET", "/api/runs/{run}/events"),
        ("POST", "/api/runs/{run}/cancel"),
        ("GET", "/api/diagnosis/{session}/trace"),
        ("GET", "/api/diagnosis/{session}/trace/reasoning?runId={run}"),
    ],
)
def test_everything_needs_a_caller(site: Site, method: str, path: str) -> None:
    where = path.format(run=site.run["runId"], session=site.run["sessionId"])
    check_error(site.nobody.http.request(method, where), 401, "UNAUTHENTICATED")
    for header in ("Bearer wrong", "Basic d2hv", "Bearer \u00e9", "bearer"):
        answer = site.nobody.http.request(method, where, headers={"Authorization": header.encode()})
        check_error(answer, 401, "UNAUTHENTICATED")


@pytest.mark.parametrize(("method", "path"), [("POST", HOOK), ("POST", "/api/runs/{run}/cancel")])
def test_a_token_reaches_as_far_as_its_scopes(site: Site, method: str, path: str) -> None:
    check_error(site.reader.http.request(method, path.format(run=site.run["runId"])), 403, "FORBIDDEN")


# ---- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"alerts": [{"labels": {"alertname": "a\0b"}}]}', 400),
        (b"[" * 50_000, 400),
        (b'{"a":' * 50_000, 400),
        (b"[" * 50_000 + b"]" * 50_000, 400),
        (b'{"alerts": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400),
        (b"[]", 422),
        (b"3", 422),
        (b"null", 422),
        (b'{"alerts": {}}', 422),
        (b'{"alerts": [3]}', 422),
        (b'{"alerts": [{"labels": "x"}]}', 422),
        (b" " * (1024 * 1024 + 1), 413),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else str(value),
)
def test_a_bad_body_is_refused_and_says_why(site: Site, body: bytes, status: int) -> None:
    check_error(site.machine.post(HOOK, body), status)


def test_a_body_of_1_mib_is_read(site: Site) -> None:
    body = b'{"alerts": []}'
    answer = site.machine.post(HOOK, body + b" " * (1024 * 1024 - len(body)))
    assert answer.status_code in {202, 422}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/runs/run_none", 404),
        ("GET", "/api/runs/%00", 400),
        ("GET", "/api/runs/run_none/events", 404),
        ("POST", "/api/runs/run_none/cancel", 404),
        ("GET", "/api/diagnosis/no-such-session/trace", 404),
        ("GET", "/api/diagnosis/a%00b/trace", 400),
        ("GET", "/api/diagnosis/{session}/trace?runId=run_none", 404),
        ("GET", "/api/diagnosis/other/trace?runId={run}", 404),
        ("GET", "/api/nothing", 404),
        ("DELETE", "/api/runs", 405),
        ("GET", HOOK, 405),
        ("POST", "/api/runs/{run}", 405),
        ("POST", "/api/runs/{run}/events", 405),
        ("GET", "/api/runs?status=PAUSED", 422),
        ("GET", "/api/runs?limit=0", 422),
        ("GET", "/api/runs?nonsense=1", 422),
        ("GET", "/api/runs?cursor=x", 400),
        ("GET", "/api/runs/{run}/events?after=x", 400),
        ("GET", "/api/runs/{run}/events?after=-1", 400),
    ],
)
def test_every_refusal_has_one_shape(site: Site, method: str, path: str, status: int) -> None:
    where = path.format(run=site.run["runId"], session=site.run["sessionId"])
    check_error(site.machine.http.request(method, where), status)


# ---- runs -----------------------------------------------------------------------------------------------------


def test_a_run_has_the_contract_s_keys(site: Site) -> None:
    run = site.run
    assert set(run) == RUN_KEYS
    assert (run["trigger"], run["intent"], run["status"], run["outcome"]) == (
        "ALERT",
        "DIAGNOSIS",
        "SUCCESS",
        "SUCCESS",
    )
    assert set(run["tokens"]) == {"input", "output", "total"}
    assert run["tokens"]["total"] == run["tokens"]["input"] + run["tokens"]["output"] > 0
    assert run["failureCode"] is run["cancelReason"] is run["costUsd"] is None
    assert run["queuedAt"] <= run["startedAt"] <= run["finishedAt"]
    assert set(run["safeContent"]) == {"headline", "reason", "lookedAt"}


def test_a_published_result_has_the_contract_s_keys(site: Site) -> None:
    published = site.run["publishedResult"]
    assert set(published) == PUBLISHED_KEYS
    assert published["confidence"] in {"NORMAL", "LOW"}
    ids = {claim["claimId"] for claim in published["claims"]}
    for statement in published["statements"]:
        assert set(statement) == {"text", "claimIds"}
        assert set(statement["claimIds"]) <= ids
    for claim in published["claims"]:
        assert set(claim) == {"claimId", "kind", "claimText", "evidence"}
        assert claim["kind"] in {"observation", "guidance", "negative_observation"}
        for evidence in claim["evidence"]:
            assert set(evidence) == {"sourceInvocationId", "toolName", "rawPath", "evidenceExcerpt"}
    for document in published["sourceDocuments"]:
        assert set(document) == {"documentId", "title"}


def test_the_list_is_filtered_and_paged(site: Site) -> None:
    for number in range(3):
        site.machine.start(alert_of("pool-exhausted", f"00000000000001f{number}", alertname=f"Paged{number}"))
    everything = [item["runId"] for item in site.machine.found("/api/runs", limit=200)["items"]]
    assert len(everything) >= 4
    paged, cursor = [], None
    while True:
        page = site.machine.found("/api/runs", limit=1, **({"cursor": cursor} if cursor else {}))
        assert set(page) == {"items", "nextCursor"}
        paged += [item["runId"] for item in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert paged == everything
    (only,) = site.machine.found("/api/runs", alertName="Paged1")["items"]
    assert site.machine.ended(only["runId"])["outcome"] == "SUCCESS"
    assert site.machine.found("/api/runs", outcome="FAILED")["items"] == []
    assert site.machine.found("/api/runs", trigger="CHAT")["items"] == []
    assert only["runId"] in {item["runId"] for item in site.machine.found("/api/runs", status="SUCCESS")["items"]}


# ---- alerts ---------------------------------------------------------------------------------------------------


def counts(told: dict[str, Any]) -> tuple[int, int, int, int, int]:
    return (*(told[name] for name in ("accepted", "deduplicated", "resolved", "ignored")), len(told["runs"]))


def test_a_repeat_joins_its_alert_and_a_resolved_notice_closes_it(site: Site) -> None:
    alert = alert_of("pool-exhausted", "00000000000002f1", alertname="Repeated")
    first = site.machine.send(alert)
    assert counts(first) == (1, 0, 0, 0, 1)
    (started,) = first["runs"]
    assert set(started) == {"runId", "sessionId", "alertName", "url"}
    assert started["url"].startswith(site.instance.url)
    assert counts(site.machine.send(alert)) == (0, 1, 0, 0, 0)
    assert counts(site.machine.send(alert | {"status": "resolved"})) == (0, 0, 1, 0, 0)
    unknown = alert_of("pool-exhausted", "00000000000002f2") | {"status": "resolved"}
    assert counts(site.machine.send(unknown)) == (0, 0, 1, 0, 0)
    assert len(site.machine.found("/api/runs", alertName="Repeated")["items"]) == 1


def test_a_group_starts_one_run_about_its_most_severe_alert(site: Site) -> None:
    told = site.machine.send(
        alert_of("pool-exhausted", "00000000000003f1", alertname="Mild", severity="warning"),
        alert_of("pool-exhausted", "00000000000003f2", alertname="Severe", severity="critical"),
        alert_of("pool-exhausted", "00000000000003f3", alertname="Bad", severity="major"),
        alert_of("pool-exhausted", "00000000000003f4", alertname="Watchdog", severity="none"),
    )
    assert counts(told) == (3, 0, 0, 1, 1)
    assert told["runs"][0]["alertName"] == "Severe"
    assert site.machine.ended(told["runs"][0]["runId"])["query"].startswith("Severe")


def test_a_body_without_its_envelope_is_taken(site: Site) -> None:
    answer = site.machine.post(HOOK, {"alerts": [{"labels": {"alertname": "Bare", "service": "checkout-api"}}]})
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)


# ---- the trace ------------------------------------------------------------------------------------------------


def test_a_trace_has_the_contract_s_keys(site: Site) -> None:
    trace = site.trace
    assert set(trace) == TRACE_KEYS
    assert trace["runId"] == site.run["runId"]
    assert set(trace["run"]) == RUN_KEYS
    assert trace["steps"]
    assert trace["toolInvocations"]
    assert {frozenset(step) for step in trace["steps"]} == {frozenset(STEP_KEYS)}
    assert {frozenset(call) for call in trace["toolInvocations"]} == {frozenset(INVOCATION_KEYS)}
    assert {frozenset(event) for event in trace["timeline"]} == {frozenset(EVENT_KEYS)}
    assert {event["phase"] for event in trace["timeline"]} <= PHASES
    assert all({"evidenceStatus", "evidenceRefs"} <= set(call["retrievalDetails"]) for call in trace["toolInvocations"])
    parts = {"events", "steps", "toolInvocations", "modelCalls"}
    assert set(trace["summary"]) == parts | {"tokens", "complete", "chainValid"}
    assert {frozenset(trace["summary"][part]) for part in parts} == {frozenset({"emitted", "persisted", "returned"})}
    assert set(trace["summary"]["tokens"]) == {"ledger", "run", "steps", "consistent"}
    check_record(trace)


def test_lists_come_in_their_order(site: Site) -> None:
    steps = [(step["stepIndex"], step["id"]) for step in site.trace["steps"]]
    assert steps == sorted(steps)
    calls = [(call["startedAt"], call["id"]) for call in site.trace["toolInvocations"]]
    assert calls == sorted(calls)


def test_details_are_metadata(site: Site) -> None:
    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from strings(part)

    for event in site.trace["timeline"]:
        assert len(event["summary"]) <= 200
        assert all(len(text) <= 200 for text in strings(event["details"]))


def test_a_session_s_trace_without_a_run_id_is_its_latest_run(site: Site) -> None:
    found = site.machine.found(f"/api/diagnosis/{site.run['sessionId']}/trace")
    assert found["runId"] == site.run["runId"]
    assert found["timeline"] == site.trace["timeline"]


# ---- streams --------------------------------------------------------------------------------------------------


def test_a_stream_gives_the_whole_timeline_then_done(site: Site) -> None:
    *events, end = site.machine.events(site.run["runId"])
    assert (end.event, end.data) == ("done", {})
    assert {event.event for event in events} == {"event"}
    assert [event.id for event in events] == [event.data["sequenceNo"] for event in events]
    told = [{**event.data, "createdAt": None} for event in events]
    assert told == [{**event, "createdAt": None} for event in site.trace["timeline"]]


@pytest.mark.parametrize("after", [0, 1, 7, 10_000, 99_999_999_999])
def test_a_stream_resumes_without_gap_or_repeat(site: Site, after: int) -> None:
    if after > 10_000:
        check_error(site.machine.get(f"/api/runs/{site.run['runId']}/events", after=after), 400)
        return
    wanted = [event["sequenceNo"] for event in site.trace["timeline"] if event["sequenceNo"] > after]
    for told in (
        site.machine.events(site.run["runId"], after=after),
        site.machine.events(site.run["runId"], headers={"Last-Event-ID": str(after)}),
    ):
        assert [event.id for event in told[:-1]] == wanted
        assert told[-1].event == "done"


def test_a_stream_follows_a_run_as_it_goes(site: Site) -> None:
    run_id = site.machine.start(alert_of("pool-exhausted", "00000000000004f1"))
    with site.machine.http.stream("GET", f"/api/runs/{run_id}/events") as stream:
        text = "".join(stream.iter_text())
    *events, end = read_events(text)
    assert end.event == "done"
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert events[-1].data["eventType"] == "RUN_FINISHED"
    assert site.machine.run(run_id)["status"] == "SUCCESS"


# ---- restricted texts -----------------------------------------------------------------------------------------


def test_reasoning_needs_a_run_and_the_scope_and_each_read_is_on_record(site: Site) -> None:
    run_id = site.run["runId"]
    check_error(site.auditor.get(site.reasoning_path), 400, "RUN_ID_REQUIRED")
    check_error(site.machine.get(site.reasoning_path, runId=run_id), 403, "FORBIDDEN")
    check_error(site.auditor.get(site.reasoning_path, runId="run_none"), 404)
    for _ in range(2):
        answer = site.auditor.get(site.reasoning_path, runId=run_id)
        assert answer.status_code == 200
        assert "no-store" in answer.headers["Cache-Control"]
        assert set(answer.json()) == {"runId", "sessionId", "reasoning"}
        assert answer.json()["reasoning"]
    done = site.instance.manage("shell", "-c", LOOK_AT_READS)
    assert done.stdout.splitlines()[-1] == str([("token:auditor", run_id)] * 2)


def test_the_evaluation_is_bare_without_the_scope(site: Site) -> None:
    bare, whole = site.run["selfEvaluation"], site.auditor.run(site.run["runId"])["selfEvaluation"]
    drafts = [kept["verifier_evaluation"]["executor_structured_output"]["claims"] for kept in (bare, whole)]
    assert [claim["claim_id"] for claim in drafts[0]] == [claim["claim_id"] for claim in drafts[1]]
    assert not any("claim_text" in claim or "evidence" in claim for claim in drafts[0])
    assert all("claim_text" in claim for claim in drafts[1])


# ---- for those who operate it ---------------------------------------------------------------------------------


def test_health_readiness_and_metrics(site: Site) -> None:
    assert site.nobody.found("/healthz") == {"status": "ok"}
    ready = site.nobody.found("/readyz")
    assert ready["parts"] == {"database": True, "broker": True, "worker": True}
    metrics = site.nobody.get("/metrics")
    assert metrics.status_code == 200
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "# TYPE " in metrics.text


def test_the_docs_need_no_other_host(site: Site) -> None:
    page = site.nobody.get("/api/docs")
    assert page.status_code == 200
    assert re.findall(r"(?:https?:)?//[\w.]+", page.text.replace(site.instance.url, "")) == []
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    for asset in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert site.nobody.get(asset).status_code == 200, asset
    # A script that stands in the page itself would be refused by the CSP; data may.
    assert not re.search(r"<script(?![^>]*(?:\bsrc=|application/json))[^>]*>\s*\S", page.text)
    spec = site.nobody.found("/api/openapi.json")
    assert {"/api/alerts/alertmanager", "/api/runs", "/api/runs/{run_id}/cancel"} <= set(spec["paths"])
