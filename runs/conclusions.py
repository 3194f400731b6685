"""Conclusions of runs that no pipeline brought to an end: cancelled from outside, or failed."""

from collections.abc import Iterable

from runs.errors import CANCEL_SENTENCES, FAILURE_SENTENCES, CancelReason, FailureCode
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


def _safe(headline: str, reason: str, looked_at: Iterable[str]) -> SafeContent:
    return SafeContent(headline=headline, reason=reason, looked_at=[line[:300] for line in looked_at][:40])
