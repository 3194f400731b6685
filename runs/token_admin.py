"""API tokens in the admin: made, given scopes, rotated and revoked, each with a reason that its history keeps.

A secret stands in one answer only, the one to the form that made it. No cache keeps that answer, and sending the form
again is refused: the name is taken, or the token has moved on to its next generation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from gatekeeper.text import unseen
from runs import tokens
from runs.models import ApiToken
from runs.models.token import Scope
from runs.tokens import Changed, TokenRefused

SCOPE_WORDS: dict[str, Promise] = {
    Scope.ALERTS_WRITE: gettext_lazy("send alerts to be diagnosed"),
    Scope.CHAT_WRITE: gettext_lazy("ask questions, in any session"),
    Scope.RUNS_READ: gettext_lazy("read the runs of every session"),
    Scope.RUNS_CANCEL: gettext_lazy("cancel any run"),
    Scope.REASONING_READ: gettext_lazy("read reasoning, drafts and rejected claims; each reading is recorded"),
}
GRACES = {
    "0": (timedelta(0), gettext_lazy("at once")),
    "1h": (timedelta(hours=1), gettext_lazy("in an hour")),
    "1d": (timedelta(days=1), gettext_lazy("in a day")),
    "7d": (timedelta(days=7), gettext_lazy("in seven days")),
}


class ReasonForm(forms.Form):
    """What every change of a token needs. `generation` is that of the token as it was shown."""

    generation = forms.IntegerField(widget=forms.HiddenInput, min_value=1, max_value=2**31 - 1)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=300,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=gettext_lazy("Kept in the token's history."),
    )

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"]
        if codes := unseen(reason):
            raise forms.ValidationError(
                _("The reason holds characters that cannot be seen: %(codes)s.") % {"codes": codes[:200]}
            )
        return reason


class ScopesField(forms.MultipleChoiceField):
    widget = forms.CheckboxSelectMultiple

    def offer(self, scopes: list[str]) -> None:
        self.choices = [(scope, f"{scope}: {SCOPE_WORDS[scope]}") for scope in Scope.values if scope in scopes]


class AddForm(ReasonForm):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=tokens.NAME_LIMIT,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=gettext_lazy("What the token is for, such as alertmanager. Records name it; it stays."),
    )
    scopes = ScopesField(label=gettext_lazy("Scopes"), help_text=gettext_lazy("Only what you hold yourself."))
    field_order = ("name", "scopes", "reason")


class ScopesForm(ReasonForm):
    scopes = ScopesField(label=gettext_lazy("Scopes"))
    field_order = ("scopes", "reason")


class RotateForm(ReasonForm):
    grace = forms.ChoiceField(
        label=gettext_lazy("The old secret ends"), choices=[(key, words) for key, (_time, words) in GRACES.items()]
    )
    field_order = ("grace", "reason")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do with a token. `perform` returns the secret that it made, if any, and what changed."""

    name: str
    title: Promise
    explanation: Promise
    form: type[ReasonForm]
    perform: Callable[[ApiToken, dict[str, Any], User], tuple[str | None, Changed | None]]
    possible: Callable[[ApiToken], bool]


def _change_scopes(token: ApiToken, given: dict[str, Any], by: User) -> tuple[str | None, Changed | None]:
    return tokens.change_scopes(token.pk, given["scopes"], generation=given["generation"], by=by)


def _rotate(token: ApiToken, given: dict[str, Any], by: User) -> tuple[str | None, Changed | None]:
    return tokens.rotate(token.pk, generation=given["generation"], by=by, grace=GRACES[given["grace"]][0])


def _end_old_secret(token: ApiToken, given: dict[str, Any], _by: User) -> tuple[str | None, Changed | None]:
    return None, tokens.end_old_secret(token.pk, generation=given["generation"])


def _revoke(token: ApiToken, _given: dict[str, Any], _by: User) -> tuple[str | None, Changed | None]:
    return None, tokens.revoke(token.pk)


def _answers(token: ApiToken) -> bool:
    return token.revoked_at is None


def _has_old_secret(token: ApiToken) -> bool:
    return token.previous_ends_at is not None and token.previous_ends_at > datetime.now(UTC)


STEPS = (
    Step(
        "scopes",
        gettext_lazy("Change scopes"),
        gettext_lazy(
            "What the token may do from now on. With fewer scopes its secret stays the same; a scope more makes a new "
            "secret, which is shown once, and ends the old one at once."
        ),
        ScopesForm,
        _change_scopes,
        _answers,
    ),
    Step(
        "rotate",
        gettext_lazy("Rotate"),
        gettext_lazy("Makes a new secret, which is shown once. Give the old one time where its user needs it."),
        RotateForm,
        _rotate,
        _answers,
    ),
    Step(
        "end-old-secret",
        gettext_lazy("End the old secret"),
        gettext_lazy("The secret from before the last rotation stops to work now."),
        ReasonForm,
        _end_old_secret,
        _has_old_secret,
    ),
    Step(
        "revoke",
        gettext_lazy("Revoke"),
        gettext_lazy("The token stops to work now and for good. Its name stays in the records."),
        ReasonForm,
        _revoke,
        _answers,
    ),
)


class StateFilter(admin.SimpleListFilter):
    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("answers", gettext_lazy("works")),
            ("rotating", gettext_lazy("old secret still works")),
            ("unused", gettext_lazy("never used")),
            ("revoked", gettext_lazy("revoked")),
        ]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        conditions = {
            "answers": Q(revoked_at__isnull=True),
            "rotating": Q(previous_ends_at__gt=datetime.now(UTC)),
            "unused": Q(last_used_at__isnull=True, previous_used_at__isnull=True),
            "revoked": Q(revoked_at__isnull=False),
        }
        return queryset.filter(conditions.get(self.value() or "", Q()))


class ScopeFilter(admin.SimpleListFilter):
    title = gettext_lazy("scope")
    parameter_name = "scope"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(scope, scope) for scope in Scope.values]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        return queryset.filter(scopes__contains=[self.value()]) if self.value() in Scope.values else queryset


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "scope_list", "state", "last_used_at", "created_at", "created_by")
    list_filter = (StateFilter, ScopeFilter)
    list_select_related = ("created_by",)
    search_fields = ("name",)
    ordering = ("name",)
    actions = None
    change_form_template = "admin/runs/apitoken/change_form.html"
    fields = (
        *("name", "scope_list", "state", "created_at", "created_by", "last_used_at"),
        *("previous_ends_at", "previous_used_at", "revoked_at"),
    )

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """None but the filters: Django would let digests be guessed at letter by letter."""
        return lookup in {StateFilter.parameter_name, ScopeFilter.parameter_name}

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """The row itself is no form; see `STEPS`."""
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """Records name tokens: they are revoked and stay."""
        return False

    def has_view_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        return request.user.has_perm("runs.view_apitoken") or self.may_change(request)

    def may_change(self, request: HttpRequest) -> bool:
        return request.user.has_perm("runs.change_apitoken")

    @admin.display(description=gettext_lazy("scopes"))
    def scope_list(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    @admin.display(description=gettext_lazy("state"))
    def state(self, token: ApiToken) -> str:
        if token.revoked_at is not None:
            return _("revoked")
        return _("works; so does its old secret") if _has_old_secret(token) else _("works")

    def get_urls(self) -> list[URLPattern]:
        own = [
            path(
                f"<int:token_id>/{step.name}/",
                self.admin_site.admin_view(self._view_of(step)),
                name=f"runs_apitoken_{step.name.replace('-', '_')}",
            )
            for step in STEPS
        ]
        return [*own, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        token = self.get_object(request, object_id)
        steps = [step for step in STEPS if token is not None and self.may_change(request) and step.possible(token)]
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "steps": steps})

    @method_decorator([never_cache, csrf_protect])
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        by = _person(request)
        form = AddForm(request.POST or None, initial={"generation": 1})
        _field(form).offer(tokens.grantable(by))
        if request.method == "POST" and form.is_valid():
            given = form.cleaned_data
            try:
                text = tokens.create_token(given["name"], given["scopes"], by)
            except TokenRefused as error:
                form.add_error(None, str(error))
            else:
                token = ApiToken.objects.get(name=given["name"])
                self.log_addition(request, token, _told("scopes", Changed("none", self.scope_list(token)), given))
                return self._secret(request, token, text)
        title, explanation = _("Add API token"), _("Its secret is shown once, on the next page.")
        return self._form(request, form, {"title": title, "explanation": explanation})

    def _view_of(self, step: Step) -> Callable[..., HttpResponse]:
        @never_cache
        @csrf_protect
        def view(request: HttpRequest, token_id: int) -> HttpResponse:
            if not self.may_change(request):
                raise PermissionDenied
            token = ApiToken.objects.filter(pk=min(token_id, 2**63 - 1)).first()
            if token is None:
                raise Http404
            return self._take(request, step, token)

        return view

    def _take(self, request: HttpRequest, step: Step, token: ApiToken) -> HttpResponse:
        by = _person(request)
        initial = {"generation": token.generation, "scopes": token.scopes}
        form = step.form(request.POST or None, initial=initial)
        if isinstance(form, ScopesForm):
            _field(form).offer([*tokens.grantable(by), *token.scopes])
        if request.method == "POST" and form.is_valid():
            try:
                text, changed = step.perform(token, form.cleaned_data, by)
            except TokenRefused as error:
                form.add_error(None, str(error))
            else:
                token.refresh_from_db()
                if changed is not None:
                    self.log_change(request, token, _told(step.name, changed, form.cleaned_data))
                if text is not None:
                    return self._secret(request, token, text)
                told = _("Nothing was changed.") if changed is None else f"{changed.before} → {changed.after}"
                messages.success(request, f"{token.name}: {told}")
                return redirect("admin:runs_apitoken_change", token.pk)
        about = {"title": f"{step.title}: {token.name}", "explanation": step.explanation, "original": token}
        return self._form(request, form, about)

    def _form(self, request: HttpRequest, form: forms.Form, about: dict[str, Any]) -> HttpResponse:
        context = {**self.admin_site.each_context(request), "opts": self.opts, "form": form, **about}
        return TemplateResponse(request, "admin/runs/apitoken/form.html", context)

    def _secret(self, request: HttpRequest, token: ApiToken, text: str) -> HttpResponse:
        about = {"title": _("The token's secret"), "original": token, "secret": text}
        context = {**self.admin_site.each_context(request), "opts": self.opts, **about}
        return TemplateResponse(request, "admin/runs/apitoken/secret.html", context)


def _person(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user


def _field(form: forms.Form) -> ScopesField:
    field = form.fields["scopes"]
    assert isinstance(field, ScopesField)
    return field


def _told(what: str, changed: Changed, given: dict[str, Any]) -> str:
    """For the history, which shows who and when by itself."""
    return f"{what.replace('-', ' ').capitalize()}: {changed.before} → {changed.after}. Reason: {given['reason']}"
