"""The semantic check: a model says whether each claim follows, code enforces that it said so properly."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from gatekeeper.types import Claim, Verdict
from runs.harness import fidelity, inputs
from runs.harness.asking import ask
from runs.harness.context import RunContext
from runs.harness.digest import content_digest
from runs.harness.events import EventType, SemanticDecision
from runs.harness.ports import Role
from runs.harness.wire import VerifierEvaluation

LEAST_SCORE_TO_PASS = 0.5


@dataclass(frozen=True, slots=True)
class Judged:
    """The verifier's word after code has held it to its contract. `evaluation` is its answer as it came."""

    verdict: Verdict
    supported: tuple[str, ...]
    violations: tuple[str, ...]
    score: float | None
    evaluation: dict[str, Any] | None


def enforce(evaluation: VerifierEvaluation | None, claims: tuple[Claim, ...]) -> Judged:
    """Holds an evaluation to its contract. A broken contract is never better than LOW_CONFID.

    A claim counts as supported only when it was checked exactly once and found supported. Where the
    answer as a whole cannot be used (nothing, or no claim of ours properly checked), those claims stand, at
    LOW_CONFID, that say no more than their excerpts do, but for those that it found unsupported.
    """
    if evaluation is None:
        quoted = unjudged(claims)
        verdict = Verdict.LOW_CONFID if quoted else Verdict.REJECT
        return Judged(verdict, tuple(claim.claim_id for claim in quoted), ("UNUSABLE_ANSWER",), None, None)
    ids = [claim.claim_id for claim in claims]
    violations = _violations(evaluation, ids)
    checks = {check.claim_id: check.supported for check in evaluation.claim_checks}
    counts = Counter(check.claim_id for check in evaluation.claim_checks)
    if not any(counts[id_] == 1 for id_ in ids):
        refused = {check.claim_id for check in evaluation.claim_checks if not check.supported}
        supported = tuple(claim.claim_id for claim in unjudged(claims) if claim.claim_id not in refused)
    else:
        supported = tuple(id_ for id_ in ids if counts[id_] == 1 and checks[id_])
    if evaluation.verdict is Verdict.PASS and _score_says_otherwise(evaluation, claims):
        violations.append("SCORE_CONTRADICTS_VERDICT")
    unsupported_critical = any(claim.critical and claim.claim_id not in supported for claim in claims)
    if unsupported_critical and evaluation.verdict is Verdict.PASS:
        violations.append("PASS_OVER_UNSUPPORTED_CRITICAL")
    verdict = evaluation.verdict
    if violations or unsupported_critical:
        verdict = Verdict.worst(verdict, Verdict.LOW_CONFID)
    if not supported:
        verdict = Verdict.REJECT
    return Judged(
        verdict, supported, tuple(violations), evaluation.groundedness_score, evaluation.model_dump(mode="json")
    )


def unjudged(claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Those of claims that no verifier has judged which may stand: their words are their excerpts' own."""
    return tuple(claim for claim in claims if fidelity.quotes(claim))


def _score_says_otherwise(evaluation: VerifierEvaluation, claims: tuple[Claim, ...]) -> bool:
    """A PASS over what is mostly not grounded, or over critical claims of which none was looked at."""
    unread = not evaluation.facts_checked and any(claim.critical for claim in claims)
    return evaluation.groundedness_score < LEAST_SCORE_TO_PASS or unread


def _violations(evaluation: VerifierEvaluation, ids: list[str]) -> list[str]:
    known = set(ids)
    counts = Counter(check.claim_id for check in evaluation.claim_checks)
    found = []
    if not evaluation.claim_checks:
        found.append("NO_CHECKS")
    if any(counts[id_] == 0 for id_ in ids):
        found.append("CLAIM_NOT_CHECKED")
    if any(count > 1 for count in counts.values()):
        found.append("CLAIM_CHECKED_TWICE")
    if any(id_ not in known for id_ in counts):
        found.append("UNKNOWN_CLAIM")
    if any(id_ not in known for id_ in evaluation.facts_checked):
        found.append("UNKNOWN_FACT")
    if evaluation.critical_fact_count > len(ids):
        found.append("CRITICAL_COUNT_TOO_HIGH")
    return found


async def verify(ctx: RunContext, claims: tuple[Claim, ...]) -> Judged:
    """Asks the verifier and records the decision. Raises `BudgetExhausted`, `ModelError`."""
    answer = await ask(ctx, Role.CHAT_VERIFIER, (inputs.for_judges(ctx, claims),))
    evaluation = answer.parsed if isinstance(answer.parsed, VerifierEvaluation) else None
    judged = enforce(evaluation, claims)
    ctx.emit(
        EventType.SEMANTIC_GUARD_DECISION,
        SemanticDecision(
            verdict=judged.verdict.value,
            groundedness_score=judged.score,
            supported=len(judged.supported),
            unsupported=len(claims) - len(judged.supported),
            contract_violations=judged.violations,
        ),
        f"{judged.verdict.value}: {len(judged.supported)} of {len(claims)} claim(s) follow from their evidence",
        status=judged.verdict.value,
        step_id=answer.step_id,
        content_digest=content_digest(judged.evaluation),
    )
    return judged
