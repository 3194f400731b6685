"""The trace as people and programs read it: frozen values made from the record, in a fixed number of queries."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from audit import chain
from audit.chain import Row
from audit.models import AgentReasoning, AgentStep, ModelCallRow, ToolInvocation, TraceEvent
from audit.record import STORED_FRAME_FIELDS, Record, load_record
from audit.verification import Problem, verify
from runs import tally
from runs.harness.events import EventType
from runs.models import DiagnosisRun

TIMELINE_FIELDS = (
    "sequence_no",
    "phase",
    "event_type",
    "status",
    "step_id",
    "invocation_id",
    "summary",
    "details",
    "duration_ms",
    "created_at",
)
LEGACY_LIMIT = 5_000


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One frame. `details` is the closed shape of its type, metadata only."""

    sequence_no: int
    phase: str
    event_type: str
    status: str | None
    step_id: str | None
    invocation_id: str | None
    summary: str
    details: dict[str, Any]
    duration_ms: int | None
    created_at: datetime

    @property
    def is_terminal(self) -> bool:
        return self.event_type == EventType.RUN_FINISHED


@dataclass(frozen=True, slots=True)
class Step:
    """`model_input` and `model_output` are summaries. `status` RUNNING in an ended run: no end was recorded."""

    id: str
    run_id: str | None
    session_id: str
    step_index: int
    agent_name: str
    role: str
    model: str
    prompt_version: str | None
    model_input: str
    started_at: datetime
    status: str
    model_output: str | None
    has_tool_call: bool
    tool_plan: list[dict[str, str]]
    input_tokens: int | None
    output_tokens: int | None
    token_count: int | None
    duration_ms: int | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Invocation:
    """One tool call. `output` is whole; `evidence_refs` = [{"raw_path", "text", "shown", "relevance"}]."""

    id: int
    invocation_id: str
    run_id: str | None
    session_id: str
    step_id: str
    tool_name: str
    source_kind: str
    input_params: Any
    output: Any
    output_preview: str
    evidence_status: str
    evidence_refs: list[dict[str, Any]]
    retrieval_layer: str | None
    l0_match_count: int | None
    l1_match_count: int | None
    retrieval_details: dict[str, Any]
    relevance_level: str | None
    dedup_reason: str | None
    duration_ms: int
    success: bool
    error_code: str | None
    error_message: str | None
    truncated: bool
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Count:
    """`emitted`: counted on the run's row; `persisted`: rows on record; `returned`: in this trace. None: not known."""

    emitted: int | None
    persisted: int
    returned: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The three sums: over model calls, on the run's row, over steps."""

    ledger: int
    run: int | None
    steps: int

    @property
    def consistent(self) -> bool:
        return self.ledger == self.steps and self.run in {None, self.ledger}


@dataclass(frozen=True, slots=True)
class Summary:
    """`complete`: nothing that was emitted is missing, and an ended run has its end on record.

    `chain_valid` None: there is no chain (legacy).
    """

    events: Count
    steps: Count
    tool_invocations: Count
    model_calls: Count
    tokens: Tokens
    complete: bool
    chain_valid: bool | None


@dataclass(frozen=True, slots=True)
class Trace:
    """`run_id` None: records from before runs had ids. `problems`: what `verify` named."""

    run_id: str | None
    session_id: str
    steps: tuple[Step, ...]
    tool_invocations: tuple[Invocation, ...]
    timeline: tuple[TimelineEvent, ...]
    summary: Summary
    problems: tuple[Problem, ...] = ()


def timeline_event(row: Row) -> TimelineEvent:
    return TimelineEvent(**{name: row[name] for name in TIMELINE_FIELDS})


def _steps(rows: Iterable[Row]) -> tuple[Step, ...]:
    return tuple(Step(**{name: row[name] for name in chain.STEP_FIELDS}) for row in rows)


def _invocation(row: Row) -> Invocation:
    return Invocation(**{name: row[name] for name in ("id", *chain.INVOCATION_FIELDS)})


def _tokens(record: Record) -> Tokens:
    return Tokens(
        ledger=sum((call["input_tokens"] or 0) + (call["output_tokens"] or 0) for call in record.ledgers.calls),
        run=None if record.run is None else record.run["input_tokens"] + record.run["output_tokens"],
        steps=sum(step["token_count"] or 0 for step in record.ledgers.steps),
    )


def _summary(record: Record, problems: tuple[Problem, ...] | None) -> Summary:
    emitted = None if record.run is None else asdict(tally.total(record.run["emitted"]))
    ledgers = record.ledgers
    known_steps = {step["id"] for step in ledgers.steps}
    returned_calls = sum(call["step_id"] in known_steps for call in ledgers.calls)

    def count(name: str, persisted: int, returned: int | None = None) -> Count:
        told = None if emitted is None else emitted[name]
        return Count(told, persisted, persisted if returned is None else returned)

    counts = {
        "events": count("events", len(record.frames)),
        "steps": count("steps", len(ledgers.steps)),
        "tool_invocations": count("tool_invocations", len(ledgers.invocations)),
        "model_calls": count("model_calls", len(ledgers.calls), returned_calls),
    }
    missing = any(each.emitted is not None and each.persisted < each.emitted for each in counts.values())
    open_end = record.run is not None and record.run["finished_at"] is not None and not _has_end(record)
    return Summary(
        **counts,
        tokens=_tokens(record),
        complete=not missing and not open_end,
        chain_valid=None if problems is None else not problems,
    )


def _has_end(record: Record) -> bool:
    return any(frame["event_type"] == EventType.RUN_FINISHED for frame in record.frames)


def _trace(record: Record, session_id: str, problems: tuple[Problem, ...] | None) -> Trace:
    return Trace(
        run_id=record.run_id or None,
        session_id=session_id,
        steps=_steps(record.ledgers.steps),
        tool_invocations=tuple(_invocation(row) for row in record.ledgers.invocations),
        timeline=tuple(timeline_event(row) for row in record.frames),
        summary=_summary(record, problems),
        problems=problems or (),
    )


def load_trace(run: DiagnosisRun) -> Trace:
    """The whole trace of a run, verified. Seven queries."""
    record = load_record(run.id)
    return _trace(record, run.session_id, tuple(verify(record)))


def load_legacy_trace(session_id: str) -> Trace | None:
    """A session's records that carry no run id, or None where there are none. Four queries."""
    of_session = {"session_id": session_id, "run_id__isnull": True}

    def rows(model: Any, order: tuple[str, ...], fields: tuple[str, ...]) -> tuple[Row, ...]:
        return tuple(model.objects.filter(**of_session).order_by(*order).values(*fields)[:LEGACY_LIMIT])

    record = Record(
        run_id="",
        run=None,
        head=None,
        frames=rows(TraceEvent, ("id",), STORED_FRAME_FIELDS),
        ledgers=chain.Ledgers(
            steps=rows(AgentStep, ("step_index", "id"), chain.STEP_FIELDS),
            calls=rows(ModelCallRow, ("id",), chain.CALL_FIELDS),
            invocations=rows(ToolInvocation, ("started_at", "id"), ("id", *chain.INVOCATION_FIELDS)),
        ),
    )
    if not (record.frames or record.ledgers.steps or record.ledgers.calls or record.ledgers.invocations):
        return None
    return _trace(record, session_id, None)


def timeline_page(run_id: str, after: int = 0, limit: int = 500) -> list[TimelineEvent]:
    """Frames after a sequence number, in order. One query."""
    frames = TraceEvent.objects.filter(run_id=run_id, sequence_no__gt=after).order_by("sequence_no")
    return [timeline_event(row) for row in frames.values(*TIMELINE_FIELDS)[:limit]]


@dataclass(frozen=True, slots=True)
class ModelCallEntry:
    call_id: str
    attempt: int
    model: str
    status: str
    error_code: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Any
    finish_reason: str | None
    duration_ms: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class EventDetails:
    """A frame with the ledger rows it points at."""

    event: TimelineEvent
    step: Step | None
    model_calls: tuple[ModelCallEntry, ...]
    invocation: Invocation | None


CALL_ENTRY_FIELDS = (
    "call_id",
    "attempt",
    "model",
    "status",
    "error_code",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "finish_reason",
    "duration_ms",
    "started_at",
)


def event_details(run_id: str, sequence_no: int) -> EventDetails | None:
    """None: the run has no such frame. Four queries at most."""
    row = TraceEvent.objects.filter(run_id=run_id, sequence_no=sequence_no).values(*TIMELINE_FIELDS).first()
    if row is None:
        return None
    step, invocation = None, None
    calls: Iterable[Row] = ()
    if row["step_id"] is not None:
        step = AgentStep.objects.filter(run_id=run_id, id=row["step_id"]).values(*chain.STEP_FIELDS).first()
        of_step = ModelCallRow.objects.filter(run_id=run_id, step_id=row["step_id"]).order_by("attempt")
        calls = of_step.values(*CALL_ENTRY_FIELDS)
    if row["invocation_id"] is not None:
        found = ToolInvocation.objects.filter(run_id=run_id, invocation_id=row["invocation_id"])
        invocation = found.values("id", *chain.INVOCATION_FIELDS).first()
    return EventDetails(
        event=timeline_event(row),
        step=_steps([step])[0] if step else None,
        model_calls=tuple(ModelCallEntry(**call) for call in calls),
        invocation=_invocation(invocation) if invocation else None,
    )


TOOLS_AFTER_STEP = 200


def tool_events_of(run_id: str, step_id: str, sequence_no: int) -> list[TimelineEvent]:
    """The tool calls that a step asked for, looked for among the events that follow its own. One query."""
    following = TraceEvent.objects.filter(
        run_id=run_id, sequence_no__gt=sequence_no, sequence_no__lte=sequence_no + TOOLS_AFTER_STEP
    )
    calls = following.filter(step_id=step_id, event_type=EventType.TOOL_INVOCATION).order_by("sequence_no")
    return [timeline_event(row) for row in calls.values(*TIMELINE_FIELDS)]


@dataclass(frozen=True, slots=True)
class ReasoningEntry:
    """Restricted."""

    step_id: str
    step_index: int | None
    agent_name: str | None
    role: str | None
    thought: str | None
    assistant_text: str | None
    created_at: datetime


def load_reasoning(run_id: str) -> list[ReasoningEntry]:
    """Restricted: whoever calls this has recorded the access first. Two queries."""
    steps = {
        row["id"]: row
        for row in AgentStep.objects.filter(run_id=run_id).values("id", "step_index", "agent_name", "role")
    }
    rows = AgentReasoning.objects.filter(run_id=run_id).order_by("id")
    entries = []
    for row in rows.values("step_id", "thought", "assistant_text", "created_at"):
        step: Row = steps.get(row["step_id"], {})
        about = {name: step.get(name) for name in ("step_index", "agent_name", "role")}
        entries.append(ReasoningEntry(**about, **row))
    return entries
