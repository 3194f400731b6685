from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.models import AgentStep, ReasoningAccess, TraceEvent
from runs import lifecycle
from runs.harness.run import Emitted
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, finished_run, ref, running
from tests.audit.selfevaluations import evaluation
from tests.factories import SessionFactory, TokenFactory, UserFactory, conclusion

pytestmark = pytest.mark.django_db

READER = ["runs:read"]
REASONING_READER = ["runs:read", "reasoning:read"]


def get(path: str, scopes: list[str] = READER) -> Any:
    token = TokenFactory.create(secret=f"secret-{len(scopes)}-{path}", scopes=scopes)
    return Client().get(path, headers={"Authorization": f"Bearer secret-{len(scopes)}-{path}"}), token


def trace_path(run: DiagnosisRun, rest: str = "") -> str:
    return f"/api/diagnosis/{run.session_id}/trace{rest}"


def test_the_trace_has_the_shape_of_the_contract() -> None:
    run = finished_run()
    response, _ = get(trace_path(run, f"?runId={run.id}"))
    assert response.status_code == 200
    body = response.json()
    assert set(body) == {
        *("runId", "chatSession", "session", "run", "steps", "toolInvocations", "timeline", "summary"),
    }
    assert body["runId"] == body["run"]["runId"] == run.id
    assert body["session"] == {"sessionId": run.session_id, "runIds": [run.id], "legacyRecords": False}
    assert set(body["steps"][0]) == {
        *("id", "runId", "sessionId", "stepIndex", "agentName", "role", "modelInput", "modelOutput", "hasToolCall"),
        *("toolPlan", "durationMs", "tokenCount", "inputTokens", "outputTokens", "status", "promptVersion", "model"),
        *("startedAt", "finishedAt"),
    }
    assert set(body["toolInvocations"][0]) == {
        *("id", "invocationId", "runId", "stepId", "toolName", "inputParams", "outputPreview", "retrievalLayer"),
        *("l0MatchCount", "l1MatchCount", "retrievalDetails", "relevanceLevel", "dedupReason", "durationMs"),
        *("success", "status", "errorCode", "errorMessage", "truncated", "startedAt"),
    }
    assert set(body["run"]) == {
        *("runId", "sessionId", "trigger", "intent", "status", "outcome", "verdict", "releaseDecision", "failureCode"),
        *("cancelReason", "query", "publishedResult", "safeContent", "selfEvaluation", "ruleSetVersion"),
        *("promptSetVersion", "model", "tokens", "costUsd", "modelCalls", "toolCalls", "queuedAt", "startedAt"),
        *("finishedAt", "url"),
    }
    assert [event["sequenceNo"] for event in body["timeline"]] == list(range(1, 9))
    details = body["toolInvocations"][0]["retrievalDetails"]
    assert (details["evidenceStatus"], details["evidenceRefs"][0]["rawPath"]) == ("OK", "$.lines[0].text")


def test_the_summary_counts_three_times_and_says_whether_all_agrees() -> None:
    run = finished_run()
    summary = get(trace_path(run))[0].json()["summary"]
    assert summary == {
        "events": {"emitted": 8, "persisted": 8, "returned": 8},
        "steps": {"emitted": 1, "persisted": 1, "returned": 1},
        "toolInvocations": {"emitted": 1, "persisted": 1, "returned": 1},
        "modelCalls": {"emitted": 2, "persisted": 2, "returned": 2},
        "tokens": {"ledger": 120, "run": 120, "steps": 120, "consistent": True},
        "complete": True,
        "chainValid": True,
    }


def test_what_was_emitted_and_is_not_on_record_makes_the_record_incomplete() -> None:
    run = running(
        emitted={"1": {"events": 2, "tool_invocations": 1}, "2": {"tool_invocations": 1}, "others": {"events": 1}}
    )
    append_now(run, [emissions.routing(), emissions.opened(), emissions.invoked()])
    summary = get(trace_path(run))[0].json()["summary"]
    assert summary["events"]["emitted"] == 3
    assert summary["toolInvocations"] == {"emitted": 2, "persisted": 1, "returned": 1}
    assert (summary["complete"], summary["chainValid"]) == (False, True)


def test_tokens_that_do_not_agree_are_told() -> None:
    run = running(input_tokens=100, output_tokens=21)
    append_now(run, emissions.small_run())
    tokens = get(trace_path(run))[0].json()["summary"]["tokens"]
    assert tokens == {"ledger": 120, "run": 121, "steps": 120, "consistent": False}


def test_the_trace_takes_the_same_number_of_queries_whatever_the_run_holds() -> None:
    counts = []
    for steps in (1, 20):
        run = running()
        append_now(run, [emissions.opened(f"stp_{run.id[-8:]}_{n}", n) for n in range(steps)])
        append_now(run, [emissions.invoked(f"inv_{n}") for n in range(steps)])
        TokenFactory.create(secret=f"t{steps}", scopes=READER)
        with CaptureQueriesContext(connection) as queries:
            Client().get(trace_path(run), headers={"Authorization": f"Bearer t{steps}"})
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_without_a_run_id_the_latest_run_is_shown() -> None:
    first = finished_run()
    second = running(session=first.session)
    body = get(trace_path(first))[0].json()
    assert body["runId"] == second.id
    assert body["session"]["runIds"] == [second.id, first.id]


def test_a_session_from_before_runs_had_ids_shows_its_records() -> None:
    session = SessionFactory.create()
    old = {"session_id": session.id, "legacy": True}
    TraceEvent.objects.create(
        sequence_no=1,
        phase="TOOL",
        event_type="TOOL_INVOCATION",
        summary="old",
        details={},
        created_at=emissions.AT,
        **old,
    )
    AgentStep.objects.create(
        id="stp_old", step_index=1, agent_name="a", role="r", model="m", started_at=emissions.AT, **old
    )
    body = get(f"/api/diagnosis/{session.id}/trace")[0].json()
    assert (body["runId"], body["run"], len(body["timeline"]), len(body["steps"])) == (None, None, 1, 1)
    assert body["summary"]["chainValid"] is None
    assert body["summary"]["events"] == {"emitted": None, "persisted": 1, "returned": 1}


@pytest.mark.parametrize("path", ["/api/diagnosis/none/trace", "/api/diagnosis/none/trace?runId=run_none"])
def test_what_is_not_there_is_404(path: str) -> None:
    assert get(path)[0].status_code == 404


def test_a_run_of_another_session_is_not_shown_under_this_one() -> None:
    run, other = running(), running()
    assert get(trace_path(run, f"?runId={other.id}"))[0].status_code == 404


def evaluated_run() -> DiagnosisRun:
    run = running()
    append_now(run, emissions.small_run())
    assert lifecycle.finish(ref(run), conclusion(self_evaluation=evaluation(), emitted=Emitted()))
    return run


def test_the_trace_shows_restricted_parts_to_readers_of_reasoning_alone_and_puts_it_on_record() -> None:
    run = evaluated_run()
    response, _ = get(trace_path(run))
    assert "SECRET" not in response.content.decode()
    assert not ReasoningAccess.objects.exists()
    response, token = get(trace_path(run, f"?runId={run.id}"), REASONING_READER)
    assert "SECRET" in response.content.decode()
    assert response["Cache-Control"] == "no-store"
    access = ReasoningAccess.objects.get()
    assert (access.run_id, access.token_name, access.what) == (run.id, token.name, "self_evaluation")


def test_reasoning_is_handed_out_and_the_access_recorded() -> None:
    run = finished_run()
    response, token = get(trace_path(run, f"/reasoning?runId={run.id}"), REASONING_READER)
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response.json()["reasoning"] == [
        {
            "stepId": "stp_1",
            "stepIndex": 1,
            "agentName": "executor",
            "role": "aiops_executor",
            "thought": "The pool looks full.",
            "assistantText": "Let me read the logs.",
            "createdAt": "2026-01-31T08:00:02Z",
        }
    ]
    access = ReasoningAccess.objects.get()
    assert (access.run_id, access.reader, access.what) == (run.id, f"token:{token.name}", "reasoning")


def test_reasoning_needs_the_run() -> None:
    run = finished_run()
    response, _ = get(trace_path(run, "/reasoning"), REASONING_READER)
    assert (response.status_code, response.json()["code"]) == (400, "RUN_ID_REQUIRED")


def test_reasoning_is_refused_without_its_scope() -> None:
    run = finished_run()
    response, _ = get(trace_path(run, f"/reasoning?runId={run.id}"))
    assert response.status_code == 403
    assert not ReasoningAccess.objects.exists()


def test_reasoning_is_not_handed_out_when_the_access_cannot_be_recorded() -> None:
    run = finished_run()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE reasoning_access RENAME TO away")
    client = Client(raise_request_exception=False)
    TokenFactory.create(secret="r", scopes=REASONING_READER)
    response = client.get(trace_path(run, f"/reasoning?runId={run.id}"), headers={"Authorization": "Bearer r"})
    assert response.status_code == 500
    assert "pool looks full" not in response.content.decode()


def test_a_person_may_not_read_the_trace_of_another_persons_session() -> None:
    owner, other = UserFactory.create(), UserFactory.create()
    run = running(session=SessionFactory.create(owner=owner))
    client = Client()
    client.force_login(other)
    assert client.get(trace_path(run)).status_code == 404
    client.force_login(owner)
    assert client.get(trace_path(run)).status_code == 200
