"""What is left of runs whose records were removed: told to whoever might have seen the run, in place of "not found"."""

from audit.models import PrunedRun
from runs.access import ApiError, Caller, may_see_session, visible_run
from runs.models import ChatSession, DiagnosisRun

GONE = 410


def tombstone_of(caller: Caller, run_id: str) -> PrunedRun | None:
    """The run's tombstone, or None where it was not pruned or belongs to somebody else's session."""
    found = PrunedRun.objects.filter(run_id=run_id).first() if "\0" not in run_id else None
    if found is None:
        return None
    session = ChatSession.objects.filter(id=found.session_id).first()
    visible = caller.sees_all_sessions if session is None else may_see_session(caller, session)
    return found if visible else None


def visible_run_or_tombstone(caller: Caller, run_id: str) -> DiagnosisRun:
    """A run that the caller may see. Raises `ApiError` 410, with its tombstone, where it was pruned; else 404."""
    try:
        return visible_run(caller, run_id)
    except ApiError:
        tombstone = tombstone_of(caller, run_id)
        if tombstone is None:
            raise
        details = {
            "runId": tombstone.run_id,
            "sessionId": tombstone.session_id,
            "prunedAt": tombstone.pruned_at.isoformat(),
            "prunedBy": tombstone.pruned_by,
            "reason": tombstone.reason,
            "events": tombstone.trace_event_count,
            "lastHash": tombstone.trace_head_hash,
        }
        raise ApiError(GONE, "RUN_PRUNED", "The records of this run were removed.", details) from None
