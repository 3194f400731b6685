"""Conclusions of runs that no pipeline brought to an end: cancelled from outside, or failed."""

from collections.abc import Iterable
from typing import Any

from gatekeeper.models import RuleSet
from runs.errors import CANCEL_SENTENCES, FAILURE_SENTENCES, CancelReason, FailureCode
from runs.harness.release import floor_sentence
from runs.harness.run import Conclusion, Emitted, SafeContent

NOTHING = Emitted()


def cancelled(reason: CancelReason, emitted: Emitted = NOTHING, looked_at: Iterable[str] = ()) -> Conclusion:
    """`emitted`: by the attempt that ends. `looked_at`: one bounded line a tool call."""
    return Conclusion(
        status="CANCELLED",
        cancel_reason=reason,
        safe_content=_safe("The run was cancelled.", CANCEL_SENTENCES[reason], looked_at),
        self_evaluation={},
        emitted=emitted,
    )


def failed(code: FailureCode, emitted: Emitted = NOTHING, looked_at: Iterable[str] = ()) -> Conclusion:
    """As `cancelled`, for a run that failed."""
    return Conclusion(
        status="FAILED",
        failure_code=code,
        safe_content=_safe("The run failed.", FAILURE_SENTENCES[code], looked_at),
        self_evaluation={},
        emitted=emitted,
    )


def safe_content(conclusion: Conclusion, rule_set: int | None) -> dict[str, Any]:
    """What is stored of a run's end for anyone to read, as JSON. `rule_set`: number of the run's set, if it has one.

    A pipeline says itself that the floor of safety was lowered; here the others say so.
    """
    safe = conclusion.safe_content
    if rule_set is not None and conclusion.status in {"CANCELLED", "FAILED"}:
        lowered = RuleSet.objects.filter(number=rule_set).values_list("lowered", flat=True).first()
        if lowered:
            safe = safe.model_copy(update={"reason": f"{safe.reason} {floor_sentence(rule_set, lowered)}"})
    return safe.model_dump(mode="json", by_alias=True)


def _safe(headline: str, reason: str, looked_at: Iterable[str]) -> SafeContent:
    return SafeContent(headline=headline, reason=reason, looked_at=[line[:300] for line in looked_at][:40])
