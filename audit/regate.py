"""Judges stored runs again, from their ledger: the same gate, the same draft, any rule set.

The draft comes from the run's evaluation of itself, the evidence from `tool_invocation`, the input texts from what
the run was asked. Nothing is written, and no model is asked: what the executor would have made of a repair round, or
the verifier of a claim that comes back, is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from audit.models import ToolInvocation
from gatekeeper.gate import judge
from gatekeeper.serial import MalformedResult, from_dict
from gatekeeper.types import (
    Case,
    Draft,
    EvidenceRef,
    EvidenceStatus,
    GateResult,
    Intent,
    Invocation,
    Relevance,
    RuleSet,
    SourceKind,
    Verdict,
)
from runs.harness import drafts
from runs.harness.gating import texts_of
from runs.harness.run import Subject
from runs.harness.wire import ExecutorClaim
from runs.models import DiagnosisRun


class NotRegatable(Exception):
    """The run keeps nothing that could be judged. The text is one sentence."""


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """`before` None: the kept result does not know the claim. Rule codes are those that failed with effect."""

    claim_id: str
    before: bool | None
    after: bool
    failed_before: tuple[str, ...]
    failed_after: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.before is not self.after or self.failed_before != self.failed_after


@dataclass(frozen=True, slots=True)
class Regated:
    """`before` None: no result was kept. `after` is the new judgement as a whole."""

    run_id: str
    before: Verdict | None
    rule_set_before: int | None
    after: GateResult
    claims: tuple[ClaimChange, ...]

    @property
    def changed(self) -> bool:
        return self.before is not self.after.verdict or any(claim.changed for claim in self.claims)

    @property
    def changed_claims(self) -> tuple[ClaimChange, ...]:
        return tuple(claim for claim in self.claims if claim.changed)


def regate_all(runs: Sequence[DiagnosisRun], rule_set: RuleSet) -> list[Regated | NotRegatable]:
    """Each run's new judgement, or why it has none, in their order. One query, whatever the runs hold.

    Raises `gatekeeper.gate.UnknownRule` for a rule set of another program version.
    """
    recorded = _recorded(run.id for run in runs)
    answers: list[Regated | NotRegatable] = []
    for run in runs:
        try:
            answers.append(_regate(run, recorded.get(run.id, []), rule_set))
        except NotRegatable as error:
            answers.append(error)
    return answers


def regate(run: DiagnosisRun, rule_set: RuleSet) -> Regated:
    """Raises `NotRegatable`, and `UnknownRule` as `regate_all`."""
    (answer,) = regate_all([run], rule_set)
    if isinstance(answer, NotRegatable):
        raise answer
    return answer


def _regate(run: DiagnosisRun, recorded: Sequence[ToolInvocation], rule_set: RuleSet) -> Regated:
    case = _case(run, recorded)
    return compare(run.id, _kept_result(run, case.draft), judge(case, rule_set))


def _case(run: DiagnosisRun, recorded: Sequence[ToolInvocation]) -> Case:
    """What the gate judged, or would judge."""
    kept = _verifier_evaluation(run).get("executor_structured_output")
    if not isinstance(kept, Mapping):
        raise NotRegatable(f"{run.id} keeps no draft.")
    try:
        draft = _draft(kept)
        subject = Subject.model_validate(run.subject)
    except (ValidationError, KeyError, TypeError) as error:
        raise NotRegatable(f"The draft or the subject of {run.id} cannot be read.") from error
    try:
        invocations = {row.invocation_id: _invocation(row) for row in recorded}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotRegatable(f"The evidence of {run.id} cannot be read.") from error
    intent = Intent(run.intent) if run.intent else Intent.DIAGNOSIS
    return Case(draft, invocations, texts_of(run.query, subject), intent)


def compare(run_id: str, before: GateResult | None, after: GateResult) -> Regated:
    """Claim by claim, in the order of the draft."""
    known = list(before.claims) if before else []
    claims = []
    for place, now in enumerate(after.claims):
        then = known[place] if place < len(known) and known[place].claim.claim_id == now.claim.claim_id else None
        claims.append(
            ClaimChange(
                claim_id=now.claim.claim_id,
                before=then.accepted if then else None,
                after=now.accepted,
                failed_before=then.failed_codes if then else (),
                failed_after=now.failed_codes,
            )
        )
    number = before.rule_set_number if before else None
    return Regated(run_id, before.verdict if before else None, number, after, tuple(claims))


def _verifier_evaluation(run: DiagnosisRun) -> Mapping[str, Any]:
    kept = (run.self_evaluation or {}).get("verifier_evaluation")
    return kept if isinstance(kept, Mapping) else {}


def _draft(kept: Mapping[str, Any]) -> Draft:
    claims = tuple(drafts.claim_from_wire(ExecutorClaim.model_validate(claim)) for claim in kept["claims"])
    return Draft(kept.get("answer_version"), claims)


def _recorded(run_ids: Iterable[str]) -> dict[str, list[ToolInvocation]]:
    """By run. Only what the gate looks at is read: outputs are long."""
    columns = ("run_id", "invocation_id", "tool_name", "evidence_status", "source_kind", "evidence_refs")
    found: dict[str, list[ToolInvocation]] = {}
    for row in ToolInvocation.objects.filter(run_id__in=list(run_ids)).only(*columns):
        found.setdefault(row.run_id or "", []).append(row)
    return found


def _invocation(row: ToolInvocation) -> Invocation:
    refs = {
        ref["raw_path"]: EvidenceRef(
            raw_path=ref["raw_path"],
            text=ref["text"],
            shown=ref.get("shown", True),
            relevance=Relevance(ref["relevance"]) if ref.get("relevance") else None,
        )
        for ref in row.evidence_refs
    }
    status, kind = EvidenceStatus(row.evidence_status), SourceKind(row.source_kind)
    return Invocation(row.invocation_id, row.tool_name, status, kind, refs)


def _kept_result(run: DiagnosisRun, draft: Draft) -> GateResult | None:
    """The round that judged the draft that was kept: after a repair there are two, and the better draft stands."""
    rounds = _verifier_evaluation(run).get("gatekeeper_result", {}).get("rounds", [])
    results = []
    for kept in rounds:
        try:
            results.append(from_dict(kept))
        except MalformedResult:
            continue
    for result in reversed(results):
        if tuple(judged.claim for judged in result.claims) == draft.claims:
            return result
    return results[-1] if results else None
