"""The ledgers: full fields, once. Frames of the trace point at these rows by id."""

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from audit.models.append_only import append_only, completed_once, no_truncate
from gatekeeper.types import EvidenceStatus


class LedgerRow(models.Model):
    """What every ledger row carries. `legacy` rows are from before runs had ids."""

    run = models.ForeignKey("runs.DiagnosisRun", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    session_id = models.CharField(max_length=64)
    legacy = models.BooleanField(default=False)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(condition=Q(run__isnull=False) | Q(legacy=True), name="%(class)s_has_run"),
        ]


class AgentStep(LedgerRow):
    """One model step of one role. `model_input` and `model_output` are bounded summaries, never the text."""

    class Status(models.TextChoices):
        RUNNING = "RUNNING"
        COMPLETED = "COMPLETED"
        FAILED = "FAILED"

    id = models.CharField(primary_key=True, max_length=40)
    step_index = models.PositiveIntegerField()
    agent_name = models.CharField(max_length=60)
    role = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    prompt_version = models.CharField(max_length=80, null=True, blank=True)  # noqa: DJ001
    model_input = models.CharField(max_length=1000, default="")
    model_output = models.CharField(max_length=1000, null=True, blank=True)  # noqa: DJ001
    has_tool_call = models.BooleanField(default=False)
    tool_plan = models.JSONField(default=list)
    input_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    token_count = models.PositiveIntegerField(null=True, blank=True)
    duration_ms = models.BigIntegerField(null=True, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta(LedgerRow.Meta):
        db_table = "agent_step"
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        constraints = [
            *LedgerRow.Meta.constraints,
            models.CheckConstraint(
                condition=Q(status="RUNNING", finished_at__isnull=True)
                | Q(status__in=["COMPLETED", "FAILED"], finished_at__isnull=False),
                name="agent_step_finished_iff_closed",
            ),
        ]
        indexes = [
            # The steps of a run, in the order of the contract.
            models.Index(fields=["run", "step_index", "id"], name="idx_step_run_index"),
        ]
        triggers = [completed_once(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.id} {self.role}"


class AgentReasoning(LedgerRow):
    """Restricted: what a model thought and wrote in one step."""

    id = models.BigAutoField(primary_key=True)
    step_id = models.CharField(max_length=40, unique=True)
    thought = models.TextField(null=True, blank=True)  # noqa: DJ001
    assistant_text = models.TextField(null=True, blank=True)  # noqa: DJ001
    created_at = models.DateTimeField()

    class Meta(LedgerRow.Meta):
        db_table = "agent_reasoning_audit"
        verbose_name = _("reasoning of a step")
        verbose_name_plural = _("reasoning")
        permissions = [("read_reasoning", "Can read reasoning, drafts and rejected claims")]
        indexes = [models.Index(fields=["run", "id"], name="idx_reasoning_run")]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.step_id


class ModelCallRow(LedgerRow):
    """One attempt at a model. Tokens and cost are null where the provider did not say."""

    id = models.BigAutoField(primary_key=True)
    call_id = models.CharField(max_length=40, unique=True)
    step_id = models.CharField(max_length=40)
    role = models.CharField(max_length=40)
    attempt = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=200)
    status = models.CharField(max_length=10, choices=[(s, s) for s in ("OK", "ERROR", "TIMEOUT", "CANCELLED")])
    error_code = models.CharField(max_length=60, null=True, blank=True)  # noqa: DJ001
    input_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    finish_reason = models.CharField(max_length=60, null=True, blank=True)  # noqa: DJ001
    duration_ms = models.BigIntegerField()
    started_at = models.DateTimeField()

    class Meta(LedgerRow.Meta):
        db_table = "model_call_ledger"
        verbose_name = _("model call")
        verbose_name_plural = _("model calls")
        constraints = [
            *LedgerRow.Meta.constraints,
            models.UniqueConstraint(fields=["step_id", "attempt"], name="model_call_attempt_once"),
            models.CheckConstraint(condition=Q(attempt__gte=1), name="model_call_attempt_from_one"),
            models.CheckConstraint(
                condition=Q(status__in=["OK", "ERROR", "TIMEOUT", "CANCELLED"]), name="model_call_status"
            ),
        ]
        indexes = [models.Index(fields=["run", "id"], name="idx_model_call_run")]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.call_id} {self.status}"


class ToolInvocation(LedgerRow):
    """One tool call: what was asked, what came back, and the texts that may be cited from it."""

    id = models.BigAutoField(primary_key=True)
    invocation_id = models.CharField(max_length=40)
    step_id = models.CharField(max_length=40)
    tool_name = models.CharField(max_length=100)
    source_kind = models.CharField(max_length=10)
    input_params = models.JSONField(encoder=DjangoJSONEncoder)
    output = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    output_preview = models.TextField(default="")
    evidence_status = models.CharField(max_length=15, choices=[(s.value, s.value) for s in EvidenceStatus])
    evidence_refs = models.JSONField(default=list, encoder=DjangoJSONEncoder)
    retrieval_layer = models.CharField(max_length=20, null=True, blank=True)  # noqa: DJ001
    l0_match_count = models.PositiveIntegerField(null=True, blank=True)
    l1_match_count = models.PositiveIntegerField(null=True, blank=True)
    retrieval_details = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    relevance_level = models.CharField(max_length=20, null=True, blank=True)  # noqa: DJ001
    dedup_reason = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001
    duration_ms = models.BigIntegerField()
    success = models.BooleanField()
    error_code = models.CharField(max_length=60, null=True, blank=True)  # noqa: DJ001
    error_message = models.CharField(max_length=1000, null=True, blank=True)  # noqa: DJ001
    truncated = models.BooleanField(default=False)
    started_at = models.DateTimeField()

    class Meta(LedgerRow.Meta):
        db_table = "tool_invocation"
        verbose_name = _("tool invocation")
        verbose_name_plural = _("tool invocations")
        constraints = [
            *LedgerRow.Meta.constraints,
            models.UniqueConstraint(fields=["run", "invocation_id"], name="tool_invocation_once_per_run"),
            models.CheckConstraint(
                condition=Q(evidence_status__in=[s.value for s in EvidenceStatus]), name="tool_invocation_status"
            ),
            models.CheckConstraint(
                condition=Q(success=True, evidence_status__in=["OK", "NO_EVIDENCE", "DEDUPLICATED"])
                | Q(success=False, evidence_status__in=["FAILED", "TIMEOUT", "REJECTED"]),
                name="tool_invocation_success_iff_answered",
            ),
        ]
        indexes = [models.Index(fields=["run", "started_at", "id"], name="idx_invocation_run_started")]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.invocation_id} {self.tool_name}"
