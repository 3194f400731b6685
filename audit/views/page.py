"""What the pages of runs share."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Concatenate, ParamSpec

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from audit.tombstones import tombstone_of
from runs.access import ApiError, Caller, visible_run
from runs.models import DiagnosisRun

P = ParamSpec("P")
LARGEST_SEQUENCE_NO = 2**31 - 1


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
