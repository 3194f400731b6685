"""From an emission to the rows that record it. Pure: model instances are filled, nothing is saved.

Texts are cleaned and bounded here, so that what is hashed is what PostgreSQL stores.
"""

from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from django.db import models

from audit import chain
from audit.canonical import clean_text, plain
from audit.models import AgentReasoning, AgentStep, ModelCallRow, RunPrompt, RunRule, ToolInvocation, TraceEvent
from runs.harness.events import (
    DETAILS,
    SUMMARY_LIMIT,
    Emission,
    EventType,
    Frame,
    InvocationRecord,
    ModelCall,
    PromptPinned,
    Reasoning,
    RuleFailed,
    StepClosed,
    StepOpened,
)
from runs.observers import RunRef

COST_STEP = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Closing:
    """The one completion of a step, as the columns of `agent_step`."""

    step_id: str
    columns: dict[str, Any]


@dataclass(slots=True)
class Rows:
    """What one emission becomes. The event has no place in the sequence yet."""

    run: RunRef
    event: TraceEvent | None = None
    opened: list[AgentStep] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)
    reasoning: list[AgentReasoning] = field(default_factory=list)
    calls: list[ModelCallRow] = field(default_factory=list)
    invocations: list[ToolInvocation] = field(default_factory=list)
    prompts: list[RunPrompt] = field(default_factory=list)
    rules: list[RunRule] = field(default_factory=list)

    @property
    def late_for(self) -> set[str]:
        """Steps that must still be open for these rows to be recorded."""
        closing = {closing.step_id for closing in self.closings}
        return ({row.step_id for row in self.reasoning} | {row.step_id for row in self.calls}) - closing


def columns(instance: models.Model, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(instance, name) for name in names}


def clip(text: str, limit: int) -> str:
    """Cleaned and at most `limit` characters, with the cut marked."""
    text = clean_text(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _bounded(model: type[models.Model], name: str, text: str) -> str:
    limit = getattr(model._meta.get_field(name), "max_length", None)
    return clip(text, limit) if limit else clean_text(text)


def _bounded_or_none(model: type[models.Model], name: str, text: str | None) -> str | None:
    return None if text is None else _bounded(model, name, text)


def event_row(run: RunRef, frame: Frame) -> TraceEvent:
    """Raises pydantic's ValidationError (a ValueError) when the details are not the closed shape of their type."""
    shape = DETAILS[frame.event_type]
    details = shape.model_validate(frame.details.model_dump(warnings=False))
    return TraceEvent(
        run_id=run.run_id,
        session_id=run.session_id,
        phase=frame.phase.value,
        event_type=frame.event_type.value,
        status=None if frame.status is None else clip(frame.status, 30),
        step_id=frame.step_id,
        invocation_id=frame.invocation_id,
        summary=clip(frame.summary, SUMMARY_LIMIT),
        details=plain(details.model_dump(mode="json")),
        duration_ms=frame.duration_ms,
        created_at=frame.at,
        content_digest=frame.content_digest,
    )


def _step(run: RunRef, record: StepOpened) -> AgentStep:
    return AgentStep(
        id=record.step_id,
        run_id=run.run_id,
        session_id=run.session_id,
        step_index=record.step_index,
        agent_name=_bounded(AgentStep, "agent_name", record.agent_name),
        role=record.role,
        model=_bounded(AgentStep, "model", record.model),
        prompt_version=_bounded_or_none(AgentStep, "prompt_version", record.prompt_version),
        model_input=_bounded(AgentStep, "model_input", record.model_input),
        started_at=record.started_at,
    )


def _closing(record: StepClosed) -> Closing:
    return Closing(
        record.step_id,
        {
            "status": record.status,
            "model_output": _bounded(AgentStep, "model_output", record.model_output),
            "has_tool_call": record.has_tool_call,
            "tool_plan": plain(record.tool_plan),
            "input_tokens": record.input_tokens,
            "output_tokens": record.output_tokens,
            "token_count": record.input_tokens + record.output_tokens,
            "duration_ms": record.duration_ms,
            "finished_at": record.finished_at,
        },
    )


def _reasoning(run: RunRef, record: Reasoning) -> AgentReasoning:
    return AgentReasoning(
        run_id=run.run_id,
        session_id=run.session_id,
        step_id=record.step_id,
        thought=_bounded_or_none(AgentReasoning, "thought", record.thought),
        assistant_text=_bounded_or_none(AgentReasoning, "assistant_text", record.assistant_text),
        created_at=record.at,
    )


def _call(run: RunRef, record: ModelCall) -> ModelCallRow:
    return ModelCallRow(
        call_id=record.call_id,
        run_id=run.run_id,
        session_id=run.session_id,
        step_id=record.step_id,
        role=record.role,
        attempt=record.attempt,
        model=_bounded(ModelCallRow, "model", record.model),
        status=record.status,
        error_code=_bounded_or_none(ModelCallRow, "error_code", record.error_code),
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        cost_usd=None if record.cost_usd is None else record.cost_usd.quantize(COST_STEP),
        finish_reason=_bounded_or_none(ModelCallRow, "finish_reason", record.finish_reason),
        duration_ms=record.duration_ms,
        started_at=record.started_at,
    )


def _rule(run: RunRef, record: RuleFailed) -> RunRule:
    return RunRule(
        run_id=run.run_id,
        rule=record.code,
        mode=record.mode,
        rule_set_version=record.rule_set_version,
        claims=record.claims,
        at=record.at,
    )


_INVOCATION_JSON = {"input_params", "output", "evidence_refs", "retrieval_details"}


def _invocation(run: RunRef, record: InvocationRecord) -> ToolInvocation:
    row = ToolInvocation(run_id=run.run_id, session_id=run.session_id)
    for name in (each.name for each in fields(record)):
        value = getattr(record, name)
        if name in _INVOCATION_JSON:
            value = plain(value)
        elif isinstance(value, str):
            value = _bounded(ToolInvocation, name, value)
        setattr(row, name, value)
    return row


def rows_of(run: RunRef, emission: Emission) -> Rows:
    """Raises TypeError or ValueError for an emission that cannot be recorded."""
    rows = Rows(run)
    for record in emission.records:
        match record:
            case PromptPinned():
                rows.prompts.append(RunPrompt(run_id=run.run_id, prompt=record.name, version=record.version))
            case RuleFailed():
                rows.rules.append(_rule(run, record))
            case StepOpened():
                rows.opened.append(_step(run, record))
            case StepClosed():
                rows.closings.append(_closing(record))
            case Reasoning():
                rows.reasoning.append(_reasoning(run, record))
            case ModelCall():
                rows.calls.append(_call(run, record))
            case InvocationRecord():
                rows.invocations.append(_invocation(run, record))
    if emission.frame is not None:
        rows.event = event_row(run, emission.frame)
    return rows


def opening_digest(rows: Rows) -> str | None:
    """The ledger digest of a frame whose record was emitted with it and is complete from the start."""
    event = rows.event
    if event is None:
        return None
    if event.event_type == EventType.TOOL_INVOCATION:
        for invocation in rows.invocations:
            if invocation.invocation_id == event.invocation_id:
                return chain.invocation_digest(columns(invocation, chain.INVOCATION_FIELDS))
    if event.event_type == EventType.AGENT_MODEL_STEP and event.status == "STARTED":
        for step in rows.opened:
            if step.id == event.step_id:
                return chain.step_opening_digest(columns(step, chain.STEP_OPENING_FIELDS))
    return None


def closing_of(rows: Rows) -> Closing | None:
    """The completion that the emission's frame answers for."""
    event = rows.event
    if event is None or event.event_type != EventType.AGENT_MODEL_STEP or event.status == "STARTED":
        return None
    return next((closing for closing in rows.closings if closing.step_id == event.step_id), None)
