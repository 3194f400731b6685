"""The pages of runs: the list, one run with its timeline, the restricted texts behind an event.

One view serves a whole page and the part of it that htmx asks for; which part, the target's id says. Every address
renders whole without JavaScript.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from audit.api import record_access
from audit.pages.details import Panel, panel_of
from audit.pages.restricted import restricted_texts, what_of
from audit.pages.runlist import read_filters, watched_rows
from audit.pages.runlist import run_page as runs_of_page
from audit.pages.runpage import run_view
from audit.pages.words import STATUS_WORDS, TRIGGER_WORDS
from audit.trace import timeline_page
from runs import lifecycle
from runs.access import ApiError, Caller, visible_run
from runs.errors import CancelReason
from runs.models import DiagnosisRun
from runs.models.run import RunOutcome, RunStatus, Trigger
from runs.models.token import Scope

P = ParamSpec("P")
LARGEST_SEQUENCE_NO = 2**31 - 1


def _page(
    view: Callable[Concatenate[HttpRequest, Caller, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """For signed-in people. A browser that kept the page asks before it shows it again."""

    @wraps(view)
    def page(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return _to_sign_in(request)
        response = view(request, Caller(user=request.user), *args, **kwargs)
        if not response.has_header("Cache-Control"):
            patch_cache_control(response, private=True, no_cache=True)
        patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response

    return page


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A part of a page cannot be the sign-in page: htmx is told to leave for it, and to come back to where it was."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    if not htmx:
        return redirect_to_login(request.get_full_path())
    try:
        where = htmx.current_url_abs_path or "/"
    except ValueError:  # the header holds no address
        where = "/"
    there = redirect_to_login(where)
    return HttpResponse(headers={"HX-Redirect": there["Location"]})


def _target(request: HttpRequest) -> str:
    """Id of the element that htmx will fill; empty where the whole page is asked for."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return (htmx.target or "") if htmx and not htmx.history_restore_request else ""


def _run(caller: Caller, run_id: str) -> DiagnosisRun:
    try:
        return visible_run(caller, run_id)
    except ApiError as error:
        raise Http404(error.message) from error


# ---- the list -------------------------------------------------------------------------------------------------


@require_safe
@_page
def run_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    filters = read_filters(request.GET.dict())
    try:
        page = runs_of_page(caller, filters, request.GET.get("before"))
    except ApiError as error:
        raise BadRequest(error.message) from error
    context = {
        "page": page,
        "filters": filters,
        "before": "before" in request.GET,
        "statuses": [(value, STATUS_WORDS[value]) for value in RunStatus.values],
        "outcomes": [(value, STATUS_WORDS[value]) for value in RunOutcome.values],
        "triggers": [(value, TRIGGER_WORDS[value]) for value in Trigger.values],
        "webhook": request.build_absolute_uri("/api/alerts/alertmanager"),
    }
    part = {"run-list": "runs/parts/runs.html", "older": "runs/parts/older.html"}.get(_target(request))
    return render(request, part or "runs/list.html", context)


@require_safe
@_page
def watched_runs(request: HttpRequest, caller: Caller) -> HttpResponse:
    """The rows that the list shows as open, as they are now, and what to ask for next."""
    rows = watched_rows(caller, request.GET.getlist("id"))
    return render(request, "runs/parts/watched.html", {"rows": rows, "open_ids": [row.id for row in rows if row.open]})


# ---- one run --------------------------------------------------------------------------------------------------


def _selected(run: DiagnosisRun, request: HttpRequest) -> Panel | None:
    """The event that the address names; 404 where the run has none of that number."""
    asked = request.GET.get("event", "")
    if not asked:
        return None
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    panel = panel_of(run, number) if number else None
    if panel is None:
        raise Http404(_("The run has no such event."))
    return panel


@require_safe
@_page
def run_page(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    run = _run(caller, run_id)
    target = _target(request)
    context = {"run_id": run.id, "may_read": caller.may(Scope.REASONING_READ)}
    if target == "panel":
        return render(request, "runs/parts/panel.html", context | {"panel": _selected(run, request)})
    context |= {"run": run_view(run), "may_cancel": caller.may(Scope.RUNS_CANCEL)}
    if target == "run":
        return render(request, "runs/parts/run.html", context)
    return render(request, "runs/run.html", context | {"panel": _selected(run, request)})


@require_POST
@_page
def cancel_run(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    if not caller.may(Scope.RUNS_CANCEL):
        raise PermissionDenied
    run = _run(caller, run_id)
    answer = lifecycle.request_cancel(run.id, CancelReason.USER_REQUESTED, caller.name)
    if answer.accepted:
        messages.success(request, _("Cancellation requested."))
    else:
        messages.warning(request, _("The run had ended before it could be cancelled."))
    return redirect("run", run_id=run.id)


# ---- restricted texts -----------------------------------------------------------------------------------------


@require_safe
@_page
def restricted(request: HttpRequest, caller: Caller, run_id: str, sequence_no: int) -> HttpResponse:
    """Needs `audit.read_reasoning`. The access is on record before the text is read; no cache keeps the answer."""
    run = _run(caller, run_id)
    if not caller.may(Scope.REASONING_READ):
        raise PermissionDenied
    events = timeline_page(run.id, min(sequence_no, LARGEST_SEQUENCE_NO) - 1, 1)
    if not events or events[0].sequence_no != sequence_no:
        raise Http404(_("The run has no such event."))
    record_access(caller, run.id, what_of(events[0]))
    context = {
        "run_id": run.id,
        "sequence_no": sequence_no,
        "summary": events[0].summary,
        "texts": restricted_texts(run, events[0]),
    }
    whole = _target(request) != "restricted"
    response = render(request, "runs/restricted.html" if whole else "runs/parts/restricted.html", context)
    response["Cache-Control"] = "no-store"
    return response
