"""The model wire: what each role must answer, as strict types, and the names they travel under."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.types import ANSWER_VERSION, ClaimKind, Intent, Verdict
from runs.harness.ports import Role

MAX_CLAIMS = 40
MAX_CITATIONS = 12


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RouterIntent(Wire):
    intent: Intent


class SystemChatReply(Wire):
    reply: Annotated[str, Field(max_length=4000)]


class PlanStep(Wire):
    step: Annotated[str, Field(max_length=500)]
    tool_hint: Annotated[str | None, Field(max_length=100)] = None


class Plan(Wire):
    focus: Annotated[str, Field(max_length=500)]
    steps: Annotated[list[PlanStep], Field(max_length=12)]


class ExecutorCitation(Wire):
    source_invocation_id: str
    tool_name: str
    raw_path: str
    evidence_excerpt: str


class ExecutorClaim(Wire):
    claim_id: Annotated[str, Field(min_length=1, max_length=40)]
    kind: ClaimKind
    claim_text: Annotated[str, Field(min_length=1, max_length=1000)]
    critical: bool
    evidence: Annotated[list[ExecutorCitation], Field(max_length=MAX_CITATIONS)]


class ExecutorEvidence(Wire):
    answer_version: Literal["executor_evidence_v2"]
    claims: Annotated[list[ExecutorClaim], Field(max_length=MAX_CLAIMS)]


class ClaimCheck(Wire):
    claim_id: str
    supported: bool
    reason: Annotated[str, Field(max_length=2000)]


class VerifierEvaluation(Wire):
    verdict: Verdict
    groundedness_score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    critical_fact_count: Annotated[int, Field(ge=0)]
    claim_checks: list[ClaimCheck]
    facts_checked: list[str]
    rationale: Annotated[str, Field(max_length=4000)]


class ComposedStatement(Wire):
    text: Annotated[str, Field(min_length=1, max_length=1000)]
    claim_ids: Annotated[list[str], Field(max_length=MAX_CLAIMS)]


class ComposerOutput(Wire):
    conclusion: Annotated[str, Field(max_length=4000)]
    scope: Annotated[str, Field(max_length=2000)]
    statements: Annotated[list[ComposedStatement], Field(max_length=MAX_CLAIMS)]
    limitations: Annotated[list[str], Field(max_length=20)]


class Supervision(Wire):
    next: Literal["PLAN", "EXECUTE", "FINISH"]
    reason: Annotated[str, Field(max_length=1000)]


SCHEMA_NAMES: dict[Role, str] = {
    Role.ROUTER: "router_intent",
    Role.SYSTEM_CHAT: "system_chat_reply",
    Role.CHAT_PLANNER: "chat_plan",
    Role.CHAT_EXECUTOR: ANSWER_VERSION,
    Role.CHAT_VERIFIER: "verifier_evaluation",
    Role.CHAT_COMPOSER: "composer_output",
    Role.AIOPS_SUPERVISOR: "aiops_supervision",
    Role.AIOPS_PLANNER: "aiops_plan",
    Role.AIOPS_EXECUTOR: ANSWER_VERSION,
}

OUTPUTS: dict[Role, type[Wire]] = {
    Role.ROUTER: RouterIntent,
    Role.SYSTEM_CHAT: SystemChatReply,
    Role.CHAT_PLANNER: Plan,
    Role.CHAT_EXECUTOR: ExecutorEvidence,
    Role.CHAT_VERIFIER: VerifierEvaluation,
    Role.CHAT_COMPOSER: ComposerOutput,
    Role.AIOPS_SUPERVISOR: Supervision,
    Role.AIOPS_PLANNER: Plan,
    Role.AIOPS_EXECUTOR: ExecutorEvidence,
}


class ToolAnswerRef(BaseModel):
    raw_path: str
    text: str


BREAKER_OPEN = "BREAKER_OPEN"
"""The code of a call that was not made, because the tool's source had failed again and again."""


class ToolAnswerError(BaseModel):
    code: str
    message: str
    details: Any = None


class ToolAnswer(BaseModel):
    """What a model gets back from any tool, as the JSON text of the tool message."""

    invocation_id: str
    tool_name: str
    status: str
    evidence_refs: list[ToolAnswerRef]
    output: Any
    truncated: bool
    error: ToolAnswerError | None
