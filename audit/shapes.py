"""The JSON of the trace, as the HTTP contract has it: camelCase outside, the values of `audit.trace` inside."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic.alias_generators import to_camel

from audit import trace
from audit.canonical import utc_text
from audit.restricted import visible_self_evaluation
from runs.api import Shape, run_url
from runs.models import ChatSession, DiagnosisRun


def camel_keys(value: dict[str, Any]) -> dict[str, Any]:
    return {to_camel(key): item for key, item in value.items()}


class TimelineEventShape(Shape):
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


class StepShape(Shape):
    id: str
    run_id: str | None
    session_id: str
    step_index: int
    agent_name: str
    role: str
    model_input: str
    model_output: str | None
    has_tool_call: bool
    tool_plan: list[dict[str, Any]]
    duration_ms: int | None
    token_count: int | None
    input_tokens: int | None
    output_tokens: int | None
    status: str
    prompt_version: str | None
    model: str
    started_at: datetime
    finished_at: datetime | None


class InvocationShape(Shape):
    """`retrievalDetails` holds evidenceStatus, evidenceRefs and what the tool said of its search."""

    id: int
    invocation_id: str
    run_id: str | None
    step_id: str
    tool_name: str
    input_params: Any
    output_preview: str
    retrieval_layer: str | None
    l0_match_count: int | None
    l1_match_count: int | None
    retrieval_details: dict[str, Any]
    relevance_level: str | None
    dedup_reason: str | None
    duration_ms: int
    success: bool
    status: str
    error_code: str | None
    error_message: str | None
    truncated: bool
    started_at: datetime


class CountShape(Shape):
    emitted: int | None
    persisted: int
    returned: int


class TokensShape(Shape):
    ledger: int
    run: int | None
    steps: int
    consistent: bool


class SummaryShape(Shape):
    events: CountShape
    steps: CountShape
    tool_invocations: CountShape
    model_calls: CountShape
    tokens: TokensShape
    complete: bool
    chain_valid: bool | None


class RunTokensShape(Shape):
    input: int
    output: int
    total: int


class RunShape(Shape):
    """A run. `selfEvaluation` without its restricted parts, unless the caller may read reasoning."""

    run_id: str
    session_id: str
    trigger: str
    intent: str | None
    status: str
    outcome: str | None
    verdict: str | None
    release_decision: str | None
    failure_code: str | None
    cancel_reason: str | None
    query: str
    published_result: dict[str, Any] | None
    safe_content: dict[str, Any] | None
    self_evaluation: dict[str, Any] | None
    rule_set_version: int | None
    prompt_set_version: str | None
    model: str
    tokens: RunTokensShape
    cost_usd: Decimal | None
    model_calls: int
    tool_calls: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    url: str


class ChatSessionShape(Shape):
    id: str
    title: str
    created_at: datetime
    updated_at: datetime


class SessionShape(Shape):
    """`runIds`: the session's newest runs, newest first, at most 50. `legacyRecords`: some records carry no run id."""

    session_id: str
    run_ids: list[str]
    legacy_records: bool


class TraceShape(Shape):
    run_id: str | None
    chat_session: ChatSessionShape | None
    session: SessionShape
    run: RunShape | None
    steps: list[StepShape]
    tool_invocations: list[InvocationShape]
    timeline: list[TimelineEventShape]
    summary: SummaryShape


class ReasoningShape(Shape):
    step_id: str
    step_index: int | None
    agent_name: str | None
    role: str | None
    thought: str | None
    assistant_text: str | None
    created_at: datetime


class ReasoningListShape(Shape):
    run_id: str
    session_id: str
    reasoning: list[ReasoningShape]


def run_shape(run: DiagnosisRun, *, may_read_reasoning: bool) -> RunShape:
    names = [name for name in RunShape.model_fields if name not in {"run_id", "self_evaluation", "tokens", "url"}]
    total = run.input_tokens + run.output_tokens
    return RunShape(
        run_id=run.id,
        self_evaluation=visible_self_evaluation(run, may_read_reasoning),
        tokens=RunTokensShape(input=run.input_tokens, output=run.output_tokens, total=total),
        url=run_url(run.id),
        **{name: getattr(run, name) for name in names},
    )


def timeline_shape(event: trace.TimelineEvent) -> TimelineEventShape:
    values = {name: getattr(event, name) for name in trace.TIMELINE_FIELDS}
    return TimelineEventShape(**(values | {"details": camel_keys(event.details)}))


def timeline_json(event: trace.TimelineEvent) -> dict[str, Any]:
    """A timeline event for a stream: JSON's own types, times in UTC with microseconds."""
    values = {name: getattr(event, name) for name in trace.TIMELINE_FIELDS}
    return camel_keys(values | {"details": camel_keys(event.details), "created_at": utc_text(event.created_at)})


def invocation_shape(call: trace.Invocation) -> InvocationShape:
    names = [name for name in InvocationShape.model_fields if name not in {"status", "retrieval_details"}]
    return InvocationShape(
        status=call.evidence_status,
        retrieval_details={
            **call.retrieval_details,
            "evidenceStatus": call.evidence_status,
            "evidenceRefs": [camel_keys(ref) for ref in call.evidence_refs],
        },
        **{name: getattr(call, name) for name in names},
    )


def trace_shape(
    found: trace.Trace,
    *,
    run: RunShape | None,
    chat_session: ChatSession | None,
    session: SessionShape,
) -> TraceShape:
    return TraceShape(
        run_id=found.run_id,
        chat_session=None if chat_session is None else ChatSessionShape.model_validate(chat_session),
        session=session,
        run=run,
        steps=[StepShape.model_validate(step) for step in found.steps],
        tool_invocations=[invocation_shape(call) for call in found.tool_invocations],
        timeline=[timeline_shape(event) for event in found.timeline],
        summary=SummaryShape.model_validate(found.summary),
    )
