"""Appends emissions to the record of their runs, inside the caller's transaction.

The row of a run's head is the lock: whoever holds it gives out sequence numbers and hashes, so that they have
neither gap nor repeat, whoever appends. Heads are locked in the order of run ids, so that two writers of the
same runs cannot wait for each other. What may not be appended is refused one by one and named; what the database
itself refuses raises and rolls the whole append back.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from typing import Any

from django.db import connection

from audit import chain
from audit.bulk import insert
from audit.models import AgentReasoning, AgentStep, ModelCallRow, ToolInvocation, TraceEvent
from audit.rows import Closing, Rows, closing_of, columns, opening_digest, rows_of
from runs import tally
from runs.harness.events import Emission, EventType
from runs.harness.run import Emitted
from runs.models import DiagnosisRun
from runs.observers import RunRef


class Outcome(StrEnum):
    RECORDED = "recorded"
    LEASE_LOST = "lease_lost"
    CLOSED = "closed"
    UNKNOWN_RUN = "unknown_run"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Item:
    run: RunRef
    emission: Emission


@dataclass(slots=True)
class Head:
    """A locked head as this transaction moves it on."""

    run_id: str
    sequence_no: int
    hash: str
    events: int
    steps: int
    tool_invocations: int
    model_calls: int
    closed: bool
    lease_token: str | None


class StepNotOpen(ValueError):
    """A completion names a step of the run that is not open."""


_CREATE_HEADS = """
    INSERT INTO diagnosis_trace_head (run_id, sequence_no, hash, events, steps, tool_invocations, model_calls, closed)
    SELECT wanted.run_id, 0, wanted.hash, 0, 0, 0, 0, false
    FROM unnest(%s::text[], %s::text[]) AS wanted (run_id, hash)
    JOIN diagnosis_run ON diagnosis_run.id = wanted.run_id
    ORDER BY wanted.run_id
    ON CONFLICT (run_id) DO NOTHING
"""
_LOCK_HEADS = """
    SELECT run_id, sequence_no, hash, events, steps, tool_invocations, model_calls, closed
    FROM diagnosis_trace_head WHERE run_id = ANY(%s) ORDER BY run_id FOR UPDATE
"""
_MOVE_HEADS = """
    UPDATE diagnosis_trace_head AS head
    SET sequence_no = now.sequence_no, hash = now.hash, events = now.events, steps = now.steps,
        tool_invocations = now.tool_invocations, model_calls = now.model_calls, closed = now.closed
    FROM jsonb_to_recordset(%s::jsonb) AS now (
        run_id text, sequence_no int, hash text, events int, steps int, tool_invocations int, model_calls int,
        closed bool
    )
    WHERE head.run_id = now.run_id
"""
_CLOSE_STEPS = """
    UPDATE agent_step AS step
    SET status = now.status, model_output = now.model_output, has_tool_call = now.has_tool_call,
        tool_plan = now.tool_plan, input_tokens = now.input_tokens, output_tokens = now.output_tokens,
        token_count = now.token_count, duration_ms = now.duration_ms, finished_at = now.finished_at
    FROM jsonb_to_recordset(%s::jsonb) AS now (
        id text, run_id text, status text, model_output text, has_tool_call bool, tool_plan jsonb, input_tokens int,
        output_tokens int, token_count int, duration_ms bigint, finished_at timestamptz
    )
    WHERE step.id = now.id AND step.run_id = now.run_id AND step.status = 'RUNNING'
"""


def _lock(run_ids: Iterable[str]) -> dict[str, Head]:
    """Heads by run id, locked, made where they are missing; runs that do not exist have none.

    Missing heads are made before any is locked, both in the order of run ids. Leases are read after the locks
    were granted, in a statement of its own: it sees every claim that was committed while this writer waited.
    """
    ids = sorted(set(run_ids))
    with connection.cursor() as cursor:
        cursor.execute(_CREATE_HEADS, [ids, [chain.genesis(run_id) for run_id in ids]])
        cursor.execute(_LOCK_HEADS, [ids])
        found: list[tuple[Any, ...]] = cursor.fetchall()
        cursor.execute("SELECT id, lease_token FROM diagnosis_run WHERE id = ANY(%s)", [ids])
        leases: dict[str, str | None] = dict(cursor.fetchall())
    return {row[0]: Head(*(*row, leases.get(row[0]))) for row in found}


def _prepared(item: Item) -> Rows | None:
    try:
        return rows_of(item.run, item.emission)
    except (TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return None


@dataclass(slots=True)
class _Append:
    heads: dict[str, Head]
    closed_steps: set[str]
    fenced: bool
    accepted: list[Rows] = field(default_factory=list)

    def judge(self, item: Item, rows: Rows | None) -> Outcome:
        head = self.heads.get(item.run.run_id)
        if head is None:
            return Outcome.UNKNOWN_RUN
        if self.fenced and item.run.lease_token is not None and item.run.lease_token != head.lease_token:
            return Outcome.LEASE_LOST
        if head.closed:
            return Outcome.CLOSED
        if rows is None or rows.late_for & self.closed_steps:
            return Outcome.INVALID
        if rows.event is not None and rows.event.event_type == EventType.RUN_FINISHED:
            head.closed = True
        self.closed_steps.update(closing.step_id for closing in rows.closings)
        self.accepted.append(rows)
        return Outcome.RECORDED


def append(items: Sequence[Item], *, fenced: bool) -> list[Outcome]:
    """Record the items in their order and say of each what became of it.

    `fenced`: an item with a lease token is refused when its run has another one now. Raises
    `django.db.Error`s as the database gives them, and `StepNotOpen`.
    """
    prepared = [_prepared(item) for item in items]
    late_for = set().union(*(rows.late_for for rows in prepared if rows is not None))
    work = _Append(_lock(item.run.run_id for item in items), _already_closed(late_for), fenced)
    outcomes = [work.judge(item, rows) for item, rows in zip(items, prepared, strict=True)]
    if work.accepted:
        _save_ledgers(work.accepted)
        _save_events(work.accepted, work.heads)
    return outcomes


def _already_closed(step_ids: set[str]) -> set[str]:
    if not step_ids:
        return set()
    return set(AgentStep.objects.filter(id__in=step_ids).exclude(status="RUNNING").values_list("id", flat=True))


def _save_ledgers(accepted: Sequence[Rows]) -> None:
    opened = {step.id: step for rows in accepted for step in rows.opened}
    later: list[tuple[Closing, str]] = []
    for rows in accepted:
        for closing in rows.closings:
            step = opened.get(closing.step_id)
            if step is not None and step.status == "RUNNING" and step.run_id == rows.run.run_id:
                for name, value in closing.columns.items():
                    setattr(step, name, value)
            else:
                later.append((closing, rows.run.run_id))
    insert([step for rows in accepted for step in rows.opened])
    if later:
        _close_steps(later)
    insert([row for rows in accepted for row in rows.reasoning])
    insert([row for rows in accepted for row in rows.calls])
    insert([row for rows in accepted for row in rows.invocations])
    # A later attempt tells again what the run was given, and a later round which rules failed.
    insert([row for rows in accepted for row in rows.prompts], unless_there=True)
    insert([row for rows in accepted for row in rows.rules], unless_there=True)


def _close_steps(closings: Sequence[tuple[Closing, str]]) -> None:
    now = [
        {**closing.columns, "id": closing.step_id, "run_id": run_id, "finished_at": str(closing.columns["finished_at"])}
        for closing, run_id in closings
    ]
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE_STEPS, [json.dumps(now)])
        if cursor.rowcount != len(closings):
            raise StepNotOpen(f"{len(closings) - cursor.rowcount} of {len(closings)} steps to close were not open")


def _closing_digests(accepted: Sequence[Rows]) -> dict[str, str]:
    """The ledger digests of the frames that complete a step, by step id, over the rows as they are stored."""
    closings = [closing for rows in accepted if (closing := closing_of(rows)) is not None]
    if not closings:
        return {}
    ids = [closing.step_id for closing in closings]
    reasoning: dict[str, list[chain.Row]] = {step_id: [] for step_id in ids}
    calls: dict[str, list[chain.Row]] = {step_id: [] for step_id in ids}
    for row in AgentReasoning.objects.filter(step_id__in=ids).values(*chain.REASONING_FIELDS):
        reasoning[row["step_id"]].append(row)
    for row in ModelCallRow.objects.filter(step_id__in=ids).values(*chain.CALL_FIELDS):
        calls[row["step_id"]].append(row)
    return {
        closing.step_id: chain.step_closing_digest(
            {"id": closing.step_id, **closing.columns}, reasoning[closing.step_id], calls[closing.step_id]
        )
        for closing in closings
    }


def _save_events(accepted: Sequence[Rows], heads: dict[str, Head]) -> None:
    closing_digests = _closing_digests(accepted)
    events: list[TraceEvent] = []
    finished: list[Head] = []
    moved: dict[str, Head] = {}
    for rows in accepted:
        head = moved.setdefault(rows.run.run_id, heads[rows.run.run_id])
        head.steps += len(rows.opened)
        head.tool_invocations += len(rows.invocations)
        head.model_calls += len(rows.calls)
        event = rows.event
        if event is None:
            continue
        closing = closing_of(rows)
        event.ledger_digest = closing_digests[closing.step_id] if closing else opening_digest(rows)
        if event.event_type == EventType.RUN_FINISHED:
            _answer_for_the_rest(event, [each for each in events if each.run_id == event.run_id])
            finished.append(head)
        head.sequence_no += 1
        head.events += 1
        event.sequence_no = head.sequence_no
        event.previous_hash = head.hash
        event.hash = head.hash = chain.frame_hash(head.hash, columns(event, chain.FRAME_FIELDS))
        events.append(event)
    insert(events)
    _move(moved.values())
    for head in finished:
        _close_run(head)


def _close_run(head: Head) -> None:
    """What the run's row keeps of its record. A closed head takes nothing more: what is missing now stays missing."""
    run = DiagnosisRun.objects.filter(id=head.run_id)
    emitted = tally.total(run.values_list("emitted", flat=True).get())
    counted = Emitted(head.events, head.steps, head.tool_invocations, head.model_calls)
    run.update(
        trace_event_count=head.sequence_no,
        trace_head_hash=head.hash,
        record_complete=all(kept >= told for kept, told in zip(astuple(counted), astuple(emitted), strict=True)),
    )


def _move(heads: Iterable[Head]) -> None:
    names = ("run_id", "sequence_no", "hash", "events", "steps", "tool_invocations", "model_calls", "closed")
    now = [{name: getattr(head, name) for name in names} for head in heads]
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_HEADS, [json.dumps(now)])


def _answer_for_the_rest(event: TraceEvent, unsaved: Sequence[TraceEvent]) -> None:
    """RUN_FINISHED answers for the run's own row and for every ledger row that no other frame answers for."""
    run_id = event.run_id
    names = ("event_type", "status", "step_id", "invocation_id", "ledger_digest")
    stored: list[dict[str, Any]] = list(
        TraceEvent.objects.filter(run_id=run_id, ledger_digest__isnull=False).values(*names)
    )
    held = chain.anchors([*stored, *(columns(each, names) for each in unsaved)])
    of_run = {"run_id": run_id}
    steps = AgentStep.objects.filter(**of_run).exclude(id__in=held.closed)
    reasoning = AgentReasoning.objects.filter(**of_run).exclude(step_id__in=held.closed)
    calls = ModelCallRow.objects.filter(**of_run).exclude(step_id__in=held.closed)
    invocations = ToolInvocation.objects.filter(**of_run).exclude(invocation_id__in=held.invocations)
    event.ledger_digest = chain.loose_digest(
        chain.Ledgers(
            tuple(steps.values(*chain.STEP_FIELDS)),
            tuple(reasoning.values(*chain.REASONING_FIELDS)),
            tuple(calls.values(*chain.CALL_FIELDS)),
            tuple(invocations.values(*chain.INVOCATION_FIELDS)),
        )
    )
    event.content_digest = chain.run_digest(DiagnosisRun.objects.values(*chain.RUN_FIELDS).get(id=run_id))
