"""The pages of rules inside Django's admin: all rules, one rule, a proposed change, the rule sets, two compared.

`gatekeeper.admin` gives them their addresses and lets only staff in; each page asks for its own permission. Whoever
edits a rule makes a proposal; saving it is a page of its own, which shows what would change and asks.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from gatekeeper import floor, pages, rulesets
from gatekeeper.canonical import MalformedRules
from gatekeeper.changes import Changes
from gatekeeper.forms import CompareForm, ReasonForm, RuleForm, initial_of
from gatekeeper.models import Rule, RuleProposal, RuleSet
from gatekeeper.rulesets import NoRuleSet, NothingChanges, RuleSetError, StaleRuleSet

P = ParamSpec("P")
SEE = ("gatekeeper.view_rule", "gatekeeper.view_ruleset", "gatekeeper.change_rule")
CHANGE = "gatekeeper.change_rule"
SETS_A_PAGE = 25
LARGEST_NUMBER = 2**31 - 1
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def may_see(request: HttpRequest) -> bool:
    return any(request.user.has_perm(permission) for permission in SEE)


def may_change(request: HttpRequest) -> bool:
    return request.user.has_perm(CHANGE)


def _for(allowed: Callable[[HttpRequest], bool]) -> Callable[[View[P]], View[P]]:
    """A page for whoever is allowed; where a stored set cannot be read, it says so."""

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def page(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not allowed(request):
                raise PermissionDenied
            try:
                return view(request, *args, **kwargs)
            except MalformedRules as error:
                return _page(request, "unreadable", _("Rules"), status=409, error=str(error))

        return page

    return decorate


# ---- rules ------------------------------------------------------------------------------------------------------


@_for(may_see)
@require_safe
def rule_list(request: HttpRequest) -> HttpResponse:
    try:
        newest = rulesets.newest_row()
    except NoRuleSet:
        return _page(request, "list", _("Rules"))
    proposals = RuleProposal.objects.filter(saved_as=None, shown_number=newest.number).select_related("created_by")
    words: dict[str, Any] = {"newest": newest, "rules": pages.rules_of(newest), "proposals": proposals[:10]}
    return _page(request, "list", _("Rules"), **words)


@_for(may_see)
@require_http_methods(["GET", "HEAD", "POST"])
def rule_page(request: HttpRequest, code: str) -> HttpResponse:
    """One rule; who may change it edits it here, and comes to a page that shows what would change and asks."""
    rule = Rule.objects.filter(code=code).first() if "\0" not in code else None
    newest = rulesets.newest_row() if rule else None
    setting = rulesets.state_of(newest).setting(code) if newest else None
    if rule is None or newest is None or setting is None:
        raise Http404(_("There is no such rule."))
    if request.method != "POST":
        initial = initial_of(setting, rule.told, newest.number)
        return _rule_page(request, rule, newest, RuleForm(setting=setting, initial=initial))
    if not may_change(request):
        raise PermissionDenied
    form = RuleForm(request.POST, setting=setting)
    if not form.is_valid():
        return _rule_page(request, rule, newest, form, status=422)
    changes, reason = Changes(rules={code: form.change}), form.cleaned_data["reason"]
    try:
        proposal = rulesets.propose(form.cleaned_data["shown"], changes, by=_person(request), reason=reason)
    except RuleSetError as error:
        return _rule_page(request, rule, newest, form, status=422, error=str(error))
    return redirect("admin:gatekeeper_ruleproposal_change", proposal.pk)


def _rule_page(
    request: HttpRequest, rule: Rule, newest: RuleSet, form: RuleForm, *, status: int = 200, error: str = ""
) -> HttpResponse:
    row = next(each for each in pages.rules_of(newest) if each.code == rule.code)
    words = {"rule": rule, "row": row, "newest": newest, "form": form, "error": error, "effects": pages.EFFECTS}
    return _page(request, "rule", rule.code, status=status, **words)


# ---- proposals --------------------------------------------------------------------------------------------------


@_for(may_see)
@require_safe
def proposal_list(request: HttpRequest) -> HttpResponse:
    proposals = RuleProposal.objects.select_related("created_by").order_by("-id")
    page = Paginator(proposals, SETS_A_PAGE).get_page(request.GET.get("page"))
    return _page(request, "proposals", _("Proposed changes"), page=page)


@_for(may_see)
@require_http_methods(["GET", "HEAD", "POST"])
def proposal_page(request: HttpRequest, pk: str) -> HttpResponse:
    """Shows what would change and asks; compare-and-set on the rule set that was shown."""
    proposal = _proposal_or_404(pk)
    if request.method != "POST":
        return _proposal_page(request, proposal)
    if not may_change(request):
        raise PermissionDenied
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _proposal_page(request, proposal, form, status=422)
    sent = form.cleaned_data
    try:
        made = rulesets.save_proposal(proposal, sent["shown"], by=_person(request), reason=sent["reason"])
    except (StaleRuleSet, NothingChanges) as error:
        return _proposal_page(request, proposal, form, status=409, error=str(error))
    except RuleSetError as error:
        return _proposal_page(request, proposal, form, status=422, error=str(error))
    said = _("Rule set %(number)d is in force: every run that starts from now on is judged by it.")
    messages.success(request, said % {"number": made.number})
    return redirect("admin:gatekeeper_ruleset_page", made.number)


def _proposal_page(
    request: HttpRequest, proposal: RuleProposal, sent: ReasonForm | None = None, *, status: int = 200, error: str = ""
) -> HttpResponse:
    """The reason that was sent stays; what is shown is always what would change of the rules as they are now."""
    page = pages.proposal_page(proposal)
    reason = sent.data.get("reason", "") if sent else proposal.reason
    form = ReasonForm(initial={"reason": reason, "shown": page.newest.number})
    words = {
        "proposal": proposal,
        "page": page,
        "form": form,
        "sent": sent,
        "error": error,
        "refused": bool(page.lowered) and not _person(request).is_superuser,
    }
    title = _("Restore rule set %(number)d") % {"number": proposal.restores} if proposal.restores else _("Change rules")
    return _page(request, "proposal", title, status=status, **words)


# ---- rule sets --------------------------------------------------------------------------------------------------


@_for(may_see)
@require_safe
def set_list(request: HttpRequest) -> HttpResponse:
    sets = RuleSet.objects.select_related("created_by").order_by("-number")
    page = Paginator(sets, SETS_A_PAGE).get_page(request.GET.get("page"))
    rows = pages.set_rows(list(page.object_list))
    return _page(request, "sets", _("Rule sets"), page=page, rows=rows, form=CompareForm())


@_for(may_see)
@require_safe
def set_of_row(request: HttpRequest, pk: str) -> HttpResponse:
    """Django's address of the row leads to the one by number, which is what everything else names."""
    row = RuleSet.objects.filter(pk=_number(pk)).first()
    if row is None:
        raise Http404(_("There is no such rule set."))
    return redirect("admin:gatekeeper_ruleset_page", row.number)


@_for(may_see)
@require_safe
def set_page(request: HttpRequest, number: int) -> HttpResponse:
    return _set_page(request, _set_or_404(number))


def _set_page(request: HttpRequest, row: RuleSet, *, status: int = 200, error: str = "") -> HttpResponse:
    (shown,) = pages.set_rows([row])
    rules = pages.rules_of(row)
    newest = rulesets.newest_row()
    words = {
        "set": shown,
        "rules": rules,
        "newest": newest,
        "same": row.digest == newest.digest and row.own_descriptions == newest.own_descriptions,
        "error": error,
    }
    return _page(request, "set", _("Rule set %(number)d") % {"number": row.number}, status=status, **words)


@_for(may_see)
@require_safe
def compare_sets(request: HttpRequest) -> HttpResponse:
    """`?a=2&b=5`; without them the two newest."""
    newest = RuleSet.objects.order_by("-number").values_list("number", flat=True).first() or 1
    form = CompareForm(request.GET or {"a": max(1, newest - 1), "b": newest})
    words: dict[str, Any] = {"form": form}
    try:
        if form.is_valid():
            before, after = (rulesets.row_of(form.cleaned_data[name]) for name in ("a", "b"))
            words |= {"before": before, "after": after, "changes": pages.compared(before, after)}
    except NoRuleSet as error:
        words["error"] = str(error)
    status = 200 if "changes" in words else 400
    return _page(request, "compare", _("Compare rule sets"), status=status, **words)


@_for(may_change)
@require_POST
def restore(request: HttpRequest, number: int) -> HttpResponse:
    """Proposes to make the rules what they were in that set: a new number, never an edit."""
    row = _set_or_404(number)
    try:
        proposal = rulesets.propose_restore(number, by=_person(request))
    except RuleSetError as error:
        return _set_page(request, row, status=422, error=str(error))
    return redirect("admin:gatekeeper_ruleproposal_change", proposal.pk)


# ---- shared by the above ----------------------------------------------------------------------------------------


def _person(request: HttpRequest) -> Any:
    """Staff alone come here, so it is a person who is signed in."""
    return request.user


def _number(text: str) -> int:
    """0, which no row has, for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= LARGEST_NUMBER else 0


def _proposal_or_404(pk: str) -> RuleProposal:
    proposal = RuleProposal.objects.select_related("created_by").filter(pk=_number(pk)).first()
    if proposal is None:
        raise Http404(_("There is no such proposal."))
    return proposal


def _set_or_404(number: int) -> RuleSet:
    row = RuleSet.objects.select_related("created_by").filter(number=min(number, LARGEST_NUMBER)).first()
    if row is None:
        raise Http404(_("There is no such rule set."))
    return row


def _page(request: HttpRequest, template: str, title: Any, *, status: int = 200, **words: Any) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": title,
        "opts": Rule._meta,
        "may_change": may_change(request),
        "floor": floor.FLOOR,
        **words,
    }
    return render(request, f"gatekeeper/{template}.html", context, status=status)
