"""What the pages of runs share."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from http import HTTPStatus
from typing import Concatenate, ParamSpec, TypeAlias

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from audit.pages.runlist import RunRow, readable, run_row
from audit.tombstones import tombstone_of
from runs.access import ApiError, Caller, visible_run
from runs.models import DiagnosisRun
from runs.pages.view import page_view

P = ParamSpec("P")
LARGEST_SEQUENCE_NO = 2**31 - 1


View: TypeAlias = Callable[Concatenate[HttpRequest, Caller, P], HttpResponse]


def for_people_with(*permissions: str) -> Callable[[View[P]], Callable[Concatenate[HttpRequest, P], HttpResponse]]:
    """A page for people who have one of these permissions."""

    def decorate(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        @page_view
        @wraps(view)
        def page(request: HttpRequest, caller: Caller, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not any(request.user.has_perm(permission) for permission in permissions):
                raise PermissionDenied
            return view(request, caller, *args, **kwargs)

        return page

    return decorate


def person_of(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "only people who are signed in come here"
    return request.user


def listed(runs: QuerySet[DiagnosisRun], limit: int) -> list[tuple[DiagnosisRun, RunRow]]:
    """The first of them, each with how the list of runs shows it. One query."""
    now = datetime.now(UTC)
    return [(run, run_row(run, now)) for run in readable(runs)[:limit]]


def run_or_404(caller: Caller, run_id: str) -> DiagnosisRun:
    try:
        return visible_run(caller, run_id)
    except ApiError as error:
        raise Http404(error.message) from error


def tells_of_pruned(
    view: Callable[Concatenate[HttpRequest, Caller, str, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, Caller, str, P], HttpResponse]:
    """For views of one run: 410 and its tombstone where it was pruned. Stands under `page_view`.

    A page that was open meanwhile asks for a part of itself: it is told to load itself again.
    """

    @wraps(view)
    def told(request: HttpRequest, caller: Caller, run_id: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(request, caller, run_id, *args, **kwargs)
        except Http404:
            tombstone = tombstone_of(caller, run_id)
            if tombstone is None:
                raise
            response = render(request, "runs/pruned.html", {"tombstone": tombstone}, status=HTTPStatus.GONE)
            if request.htmx:  # type: ignore[attr-defined]
                response["HX-Refresh"] = "true"
            return response

    return told
