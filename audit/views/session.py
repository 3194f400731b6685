"""One session: its runs, and what is on record of it from before runs had ids."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from audit.models import PrunedRun
from audit.pages.sessionpage import legacy_view
from audit.trace import load_legacy_trace
from runs.access import Caller, may_see_session, visible_runs
from runs.models import ChatSession
from runs.pages.view import page_view

RUNS_SHOWN = 50


@require_safe
@page_view
def session_page(request: HttpRequest, caller: Caller, session_id: str) -> HttpResponse:
    """404 for a session that there is no trace of, and for somebody else's."""
    session = ChatSession.objects.filter(id=session_id).first()
    if session is not None and not may_see_session(caller, session):
        raise Http404(_("There is no such session."))
    runs = list(visible_runs(caller).filter(session_id=session_id).order_by("-queued_at", "-id")[: RUNS_SHOWN + 1])
    pruned = PrunedRun.objects.filter(session_id=session_id).order_by("-id")
    if session is None and not caller.sees_all_sessions:
        # Whose it was is not known any more.
        pruned = pruned.none()
    tombstones = list(pruned[:RUNS_SHOWN])
    trace = load_legacy_trace(session_id)
    if session is None and trace is None and not tombstones:
        raise Http404(_("There is no such session."))
    context = {
        "session_id": session_id,
        "runs": runs[:RUNS_SHOWN],
        "more_runs": len(runs) > RUNS_SHOWN,
        "tombstones": tombstones,
        "legacy": legacy_view(trace) if trace else None,
    }
    return render(request, "runs/session.html", context)
