"""People and groups in the admin. Nobody gives what they do not hold.

Who may change people and is no superuser

- gives and takes groups whose permissions they hold themselves, each and every one; other groups stay as they are;
- makes nobody a superuser and gives no single permissions;
- does not touch people who hold more than they do, not even where these are inactive: a new password would do.

Groups are changed by superusers. People are deactivated, not deleted: the histories that name them would go with them.
Every change of rights needs a reason; the history keeps it with what was before and after.
"""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from runs.pages.lookups import is_plain

RIGHTS = ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")


def _codes(permissions: QuerySet[Permission]) -> set[str]:
    return {f"{app}.{code}" for app, code in permissions.values_list("content_type__app_label", "codename")}


def held_by(person: User) -> set[str]:
    """The permissions that a person is given, whether or not they are active; a superuser's are not among them."""
    return _codes(Permission.objects.filter(Q(user=person) | Q(group__user=person)))


def may_touch(giver: User, person: User) -> bool:
    """Whether `giver` holds all that `person` does, so that acting for them gains nothing."""
    return giver.is_superuser or (not person.is_superuser and held_by(person) <= giver.get_all_permissions())


def givable_groups(giver: User) -> QuerySet[Group]:
    """The groups whose every permission `giver` holds."""
    if giver.is_superuser:
        return Group.objects.all()
    own = giver.get_all_permissions()
    beyond = [each.pk for each in Permission.objects.select_related("content_type") if _code(each) not in own]
    return Group.objects.exclude(permissions__in=beyond)


def _code(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"


class _ReasonForm(forms.ModelForm):  # type: ignore[type-arg]
    """Asks why where `rights` change."""

    rights: tuple[str, ...] = ()
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=300,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=_("Needed where rights change. Kept in the history."),
    )

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if set(self.rights) & set(self.changed_data) and not self.cleaned_data.get("reason"):
            self.add_error("reason", _("Say why these rights change."))
        return cleaned


class PersonForm(_ReasonForm, UserChangeForm):  # type: ignore[type-arg]
    rights = RIGHTS
    giver: User

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields.get("groups")
        if isinstance(field, forms.ModelMultipleChoiceField):
            field.queryset = givable_groups(self.giver)
            givable = set(field.queryset)
            self.initial["groups"] = [group for group in self.initial.get("groups", []) if group in givable]

    def clean_groups(self) -> QuerySet[Group]:
        """Groups that `giver` may not give cannot be taken by them either."""
        others = self.instance.groups.exclude(pk__in=givable_groups(self.giver))
        return Group.objects.filter(Q(pk__in=self.cleaned_data["groups"]) | Q(pk__in=others))


class GroupForm(_ReasonForm):
    rights = ("permissions",)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Iterable) and not isinstance(value, str):
        names = sorted(_code(each) if isinstance(each, Permission) else str(each) for each in value)
        return ", ".join(names) or "none"
    return str(value)


def _told(form: Any, others: Any) -> Any:
    """The history's message: rights with before and after, or `others`, Django's own."""
    changed = [name for name in form.rights if name in form.changed_data]
    if not changed:
        return others
    rights = [f"{name} {_words(form.initial.get(name, ()))} → {_words(form.cleaned_data[name])}" for name in changed]
    rest = [name for name in form.changed_data if name not in {*form.rights, "reason"}]
    also = f" Also changed: {', '.join(rest)}." if rest else ""
    return f"{'; '.join(rights)}. Reason: {form.cleaned_data['reason']}.{also}"


# Django's own pages, registered by the imports above, give way to these.
admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(DjangoUserAdmin):  # type: ignore[type-arg]
    form = PersonForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", "groups")
    fieldsets = (*(DjangoUserAdmin.fieldsets or ()), (_("This change"), {"fields": ("reason",)}))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return is_plain(lookup) and super().lookup_allowed(lookup, value, request)

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        return type("PersonFormOfGiver", (form,), {"giver": request.user}) if issubclass(form, PersonForm) else form

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        own = ("last_login", "date_joined")
        return own if _is_superuser(request) else (*own, "is_superuser", "user_permissions")

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or (isinstance(request.user, User) and may_touch(request.user, obj)))

    def has_delete_permission(self, _request: HttpRequest, _obj: User | None = None) -> bool:
        return False

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        others = super().construct_change_message(request, form, formsets, add)
        return others if add else _told(form, others)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin):
    form = GroupForm
    fields = ("name", "permissions", "reason")

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return is_plain(lookup) and super().lookup_allowed(lookup, value, request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_change_permission(self, request: HttpRequest, _obj: Group | None = None) -> bool:
        return _is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, _obj: Group | None = None) -> bool:
        return _is_superuser(request)

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        return _told(form, super().construct_change_message(request, form, formsets, add))


def _is_superuser(request: HttpRequest) -> bool:
    return isinstance(request.user, User) and request.user.is_active and request.user.is_superuser
