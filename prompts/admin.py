"""Prompts in the admin: pages of their own (`prompts.views`), and the log of activations, which nobody edits."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from prompts import views
from prompts.models import Prompt, PromptActivation, PromptVersion


@admin.register(Prompt)
class PromptAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """No form of Django's own: a prompt comes with the code, and its versions are never changed."""

    def get_urls(self) -> list[URLPattern]:
        pages: list[URLPattern] = []
        for name, address, view in (
            ("prompts_version", "<str:name>/versions/<int:number>/", views.version_page),
            ("prompts_edit", "<str:name>/versions/<int:number>/edit/", views.edit),
            ("prompts_activate", "<str:name>/versions/<int:number>/activate/", views.activate),
            ("prompts_compare", "<str:name>/compare/", views.compare),
        ):
            pages.append(path(address, self.admin_site.admin_view(view), name=name))
        return [*pages, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return views.prompt_list(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return views.prompt_page(request, unquote(object_id))

    def has_view_permission(self, request: HttpRequest, obj: Prompt | None = None) -> bool:
        return views.may_see(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Prompt | None = None) -> bool:
        return False


@admin.register(PromptActivation)
class PromptActivationAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Who made what active, when, why, and in place of what. The database refuses to change a row."""

    list_display = ("when", "prompt", "version_link", "previous_link", "by", "reason")
    list_display_links = None
    list_filter = ("prompt",)
    list_select_related = ("prompt", "version", "previous", "activated_by")
    search_fields = ("reason", "activated_by__username")
    search_help_text = _("A word of a reason, or a name")
    ordering = ("-id",)
    fields = ("prompt", "version_link", "previous_link", "when", "by", "reason")
    readonly_fields = fields
    show_full_result_count = False
    list_per_page = 50
    actions = None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup in {"prompt__name__exact", "prompt__exact", "prompt_id__exact", "prompt"}

    def has_view_permission(self, request: HttpRequest, obj: PromptActivation | None = None) -> bool:
        return views.may_see(request) or super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: PromptActivation | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: PromptActivation | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return super().changelist_view(request, {"title": _("Log of activations"), **(extra_context or {})})

    @admin.display(description=_("when"))
    def when(self, row: PromptActivation) -> str:
        return f"{row.activated_at:%Y-%m-%d %H:%M:%S} UTC"

    @admin.display(description=_("made active"))
    def version_link(self, row: PromptActivation) -> str:
        return _link(row.version)

    @admin.display(description=_("in place of"))
    def previous_link(self, row: PromptActivation) -> str:
        return _link(row.previous) if row.previous else "–"

    @admin.display(description=_("by"))
    def by(self, row: PromptActivation) -> str:
        return row.who


def _link(version: PromptVersion) -> str:
    address = reverse("admin:prompts_version", args=[version.prompt_id, version.number])
    return format_html('<a href="{}">{}</a>', address, version.label)
