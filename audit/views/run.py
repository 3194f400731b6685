"""One run with its timeline, and the restricted texts behind an event."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from audit.overview import frames_overview
from audit.pages.details import Panel, panel_of
from audit.pages.readingsview import readings_view
from audit.pages.restricted import restricted_texts, what_of
from audit.pages.runpage import run_view
from audit.pages.timelinequery import MORE_PAGE, PAGE, Edge, read_filter
from audit.pages.timelineview import Place, timeline_view
from audit.readings import record_access
from audit.trace import timeline_page
from audit.views.page import LARGEST_SEQUENCE_NO, run_or_404, tells_of_pruned
from runs import lifecycle
from runs.access import ApiError, Caller, may_cancel
from runs.errors import CancelReason
from runs.models import DiagnosisRun
from runs.models.run import RunStatus
from runs.models.token import Scope
from runs.pages.again import again_view
from runs.pages.around import Around, around
from runs.pages.feedbackview import FeedbackView, feedback_views, no_feedback
from runs.pages.view import page_view, target_of
from runs.pages.words import STATUS_WORDS
from runs.reruns import Came, ask_again, can_be_asked_again, may_ask_again

# Parts of the timeline by the element that they fill.
MORE = {
    "timeline-place": "runs/parts/timeline.html",
    "earlier": "runs/parts/earlier.html",
    "later": "runs/parts/later.html",
}

_ASKED_BEFORE = gettext_lazy("Cancelling had been asked for before; the call in flight is being stopped.")
_CANCELLED_BEFORE = gettext_lazy("The run was cancelled already.")
_CAME = {
    Came.STARTED: (messages.SUCCESS, gettext_lazy("The same was asked again: this is the new run.")),
    Came.SOONER: (messages.INFO, gettext_lazy("It had been asked again already: this is that run.")),
    Came.GOING: (messages.INFO, gettext_lazy("This alert is being diagnosed already: this is the run.")),
}


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


def _place(request: HttpRequest, panel: Panel | None) -> Place:
    """From the address; what is no event's number there is no place."""
    for edge in Edge:
        text = request.GET.get(edge.value, "")
        if text.isascii() and text.isdigit() and len(text) < 10:
            return Place(edge, int(text), panel.row.sequence_no if panel else None)
    return Place(event=panel.row.sequence_no if panel else None)


@require_safe
@page_view
@tells_of_pruned
def run_page(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    """The whole page, or of it the details (`panel`), the timeline (`record`), more of it (`earlier`, `later`)."""
    run = run_or_404(caller, run_id)
    target = target_of(request)
    panel = _selected(run, request)
    chosen = read_filter(dict(request.GET.lists()))
    context: dict[str, Any] = {"run_id": run.id, "panel": panel, "query": chosen.query, "going": not run.is_terminal}
    context["may_read"] = caller.may(Scope.REASONING_READ)
    if target == "panel":
        return render(request, "runs/parts/panel.html", context)
    if target in MORE:
        overview = frames_overview(run.id)
        place = _place(request, panel)
        limit = PAGE if target == "timeline-place" else MORE_PAGE
        going = not run.is_terminal
        context |= {"timeline": timeline_view(run.id, overview, chosen, place, going=going, limit=limit)}
        return render(request, MORE[target], context)
    there = around(run.id)
    view = run_view(run, notices=there.notices)
    context |= {
        "run": view,
        "again": again_view(caller, run, asked_again=there.asked_again),
        "feedback": _feedback(caller, run, there) if run.is_terminal else None,
        "timeline": timeline_view(run.id, view.frames, chosen, _place(request, panel), going=not run.is_terminal),
        "may_cancel": may_cancel(caller, run),
        "readings": readings_view(caller, run),
    }
    return render(request, "runs/parts/run.html" if target == "run" else "runs/run.html", context)


def _feedback(caller: Caller, run: DiagnosisRun, there: Around) -> FeedbackView:
    return feedback_views([run.id], caller.user_id)[run.id] if there.feedback else no_feedback(run.id)


@require_POST
@page_view
@tells_of_pruned
def cancel_run(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    run = run_or_404(caller, run_id)
    if not may_cancel(caller, run):
        raise PermissionDenied
    answer = lifecycle.request_cancel(run.id, CancelReason.USER_REQUESTED, caller.name)
    if not answer.accepted:
        how = STATUS_WORDS.get(answer.status, answer.status)
        messages.warning(request, _("The run had ended before it could be cancelled: %(how)s.") % {"how": how})
    elif answer.repeated:
        messages.info(request, _CANCELLED_BEFORE if answer.status == RunStatus.CANCELLED else _ASKED_BEFORE)
    elif answer.status == RunStatus.CANCELLED:
        messages.success(request, _("The run was cancelled before it had started."))
    else:
        messages.success(request, _("Cancellation requested: the call in flight is being stopped."))
    return redirect("run", run_id=run.id)


@require_POST
@page_view
@tells_of_pruned
def run_again(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    """Ask the same again. `seen`: the newest run that had done so when the page was shown, so that twice is once."""
    run = run_or_404(caller, run_id)
    if not run.is_terminal:
        messages.warning(request, _("The run goes on still: nothing was started."))
        return redirect("run", run_id=run.id)
    if not can_be_asked_again(run) or not may_ask_again(caller, run):
        raise PermissionDenied
    try:
        asked = ask_again(run, caller, request.POST.get("seen", ""))
    except ApiError as error:
        # What was asked once may be refused today, or the conversation has changed hands meanwhile.
        messages.error(request, _("It could not be asked again: %(why)s") % {"why": error.message})
        return redirect("run", run_id=run.id)
    messages.add_message(request, *_CAME[asked.came])
    return redirect("run", run_id=asked.run_id)


# ---- restricted texts -----------------------------------------------------------------------------------------


@require_safe
@page_view
@tells_of_pruned
def restricted(request: HttpRequest, caller: Caller, run_id: str, sequence_no: int) -> HttpResponse:
    """Needs `audit.read_reasoning`. The access is on record before the text is read; no cache keeps the answer."""
    run = run_or_404(caller, run_id)
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
    whole = target_of(request) != "restricted"
    response = render(request, "runs/restricted.html" if whole else "runs/parts/restricted.html", context)
    response["Cache-Control"] = "no-store"
    return response
