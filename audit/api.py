"""The trace over HTTP. Mounted under /api by `superbiz.api`.

GET /diagnosis/{sessionId}/trace?runId=            scope runs:read
GET /diagnosis/{sessionId}/trace/reasoning?runId=  scope reasoning:read; each read is recorded
"""

from typing import Annotated, Any

from django.db import connection
from django.http import HttpRequest, HttpResponse
from ninja import Path, Query, Router

from audit.readings import record_access
from audit.shapes import (
    ReasoningListShape,
    ReasoningShape,
    RunShape,
    SessionShape,
    TraceShape,
    run_shape,
    trace_shape,
)
from audit.tombstones import visible_run_or_tombstone
from audit.trace import load_legacy_trace, load_reasoning, load_trace
from runs.access import ApiError, Caller, caller_auth, may_see_session, require
from runs.models import ChatSession, DiagnosisRun
from runs.models.token import Scope

router = Router(tags=["trace"], auth=caller_auth, by_alias=True)

RUNS_OF_SESSION = 50
_OF_SESSION = """
    SELECT ARRAY(SELECT id FROM diagnosis_run WHERE session_id = %(session)s
                 ORDER BY queued_at DESC, id DESC LIMIT %(most)s),
           EXISTS (SELECT FROM diagnosis_trace_event WHERE session_id = %(session)s AND run_id IS NULL)
"""

RunIdParameter = Annotated[str | None, Query(alias="runId")]


def run_for(caller: Caller, run: DiagnosisRun) -> RunShape:
    """A run as this caller may see it. Reading the restricted parts of its evaluation is put on record."""
    may_read = caller.may(Scope.REASONING_READ)
    if may_read and run.self_evaluation is not None:
        record_access(caller, run.id, "self_evaluation")
    return run_shape(run, may_read_reasoning=may_read)


def _session(caller: Caller, session_id: str) -> ChatSession | None:
    """None: there is no such session, though records may carry its name. 404 for a hidden one."""
    session = ChatSession.objects.filter(id=session_id).first() if "\0" not in session_id else None
    if session is not None and not may_see_session(caller, session):
        raise _not_found()
    return session


def session_shape(session_id: str, *, exists: bool = True) -> SessionShape:
    """What a trace says of its session. `exists` False: records carry its name, and it has no row. One query."""
    if "\0" in session_id:
        return SessionShape(session_id=session_id, run_ids=[], legacy_records=False)
    with connection.cursor() as cursor:
        cursor.execute(_OF_SESSION, {"session": session_id, "most": RUNS_OF_SESSION})
        run_ids, legacy = cursor.fetchone()
    return SessionShape(session_id=session_id, run_ids=run_ids if exists else [], legacy_records=legacy)


def _not_found() -> ApiError:
    return ApiError(404, "TRACE_NOT_FOUND", "There is no trace of this session.")


def _run_of_session(caller: Caller, session_id: str, run_id: str) -> DiagnosisRun:
    run = visible_run_or_tombstone(caller, run_id)
    if run.session_id != session_id:
        raise ApiError(404, "RUN_NOT_FOUND", "There is no such run.")
    return run


@router.get("/diagnosis/{session_id}/trace", response=TraceShape, summary="The trace of a run")
def trace(
    request: HttpRequest,
    response: HttpResponse,
    session_id: Path[str],
    run_id: RunIdParameter = None,
) -> Any:
    """Without `runId`: the session's latest run or, where there is none, its records from before runs had ids."""
    caller = require(request.auth, Scope.RUNS_READ)  # type: ignore[attr-defined]
    session = _session(caller, session_id)
    about = session_shape(session_id, exists=session is not None)
    wanted = run_id or (about.run_ids[0] if about.run_ids else None)
    if wanted is None:
        found = load_legacy_trace(session_id) if about.legacy_records else None
        if found is None:
            raise _not_found()
        return trace_shape(found, run=None, chat_session=session, session=about)
    run = _run_of_session(caller, session_id, wanted)
    shape = run_for(caller, run)
    if shape.self_evaluation is not None and caller.may(Scope.REASONING_READ):
        response["Cache-Control"] = "no-store"
    return trace_shape(load_trace(run), run=shape, chat_session=session, session=about)


@router.get(
    "/diagnosis/{session_id}/trace/reasoning", response=ReasoningListShape, summary="Reasoning and assistant text"
)
def reasoning(
    request: HttpRequest,
    response: HttpResponse,
    session_id: Path[str],
    run_id: RunIdParameter = None,
) -> Any:
    """Needs `runId`. The access is on record before the text is read."""
    caller = require(request.auth, Scope.REASONING_READ)  # type: ignore[attr-defined]
    response["Cache-Control"] = "no-store"
    if not run_id:
        raise ApiError(400, "RUN_ID_REQUIRED", "Name the run with runId.")
    run = _run_of_session(caller, session_id, run_id)
    record_access(caller, run.id, "reasoning")
    entries = [ReasoningShape.model_validate(entry) for entry in load_reasoning(run.id)]
    return ReasoningListShape(run_id=run.id, session_id=run.session_id, reasoning=entries)
