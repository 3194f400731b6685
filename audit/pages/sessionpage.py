"""The records of a session that carry no run, as they are shown: in the order they were written, nothing checked."""

from dataclasses import dataclass
from datetime import datetime

from audit.pages.jsonhtml import JsonTree, json_tree
from audit.trace import LEGACY_LIMIT, Invocation, Step, TimelineEvent, Trace
from runs.pages.hostile import Cut, one_line, shown

PREVIEW_LIMIT = 4_000


@dataclass(frozen=True, slots=True)
class LegacyEvent:
    at: datetime
    phase: str
    event_type: str
    status: str
    summary: str
    duration_ms: int | None
    details: JsonTree | None


@dataclass(frozen=True, slots=True)
class LegacyStep:
    id: str
    role: str
    model: str
    status: str
    tokens: int | None
    duration_ms: int | None
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class LegacyInvocation:
    invocation_id: str
    tool_name: str
    status: str
    duration_ms: int
    arguments: JsonTree
    preview: Cut


@dataclass(frozen=True, slots=True)
class LegacyView:
    """`cut`: there is more of some kind than is shown. `tokens`: over all model calls that are on record."""

    events: tuple[LegacyEvent, ...]
    steps: tuple[LegacyStep, ...]
    invocations: tuple[LegacyInvocation, ...]
    model_calls: int
    tokens: int
    cut: bool


def legacy_view(trace: Trace) -> LegacyView:
    calls = trace.summary.model_calls.persisted
    counts = (len(trace.timeline), len(trace.steps), len(trace.tool_invocations), calls)
    return LegacyView(
        events=tuple(map(_event, trace.timeline)),
        steps=tuple(map(_step, trace.steps)),
        invocations=tuple(map(_invocation, trace.tool_invocations)),
        model_calls=calls,
        tokens=trace.summary.tokens.ledger,
        cut=max(counts) >= LEGACY_LIMIT,
    )


def _event(event: TimelineEvent) -> LegacyEvent:
    return LegacyEvent(
        at=event.created_at,
        phase=one_line(event.phase),
        event_type=one_line(event.event_type),
        status=one_line(event.status or ""),
        summary=one_line(event.summary),
        duration_ms=event.duration_ms,
        details=json_tree(event.details) if event.details else None,
    )


def _step(step: Step) -> LegacyStep:
    return LegacyStep(
        id=step.id,
        role=one_line(step.role),
        model=one_line(step.model),
        status=step.status,
        tokens=step.token_count,
        duration_ms=step.duration_ms,
        input=one_line(step.model_input, 1_000),
        output=one_line(step.model_output or "", 1_000),
    )


def _invocation(row: Invocation) -> LegacyInvocation:
    return LegacyInvocation(
        invocation_id=one_line(row.invocation_id),
        tool_name=one_line(row.tool_name),
        status=one_line(row.evidence_status),
        duration_ms=row.duration_ms,
        arguments=json_tree(row.input_params),
        preview=shown(row.output_preview, PREVIEW_LIMIT),
    )
