import io
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import Error, connection, transaction

from audit import chain
from audit.models import AgentStep, TraceEvent
from audit.record import load_record
from audit.verification import Fault, verify
from runs import lifecycle
from runs.harness.digest import content_digest
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, finished_run, ref, running
from tests.audit.selfevaluations import evaluation, gate_round
from tests.factories import conclusion

pytestmark = pytest.mark.django_db

COPY_CALL = """
    INSERT INTO model_call_ledger (call_id, run_id, session_id, legacy, step_id, role, attempt, model, status,
                                   duration_ms, started_at)
    SELECT 'call_forged', run_id, session_id, false, step_id, role, 9, model, 'OK', 1, started_at
    FROM model_call_ledger WHERE run_id = %(run)s AND attempt = 2
"""
COPY_INVOCATION = """
    INSERT INTO tool_invocation (invocation_id, run_id, session_id, legacy, step_id, tool_name, source_kind,
                                 input_params, output_preview, evidence_status, evidence_refs, retrieval_details,
                                 duration_ms, success, truncated, started_at)
    SELECT 'inv_forged', run_id, session_id, false, step_id, tool_name, source_kind, input_params, output_preview,
           evidence_status, evidence_refs, retrieval_details, duration_ms, success, truncated, started_at
    FROM tool_invocation WHERE run_id = %(run)s
"""
INSERT_FRAME = """
    UPDATE diagnosis_trace_event SET sequence_no = sequence_no + 100 WHERE run_id = %(run)s AND sequence_no >= 4;
    UPDATE diagnosis_trace_event SET sequence_no = sequence_no - 99 WHERE run_id = %(run)s AND sequence_no >= 100;
    INSERT INTO diagnosis_trace_event (run_id, session_id, sequence_no, phase, event_type, status, summary, details,
                                       created_at, previous_hash, hash, legacy)
    SELECT run_id, session_id, 4, phase, event_type, status, summary, details, created_at, hash, repeat('f', 64), false
    FROM diagnosis_trace_event WHERE run_id = %(run)s AND sequence_no = 3;
"""
COPIED_BY_INSERT_FRAME = ("run_id", "session_id", "phase", "event_type", "status", "summary", "details", "created_at")
SWAP_FRAMES = """
    UPDATE diagnosis_trace_event SET sequence_no = 100 WHERE run_id = %(run)s AND sequence_no = 4;
    UPDATE diagnosis_trace_event SET sequence_no = 4 WHERE run_id = %(run)s AND sequence_no = 5;
    UPDATE diagnosis_trace_event SET sequence_no = 5 WHERE run_id = %(run)s AND sequence_no = 100;
"""


@dataclass(frozen=True)
class Tampering:
    name: str
    sql: str
    fault: Fault
    where: str


OF_RUN = "WHERE run_id = %(run)s"
STEP_1 = "agent_step stp_1"
INV_A = "tool_invocation inv_aaaaaa"


def frames(change: str, number: int) -> str:
    return f"{change} {OF_RUN} AND sequence_no = {number}"


EDIT_FRAME, DROP_FRAME = "UPDATE diagnosis_trace_event SET", "DELETE FROM diagnosis_trace_event"
EDIT_CALL, EDIT_HEAD = "UPDATE model_call_ledger SET", "UPDATE diagnosis_trace_head SET"
EDIT_RESULT = "UPDATE diagnosis_run SET published_result = jsonb_set(published_result, '{conclusion}', '\"well\"')"

TAMPERINGS = [
    Tampering("a summary", frames(f"{EDIT_FRAME} summary = 'x'", 3), Fault.EDITED, "frame 3"),
    Tampering("a frame's details", frames(f"{EDIT_FRAME} details = '{{}}'", 2), Fault.EDITED, "frame 2"),
    Tampering(
        "a frame's time", frames(f"{EDIT_FRAME} created_at = created_at + interval '1 us'", 2), Fault.EDITED, "frame 2"
    ),
    Tampering("a frame gone", frames(DROP_FRAME, 5), Fault.REMOVED, "frame 5"),
    Tampering("the first frame gone", frames(DROP_FRAME, 1), Fault.REMOVED, "frame 1"),
    Tampering("the last frame gone", frames(DROP_FRAME, 8), Fault.REMOVED, "frame 8"),
    Tampering("a forged frame between others", INSERT_FRAME, Fault.INSERTED, "frame 4"),
    Tampering("frames in another order", SWAP_FRAMES, Fault.REORDERED, "frame 4"),
    Tampering("a tool's output", f"UPDATE tool_invocation SET output = '[]' {OF_RUN}", Fault.EDITED, INV_A),
    Tampering("an evidence ref", f"UPDATE tool_invocation SET evidence_refs = '[]' {OF_RUN}", Fault.EDITED, INV_A),
    Tampering("an invocation gone", f"DELETE FROM tool_invocation {OF_RUN}", Fault.REMOVED, INV_A),
    Tampering("an invocation added", COPY_INVOCATION, Fault.INSERTED, "tool_invocation inv_forged"),
    Tampering("a step's opening", f"UPDATE agent_step SET model = 'another' {OF_RUN}", Fault.EDITED, STEP_1),
    Tampering("a step's tokens", f"UPDATE agent_step SET token_count = 1 {OF_RUN}", Fault.EDITED, STEP_1),
    Tampering("a step gone", f"DELETE FROM agent_step {OF_RUN}", Fault.REMOVED, STEP_1),
    Tampering("a thought", f"UPDATE agent_reasoning_audit SET thought = 'no' {OF_RUN}", Fault.EDITED, STEP_1),
    Tampering("reasoning gone", f"DELETE FROM agent_reasoning_audit {OF_RUN}", Fault.EDITED, STEP_1),
    Tampering("the cost of a call", f"{EDIT_CALL} cost_usd = 0 {OF_RUN} AND attempt = 2", Fault.EDITED, STEP_1),
    Tampering(
        "a call gone",
        f"DELETE FROM model_call_ledger {OF_RUN} AND attempt = 1",
        Fault.REMOVED,
        f"model_call_ledger of {STEP_1}",
    ),
    Tampering("a call added", COPY_CALL, Fault.INSERTED, f"model_call_ledger of {STEP_1}"),
    Tampering(
        "the verdict", "UPDATE diagnosis_run SET verdict = 'REJECT' WHERE id = %(run)s", Fault.EDITED, "diagnosis_run"
    ),
    Tampering("the published result", f"{EDIT_RESULT} WHERE id = %(run)s", Fault.EDITED, "diagnosis_run"),
    Tampering(
        "the run's hash",
        "UPDATE diagnosis_run SET trace_head_hash = repeat('0', 64) WHERE id = %(run)s",
        Fault.EDITED,
        "diagnosis_run",
    ),
    Tampering("the head's hash", f"{EDIT_HEAD} hash = repeat('0', 64) {OF_RUN}", Fault.EDITED, "head"),
    Tampering("the head's count", f"{EDIT_HEAD} events = events + 5 {OF_RUN}", Fault.EDITED, "head"),
    Tampering("the head opened again", f"{EDIT_HEAD} closed = false {OF_RUN}", Fault.EDITED, "head"),
    Tampering("a head set back", f"{EDIT_HEAD} sequence_no = 7, events = 7 {OF_RUN}", Fault.INSERTED, "frame 8"),
    Tampering("a frame's age", frames(f"{EDIT_FRAME} legacy = true", 3), Fault.EDITED, "frame 3"),
    Tampering("a step's age", f"UPDATE agent_step SET legacy = true {OF_RUN}", Fault.EDITED, STEP_1),
    Tampering(
        "a thought's age",
        f"UPDATE agent_reasoning_audit SET legacy = true {OF_RUN}",
        Fault.EDITED,
        "agent_reasoning_audit of stp_1",
    ),
    Tampering(
        "a call's age",
        f"{EDIT_CALL} legacy = true {OF_RUN} AND attempt = 1",
        Fault.EDITED,
        "model_call_ledger call_stp_1_1",
    ),
    Tampering("an invocation's age", f"UPDATE tool_invocation SET legacy = true {OF_RUN}", Fault.EDITED, INV_A),
    Tampering("the head gone", f"DELETE FROM diagnosis_trace_head {OF_RUN}", Fault.REMOVED, "head"),
]


def tamper(sql: str, run: DiagnosisRun) -> None:
    """As a superuser who has switched the triggers off."""
    with connection.cursor() as cursor:
        # Deferred foreign keys are checked first, because ALTERing roles does not wait for them.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL session_replication_role = replica")
        for statement in filter(str.strip, sql.split(";")):
            cursor.execute(statement, {"run": run.id})
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_an_honest_record_has_no_problems() -> None:
    assert verify(load_record(finished_run().id)) == []


def test_an_open_record_has_no_problems_at_any_point() -> None:
    run = running()
    for emission in [emissions.started(), *emissions.small_run()]:
        append_now(run, [emission])
        assert verify(load_record(run.id)) == []


@pytest.mark.parametrize("case", TAMPERINGS, ids=lambda case: case.name)
def test_tampering_is_named(case: Tampering) -> None:
    run = finished_run()
    tamper(case.sql, run)
    named = {(problem.fault, problem.where) for problem in verify(load_record(run.id))}
    where = f"diagnosis_run {run.id}" if case.where == "diagnosis_run" else case.where
    assert (case.fault, where) in named


def test_a_frame_that_was_edited_and_hashed_anew_is_named_by_the_one_that_follows() -> None:
    run = finished_run()
    frame = next(row for row in load_record(run.id).frames if row["sequence_no"] == 4)
    forged: dict[str, Any] = {**frame, "summary": "nothing happened"}
    new_hash = chain.frame_hash(frame["previous_hash"], forged)
    tamper(
        f"UPDATE diagnosis_trace_event SET summary = 'nothing happened', hash = '{new_hash}'"
        " WHERE run_id = %(run)s AND sequence_no = 4",
        run,
    )
    assert [(p.fault, p.where) for p in verify(load_record(run.id))] == [(Fault.EDITED, "frame 4")]


def test_the_decision_that_was_changed_is_named() -> None:
    run = running()
    kept = evaluation()
    gate = replace(emissions.guarded().frame, content_digest=content_digest(gate_round()))
    append_now(run, [emissions.started(), emissions.Emission(gate)])
    assert lifecycle.finish(ref(run), conclusion(self_evaluation=kept))
    assert verify(load_record(run.id)) == []
    path = "{verifier_evaluation,gatekeeper_result,rounds,0,verdict}"
    edit = f"self_evaluation = jsonb_set(self_evaluation, '{path}', '\"REJECT\"')"
    tamper(f"UPDATE diagnosis_run SET {edit} WHERE id = %(run)s", run)
    (problem,) = verify(load_record(run.id))
    assert problem.where == f"diagnosis_run {run.id}"
    assert problem.message.endswith("self_evaluation.verifier_evaluation.gatekeeper_result.rounds.0 (frame 2)")


def test_a_well_made_frame_that_displaced_another_is_named_as_inserted() -> None:
    run = finished_run()
    third = load_record(run.id).frames[2]
    copied = {name: third[name] for name in COPIED_BY_INSERT_FRAME}
    forged = {**dict.fromkeys(chain.FRAME_FIELDS), **copied, "sequence_no": 4}
    forged_hash = chain.frame_hash(third["hash"], forged)
    tamper(INSERT_FRAME.replace("repeat('f', 64)", f"'{forged_hash}'"), run)
    named = {(problem.fault, problem.where) for problem in verify(load_record(run.id))}
    assert (Fault.INSERTED, "frame 4") in named
    assert (Fault.REORDERED, "frame 5") in named


def test_rows_without_a_frame_are_answered_for_by_the_end() -> None:
    run = running()
    lost_call = emissions.Emission(None, (emissions.call("stp_lost"),))
    append_now(run, [emissions.started(), emissions.opened("stp_lost"), lost_call])
    lifecycle.finish(ref(run), conclusion())
    assert verify(load_record(run.id)) == []
    tamper("UPDATE model_call_ledger SET status = 'ERROR' WHERE run_id = %(run)s", run)
    assert [p.where for p in verify(load_record(run.id))] == ["agent_step stp_lost, model_call_ledger call_stp_lost_1"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE diagnosis_trace_event SET summary = 'x'",
        "DELETE FROM diagnosis_trace_event",
        "UPDATE tool_invocation SET output_preview = 'x'",
        "DELETE FROM tool_invocation",
        "UPDATE model_call_ledger SET cost_usd = 0",
        "DELETE FROM model_call_ledger",
        "UPDATE agent_reasoning_audit SET thought = 'x'",
        "DELETE FROM agent_reasoning_audit",
        "UPDATE agent_step SET token_count = 1",
        "UPDATE agent_step SET status = 'RUNNING', finished_at = NULL",
        "DELETE FROM agent_step",
        "TRUNCATE diagnosis_trace_event",
        "TRUNCATE agent_step",
        "TRUNCATE tool_invocation",
        "TRUNCATE diagnosis_trace_head",
        "DELETE FROM diagnosis_trace_head",
    ],
)
def test_the_database_refuses_changes(statement: str) -> None:
    run = finished_run()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(Error, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert TraceEvent.objects.filter(run=run).count() == 8
    assert AgentStep.objects.get(run=run).token_count == 120


@pytest.mark.parametrize(
    "table", ["prompt", "prompt_version", "prompt_activation", "gatekeeper_rule_set", "diagnosis_trace_head"]
)
def test_no_history_is_emptied(table: str) -> None:
    call_command("sync_rules", stdout=io.StringIO())
    call_command("sync_prompts", stdout=io.StringIO())
    finished_run()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    refusal = pytest.raises(Error, match="append-only: TRUNCATE")
    with refusal, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {table} CASCADE")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        assert cursor.fetchone()[0] > 0
