"""What the gate judges and what it answers: frozen values, no I/O.

A `Draft` is what an executor proposed. The `Case` around it carries everything the rules may
look at: this run's invocations, the texts that came in with the run, the intent. A rule returns
`Finding`s; the gate folds them into one `GateResult`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ANSWER_VERSION = "executor_evidence_v2"
NO_EVIDENCE_PATH = "$.no_evidence"


class ClaimKind(StrEnum):
    OBSERVATION = "observation"
    GUIDANCE = "guidance"
    NEGATIVE_OBSERVATION = "negative_observation"


class EvidenceStatus(StrEnum):
    """How a tool call ended. Stored as `evidence_status`."""

    OK = "OK"
    NO_EVIDENCE = "NO_EVIDENCE"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    REJECTED = "REJECTED"
    DEDUPLICATED = "DEDUPLICATED"

    @property
    def failed(self) -> bool:
        return self in FAILED_STATUSES


FAILED_STATUSES = frozenset({EvidenceStatus.FAILED, EvidenceStatus.TIMEOUT, EvidenceStatus.REJECTED})


class SourceKind(StrEnum):
    """What an invocation's evidence speaks of: the system now, or written knowledge."""

    TELEMETRY = "TELEMETRY"
    KNOWLEDGE = "KNOWLEDGE"
    OTHER = "OTHER"


class Relevance(StrEnum):
    PRECISE = "PRECISE"
    HIGHLY_RELEVANT = "HIGHLY_RELEVANT"
    REFERENCE = "REFERENCE"


class Intent(StrEnum):
    SYSTEM_CHAT = "SYSTEM_CHAT"
    KNOWLEDGE_QUERY = "KNOWLEDGE_QUERY"
    DIAGNOSIS = "DIAGNOSIS"


class Verdict(StrEnum):
    """Ordered by `worst`: PASS is best, REJECT worst."""

    PASS = "PASS"  # noqa: S105 - a verdict
    LOW_CONFID = "LOW_CONFID"
    REJECT = "REJECT"

    @staticmethod
    def worst(*verdicts: "Verdict") -> "Verdict":
        order = [Verdict.PASS, Verdict.LOW_CONFID, Verdict.REJECT]
        return max(verdicts, key=order.index, default=Verdict.PASS)


class RuleMode(StrEnum):
    ENFORCED = "ENFORCED"
    SHADOW = "SHADOW"
    OFF = "OFF"


class Severity(StrEnum):
    LOW_CONFID = "LOW_CONFID"
    REJECT = "REJECT"


@dataclass(frozen=True, slots=True)
class Citation:
    source_invocation_id: str
    tool_name: str
    raw_path: str
    evidence_excerpt: str


@dataclass(frozen=True, slots=True)
class Claim:
    claim_id: str
    kind: ClaimKind
    claim_text: str
    critical: bool
    evidence: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """An executor's proposal. `answer_version` is None where it did not state one."""

    answer_version: str | None
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class EvidenceRef:
    """One citable text: `raw_path` is a JSONPath into the invocation's output. `shown`: the model saw it."""

    raw_path: str
    text: str
    shown: bool = True
    relevance: Relevance | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """One tool call of the run, as the gate sees it."""

    invocation_id: str
    tool_name: str
    status: EvidenceStatus
    source_kind: SourceKind
    refs: Mapping[str, EvidenceRef]


@dataclass(frozen=True, slots=True)
class Case:
    """All that a judgement may depend on. `invocations` holds this run's only, by id."""

    draft: Draft
    invocations: Mapping[str, Invocation]
    input_texts: tuple[str, ...] = ()
    intent: Intent = Intent.DIAGNOSIS
    # Folded texts and read terms, so that no rule works a text twice. Not part of the value.
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RuleSetting:
    code: str
    mode: RuleMode
    severity: Severity
    params: Mapping[str, int | float | bool | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """An immutable, numbered set. `digest` is the SHA-256 of its canonical JSON (see `gatekeeper.rulesets`).

    `lowered`: the rules of the floor of safety that are below it (see `gatekeeper.floor`).
    """

    number: int
    digest: str
    rules: tuple[RuleSetting, ...]
    lowered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's answer about one claim.

    `passed` None means the rule does not apply to this claim. `compared` says what was held against
    what, bounded and safe to show with restricted reading only. `citation` is the index of the
    evidence item at fault.
    """

    code: str
    passed: bool | None
    reason: str
    compared: Mapping[str, str] = field(default_factory=dict)
    citation: int | None = None


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A finding under the mode and severity that were in force."""

    finding: Finding
    mode: RuleMode
    severity: Severity

    @property
    def effective_failure(self) -> bool:
        return self.finding.passed is False and self.mode is RuleMode.ENFORCED


@dataclass(frozen=True, slots=True)
class ClaimResult:
    claim: Claim
    accepted: bool
    rules: tuple[RuleResult, ...]

    @property
    def failed_codes(self) -> tuple[str, ...]:
        """Each once, in the rules' order."""
        return tuple(dict.fromkeys(r.finding.code for r in self.rules if r.effective_failure))


@dataclass(frozen=True, slots=True)
class GateResult:
    """The gate's whole answer.

    `draft_rules` are the rules about the draft as such (GK001); `enabled_rules` the settings in force, OFF left out.
    """

    verdict: Verdict
    rule_set_number: int
    rule_set_digest: str
    draft_rules: tuple[RuleResult, ...]
    claims: tuple[ClaimResult, ...]
    enabled_rules: tuple[RuleSetting, ...] = ()

    @property
    def accepted(self) -> tuple[Claim, ...]:
        return tuple(c.claim for c in self.claims if c.accepted)

    @property
    def removed(self) -> tuple[ClaimResult, ...]:
        return tuple(c for c in self.claims if not c.accepted)

    @property
    def version_ok(self) -> bool:
        return not any(r.effective_failure for r in self.draft_rules)
