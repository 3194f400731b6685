"""Rules and runs together: how often a rule failed, and what a proposed change would do to past runs."""

from datetime import UTC, date, datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from audit import impact, ruleuse
from audit.models import RulePreview, RulePreviewRun
from audit.pages.impactpage import preview_view, run_changes
from audit.pages.rulebars import bars_of
from audit.tasks import preview_rules
from audit.views.page import for_people_with, listed, person_of
from gatekeeper.models import Rule, RuleProposal, RuleSet
from gatekeeper.rulesets import RuleSetError
from gatekeeper.types import RuleMode
from runs.access import Caller
from runs.pages.view import target_of
from runs.tasks import hand_over

CHANGE = "gatekeeper.change_rule"
SEE = ("gatekeeper.view_rule", "gatekeeper.view_ruleset", CHANGE)
LARGEST_ID = 2**31 - 1
RUNS_A_PAGE = 100
EARLIER = 10
SHOWN_MODES = {RuleMode.SHADOW: gettext_lazy("shadow"), RuleMode.ENFORCED: gettext_lazy("enforced")}


# ---- how often rules failed -------------------------------------------------------------------------------------


@require_safe
@for_people_with(*SEE)
def rules_usage(request: HttpRequest, _caller: Caller) -> HttpResponse:
    now = datetime.now(UTC)
    words: dict[str, Any] = {"uses": ruleuse.use_of_all(now), "judged": ruleuse.judged_runs(now), "days": ruleuse.DAYS}
    part = target_of(request) == "rules-usage"
    return _page(request, "parts/rules_usage" if part else "rules_usage", _("How often each failed"), **words)


@require_safe
@for_people_with(*SEE)
def rule_usage(request: HttpRequest, _caller: Caller, code: str) -> HttpResponse:
    rule, now = _rule_or_404(code), datetime.now(UTC)
    days = ruleuse.use_by_day(code, now)
    words: dict[str, Any] = {
        "rule": rule,
        "days": days,
        "bars": bars_of(days),
        "enforced": sum(day.enforced for day in days),
        "shadow": sum(day.shadow for day in days),
        "judged": ruleuse.judged_runs(now),
    }
    part = target_of(request) == "rule-usage"
    return _page(request, "parts/rule_usage" if part else "rule_usage", _("How often it failed"), **words)


class WhichRuns(forms.Form):
    """Of the runs in which a rule failed; nothing named means all."""

    mode = forms.ChoiceField(choices=[("", ""), *((mode.value, mode.value) for mode in SHOWN_MODES)], required=False)
    day = forms.DateField(required=False, input_formats=["%Y-%m-%d"])


@require_safe
@for_people_with(*SEE)
def rule_runs(request: HttpRequest, caller: Caller, code: str) -> HttpResponse:
    """`?mode=SHADOW&day=2031-03-04`, both optional."""
    rule, which = _rule_or_404(code), WhichRuns(request.GET)
    if not which.is_valid():
        raise Http404(_("There are no such runs."))
    mode = RuleMode(which.cleaned_data["mode"]) if which.cleaned_data["mode"] else None
    day: date | None = which.cleaned_data["day"]
    rows = listed(ruleuse.runs_failing(caller, code, mode=mode, day=day), ruleuse.RUNS_SHOWN + 1)
    title = _("Runs in which %(code)s failed") % {"code": code}
    words: dict[str, Any] = {"rule": rule, "mode": SHOWN_MODES[mode] if mode else "", "day": day}
    return _runs_page(request, title, rows, **words)


@require_safe
@for_people_with(*SEE)
def rule_set_runs(request: HttpRequest, caller: Caller, number: int) -> HttpResponse:
    row = RuleSet.objects.filter(number=min(number, LARGEST_ID)).first()
    if row is None:
        raise Http404(_("There is no such rule set."))
    rows = listed(ruleuse.runs_judged_by(caller, number), ruleuse.RUNS_SHOWN + 1)
    return _runs_page(request, _("Runs judged by rule set %(number)d") % {"number": number}, rows, set=row)


def _runs_page(request: HttpRequest, title: str, rows: list[Any], **words: Any) -> HttpResponse:
    shown = ruleuse.RUNS_SHOWN
    words |= {"rows": rows[:shown], "more": len(rows) > shown, "shown": shown}
    return _page(request, "runs", title, **words)


# ---- what a change would do -------------------------------------------------------------------------------------


class SizeForm(forms.Form):
    size = forms.TypedChoiceField(
        label=gettext_lazy("Newest runs"), coerce=int, choices=[(size, str(size)) for size in impact.SIZES]
    )


@require_http_methods(["GET", "HEAD", "POST"])
@for_people_with(*SEE)
def rule_previews(request: HttpRequest, _caller: Caller, proposal_id: int) -> HttpResponse:
    """The previews of a proposal and, for who may change rules, the form that starts one."""
    if request.method == "POST" and not request.user.has_perm(CHANGE):
        raise PermissionDenied
    proposal = RuleProposal.objects.filter(pk=min(proposal_id, LARGEST_ID)).first()
    if proposal is None:
        raise Http404(_("There is no such proposal."))
    form, error, going = SizeForm(request.POST or None), "", []
    status = 422 if request.method == "POST" else 200
    if request.method == "POST" and form.is_valid():
        try:
            return redirect("rule_preview", _begun(proposal, form.cleaned_data["size"], request).pk)
        except RuleSetError as wrong:
            error = str(wrong)
        except impact.TooManyPreviews as full:
            error, status = str(full), 429
            going = [preview_view(one) for one in impact.previews_going().select_related("requested_by")]
    earlier = proposal.previews.select_related("requested_by").order_by("-id")[:EARLIER]
    words: dict[str, Any] = {
        "proposal": proposal,
        "form": form,
        "error": error,
        "going": going,
        "sizes": impact.SIZES,
        "previews": [preview_view(preview) for preview in earlier],
    }
    part = target_of(request) == "rule-previews"
    title = _("Try it on past runs")
    return _page(request, "parts/previews" if part else "previews", title, status=status, **words)


def _begun(proposal: RuleProposal, size: int, request: HttpRequest) -> RulePreview:
    """Raises `RuleSetError`, `impact.TooManyPreviews`."""
    preview = impact.start(proposal, size, person_of(request))
    waiting = preview.status == RulePreview.Status.QUEUED
    if waiting and not hand_over(preview_rules, preview.pk):
        impact.give_up(preview, _("It could not be handed to a worker: the broker does not answer. Try again."))
    return preview


@require_safe
@for_people_with(*SEE)
def rule_preview(request: HttpRequest, caller: Caller, preview_id: int) -> HttpResponse:
    """How far it is, and what was found. `?consequence=WITHHELD&page=2` of it; `?consequence=NOT_JUDGED`."""
    preview = (
        RulePreview.objects.select_related("proposal", "requested_by").filter(pk=min(preview_id, LARGEST_ID)).first()
    )
    if preview is None:
        raise Http404(_("There is no such preview."))
    chosen = request.GET.get("consequence", "")
    if chosen not in {"", impact.NOT_JUDGED, *RulePreviewRun.Consequence.values}:
        raise Http404(_("There are no such runs."))
    rows = Paginator(impact.found(preview, caller, chosen), RUNS_A_PAGE).get_page(request.GET.get("page"))
    words: dict[str, Any] = {
        "preview": preview_view(preview),
        "proposal": preview.proposal,
        "counts": impact.counts(preview, caller),
        "chosen": chosen,
        "page": rows,
        "changes": run_changes(rows.object_list),
    }
    part = target_of(request) == "rule-preview"
    return _page(request, "parts/preview" if part else "preview", _("What it would have done"), **words)


# ---- shared by the above ----------------------------------------------------------------------------------------


def _rule_or_404(code: str) -> Rule:
    rule = Rule.objects.filter(code=code).first() if "\0" not in code else None
    if rule is None:
        raise Http404(_("There is no such rule."))
    return rule


def _page(request: HttpRequest, template: str, title: Any, *, status: int = 200, **words: Any) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": title,
        "may_change": request.user.has_perm(CHANGE),
        **words,
    }
    return render(request, f"gatekeeper/{template}.html", context, status=status)
