"""Two runs side by side, and the page where the two are chosen."""

from http import HTTPStatus
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from audit.pages.comparison import compare
from audit.pages.runlist import RunRow
from audit.tombstones import tombstone_of
from audit.views.page import listed
from runs.access import ApiError, Caller, visible_run, visible_runs
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line
from runs.pages.view import page_view, target_of

CHOICES = 20


@require_safe
@page_view
def compare_runs(request: HttpRequest, caller: Caller) -> HttpResponse:
    """`?a=ID&b=ID`; `?run=ID&run=ID` as the list sends it, newest first, leads there. Less than two: the choice."""
    picked = request.GET.getlist("run")
    if len(picked) == 2:
        return redirect(f"{reverse('compare_runs')}?{urlencode({'a': picked[1], 'b': picked[0]})}")
    a, b = (request.GET.get(name, "").strip() for name in ("a", "b"))
    if picked:
        told = _("Two runs are compared; %(count)s were chosen.") % {"count": len(picked)}
        return _choice(request, caller, {"a": picked[0], "b": ""}, [told], HTTPStatus.BAD_REQUEST)
    found = {run_id: _find(caller, run_id) for run_id in (a, b) if run_id}
    wrong = [told for told in found.values() if isinstance(told, str)]
    if wrong:
        return _choice(request, caller, {"a": a, "b": b}, wrong, HTTPStatus.NOT_FOUND)
    of_a, of_b = found.get(a), found.get(b)
    if not isinstance(of_a, DiagnosisRun) or not isinstance(of_b, DiagnosisRun):
        return _choice(request, caller, {"a": a, "b": b})
    if of_a == of_b:
        told = _("That is the same run twice.")
        return _choice(request, caller, {"a": a, "b": ""}, [told], HTTPStatus.BAD_REQUEST)
    part = target_of(request) == "comparison"
    context = {"comparison": compare(caller, of_a, of_b)}
    return render(request, "runs/parts/comparison.html" if part else "runs/compare.html", context)


def _find(caller: Caller, run_id: str) -> DiagnosisRun | str:
    """The run, or a sentence that says why there is none: the same for one that is hidden as for none at all."""
    try:
        return visible_run(caller, run_id)
    except ApiError:
        told = {"id": one_line(run_id, 60)}
        if tombstone_of(caller, run_id):
            return _("The records of %(id)s were removed: there is nothing left to compare.") % told
        return _("There is no run %(id)s that you may see.") % told


def _choice(
    request: HttpRequest,
    caller: Caller,
    given: dict[str, str],
    wrong: list[str] | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    first = _find(caller, given["a"]) if given["a"] else None
    context = {
        "given": {name: one_line(run_id, 60) for name, run_id in given.items()},
        "wrong": wrong or (),
        "first": first if isinstance(first, DiagnosisRun) else None,
        "rows": _near(caller, first) if isinstance(first, DiagnosisRun) else (),
    }
    return render(request, "runs/compare_choice.html", context, status=status)


def _near(caller: Caller, run: DiagnosisRun) -> list[RunRow]:
    """The runs that are likely meant: of the same alert or conversation, and the one that it asks again."""
    near = visible_runs(caller).filter(Q(session_id=run.session_id) | Q(id=run.again_of_id or ""))
    rows = listed(near.exclude(id=run.id).order_by("-queued_at", "-id"), CHOICES)
    return [row for _run, row in rows]
