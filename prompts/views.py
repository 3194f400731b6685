"""The pages of prompts inside Django's admin: one prompt, one version, an edit, a comparison, an activation.

`prompts.admin` gives them their addresses and lets only staff in; each page asks for its own permission.
"""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from prompts.actions import NotFit, PromptError, SameText, Stale, check_draft, do_activate, save_version
from prompts.diffs import Diff, diff
from prompts.forms import ActivateForm, CompareForm, EditForm
from prompts.models import Prompt, PromptVersion
from prompts.needs import shortfalls
from prompts.pages import choices, page_of, row_of, standings

SEE = ("prompts.view_prompt", "prompts.change_prompt", "prompts.activate_prompt")
EDIT = "prompts.change_prompt"
ACTIVATE = "prompts.activate_prompt"
LARGEST_NUMBER = 2**31 - 1


def may_see(request: HttpRequest) -> bool:
    return any(request.user.has_perm(permission) for permission in SEE)


# ---- looking ----------------------------------------------------------------------------------------------------


@require_safe
def prompt_list(request: HttpRequest) -> HttpResponse:
    _need(request, *SEE)
    return _page(request, "list", _("Prompts"), standings=standings())


@require_safe
def prompt_page(request: HttpRequest, name: str) -> HttpResponse:
    _need(request, *SEE)
    prompt = _prompt_or_404(name)
    return _page(request, "prompt", prompt.title, prompt=prompt, page=page_of(prompt))


@require_safe
def version_page(request: HttpRequest, name: str, number: int) -> HttpResponse:
    _need(request, *SEE)
    version = _version_or_404(name, number)
    others = [other for other in version.prompt.versions.order_by("-number") if other.id != version.id]
    log = version.activations.select_related("previous", "activated_by").order_by("-id")
    return _page(request, "version", version.label, row=row_of(version), others=others, log=log, prompt=version.prompt)


@require_safe
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """`?a=2&b=5`; without them the two newest."""
    _need(request, *SEE)
    prompt = _prompt_or_404(name)
    versions = list(prompt.versions.order_by("-number"))
    numbers = {"a": versions[min(1, len(versions) - 1)].number, "b": versions[0].number} if versions else {}
    form = CompareForm(request.GET or numbers, choices=choices(versions))
    before = after = None
    if form.is_valid():
        by_number = {version.number: version for version in versions}
        before, after = by_number[form.cleaned_data["a"]], by_number[form.cleaned_data["b"]]
    found = diff(before.text, after.text) if before and after else None
    words = {"prompt": prompt, "form": form, "before": before, "after": after, "diff": found}
    return _page(request, "compare", _("Compare versions"), status=200 if form.is_valid() else 400, **words)


# ---- editing ----------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """An edit of any version is a new one. "Look" shows what would change and keeps nothing."""
    _need(request, EDIT)
    base = _version_or_404(name, number)
    newest = base.prompt.versions.order_by("-number").first() or base
    if request.method != "POST":
        form = EditForm(initial={"text": base.text, "newest": newest.number})
        return _edit_page(request, base, form)
    form = EditForm(request.POST)
    if "save" not in request.POST:
        form.fields["reason"].required = False
        form.is_valid()
        return _edit_page(request, base, form, looked=True)
    if not form.is_valid():
        return _edit_page(request, base, form, status=422)
    try:
        version = save_version(base, form.cleaned_data["text"], by=_person(request), reason=form.cleaned_data["reason"])
    except SameText as error:
        link = format_html('<a href="{}">{}</a>', _address(error.version), error.version.label)
        return _edit_page(request, base, form, status=409, error=format_html("{} {}", error, link))
    except PromptError as error:
        return _edit_page(request, base, form, status=422, error=str(error))
    messages.success(request, _("Saved as %(label)s. It is not active yet.") % {"label": version.label})
    _tell_of_others(request, version, shown=form.cleaned_data["newest"] or newest.number)
    return redirect(_address(version))


def _tell_of_others(request: HttpRequest, version: PromptVersion, *, shown: int) -> None:
    """Versions that came while this one was written: nothing of them is in it, and nothing of them is lost."""
    meanwhile = version.prompt.versions.filter(number__gt=shown, number__lt=version.number).select_related("created_by")
    for other in meanwhile.order_by("number"):
        where = f"{reverse('admin:prompts_compare', args=[version.prompt_id])}?a={other.number}&b={version.number}"
        words = _("Meanwhile %(who)s saved %(label)s. Your version holds nothing of it.")
        said = words % {"who": other.who, "label": other.label}
        messages.warning(request, format_html('{} <a href="{}">{}</a>', said, where, _("Compare the two")))


def _edit_page(
    request: HttpRequest,
    base: PromptVersion,
    form: EditForm,
    *,
    status: int = 200,
    error: str = "",
    looked: bool = False,
) -> HttpResponse:
    text = (form.data.get("text") if form.is_bound else None) or ""
    found: Diff | None = None
    lacks: list[str] = []
    if looked:
        try:
            kept = check_draft(text)
            found, lacks = diff(base.text, kept), shortfalls(base.prompt_id, kept)
        except PromptError as wrong:
            error, status = str(wrong), 422
    title = _("Edit %(label)s") % {"label": base.label}
    words = {"prompt": base.prompt, "base": base, "form": form, "diff": found, "lacks": lacks, "error": error}
    return _page(request, "edit", title, status=status, **words)


# ---- activating -------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def activate(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Shows what would change and asks; compare-and-set on the activation that was shown."""
    _need(request, ACTIVATE)
    version = _version_or_404(name, number)
    if request.method != "POST":
        return _activate_page(request, version)
    form = ActivateForm(request.POST)
    if not form.is_valid():
        return _activate_page(request, version, form, status=422)
    try:
        do_activate(version, shown=form.cleaned_data["shown"], by=_person(request), reason=form.cleaned_data["reason"])
    except (Stale, SameText) as error:
        return _activate_page(request, version, form, status=409, error=str(error))
    except (NotFit, PromptError) as error:
        return _activate_page(request, version, form, status=422, error=str(error))
    said = _("Active now: %(label)s. Every run that starts from now on has it.")
    messages.success(request, said % {"label": version.label})
    return redirect("admin:prompts_prompt_change", version.prompt_id)


def _activate_page(
    request: HttpRequest,
    version: PromptVersion,
    sent: ActivateForm | None = None,
    *,
    status: int = 200,
    error: str = "",
) -> HttpResponse:
    """The reason that was sent stays; what is compared is always with what is active now."""
    current = version.prompt.newest_activation()
    form = ActivateForm(
        initial={"reason": sent.data.get("reason", "") if sent else "", "shown": current.id if current else None}
    )
    row = row_of(version)
    back = row.activations > 0
    title = _("Roll back to %(label)s") if back else _("Activate %(label)s")
    words = {
        "prompt": version.prompt,
        "row": row,
        "current": current,
        "back": back,
        "form": form,
        "sent": sent,
        "error": error,
        "diff": diff(current.version.text, version.text) if current else None,
    }
    return _page(request, "activate", title % {"label": version.label}, status=status, **words)


# ---- shared by the above ----------------------------------------------------------------------------------------


def _need(request: HttpRequest, *permissions: str) -> None:
    if not any(request.user.has_perm(permission) for permission in permissions):
        raise PermissionDenied


def _person(request: HttpRequest) -> Any:
    """Staff alone come here, so it is a person who is signed in."""
    return request.user


def _prompt_or_404(name: str) -> Prompt:
    prompt = Prompt.objects.filter(name=name).first() if "\0" not in name else None
    if prompt is None:
        raise Http404(_("There is no such prompt."))
    return prompt


def _version_or_404(name: str, number: int) -> PromptVersion:
    versions = _prompt_or_404(name).versions.select_related("prompt", "created_by", "based_on")
    version = versions.filter(number=number).first() if number <= LARGEST_NUMBER else None
    if version is None:
        raise Http404(_("There is no such version."))
    return version


def _address(version: PromptVersion) -> str:
    return reverse("admin:prompts_version", args=[version.prompt_id, version.number])


def _page(request: HttpRequest, template: str, title: str, *, status: int = 200, **words: Any) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": title,
        "opts": Prompt._meta,
        "may_edit": request.user.has_perm(EDIT),
        "may_activate": request.user.has_perm(ACTIVATE),
        **words,
    }
    return render(request, f"prompts/{template}.html", context, status=status)
