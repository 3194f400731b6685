"""The ledgers in the admin: to look at, search and follow. Nothing can be changed there."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from audit.models import (
    AgentReasoning,
    AgentStep,
    ModelCallRow,
    PrunedRun,
    ReasoningAccess,
    ToolInvocation,
    TraceEvent,
    TraceHead,
)


def _link(url_name: str, text: str, *arguments: Any, query: str = "") -> str:
    return format_html('<a href="{}{}">{}</a>', reverse(url_name, args=arguments), query, text)


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """No adding, changing or deleting; long lists are counted only when filtered."""

    show_full_result_count = False
    list_per_page = 50
    actions = None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """What the lists filter by and link to. Django would allow any lookup of the row's own columns: restricted
        texts could be guessed at letter by letter, and a year beyond all calendars is an error of the database."""
        name, _sign, how = lookup.partition("__")
        return name in {"run_id", *self.list_filter} and how in {"", "exact", "isnull"}

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: models.Model | None = None) -> bool:
        return False

    @admin.display(description=_("frames"))
    def frames_link(self, row: Any) -> str:
        return _link("admin:audit_traceevent_changelist", row.run_id or "", query=f"?run_id={row.run_id or ''}")

    @admin.display(description=_("step"))
    def step_link(self, row: Any) -> str:
        return _link("admin:audit_agentstep_change", row.step_id, row.step_id) if row.step_id else ""


@admin.register(TraceEvent)
class TraceEventAdmin(ReadOnly):
    list_display = (
        "run_id",
        "sequence_no",
        "event_type",
        "status",
        "summary",
        "step_link",
        "invocation_id",
        "created_at",
    )
    list_filter = ("phase", "event_type", "legacy")
    search_fields = ("run__id", "session_id", "step_id", "invocation_id")
    search_help_text = _("Run, session, step or invocation id")
    ordering = ("-id",)


@admin.register(TraceHead)
class TraceHeadAdmin(ReadOnly):
    list_display = ("frames_link", "sequence_no", "hash", "steps", "tool_invocations", "model_calls", "closed")
    list_filter = ("closed",)
    list_display_links = ("hash",)
    search_fields = ("run__id", "hash")


@admin.register(AgentStep)
class AgentStepAdmin(ReadOnly):
    list_display = (
        "id",
        "frames_link",
        "step_index",
        "role",
        "model",
        "status",
        "token_count",
        "duration_ms",
        "started_at",
    )
    list_filter = ("status", "role", "legacy")
    search_fields = ("id", "run__id", "session_id")
    ordering = ("-started_at",)


@admin.register(ModelCallRow)
class ModelCallAdmin(ReadOnly):
    list_display = (
        "call_id",
        "frames_link",
        "step_link",
        "attempt",
        "model",
        "status",
        "input_tokens",
        "output_tokens",
    )
    list_filter = ("status", "role", "legacy")
    search_fields = ("call_id", "run__id", "step_id", "session_id")
    ordering = ("-id",)


@admin.register(ToolInvocation)
class ToolInvocationAdmin(ReadOnly):
    list_display = (
        *("invocation_id", "frames_link", "step_link", "tool_name", "evidence_status", "error_code"),
        *("duration_ms", "started_at"),
    )
    list_filter = ("evidence_status", "tool_name", "legacy")
    search_fields = ("invocation_id", "run__id", "step_id", "session_id")
    ordering = ("-id",)


@admin.register(AgentReasoning)
class AgentReasoningAdmin(ReadOnly):
    """That there is reasoning, never its text: the text is read on the run's page, where each read is recorded."""

    list_display = ("step_link", "frames_link", "created_at")
    list_display_links = None
    fields = ("run", "session_id", "step_id", "created_at", "legacy")
    search_fields = ("run__id", "step_id", "session_id")
    ordering = ("-id",)


@admin.register(ReasoningAccess)
class ReasoningAccessAdmin(ReadOnly):
    list_display = ("reader", "what", "frames_link", "at")
    search_fields = ("reader", "run__id")
    ordering = ("-at",)


@admin.register(PrunedRun)
class PrunedRunAdmin(ReadOnly):
    list_display = ("run_id", "session_id", "pruned_at", "pruned_by", "reason", "trace_event_count")
    search_fields = ("run_id", "session_id", "trace_head_hash")
    ordering = ("-pruned_at",)
