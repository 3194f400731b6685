"""Notices and silences in the admin: to look at. Silences are made and ended on the alert's page."""

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from runs.models import AlertSilence, RunNotice
from runs.pages.lookups import is_plain


class _LookedAt(admin.ModelAdmin):  # type: ignore[type-arg]
    show_full_result_count = False
    list_per_page = 50
    actions = None
    ordering = ("-id",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return is_plain(lookup) and super().lookup_allowed(lookup, value, request)

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: models.Model | None = None) -> bool:
        return False


@admin.register(RunNotice)
class RunNoticeAdmin(_LookedAt):
    list_display = ("id", "run_page", "occasion", "service", "state", "attempts", "changed_at", "last_error")
    list_filter = ("state", "occasion", "service")
    search_fields = ("run__id",)
    search_help_text = _("Run id")

    @admin.display(description=_("run"))
    def run_page(self, notice: RunNotice) -> str:
        return format_html('<a href="{}">{}</a>', reverse("run", args=[notice.run_id]), notice.run_id)


@admin.register(AlertSilence)
class AlertSilenceAdmin(_LookedAt):
    list_display = (
        "id",
        "fingerprint",
        "until",
        "reason",
        "created_by_name",
        "created_at",
        "ended_at",
        "ended_by_name",
    )
    search_fields = ("fingerprint", "reason", "created_by_name")
    search_help_text = _("Fingerprint, reason or name")
