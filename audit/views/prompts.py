"""Prompts and runs together: how the versions of a prompt did, and what a version would do (dry-run)."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe

from audit.dryrunlimit import OWN_AT_ONCE, TooManyDryRuns, dry_runs_going
from audit.dryruns import candidates, compare, dry_runs_of, fits, start
from audit.promptuse import RUNS_SHOWN, runs_of, use_of
from audit.views.page import for_people_with, listed, person_of, run_or_404
from prompts.actions import PromptError
from prompts.models import Prompt, PromptVersion
from prompts.needs import shortfalls
from runs.access import ApiError, Caller, visible_run
from runs.incidents import NoSuchIncident, bundled
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line
from runs.pages.view import target_of
from runs.rehearsals import Scene, scene_of_incident, scene_of_run

EDIT = "prompts.change_prompt"
SEE = ("prompts.view_prompt", EDIT, "prompts.activate_prompt")
LARGEST_NUMBER = 2**31 - 1
QUESTION_CHARS = 2000
CHOICE = 30


# ---- how versions did -------------------------------------------------------------------------------------------


@require_safe
@for_people_with(*SEE)
def prompt_usage(request: HttpRequest, _caller: Caller, name: str) -> HttpResponse:
    prompt = _prompt_or_404(name)
    part = target_of(request) == "usage"
    template = "prompts/parts/usage.html" if part else "prompts/usage.html"
    return _page(request, template, _("How the versions did"), prompt=prompt, uses=use_of(prompt))


@require_safe
@for_people_with(*SEE)
def prompt_runs(request: HttpRequest, caller: Caller, name: str, number: int) -> HttpResponse:
    version = _version_or_404(name, number)
    rows = listed(runs_of(caller, name, version.label), RUNS_SHOWN + 1)
    words: dict[str, Any] = {
        "prompt": version.prompt,
        "version": version,
        "more": len(rows) > RUNS_SHOWN,
        "shown": RUNS_SHOWN,
    }
    title = _("Runs with %(label)s") % {"label": version.label}
    return _page(request, "prompts/runs.html", title, rows=rows[:RUNS_SHOWN], **words)


# ---- dry-run ----------------------------------------------------------------------------------------------------


class IncidentForm(forms.Form):
    incident = forms.ChoiceField(label=_("Incident"))
    question = forms.CharField(
        label=_("Question about it"),
        max_length=QUESTION_CHARS,
        help_text=_("What somebody on call would ask."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, *args: Any, asks: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        titles = ((one.slug, f"{one.slug}: {one.query}"[:120]) for one in bundled())
        self.fields["incident"].choices = list(titles)  # type: ignore[attr-defined]
        if not asks:
            del self.fields["question"]


class PastRunForm(forms.Form):
    run = forms.CharField(
        label=_("Run"),
        max_length=40,
        help_text=_("The id of any ended run, or one of the newest from the list."),
        widget=forms.TextInput(attrs={"list": "past-runs", "autocomplete": "off"}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@for_people_with(EDIT)
def prompt_dry_run(request: HttpRequest, caller: Caller, name: str, number: int) -> HttpResponse:
    """Choose what to try the version on, and start it."""
    version = _version_or_404(name, number)
    asks = not fits(name).alerts
    on_incident = IncidentForm(request.POST if "incident" in request.POST else None, asks=asks)
    on_run = PastRunForm(request.POST if "run" in request.POST else None, initial={"run": request.GET.get("run", "")})
    error, going = "", []
    status = 422 if request.method == "POST" else 200
    if request.method == "POST":
        try:
            scene = _scene(caller, name, on_incident, on_run)
            if scene is not None:
                return redirect("dry_run", run_id=start(version, scene, person_of(request)))
        except (PromptError, NoSuchIncident, _Unfit) as wrong:
            error = str(wrong)
        except TooManyDryRuns as full:
            error, status, going = str(full), 429, listed(dry_runs_going(caller), CHOICE)
    return _page(
        request,
        "prompts/dry_run_start.html",
        _("Dry-run of %(label)s") % {"label": version.label},
        status=status,
        prompt=version.prompt,
        version=version,
        own_at_once=OWN_AT_ONCE,
        going=going,
        current=version.prompt.newest_activation(),
        lacks=shortfalls(name, version.text),
        on_incident=on_incident,
        on_run=on_run,
        error=error,
        past=listed(candidates(caller, name), CHOICE),
        earlier=listed(dry_runs_of(caller, version), CHOICE),
    )


@require_safe
@for_people_with(*SEE)
def prompt_dry_runs(request: HttpRequest, caller: Caller, name: str, number: int) -> HttpResponse:
    """The dry-runs of a version, for those who read and for the pages on which it is decided about."""
    version = _version_or_404(name, number)
    words: dict[str, Any] = {
        "prompt": version.prompt,
        "version": version,
        "lacks": shortfalls(name, version.text),
        "earlier": listed(dry_runs_of(caller, version), CHOICE),
    }
    part = target_of(request) == "dry-runs"
    template = "prompts/parts/dry_runs.html" if part else "prompts/dry_runs.html"
    return _page(request, template, _("Dry-runs of %(label)s") % {"label": version.label}, **words)


class _Unfit(Exception):
    """The text says why a run cannot be repeated with this prompt."""


def _scene(caller: Caller, name: str, on_incident: IncidentForm, on_run: PastRunForm) -> Scene | None:
    """None: a form has errors, which it shows."""
    if on_incident.is_bound:
        if not on_incident.is_valid():
            return None
        question = on_incident.cleaned_data.get("question")
        return scene_of_incident(on_incident.cleaned_data["incident"], question)
    if not on_run.is_bound:
        raise _Unfit(_("Choose an incident or a run."))
    if not on_run.is_valid():
        return None
    return scene_of_run(_repeatable(caller, name, on_run.cleaned_data["run"].strip()))


def _repeatable(caller: Caller, name: str, run_id: str) -> DiagnosisRun:
    try:
        run = visible_run(caller, run_id)
    except ApiError as error:
        raise _Unfit(error.message) from error
    if not run.is_terminal:
        raise _Unfit(_("That run goes on still: there is nothing to compare with yet."))
    if run.is_rehearsal:
        raise _Unfit(_("That run was a rehearsal itself."))
    if not fits(name).fit(run):
        raise _Unfit(_("That run never asked this prompt's role."))
    return run


@require_safe
@for_people_with(*SEE)
def dry_run(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    """Both runs side by side, live until both have ended."""
    run = run_or_404(caller, run_id)
    if not run.is_rehearsal:
        raise Http404(_("That run is no rehearsal."))
    comparison = compare(caller, run)
    prompt = Prompt.objects.filter(name=comparison.prompt).first()
    part = target_of(request) == "dry-run"
    template = "prompts/parts/comparison.html" if part else "prompts/dry_run.html"
    title = _("Dry-run of %(label)s") % {"label": comparison.tried}
    number = comparison.rehearsal.prompts.get(comparison.prompt, 0)
    words: dict[str, Any] = {
        "prompt": prompt,
        "subject": one_line(run.alert_name or run.query),
        "comparison": comparison,
        "number": number,
    }
    return _page(request, template, title, **words)


# ---- shared by the above ----------------------------------------------------------------------------------------


def _prompt_or_404(name: str) -> Prompt:
    prompt = Prompt.objects.filter(name=name).first() if "\0" not in name else None
    if prompt is None:
        raise Http404(_("There is no such prompt."))
    return prompt


def _version_or_404(name: str, number: int) -> PromptVersion:
    versions = _prompt_or_404(name).versions.select_related("prompt")
    version = versions.filter(number=number).first() if number <= LARGEST_NUMBER else None
    if version is None:
        raise Http404(_("There is no such version."))
    return version


def _page(request: HttpRequest, template: str, title: Any, *, status: int = 200, **words: Any) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": title,
        "may_edit": request.user.has_perm(EDIT),
        "may_activate": request.user.has_perm("prompts.activate_prompt"),
        **words,
    }
    return render(request, template, context, status=status)
