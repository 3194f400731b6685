"""What a run says of itself while it goes: frames (metadata) and the ledger records beside them.

A `Frame` answers what happened, in what order. Its details are metadata only: one closed shape
per event type, no string longer than 200 characters, nothing of a model's or a tool's text.
The `Record`s of the same `Emission` hold the full fields, once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, StringConstraints

SUMMARY_LIMIT = 200

Short: TypeAlias = Annotated[str, StringConstraints(max_length=200)]
Names: TypeAlias = tuple[Annotated[str, StringConstraints(max_length=100)], ...]


class Phase(StrEnum):
    RUN = "RUN"
    ROUTING = "ROUTING"
    AGENT = "AGENT"
    TOOL = "TOOL"
    EVIDENCE = "EVIDENCE"
    SEMANTIC = "SEMANTIC"
    RELEASE = "RELEASE"


class EventType(StrEnum):
    RUN_STARTED = "RUN_STARTED"
    RUN_CANCEL_REQUESTED = "RUN_CANCEL_REQUESTED"
    RUN_RECOVERED = "RUN_RECOVERED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    RUN_FINISHED = "RUN_FINISHED"
    ROUTING_DECISION = "ROUTING_DECISION"
    AGENT_MODEL_STEP = "AGENT_MODEL_STEP"
    SUPERVISION_DECISION = "SUPERVISION_DECISION"
    CONVERGENCE_STOP = "CONVERGENCE_STOP"
    TOOL_INVOCATION = "TOOL_INVOCATION"
    EVIDENCE_GUARD_INITIAL = "EVIDENCE_GUARD_INITIAL"
    EVIDENCE_GUARD_REPAIR = "EVIDENCE_GUARD_REPAIR"
    SEMANTIC_GUARD_DECISION = "SEMANTIC_GUARD_DECISION"
    AIOPS_RULE_EVALUATION = "AIOPS_RULE_EVALUATION"
    RELEASE_DECISION = "RELEASE_DECISION"


PHASES: dict[EventType, Phase] = {
    EventType.RUN_STARTED: Phase.RUN,
    EventType.RUN_CANCEL_REQUESTED: Phase.RUN,
    EventType.RUN_RECOVERED: Phase.RUN,
    EventType.BUDGET_EXHAUSTED: Phase.RUN,
    EventType.RUN_FINISHED: Phase.RUN,
    EventType.ROUTING_DECISION: Phase.ROUTING,
    EventType.AGENT_MODEL_STEP: Phase.AGENT,
    EventType.SUPERVISION_DECISION: Phase.AGENT,
    EventType.CONVERGENCE_STOP: Phase.AGENT,
    EventType.TOOL_INVOCATION: Phase.TOOL,
    EventType.EVIDENCE_GUARD_INITIAL: Phase.EVIDENCE,
    EventType.EVIDENCE_GUARD_REPAIR: Phase.EVIDENCE,
    EventType.SEMANTIC_GUARD_DECISION: Phase.SEMANTIC,
    EventType.AIOPS_RULE_EVALUATION: Phase.SEMANTIC,
    EventType.RELEASE_DECISION: Phase.RELEASE,
}


class Details(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunStarted(Details):
    trigger: Short
    attempt: int
    model: Short
    prompt_set_version: Short
    rule_set_version: int


class RunCancelRequested(Details):
    reason: Short
    requested_by: Short | None = None


class RunRecovered(Details):
    attempt: int
    reason: Short


class BudgetEnded(Details):
    budget: Short
    limit: int
    used: int


class RunFinished(Details):
    outcome: Short
    verdict: Short | None
    release_decision: Short | None
    failure_code: Short | None
    cancel_reason: Short | None
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int


class RoutingDecision(Details):
    intent: Short
    source: Short
    violation: Short | None = None


class ModelStep(Details):
    role: Short
    agent_name: Short
    step_index: int
    model: Short
    prompt_version: Short | None = None
    attempts: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    tool_names: Names = ()
    error_code: Short | None = None


class SupervisionDecision(Details):
    round: int
    proposed: Short
    decided: Short
    replaced_because: Short | None = None


class ConvergenceStop(Details):
    reason: Short
    rounds: int
    tool_name: Short | None = None


class ToolInvoked(Details):
    tool_name: Short
    evidence_status: Short
    evidence_count: int
    relevance_level: Short | None = None
    dedup_reason: Short | None = None
    error_code: Short | None = None
    truncated: bool = False


class GuardDecision(Details):
    verdict: Short
    claims: int
    accepted: int
    removed: int
    failed_rules: Names
    shadow_rules: Names = ()
    rule_set_version: int


class SemanticDecision(Details):
    verdict: Short
    groundedness_score: float | None
    supported: int
    unsupported: int
    contract_violations: Names = ()


class AiopsRules(Details):
    verdict: Short
    passed: Names
    failed: Names


class ReleaseDecided(Details):
    decision: Short
    confidence: Short | None
    statements_proposed: int
    statements_kept: int
    claims: int
    limitations: int
    dropped_because: Names = ()


DETAILS: dict[EventType, type[Details]] = {
    EventType.RUN_STARTED: RunStarted,
    EventType.RUN_CANCEL_REQUESTED: RunCancelRequested,
    EventType.RUN_RECOVERED: RunRecovered,
    EventType.BUDGET_EXHAUSTED: BudgetEnded,
    EventType.RUN_FINISHED: RunFinished,
    EventType.ROUTING_DECISION: RoutingDecision,
    EventType.AGENT_MODEL_STEP: ModelStep,
    EventType.SUPERVISION_DECISION: SupervisionDecision,
    EventType.CONVERGENCE_STOP: ConvergenceStop,
    EventType.TOOL_INVOCATION: ToolInvoked,
    EventType.EVIDENCE_GUARD_INITIAL: GuardDecision,
    EventType.EVIDENCE_GUARD_REPAIR: GuardDecision,
    EventType.SEMANTIC_GUARD_DECISION: SemanticDecision,
    EventType.AIOPS_RULE_EVALUATION: AiopsRules,
    EventType.RELEASE_DECISION: ReleaseDecided,
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One trace event, before it has a place in the sequence.

    `status` is STARTED/COMPLETED/FAILED for a model step, the evidence status for a tool call, the
    verdict or decision for a gate, null elsewhere. `content_digest` is the SHA-256 of the canonical
    JSON of what the run's row will keep about this decision (gates, verifier, release), null elsewhere.
    """

    event_type: EventType
    details: Details
    summary: str
    at: datetime
    status: str | None = None
    step_id: str | None = None
    invocation_id: str | None = None
    duration_ms: int | None = None
    content_digest: str | None = None

    @property
    def phase(self) -> Phase:
        return PHASES[self.event_type]


@dataclass(frozen=True, slots=True)
class StepOpened:
    """`agent_step`, status RUNNING. `model_input` is a bounded summary."""

    step_id: str
    step_index: int
    agent_name: str
    role: str
    model: str
    prompt_version: str | None
    model_input: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class StepClosed:
    """The one completion of a step: COMPLETED or FAILED. Tokens are over all attempts.

    `tool_plan` = [{"call_id", "tool_name"}]; `call_id` is the call's position, such as call-1.
    """

    step_id: str
    status: str
    model_output: str
    has_tool_call: bool
    tool_plan: tuple[Mapping[str, str], ...]
    input_tokens: int
    output_tokens: int
    duration_ms: int
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Reasoning:
    """`agent_reasoning_audit`: restricted."""

    step_id: str
    thought: str | None
    assistant_text: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ModelCall:
    """`model_call_ledger`: one attempt. `status` is OK, ERROR, TIMEOUT or CANCELLED. Tokens null where unknown."""

    call_id: str
    step_id: str
    role: str
    attempt: int
    model: str
    status: str
    error_code: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Decimal | None
    finish_reason: str | None
    duration_ms: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class InvocationRecord:
    """`tool_invocation`: the one place, with reasoning, that holds full text.

    `evidence_refs` = [{"raw_path", "text", "shown", "relevance"}]; `output` is the whole (masked) output.
    """

    invocation_id: str
    step_id: str
    tool_name: str
    source_kind: str
    input_params: Mapping[str, Any]
    output: Any
    output_preview: str
    evidence_status: str
    evidence_refs: tuple[Mapping[str, Any], ...]
    retrieval_layer: str | None
    l0_match_count: int | None
    l1_match_count: int | None
    retrieval_details: Mapping[str, Any]
    relevance_level: str | None
    dedup_reason: str | None
    duration_ms: int
    success: bool
    error_code: str | None
    error_message: str | None
    truncated: bool
    started_at: datetime


@dataclass(frozen=True, slots=True)
class PromptPinned:
    """`run_prompt`: a prompt that the run was given at its start; `version` such as chat-executor-v2."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class RuleFailed:
    """`run_rule`: a rule of the gate that failed in this run, in that mode. `claims`: for how many of its claims.

    0 claims: it failed for the draft as such.
    """

    code: str
    mode: str
    rule_set_version: int
    claims: int
    at: datetime


Record: TypeAlias = PromptPinned | RuleFailed | StepOpened | StepClosed | Reasoning | ModelCall | InvocationRecord


@dataclass(frozen=True, slots=True)
class Emission:
    """What is emitted at once and recorded at once. `frame` is None for a record that has no frame of its own."""

    frame: Frame | None
    records: tuple[Record, ...] = field(default_factory=tuple)
