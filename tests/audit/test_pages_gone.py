"""What is left of a pruned run and of sessions from before runs had ids; what a record's sums say."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from audit.models import AgentStep, ModelCallRow, PrunedRun, ToolInvocation, TraceEvent
from audit.pruning import prune_batch
from runs.models import DiagnosisRun
from tests.audit.recording import finished_run
from tests.audit.test_pages import page_of, part, signed_in
from tests.audit.test_verification import tamper
from tests.audit.told_runs import told_run
from tests.factories import RunFactory, SessionFactory, TokenFactory, UserFactory, now

pytestmark = pytest.mark.django_db

ROW = re.compile(r'<th scope="row">([^<]*)</th>(.*?)</tr>', re.DOTALL)
CONCLUSION = "The connection pool of checkout-api is exhausted."


def pruned(**traits: Any) -> DiagnosisRun:
    run = told_run(**traits)
    DiagnosisRun.objects.filter(id=run.id).update(finished_at=datetime.now(UTC) - timedelta(days=100))
    assert prune_batch(datetime.now(UTC) - timedelta(days=90), by="prune_ledger (casey)", reason="retention") == [
        run.id
    ]
    return run


@pytest.mark.parametrize("rest", ["", "?event=5", "record/", "events/5/restricted/"])
def test_a_pruned_run_has_its_tombstone_in_place_of_its_pages(rest: str) -> None:
    run = pruned()
    answer = signed_in(permissions=["read_reasoning"]).get(page_of(run, rest))
    page = answer.content.decode()
    assert answer.status_code == 410
    kept = PrunedRun.objects.get()
    for told in ("prune_ledger (casey)", "retention", kept.trace_head_hash, "SUCCESS", "This run was removed"):
        assert told in page
    assert CONCLUSION not in page
    assert run.query not in page


def test_a_page_that_was_open_meanwhile_loads_itself_again() -> None:
    run = pruned()
    for target in ("panel", "timeline-place", "later"):
        answer = part(signed_in(), page_of(run, "?event=5"), target)
        assert (answer.status_code, answer["HX-Refresh"]) == (410, "true")


def test_cancelling_a_pruned_run_is_410_too() -> None:
    assert signed_in(permissions=["cancel_any_run"]).post(page_of(pruned(), "cancel/")).status_code == 410


def test_the_tombstone_of_somebody_elses_run_is_not_told() -> None:
    owner = UserFactory.create()
    run = pruned(session=SessionFactory.create(owner=owner))
    assert signed_in().get(page_of(run)).status_code == 404
    assert signed_in(owner).get(page_of(run)).status_code == 410
    assert signed_in(permissions=["see_all_sessions"]).get(page_of(run)).status_code == 410
    run.session.delete()
    assert signed_in(owner).get(page_of(run)).status_code == 404
    assert signed_in(permissions=["see_all_sessions"]).get(page_of(run)).status_code == 410


def test_programs_are_told_alike() -> None:
    run = pruned()
    TokenFactory.create(secret="s3cret", scopes=["runs:read", "reasoning:read"])
    caller = {"Authorization": "Bearer s3cret"}
    trace = f"/api/diagnosis/{run.session_id}/trace"
    for address in (f"/api/runs/{run.id}", f"{trace}?runId={run.id}", f"{trace}/reasoning?runId={run.id}"):
        answer = Client().get(address, headers=caller)
        assert (answer.status_code, answer.json()["code"]) == (410, "RUN_PRUNED"), address
        assert answer.json()["details"]["lastHash"] == PrunedRun.objects.get().trace_head_hash
    assert Client().get("/api/runs/run_none", headers=caller).status_code == 404


# ---- sessions -------------------------------------------------------------------------------------------------


def legacy_records(session_id: str, summary: str = "The router chose a path") -> None:
    """An event, a step with a model call, and a tool call that carry no run."""
    old: dict[str, Any] = {"session_id": session_id, "legacy": True}
    TraceEvent.objects.create(
        **old,
        sequence_no=1,
        phase="ROUTING",
        event_type="ROUTING_DECISION",
        summary=summary,
        details={"intent": "DIAGNOSIS"},
        created_at=now(),
        previous_hash="",
        hash="",
    )
    AgentStep.objects.create(
        **old,
        id=f"old-{session_id}"[:40],
        step_index=1,
        agent_name="router",
        role="router",
        model="old-model",
        model_input="the question",
        status="COMPLETED",
        started_at=now(),
        finished_at=now(),
        token_count=12,
    )
    ModelCallRow.objects.create(
        **old,
        call_id=f"call-{session_id}"[:40],
        step_id=f"old-{session_id}"[:40],
        role="router",
        attempt=1,
        model="old-model",
        status="OK",
        input_tokens=10,
        output_tokens=2,
        duration_ms=5,
        started_at=now(),
    )
    ToolInvocation.objects.create(
        **old,
        invocation_id="inv_oldold",
        step_id="x",
        tool_name="query_logs",
        source_kind="LIVE",
        input_params={"query": "deploy"},
        output_preview="nothing <script>alert(1)</script>\u202e",
        evidence_status="OK",
        duration_ms=7,
        success=True,
        started_at=now(),
    )


def test_records_without_a_run_are_readable_by_session() -> None:
    legacy_records("before-ids")
    page = signed_in().get("/sessions/before-ids/").content.decode()
    for told in ("The router chose a path", "ROUTING_DECISION", "old-model", "inv_oldold", "query_logs", "12 tokens"):
        assert told in page
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "No run of this session is on record." in page


def test_a_session_lists_its_runs_the_removed_ones_and_its_old_records() -> None:
    session = SessionFactory.create()
    gone, stays, other = pruned(session=session), finished_run("stp_9"), RunFactory.create()
    DiagnosisRun.objects.filter(id=stays.id).update(session=session)
    legacy_records(session.id)
    page = signed_in().get(f"/sessions/{session.id}/").content.decode()
    assert f'href="/runs/{gone.id}/"' in page
    assert f'href="/runs/{stays.id}/"' in page
    assert other.id not in page
    assert "Records from before runs had ids" in page


def test_somebody_elses_session_is_not_there() -> None:
    session = SessionFactory.create(owner=UserFactory.create())
    legacy_records(session.id)
    assert signed_in().get(f"/sessions/{session.id}/").status_code == 404
    assert signed_in(session.owner).get(f"/sessions/{session.id}/").status_code == 200
    assert signed_in(permissions=["see_all_sessions"]).get(f"/sessions/{session.id}/").status_code == 200
    assert Client().get(f"/sessions/{session.id}/").status_code == 302


@pytest.mark.parametrize("name", ["none", "%20", "a" * 100, "'; DROP TABLE"])
def test_a_session_that_there_is_no_trace_of_is_404(name: str) -> None:
    assert signed_in().get(f"/sessions/{name}/").status_code == 404


# ---- the record's sums ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "which"),
    [
        ("UPDATE model_call_ledger SET output_tokens = output_tokens + 1 WHERE run_id = %(run)s", 0),
        ("UPDATE diagnosis_run SET output_tokens = output_tokens + 1 WHERE id = %(run)s", 1),
        ("UPDATE agent_step SET token_count = token_count + 1 WHERE run_id = %(run)s", 2),
    ],
)
def test_the_three_sums_of_tokens_are_shown_and_that_they_differ(sql: str, which: int) -> None:
    run = finished_run()
    page = signed_in().get(page_of(run, "record/")).content.decode()
    assert re.findall(r"<dd>(\d+)</dd>", page) == ["120", "120", "120"]
    assert "The three sums agree." in page
    assert "sums differ" not in signed_in().get(page_of(run)).content.decode()
    tamper(sql, run)
    page = signed_in().get(page_of(run, "record/")).content.decode()
    assert re.findall(r"<dd>(\d+)</dd>", page) == ["121" if place == which else "120" for place in range(3)]
    assert "The three sums differ." in page
    assert "sums differ" in signed_in().get(page_of(run)).content.decode()


def test_what_was_emitted_is_on_record_and_returned_stands_side_by_side() -> None:
    run = finished_run()
    tamper("DELETE FROM tool_invocation WHERE run_id = %(run)s", run)
    page = signed_in().get(page_of(run, "record/")).content.decode()
    rows = {name: re.findall(r'class="number">([^<]*)<', rest) for name, rest in ROW.findall(page)}
    assert rows == {
        "events": ["8", "8", "8"],
        "steps": ["1", "1", "1"],
        "tool calls": ["1", "0", "0"],
        "model calls": ["2", "2", "2"],
    }
    assert "tool_invocation inv_aaaaaa: REMOVED" in page
    tamper("DELETE FROM agent_step WHERE run_id = %(run)s", run)
    page = signed_in().get(page_of(run, "record/")).content.decode()
    rows = {name: re.findall(r'class="number">([^<]*)<', rest) for name, rest in ROW.findall(page)}
    assert (rows["steps"], rows["model calls"]) == (["1", "0", "0"], ["2", "2", "0"])
    assert "Record incomplete." not in signed_in().get(page_of(finished_run("stp_2"))).content.decode()
    assert "Something that the run told of is not on record." in page
