"""Rating a run's answer: from its page, from its conversation, and a page that shows who said what and when."""

from http import HTTPStatus

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from runs import feedback
from runs.access import ApiError, Caller, visible_run
from runs.feedback import MAX_NOTE, NoteTooLong
from runs.models import DiagnosisRun
from runs.models.feedback import Rating
from runs.pages.feedbackview import feedback_views, history_of
from runs.pages.links import turn_address
from runs.pages.view import page_view, target_of

WITHDRAW = "none"


@require_http_methods(["GET", "HEAD", "POST"])
@page_view
def run_feedback(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    """POST `rating` (useful, wrong, or none to take it back) and `note`; `back`: chat or run, where it came from."""
    try:
        run = visible_run(caller, run_id)
    except ApiError as error:
        raise Http404(error.message) from error
    if request.method != "POST":
        return _page(request, caller, run)
    if not run.is_terminal:
        return _refuse(request, caller, run, _("The run goes on still; it can be rated when it has ended."))
    note = request.POST.get("note", "").replace("\r\n", "\n")
    try:
        said = _store(run, caller, request.POST.get("rating", ""), note)
    except NoteTooLong:
        return _refuse(
            request, caller, run, _("The note is too long: it may have 1,000 characters. Nothing was saved.")
        )
    if target_of(request):
        return render(request, "runs/parts/feedback.html", _context(request, caller, run) | {"said": said})
    messages.success(request, said)
    return redirect(_back(caller, run, request.POST.get("back", "")))


def _store(run: DiagnosisRun, caller: Caller, rating: str, note: str) -> str:
    """What is said of it. Raises `NoteTooLong`."""
    assert caller.user_id is not None, "pages are for people"
    if rating == WITHDRAW:
        feedback.withdraw(run, person_id=caller.user_id)
        return _("You took your rating back.")
    if rating not in Rating.values:
        raise BadRequest("rating is useful, wrong or none.")
    feedback.rate(run, person_id=caller.user_id, person_name=caller.name, rating=Rating(rating), note=note)
    return _("Saved. Thank you.")


def _context(request: HttpRequest, caller: Caller, run: DiagnosisRun) -> dict[str, object]:
    return {
        "feedback": feedback_views([run.id], caller.user_id)[run.id],
        "back": request.POST.get("back", ""),
        "note_limit": MAX_NOTE,
    }


def _page(
    request: HttpRequest, caller: Caller, run: DiagnosisRun, *, status: int = HTTPStatus.OK, **more: object
) -> HttpResponse:
    context = _context(request, caller, run) | {"history": history_of(run.id), "ended": run.is_terminal} | more
    return render(request, "runs/feedback.html", context, status=status)


def _refuse(request: HttpRequest, caller: Caller, run: DiagnosisRun, why: str) -> HttpResponse:
    """With what was typed. htmx puts no error in place, so to it this is an answer like any other."""
    typed: dict[str, object] = {"refusal": why, "typed": request.POST.get("note", "")}
    if target_of(request):
        return render(request, "runs/parts/feedback.html", _context(request, caller, run) | typed)
    return _page(request, caller, run, status=HTTPStatus.UNPROCESSABLE_ENTITY, **typed)


def _back(caller: Caller, run: DiagnosisRun, where: str) -> str:
    if where == "chat" and run.session.owner_id == caller.user_id:
        return turn_address(run.session_id, run.id, "feedback")
    return f"{reverse('run', args=[run.id])}#feedback-{run.id}"
