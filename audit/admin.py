"""The ledgers in the admin: to look at, search and follow. Nothing can be changed there."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.db.models import Q, QuerySet
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

# What the page of a row shows in place of a bare id.
LINKED = {"run": "run_link", "run_id": "run_link", "session_id": "session_link", "step_id": "step_link"}


def _link(url_name: str, text: str, *arguments: Any, query: str = "") -> str:
    return format_html('<a href="{}{}">{}</a>', reverse(url_name, args=arguments), query, text)


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """No adding, changing or deleting; long lists are counted only when filtered.

    A search is for whole ids (`search_fields`), which indexes find, or for a part of a name (`searched_names`).
    """

    show_full_result_count = False
    list_per_page = 50
    actions = None
    searched_names: tuple[str, ...] = ()
    search_help_text = _("A whole id: of a run, a session, a step or a call")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        for term in search_term.split():
            found = Q()
            for name in self.get_search_fields(request):
                found |= Q(**{f"{name}__icontains" if name in self.searched_names else str(name): term})
            queryset = queryset.filter(found)
        return queryset, False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """What the lists filter by and link to. Django would allow any lookup of the row's own columns: restricted
        texts could be guessed at letter by letter, and a year beyond all calendars is an error of the database."""
        name, _sign, how = lookup.partition("__")
        return name in {"run_id", *self.list_filter} and how in {"", "exact", "isnull"}

    def get_fields(self, request: HttpRequest, obj: models.Model | None = None) -> Any:
        return [LINKED.get(str(name), name) for name in super().get_fields(request, obj)]

    def has_add_permission(self, _request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: models.Model | None = None) -> bool:
        return False

    @admin.display(description=_("run"), ordering="run_id")
    def run_link(self, row: Any) -> str:
        return _link("run", row.run_id, row.run_id) if row.run_id else ""

    @admin.display(description=_("session"))
    def session_link(self, row: Any) -> str:
        return _link("session", row.session_id, row.session_id) if row.session_id else ""

    @admin.display(description=_("frames"))
    def frames_link(self, row: Any) -> str:
        return _link("admin:audit_traceevent_changelist", str(_("frames")), query=f"?run_id={row.run_id or ''}")

    @admin.display(description=_("step"))
    def step_link(self, row: Any) -> str:
        return _link("admin:audit_agentstep_change", row.step_id, row.step_id) if row.step_id else ""


@admin.register(TraceEvent)
class TraceEventAdmin(ReadOnly):
    list_display = (
        *("sequence_no", "run_link", "event_type", "status", "summary", "step_link", "call_link"),
        "created_at",
    )
    list_filter = ("phase", "event_type", "legacy")
    search_fields = ("run_id", "session_id", "step_id", "invocation_id")
    ordering = ("-id",)

    @admin.display(description=_("tool call"))
    def call_link(self, row: TraceEvent) -> str:
        if not row.invocation_id:
            return ""
        return _link("admin:audit_toolinvocation_changelist", row.invocation_id, query=f"?q={row.invocation_id}")


@admin.register(TraceHead)
class TraceHeadAdmin(ReadOnly):
    list_display = (
        "hash",
        "run_link",
        "frames_link",
        "sequence_no",
        "steps",
        "tool_invocations",
        "model_calls",
        "closed",
    )
    list_filter = ("closed",)
    search_fields = ("run_id", "hash")


@admin.register(AgentStep)
class AgentStepAdmin(ReadOnly):
    list_display = (
        *("id", "run_link", "frames_link", "step_index", "role", "model", "status", "token_count", "duration_ms"),
        "started_at",
    )
    list_filter = ("status", "role", "legacy")
    search_fields = ("id", "run_id", "session_id")
    ordering = ("-started_at",)


@admin.register(ModelCallRow)
class ModelCallAdmin(ReadOnly):
    list_display = (
        *("call_id", "run_link", "frames_link", "step_link", "attempt", "model", "status"),
        *("input_tokens", "output_tokens"),
    )
    list_filter = ("status", "role", "legacy")
    search_fields = ("call_id", "run_id", "step_id", "session_id")
    ordering = ("-id",)


@admin.register(ToolInvocation)
class ToolInvocationAdmin(ReadOnly):
    list_display = (
        *("invocation_id", "run_link", "frames_link", "step_link", "tool_name", "evidence_status", "error_code"),
        *("duration_ms", "started_at"),
    )
    list_filter = ("evidence_status", "tool_name", "legacy")
    search_fields = ("invocation_id", "run_id", "step_id", "session_id")
    ordering = ("-id",)


@admin.register(AgentReasoning)
class AgentReasoningAdmin(ReadOnly):
    """That there is reasoning, never its text: the text is read on the run's page, where each read is recorded."""

    list_display = ("step_link", "run_link", "frames_link", "created_at")
    list_display_links = None
    fields = ("run", "session_id", "step_id", "created_at", "legacy")
    search_fields = ("run_id", "step_id", "session_id")
    ordering = ("-id",)


@admin.register(ReasoningAccess)
class ReasoningAccessAdmin(ReadOnly):
    """Who read what of which run. `verify_ledger` checks that none of it was changed."""

    list_display = ("reader", "what", "run_link", "sequence_no", "at")
    search_fields = ("reader", "token_name", "run_id")
    searched_names = ("reader", "token_name")
    search_help_text = _("A part of a reader's name, or the whole id of a run")
    ordering = ("-at",)


@admin.register(PrunedRun)
class PrunedRunAdmin(ReadOnly):
    list_display = ("pruned_at", "run_link", "session_link", "pruned_by", "reason", "outcome", "trace_event_count")
    search_fields = ("run_id", "session_id", "trace_head_hash", "pruned_by")
    searched_names = ("pruned_by",)
    ordering = ("-pruned_at",)
