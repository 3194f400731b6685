"""The pages of chat: a person's own conversations, and what is done in them. Each is a plain form without scripts."""

from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from runs import chat, ids, lifecycle, reruns
from runs.access import ApiError, Caller, may_cancel
from runs.chat import MAX_QUERY_CHARS
from runs.errors import CancelReason
from runs.models import ChatSession, DiagnosisRun
from runs.models.run import RunStatus
from runs.models.token import Scope
from runs.pages import chatlist, chatpage
from runs.pages.links import turn_address
from runs.pages.view import page_view, target_of
from runs.reruns import may_ask_again
from runs.searching import WORDS_LIMIT
from runs.selection import BadCursor


def _asked_by(caller: Caller) -> None:
    """The same that `POST /api/chat` asks for."""
    if not caller.may(Scope.CHAT_WRITE):
        raise PermissionDenied


def _session_or_404(caller: Caller, session_id: str) -> ChatSession:
    session = chatpage.own_session(caller, session_id)
    if session is None:
        raise Http404(_("There is no such conversation."))
    return session


def _run_or_404(caller: Caller, session_id: str, run_id: str) -> DiagnosisRun:
    run = chatpage.own_turn(caller, session_id, run_id)
    if run is None:
        raise Http404(_("There is no such turn."))
    return run


def _newest_turn_address(session_id: str, run_id: str) -> str:
    return f"{reverse('conversation', args=[session_id])}#turn-{run_id}"


def _question(request: HttpRequest) -> str:
    """As it was typed: a form sends each line break as two characters."""
    return request.POST.get("query", "").replace("\r\n", "\n")


def _given_id(request: HttpRequest) -> str | None:
    """The id that the form has for the question's run: sent twice, it asks once."""
    given = request.POST.get("run", "")
    return given if ids.is_run_id(given) else None


def _refusal(error: ApiError) -> str:
    return str(chatpage.REFUSALS.get(error.code, error.message))


# ---- a new conversation, and the old ones ---------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@page_view
def chat_page(request: HttpRequest, caller: Caller) -> HttpResponse:
    """POST: the first question of a new conversation."""
    _asked_by(caller)
    if request.method != "POST":
        return _start(request, caller, request.GET.get("ask", "")[:MAX_QUERY_CHARS])
    question = _question(request)
    try:
        asked = chat.ask(caller, question, run_id=_given_id(request))
    except ApiError as error:
        return _start(request, caller, question, _refusal(error), status=error.status)
    return redirect(_newest_turn_address(asked.session_id, asked.run_id))


def _start(
    request: HttpRequest, caller: Caller, question: str, refusal: str = "", *, status: int = HTTPStatus.OK
) -> HttpResponse:
    words = request.GET.get("q", "").replace("\0", "").strip()[:WORDS_LIMIT]
    before = request.GET.get("before", "")
    try:
        page = chatlist.session_page(caller, words, before)
    except BadCursor as error:
        raise BadRequest("before is not a place in the list.") from error
    context: dict[str, Any] = {"page": page, "words": words, "before": before}
    target = target_of(request)
    if target == "sessions":
        return render(request, "chat/parts/sessions.html", context)
    if target == "older":
        return render(request, "chat/parts/older.html", context)
    # Who searches the old ones is not about to type a question.
    context |= {"suggestions": chatlist.suggestions(), "focused": not (words or before)}
    context |= _composer(question, refusal)
    return render(request, "chat/start.html", context, status=status)


def _composer(question: str = "", refusal: str = "") -> dict[str, Any]:
    return {
        "question": question,
        "refusal": refusal,
        "limit": MAX_QUERY_CHARS,
        "refusals": chatpage.REFUSALS,
        "new_run_id": ids.run_id(),
    }


# ---- one conversation -----------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@page_view
def conversation(request: HttpRequest, caller: Caller, session_id: str) -> HttpResponse:
    """POST: the next question."""
    _asked_by(caller)
    session = _session_or_404(caller, session_id)
    if request.method != "POST":
        return _show(request, caller, session)
    question = _question(request)
    try:
        asked = chat.ask(caller, question, session.id, run_id=_given_id(request))
    except ApiError as error:
        return _show(request, caller, session, question, _refusal(error), status=error.status)
    return redirect(_newest_turn_address(asked.session_id, asked.run_id))


def _show(
    request: HttpRequest,
    caller: Caller,
    session: ChatSession,
    question: str = "",
    refusal: str = "",
    *,
    status: int = HTTPStatus.OK,
) -> HttpResponse:
    before = request.GET.get("before", "")
    try:
        shown = chatpage.conversation(caller, session, before, at=request.GET.get("at", ""))
    except BadCursor as error:
        raise BadRequest("before is not a place in the conversation.") from error
    context = {"conversation": shown} | _composer(question, refusal)
    return render(request, "chat/conversation.html", context, status=status)


@require_safe
@page_view
def turn(request: HttpRequest, caller: Caller, session_id: str, run_id: str) -> HttpResponse:
    """One turn, or of it how far it has got, for the page that shows it; by itself it leads to that page.

    `?after=`, a turn that the page shows last: with those that came between.
    """
    _asked_by(caller)
    run = _run_or_404(caller, session_id, run_id)
    target = target_of(request)
    if not target:
        return redirect(turn_address(session_id, run_id))
    if target == "turns" and (after := request.GET.get("after")):
        shown = chatpage.turns_after(caller, run.session, after)
        return render(request, "chat/parts/turns.html", {"turns": shown, "session_id": session_id})
    part = "chat/parts/progress.html" if target == f"progress-{run_id}" else "chat/parts/turn.html"
    return render(request, part, {"turn": chatpage.turn_of(caller, run), "session_id": session_id})


# ---- actions --------------------------------------------------------------------------------------------------


@require_POST
@page_view
def cancel_turn(request: HttpRequest, caller: Caller, session_id: str, run_id: str) -> HttpResponse:
    """Says what became of it: cancelled at once, being cancelled, or too late."""
    _asked_by(caller)
    run = _run_or_404(caller, session_id, run_id)
    if not may_cancel(caller, run):
        raise PermissionDenied
    answer = lifecycle.request_cancel(run.id, CancelReason.USER_REQUESTED, caller.name)
    if not answer.accepted:
        said = _("It was too late to cancel: the turn had ended before.")
    elif answer.repeated:
        said = _("Cancelling had been asked for before.")
    elif answer.status == RunStatus.RUNNING:
        said = _("It is being cancelled: the call in flight is stopped, and nothing will be published.")
    else:
        said = _("It was cancelled before it began.")
    if target_of(request):
        fresh = _run_or_404(caller, session_id, run_id)
        context = {"turn": chatpage.turn_of(caller, fresh), "session_id": session_id, "said": said}
        return render(request, "chat/parts/turn.html", context)
    messages.add_message(request, messages.SUCCESS if answer.accepted else messages.WARNING, said)
    return redirect("conversation", session_id)


@require_POST
@page_view
def ask_again(request: HttpRequest, caller: Caller, session_id: str, run_id: str) -> HttpResponse:
    """The question of a turn that gave no answer, as the next turn of the conversation."""
    _asked_by(caller)
    run = _run_or_404(caller, session_id, run_id)
    if run.status not in chatpage.AGAIN or not may_ask_again(caller, run):
        messages.info(request, _("Only a turn without an answer is asked again. Nothing was sent."))
        return redirect(turn_address(session_id, run_id))
    # A turn shows its button until it was asked again: pressed twice, it leads to the same new turn.
    again = reruns.ask_again(run, caller, seen="")
    return redirect(_newest_turn_address(session_id, again.run_id))


@require_POST
@page_view
def clear_conversation(request: HttpRequest, caller: Caller, session_id: str) -> HttpResponse:
    _asked_by(caller)
    session = _session_or_404(caller, session_id)
    chat.clear(caller, session.id)
    messages.success(request, _("Cleared: later questions know nothing of the turns so far. Their record stays."))
    return redirect("conversation", session_id)
