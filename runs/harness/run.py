"""The values a run begins and ends with, as the kernel knows them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.types import Intent, RuleSet, Verdict
from runs.errors import CancelReason, FailureCode
from runs.harness.events import Emission
from runs.harness.memory import NOTHING_REMEMBERED, Memory
from runs.harness.ports import Breaker, ChatModel, Clock, IdSource, Role, Tool


class AlertSubject(BaseModel):
    """An alert as a run sees it. Times are ISO 8601 with zone, or null where the sender gave none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alertname: str
    severity: str = ""
    status: str = "firing"
    starts_at: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    generator_url: str = ""
    fingerprint: str = ""


class Subject(BaseModel):
    """Column `diagnosis_run.subject`, version 1: what the run is about. `others`: further alerts of the same group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    alert: AlertSubject | None = None
    others: list[AlertSubject] = []


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of one run, over all its attempts. Seconds for times.

    `reserved_model_calls` are kept back for verifier and composer; from `soft_deadline_share` of the
    deadline on, the run concludes with what it has.
    """

    max_model_calls: int = 24
    max_tool_calls: int = 32
    max_same_tool_calls: int = 6
    max_tokens: int = 200_000
    deadline_s: float = 300
    tool_timeout_s: float = 20
    model_timeout_s: float = 90
    reserved_model_calls: int = 2
    reserved_token_share: float = 0.1
    soft_deadline_share: float = 0.7
    max_rounds: int = 4
    max_model_attempts: int = 4
    max_tool_output_chars: int = 24_000


@dataclass(frozen=True, slots=True)
class Spent:
    """What earlier attempts of the run used up."""

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A pinned prompt: `version` such as chat-executor-v2, `resource` such as prompts/chat-executor-prompt.md."""

    name: str
    version: str
    resource: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class RunInput:
    """`started_at` is the start of the first attempt: the deadline runs from there.

    `next_step_index` continues after earlier attempts. `seen_documents` were given in earlier runs of the session,
    `memory` is what a question may know of them. A run without an alert is a question.
    """

    run_id: str
    session_id: str
    trigger: str
    query: str
    subject: Subject
    attempt: int
    started_at: datetime
    spent: Spent = Spent()
    next_step_index: int = 1
    seen_documents: frozenset[str] = frozenset()
    memory: Memory = NOTHING_REMEMBERED

    @property
    def is_question(self) -> bool:
        return self.subject.alert is None


@dataclass(frozen=True, slots=True)
class Settled:
    """What the observers still owe after a last try. `complete` False: the record has a gap."""

    complete: bool
    unrecorded_invocations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Spending:
    """One increment of the run's own counters."""

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Any = None


def unchanged(value: Any) -> Any:
    return value


async def unmarked(_intent: Intent) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Kit:
    """Everything a run is handed. `breakers` by tool name, shared by the process.

    `emit` passes an emission to the observers and returns at once; it never raises. `spend` adds to
    the run's counters. `mark_intent` puts down what the run is for, before its path starts. `settle` waits until
    the observers have written what they were given, trying again what failed, and says what is missing.
    """

    models: Mapping[Role, ChatModel]
    tools: Mapping[str, Tool]
    prompts: Mapping[Role, Prompt]
    prompt_set_version: str
    rule_set: RuleSet
    limits: Limits
    clock: Clock
    ids: IdSource
    emit: Callable[[Emission], None]
    spend: Callable[[Spending], None]
    settle: Callable[[], Awaitable[Settled]]
    mark_intent: Callable[[Intent], Awaitable[None]] = unmarked
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    evidence_now: Callable[[], datetime] | None = None
    """The reference time for tools: the recorded moment where evidence is recorded; None: the clock."""
    looks_back: bool = False
    """Whether `evidence_now` is a past moment of live sources: an earlier run is repeated."""
    redact: Callable[[Any], Any] = unchanged
    """Masks the secrets in a JSON value before it is recorded."""


class PublishedEvidence(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    source_invocation_id: Annotated[str, Field(alias="sourceInvocationId")]
    tool_name: Annotated[str, Field(alias="toolName")]
    raw_path: Annotated[str, Field(alias="rawPath")]
    evidence_excerpt: Annotated[str, Field(alias="evidenceExcerpt")]


class PublishedClaim(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    claim_id: Annotated[str, Field(alias="claimId")]
    kind: str
    claim_text: Annotated[str, Field(alias="claimText")]
    evidence: list[PublishedEvidence]


class PublishedStatement(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    text: str
    claim_ids: Annotated[list[str], Field(alias="claimIds")]


class SourceDocumentRef(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    document_id: Annotated[str, Field(alias="documentId")]
    title: str


class PublishedResult(BaseModel):
    """What leaves. Built in `runs.harness.release` and nowhere else. Lengths are characters."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    query: Annotated[str, Field(max_length=2000)]
    conclusion: Annotated[str, Field(max_length=2000)]
    scope: Annotated[str, Field(max_length=1000)]
    confidence: str
    statements: list[PublishedStatement]
    claims: list[PublishedClaim]
    limitations: Annotated[list[Annotated[str, Field(max_length=500)]], Field(max_length=10)]
    source_documents: Annotated[list[SourceDocumentRef], Field(alias="sourceDocuments", max_length=10)]


MAX_LOOKED_AT = 40


class SafeContent(BaseModel):
    """What every finished run may say to anyone: bounded, nothing of a draft."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    headline: Annotated[str, Field(max_length=300)]
    reason: Annotated[str, Field(max_length=1000)]
    looked_at: Annotated[
        list[Annotated[str, Field(max_length=300)]],
        Field(alias="lookedAt", max_length=MAX_LOOKED_AT, default_factory=list),
    ]


@dataclass(frozen=True, slots=True)
class Emitted:
    """Counts of what the kernel emitted in this attempt."""

    events: int = 0
    steps: int = 0
    tool_invocations: int = 0
    model_calls: int = 0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a run ended. `status` is SUCCESS, DEGRADED, FAILED or CANCELLED.

    `self_evaluation` is JSON-able and restricted; `published` only with SUCCESS. `groundedness`: the verifier's score.
    """

    status: str
    safe_content: SafeContent
    self_evaluation: dict[str, Any]
    emitted: Emitted
    intent: Intent | None = None
    verdict: Verdict | None = None
    release_decision: str | None = None
    failure_code: FailureCode | None = None
    cancel_reason: CancelReason | None = None
    published: PublishedResult | None = None
    groundedness: float | None = None
    took: timedelta = timedelta(0)
