"""The trace: what happened, in what order, chained by hashes.

`audit.chain` documents the canonical form and the hashes; `audit.recorder` is the one writer.
"""

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _

from audit.models.append_only import append_only, kept, no_truncate
from runs.harness.events import EventType, Phase


class TraceHead(models.Model):
    """The end of a run's chain. Its row lock hands out sequence numbers and hashes.

    `persisted` counts what is on record by ledger; `closed` is set by the terminal frame.
    """

    run = models.OneToOneField(
        "runs.DiagnosisRun", primary_key=True, on_delete=models.PROTECT, related_name="trace_head"
    )
    sequence_no = models.PositiveIntegerField(default=0)
    hash = models.CharField(max_length=64)
    events = models.PositiveIntegerField(default=0)
    steps = models.PositiveIntegerField(default=0)
    tool_invocations = models.PositiveIntegerField(default=0)
    model_calls = models.PositiveIntegerField(default=0)
    closed = models.BooleanField(default=False)

    class Meta:
        db_table = "diagnosis_trace_head"
        verbose_name = _("end of a record")
        verbose_name_plural = _("ends of records")
        triggers = [kept(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.run_id}@{self.sequence_no}"


class TraceEvent(models.Model):
    """One frame. `step_id` and `invocation_id` name ledger rows; they are no foreign keys, because a
    frame stays readable when the row it points at is missing. Records from before runs had ids carry
    `session_id` alone and are marked `legacy`."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        "runs.DiagnosisRun", null=True, blank=True, on_delete=models.PROTECT, related_name="trace_events"
    )
    session_id = models.CharField(max_length=64)
    sequence_no = models.PositiveIntegerField()
    phase = models.CharField(max_length=10, choices=[(p.value, p.value) for p in Phase])
    event_type = models.CharField(max_length=30, choices=[(e.value, e.value) for e in EventType])
    status = models.CharField(max_length=30, null=True, blank=True)  # noqa: DJ001
    step_id = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001
    invocation_id = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001
    summary = models.CharField(max_length=200)
    details = models.JSONField(encoder=DjangoJSONEncoder)
    duration_ms = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    previous_hash = models.CharField(max_length=64)
    ledger_digest = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    content_digest = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    hash = models.CharField(max_length=64)
    legacy = models.BooleanField(default=False)

    class Meta:
        db_table = "diagnosis_trace_event"
        verbose_name = _("frame")
        verbose_name_plural = _("frames")
        constraints = [
            models.UniqueConstraint(fields=["run", "sequence_no"], name="idx_trace_event_run_sequence"),
            models.CheckConstraint(condition=models.Q(sequence_no__gte=1), name="trace_event_sequence_from_one"),
            models.CheckConstraint(
                condition=models.Q(run__isnull=False) | models.Q(legacy=True), name="trace_event_has_run"
            ),
        ]
        indexes = [
            # The legacy view: records of a session that carry no run.
            models.Index(
                fields=["session_id", "id"], condition=models.Q(run__isnull=True), name="idx_trace_event_legacy"
            ),
        ]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.run_id}#{self.sequence_no} {self.event_type}"


class PrunedRun(models.Model):
    """The tombstone of a run whose records were removed.

    What it was (never what it said), when and by whom it was removed, and where its chains ended. The columns that
    may be null are so in tombstones from before they were kept.
    """

    id = models.BigAutoField(primary_key=True)
    run_id = models.CharField(_("run"), max_length=40, unique=True)
    session_id = models.CharField(_("session"), max_length=64)
    trigger = models.CharField(_("trigger"), max_length=10, null=True, blank=True)  # noqa: DJ001
    outcome = models.CharField(_("outcome"), max_length=10, null=True, blank=True)  # noqa: DJ001
    queued_at = models.DateTimeField(_("queued"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)
    pruned_at = models.DateTimeField(_("pruned"))
    pruned_by = models.CharField(_("pruned by"), max_length=150)
    reason = models.CharField(_("reason"), max_length=300)
    trace_event_count = models.PositiveIntegerField(_("frames"))
    trace_head_hash = models.CharField(_("hash of the last frame"), max_length=64)
    reading_count = models.PositiveIntegerField(_("readings of reasoning"), null=True, blank=True)
    reading_head_hash = models.CharField(_("hash of the last reading"), max_length=64, null=True, blank=True)  # noqa: DJ001

    class Meta:
        db_table = "pruned_run"
        verbose_name = _("pruned run")
        verbose_name_plural = _("pruned runs")
        indexes = [
            # The tombstones of a session, newest first.
            models.Index(fields=["session_id", "-id"], name="idx_pruned_run_session"),
        ]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.run_id
