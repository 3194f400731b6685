"""The inbox of alerts, the page of one, and what a person does with it there."""

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from gatekeeper.text import unseen
from runs import alert_actions
from runs.access import Caller
from runs.models import Alert
from runs.models.token import Scope
from runs.pages import inbox
from runs.pages.alertpage import alert_view
from runs.pages.view import page_view, target_of
from runs.pages.words import Words

PARTS = {"alert-list": "alerts/parts/alerts.html", "older": "alerts/parts/older.html"}
LONGEST_ID = 2**63 - 1
SILENCE_CHOICES: dict[str, tuple[Words, timedelta]] = {
    "1h": (gettext_lazy("1 hour"), timedelta(hours=1)),
    "4h": (gettext_lazy("4 hours"), timedelta(hours=4)),
    "12h": (gettext_lazy("12 hours"), timedelta(hours=12)),
    "1d": (gettext_lazy("1 day"), timedelta(days=1)),
    "3d": (gettext_lazy("3 days"), timedelta(days=3)),
    "7d": (gettext_lazy("7 days"), timedelta(days=7)),
    "30d": (gettext_lazy("30 days"), timedelta(days=30)),
}


@require_safe
@page_view
def alert_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    filters = inbox.read_filters(request.GET.dict())
    before = request.GET.get("before", "")
    try:
        page = inbox.inbox(caller, filters, before)
    except inbox.BadCursor as error:
        raise BadRequest("before is not a place in the list.") from error
    context: dict[str, Any] = {
        "page": page,
        "filters": filters,
        "before": before,
        "states": inbox.STATES,
        "severities": [(name, words) for name, (words, _rank) in inbox.SEVERITIES.items()],
        "runs": [(name, words) for name, (words, _statuses) in inbox.RUNS.items()],
        "may_act": caller.may(Scope.ALERTS_WRITE),
        "alertmanager": request.build_absolute_uri("/api/alerts/alertmanager"),
        "grafana": request.build_absolute_uri("/api/alerts/grafana"),
    }
    return render(request, PARTS.get(target_of(request), "alerts/list.html"), context)


@require_safe
@page_view
def watched_alerts(request: HttpRequest, caller: Caller) -> HttpResponse:
    """The rows whose runs the inbox shows as open, as they are now, and what to ask for next."""
    rows = inbox.watched(caller, request.GET.getlist("id"))
    open_ids = [row.id for row in rows if row.run and row.run.open]
    context = {"rows": rows, "open_ids": open_ids, "may_act": caller.may(Scope.ALERTS_WRITE)}
    return render(request, "alerts/parts/watched.html", context)


def _alert_or_404(alert_id: int) -> Alert:
    alert = Alert.objects.filter(id=alert_id).first() if alert_id <= LONGEST_ID else None
    if alert is None:
        raise Http404(_("There is no such alert."))
    return alert


@require_safe
@page_view
def alert_page(request: HttpRequest, caller: Caller, alert_id: int) -> HttpResponse:
    context = {
        "alert": alert_view(caller, _alert_or_404(alert_id)),
        "may_act": caller.may(Scope.ALERTS_WRITE),
        "lasts": [(name, words) for name, (words, _time) in SILENCE_CHOICES.items()],
        "reason_limit": alert_actions.MAX_REASON,
    }
    part = "alerts/parts/runs.html" if target_of(request) == "alert-runs" else "alerts/alert.html"
    return render(request, part, context)


# ---- actions --------------------------------------------------------------------------------------------------


def _to_act_on(caller: Caller, alert_id: int) -> Alert:
    if not caller.may(Scope.ALERTS_WRITE):
        raise PermissionDenied
    return _alert_or_404(alert_id)


@require_POST
@page_view
def diagnose_alert(request: HttpRequest, caller: Caller, alert_id: int) -> HttpResponse:
    asked = alert_actions.diagnose_now(_to_act_on(caller, alert_id).id, caller)
    if asked.started:
        messages.success(request, _("A new run of this alert was started."))
    else:
        messages.info(request, _("This alert is being diagnosed already: this is the run."))
    return redirect("run", run_id=asked.run_id)


@require_POST
@page_view
def silence_alert(request: HttpRequest, caller: Caller, alert_id: int) -> HttpResponse:
    alert = _to_act_on(caller, alert_id)
    choice = SILENCE_CHOICES.get(request.POST.get("lasts", ""))
    reason = request.POST.get("reason", "")
    if choice is None or not reason.strip() or len(reason) > alert_actions.MAX_REASON:
        messages.error(request, _("A silence needs a reason and an end. Nothing was changed."))
        return redirect("alert", alert_id=alert.id)
    if codes := unseen(reason):
        words = {"codes": codes[:200]}
        messages.error(
            request, _("The reason holds characters that cannot be seen: %(codes)s. Nothing was changed.") % words
        )
        return redirect("alert", alert_id=alert.id)
    alert_actions.silence(alert.id, caller, lasts=choice[1], reason=reason)
    messages.success(request, _("Repeats of this alert start no run until the silence ends."))
    return redirect("alert", alert_id=alert.id)


@require_POST
@page_view
def end_silence(request: HttpRequest, caller: Caller, alert_id: int) -> HttpResponse:
    alert = _to_act_on(caller, alert_id)
    if alert_actions.end_silence(alert.id, caller):
        messages.success(request, _("The silence was ended: the next repeat may start a run."))
    else:
        messages.info(request, _("The silence had ended before."))
    return redirect("alert", alert_id=alert.id)
