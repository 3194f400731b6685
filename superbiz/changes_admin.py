"""Every change that was made by hand, in one list: the histories of all objects, as Django's log keeps them."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from superbiz.read_only_admin import ReadOnlyAdmin


@admin.register(LogEntry)
class ChangesAdmin(ReadOnlyAdmin):
    """Who changed what, when, and in the message why and from what to what. The newest first."""

    list_display = ("action_time", "user", "content_type", "changed", "said")
    list_filter = (("content_type", admin.RelatedOnlyFieldListFilter), ("user", admin.RelatedOnlyFieldListFilter))
    search_fields = ("object_repr", "change_message", "user__username")
    fields = ("action_time", "user", "content_type", "changed", "said")
    readonly_fields = fields
    ordering = ("-action_time", "-id")
    list_select_related = ("user", "content_type")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return super().changelist_view(request, {"title": _("Changes"), **(extra_context or {})})

    @admin.display(description=gettext_lazy("object"), ordering="object_repr")
    def changed(self, entry: LogEntry) -> str:
        address = entry.get_admin_url()
        return format_html('<a href="{}">{}</a>', address, entry.object_repr) if address else entry.object_repr

    @admin.display(description=gettext_lazy("change"))
    def said(self, entry: LogEntry) -> str:
        return entry.get_change_message()
