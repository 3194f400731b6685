"""Who calls, and what they may do.

A caller is a signed-in person (session cookie, with CSRF for methods that change something) or a token
(`Authorization: Bearer …`). Tokens carry scopes. People have them by who they are:

    signed in                              runs:read, chat:write, runs:cancel
    the permission runs.submit_alerts      alerts:write as well
    the permission audit.read_reasoning    reasoning:read as well

What a person reads are the runs that belong to nobody, such as those of alerts, and their own; what they cancel are
their own. `runs.see_all_sessions` and `runs.cancel_any_run` lift that. Superusers have every permission. Whether
somebody `is_staff` only says that the admin lets them in.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware
from ninja.security.base import AuthBase

from runs.models import ApiToken, ChatSession, DiagnosisRun
from runs.models.token import Scope
from runs.orm import run_in_orm

PERSON_SCOPES = frozenset({Scope.RUNS_READ, Scope.CHAT_WRITE, Scope.RUNS_CANCEL})
SEE_ALL_SESSIONS = "runs.see_all_sessions"
CANCEL_ANY_RUN = "runs.cancel_any_run"
SUBMIT_ALERTS = "runs.submit_alerts"
READ_REASONING = "audit.read_reasoning"
PERMISSION_OF_SCOPE: dict[str, str] = {Scope.ALERTS_WRITE: SUBMIT_ALERTS, Scope.REASONING_READ: READ_REASONING}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
LAST_USED_EVERY = timedelta(minutes=1)


class ApiError(Exception):
    """An answer of the API that is an error. `message` is safe for anyone to read."""

    def __init__(self, status: int, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details


@dataclass(frozen=True, slots=True)
class Caller:
    """Exactly one of `user` and `token` is set."""

    user: User | None = None
    token: ApiToken | None = None

    @property
    def name(self) -> str:
        """For the record: the user's name, or `token:NAME`."""
        return self.user.get_username() if self.user else f"token:{self.token.name if self.token else ''}"

    @property
    def user_id(self) -> int | None:
        return self.user.pk if self.user else None

    @property
    def token_id(self) -> int | None:
        return self.token.pk if self.token else None

    def may(self, scope: str) -> bool:
        """Whether the caller holds a scope. May query the database for a person's permissions."""
        if self.token is not None:
            return scope in self.token.scopes
        if self.user is None:
            return False
        permission = PERMISSION_OF_SCOPE.get(scope)
        return self.user.has_perm(permission) if permission else scope in PERSON_SCOPES

    @property
    def sees_all_sessions(self) -> bool:
        """Tokens speak for no person, and only who sees all sessions may make them. May query the database."""
        return self.token is not None or (self.user is not None and self.user.has_perm(SEE_ALL_SESSIONS))


# ---- who it is ------------------------------------------------------------------------------------------------


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _token_caller(header: str) -> Caller:
    scheme, _, text = header.partition(" ")
    token, digest, now = None, token_digest(text.strip()), datetime.now(UTC)
    if scheme.lower() == "bearer" and text.strip():
        answers = Q(digest=digest) | Q(previous_digest=digest, previous_ends_at__gt=now)
        token = ApiToken.objects.filter(answers, revoked_at__isnull=True).first()
    if token is None:
        raise ApiError(401, "UNAUTHENTICATED", "The token is not known or was revoked.")
    _note_use(token, "last_used_at" if token.digest == digest else "previous_used_at", now)
    return Caller(token=token)


def _note_use(token: ApiToken, column: str, now: datetime) -> None:
    noted = getattr(token, column)
    if noted is None or noted < now - LAST_USED_EVERY:
        stale = Q(**{f"{column}__isnull": True}) | Q(**{f"{column}__lt": now - LAST_USED_EVERY})
        ApiToken.objects.filter(stale, pk=token.pk).update(**{column: now})


class _CsrfCheck(CsrfViewMiddleware):
    """Django's own check, whose refusal is told as a reason instead of a page."""

    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def _never_called(_request: HttpRequest) -> Any:
    raise AssertionError("the CSRF check passes requests on by itself")


def _check_csrf(request: HttpRequest) -> None:
    # API views are exempt from the middleware, because tokens need no CSRF; so the check is made here.
    check = _CsrfCheck(_never_called)
    check.process_request(request)
    if check.process_view(request, _never_called, (), {}) is not None:
        raise ApiError(403, "CSRF_FAILED", "The CSRF token is missing or wrong.")


def caller_of(request: HttpRequest) -> Caller | None:
    """The caller, or None where nobody is signed in. Raises `ApiError` for a bad token or a failed CSRF check."""
    header = request.headers.get("Authorization", "")
    if header:
        return _token_caller(header)
    caller = _person(request.user)
    if caller is not None and request.method not in SAFE_METHODS:
        _check_csrf(request)
    return caller


def _person(user: object) -> Caller | None:
    return Caller(user=user) if isinstance(user, User) and user.is_active else None


def caller_now(request: HttpRequest) -> Caller | None:
    """Who the caller of a request that takes long is by now: None once they have signed out or were deactivated.

    Session, person and permissions are read anew. Raises `ApiError` where the token does not hold any more.
    """
    header = request.headers.get("Authorization", "")
    if header:
        return _token_caller(header)
    anew = HttpRequest()
    anew.session = type(request.session)(request.session.session_key)
    return _person(get_user(anew))


async def authenticate(request: HttpRequest) -> Caller | None:
    """`caller_of` for async views."""
    return await run_in_orm(caller_of, request)


class _CallerAuth(AuthBase):
    """django-ninja's hook: the caller becomes `request.auth`."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    # Has the docs page send the CSRF token of whoever is signed in.
    csrf = True

    def __call__(self, request: HttpRequest) -> Caller:
        caller = caller_of(request)
        if caller is None:
            raise ApiError(401, "UNAUTHENTICATED", "Sign in or send a token.")
        return caller


class _AsyncCallerAuth(_CallerAuth):
    """The same for async views: the database is asked in the executor of `runs.orm`, which holds no connection."""

    async def __call__(self, request: HttpRequest) -> Caller:  # type: ignore[override]
        return await run_in_orm(super().__call__, request)


caller_auth: Callable[[HttpRequest], Caller] = _CallerAuth()
async_caller_auth = _AsyncCallerAuth()


# ---- what they may do -----------------------------------------------------------------------------------------


def require(caller: Caller | None, scope: str) -> Caller:
    """The caller, if it may; else raises `ApiError` 401 or 403."""
    if caller is None:
        raise ApiError(401, "UNAUTHENTICATED", "Sign in or send a token.")
    if not caller.may(scope):
        raise ApiError(403, "FORBIDDEN", f"This needs the scope {scope}.")
    return caller


def may_see_session(caller: Caller, session: ChatSession) -> bool:
    """Sessions of other people are theirs; sessions without an owner are everyone's who may read runs."""
    return caller.sees_all_sessions or session.owner_id in {None, caller.user_id}


def may_cancel(caller: Caller, run: DiagnosisRun) -> bool:
    """People cancel the runs of their own sessions, and with the permission any that they see. Needs `run.session`."""
    if not caller.may(Scope.RUNS_CANCEL):
        return False
    if caller.user is None:
        return True
    return run.session.owner_id == caller.user_id or caller.user.has_perm(CANCEL_ANY_RUN)


def may_continue_session(caller: Caller, session: ChatSession) -> bool:
    """Nobody speaks in another person's session, also who may read it; a token speaks for no person."""
    return session.owner_id is None or session.owner_id == caller.user_id


def visible_runs(caller: Caller) -> QuerySet[DiagnosisRun]:
    """The runs that the caller may read: the one place that decides it."""
    runs = DiagnosisRun.objects.all()
    if caller.sees_all_sessions:
        return runs
    return runs.filter(Q(session__owner__isnull=True) | Q(session__owner_id=caller.user_id))


def visible_run(caller: Caller, run_id: str) -> DiagnosisRun:
    """One such run, with its session; raises `ApiError` 404, the same for a hidden run as for none."""
    run = visible_runs(caller).select_related("session").filter(id=run_id).first() if "\0" not in run_id else None
    if run is None:
        raise ApiError(404, "RUN_NOT_FOUND", "There is no such run.")
    return run
