"""The list of runs."""

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.pages.runlist import read_filters, watched_rows
from audit.pages.runlist import run_page as runs_of_page
from runs.access import ApiError, Caller
from runs.models.run import RunOutcome, RunStatus, Trigger
from runs.pages.view import page_view, target_of
from runs.pages.words import STATUS_WORDS, TRIGGER_WORDS


@require_safe
@page_view
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
    part = {"run-list": "runs/parts/runs.html", "older": "runs/parts/older.html"}.get(target_of(request))
    return render(request, part or "runs/list.html", context)


@require_safe
@page_view
def watched_runs(request: HttpRequest, caller: Caller) -> HttpResponse:
    """The rows that the list shows as open, as they are now, and what to ask for next."""
    rows = watched_rows(caller, request.GET.getlist("id"))
    return render(request, "runs/parts/watched.html", {"rows": rows, "open_ids": [row.id for row in rows if row.open]})
