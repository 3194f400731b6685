"""Whether a run's record is whole: every hash derived again, every count beside the others."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.pages.recordpage import record_view
from audit.views.page import run_or_404, tells_of_pruned
from runs.access import Caller
from runs.pages.view import page_view, target_of


@require_safe
@page_view
@tells_of_pruned
def record_check(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    """Reads the whole record: seven queries, and the time that hashing it takes."""
    run = run_or_404(caller, run_id)
    part = "runs/parts/record_check.html" if target_of(request) == "record-check" else "runs/record.html"
    return render(request, part, {"run_id": run.id, "record": record_view(run)})
