"""One chat turn, from the question to the answer, in six steps.

    1  read the session's context        runs.recall.memory_of     worker, when it claims the run
    2  start the run's boundary          runs.driver               worker: lease, deadline, cancelling, one failure exit
    3  persist the start, tell the caller   `ask`, below           web: the row is committed before anyone is told
    4  route                             runs.harness.routing      worker: one model call, rules where it is no use
    5  the path of the intent            runs.harness.chatroad     worker
    6  finish once, answer               runs.lifecycle.finish     worker; the caller reads the row or its stream

The web process does no more than step 3, so a question costs it one transaction, and whatever happens to the worker,
the caller holds an id under which the run is found, watched and cancelled. The context is read as late as can be:
a turn that ended while this one waited is remembered. Step 2 has the one exit for everything that goes wrong: each
error ends the run as CANCELLED with its reason or FAILED with a code from the closed list (`runs.driver`).
"""

import re
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string

from gatekeeper.text import fold, legible
from runs import lifecycle
from runs.access import ApiError, Caller, may_continue_session, may_see_session
from runs.harness.run import Subject
from runs.lifecycle import RunRequest, open_session, queue_run
from runs.models import ChatSession, DiagnosisRun
from runs.models.run import Trigger
from runs.models.session import SESSION_ID_PATTERN
from runs.recall import cut
from runs.tasks import enqueue
from runs.tools.redaction import clean

MAX_QUERY_CHARS = 2000
TITLE_CHARS = 200
RESERVED = ("alert-", "rehearsal-")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SESSION_ID = re.compile(SESSION_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller is told of an accepted question."""

    run_id: str
    session_id: str


def ask(caller: Caller, query: str, session_id: str | None = None, run_id: str | None = None) -> Asked:
    """Accept a question: its run is committed and handed to the workers.

    `session_id` None opens a new session; one that does not exist is opened under that id. `run_id`: given out with
    the form that the question was typed into, or chosen by the caller, so that what is sent twice asks once. Raises
    `ApiError`: 422 for a query or an id that cannot be, 404 for a session that the caller may not see, 403 for one
    that it may see but that is another person's.
    """
    question = check_query(query)
    if session_id is not None:
        check_session_id(session_id)
    try:
        with transaction.atomic():
            asked = _queue(caller, question, session_id, run_id=run_id)
    except IntegrityError:
        if run_id is None:
            raise
        return _asked_before(caller, question, session_id, run_id) or ask(caller, query, session_id)
    enqueue([asked.run_id])
    return asked


def _asked_before(caller: Caller, question: str, session_id: str | None, run_id: str) -> Asked | None:
    """None: under that id something else was asked, or somewhere else, or by somebody else."""
    by = {"requested_by_id": caller.user_id, "requested_by_token_id": caller.token_id}
    found = DiagnosisRun.objects.filter(id=run_id, query=question, **by).values_list("session_id", flat=True).first()
    return Asked(run_id, found) if found is not None and session_id in {None, found} else None


def ask_again(run: DiagnosisRun, caller: Caller) -> Asked:
    """Ask an ended run's question again in its session. Inside a transaction. Raises `ApiError` as `ask` does."""
    asked = _queue(caller, check_query(run.query), run.session_id, again_of=run.id)
    transaction.on_commit(lambda: enqueue([asked.run_id]))
    return asked


def _queue(
    caller: Caller, question: str, session_id: str | None, again_of: str | None = None, run_id: str | None = None
) -> Asked:
    session = _enter(caller, session_id, title=cut(question, TITLE_CHARS))
    run_id = queue_run(
        RunRequest(
            session_id=session,
            trigger=Trigger.CHAT,
            query=question,
            subject=Subject(),
            requested_by=caller.user_id,
            requested_by_token=caller.token_id,
            again_of=again_of,
            run_id=run_id,
        )
    )
    return Asked(run_id, session)


def check_query(query: str) -> str:
    """The question as it is kept: secrets masked, nothing around it. Raises `ApiError` 422."""
    if len(query) > MAX_QUERY_CHARS:
        raise ApiError(422, "QUERY_TOO_LONG", f"A question has at most {MAX_QUERY_CHARS} characters.")
    if _UNSTORABLE.search(query):
        raise ApiError(422, "QUERY_NOT_TEXT", "The question holds a NUL or half a character.")
    question = clean(query).strip()[:MAX_QUERY_CHARS]
    if not fold(legible(question)):
        raise ApiError(422, "QUERY_EMPTY", "The question is empty.")
    return question


def check_session_id(session_id: str) -> None:
    """Raises `ApiError` 422."""
    if not _SESSION_ID.match(session_id):
        message = "A session id has 1 to 64 letters, digits, dots, dashes and underscores, and begins with no mark."
        raise ApiError(422, "SESSION_ID_INVALID", message)


def clear(caller: Caller, session_id: str) -> datetime:
    """Forget the turns so far; their record stays. Returns since when. Raises `ApiError` 404 or 403."""
    session = ChatSession.objects.filter(id=session_id).first() if "\0" not in session_id else None
    if session is None:
        raise _no_session()
    _check_continues(caller, session)
    return lifecycle.clear_session(session_id)


def _enter(caller: Caller, session_id: str | None, title: str) -> str:
    if session_id is None:
        session_id = f"chat-{get_random_string(20).lower()}"
    elif session_id.startswith(RESERVED) and not ChatSession.objects.filter(id=session_id).exists():
        raise ApiError(
            422, "SESSION_ID_RESERVED", f"Ids that begin with {' or '.join(RESERVED)} are given out by SuperBiz."
        )
    if not open_session(session_id, title=title, owner_id=caller.user_id):
        _check_continues(caller, ChatSession.objects.get(id=session_id))
    return session_id


def _check_continues(caller: Caller, session: ChatSession) -> None:
    if not may_see_session(caller, session):
        raise _no_session()
    if not may_continue_session(caller, session):
        raise ApiError(403, "FORBIDDEN", "This session is another person's.")


def _no_session() -> ApiError:
    return ApiError(404, "SESSION_NOT_FOUND", "There is no such session.")
