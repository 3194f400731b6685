"""The run's row: what was asked, where it stands, how it ended.

Every change of `status` is one guarded UPDATE in `runs.lifecycle`; the constraints here say the same
as the guards, so that a wrong state cannot be stored by anyone.
"""

from enum import StrEnum

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q

from gatekeeper.types import Intent, Verdict
from runs.errors import CancelReason, FailureCode
from runs.models import derived


class RunStatus(models.TextChoices):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class RunOutcome(models.TextChoices):
    SUCCESS = "SUCCESS"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = (RunStatus.SUCCESS, RunStatus.DEGRADED, RunStatus.FAILED, RunStatus.CANCELLED)


class Trigger(models.TextChoices):
    ALERT = "ALERT"
    CHAT = "CHAT"
    MANUAL = "MANUAL"
    EVAL = "EVAL"


class ReleaseDecision(models.TextChoices):
    RELEASED = "RELEASED"
    RELEASED_LOW_CONFIDENCE = "RELEASED_LOW_CONFIDENCE"
    WITHHELD = "WITHHELD"


def _values(enum: type[StrEnum]) -> list[str]:
    return [member.value for member in enum]


NEEDS_ATTENTION = Q(status__in=TERMINAL, rehearsal__isnull=True) & (
    Q(status__in=[RunStatus.FAILED, RunStatus.DEGRADED])
    | Q(release_decision=ReleaseDecision.RELEASED_LOW_CONFIDENCE)
    | Q(record_complete__isnull=True)
    | Q(record_complete=False)
)
"""Of runs that ended: failed, withheld, of low confidence, or with a record that is not whole. Not of rehearsals."""


def _listed(column: str) -> models.Index:
    """For the run list filtered by that column, newest first."""
    return models.Index(fields=[column, "-queued_at", "-id"], include=["session"], name=f"idx_run_{column}")


class DiagnosisRun(models.Model):
    """`id` is the public run id.

    `subject` is a validated `runs.harness.run.Subject`: the alert or question as it came. `pinned_prompts` and
    `rehearsal` are the shapes of `runs.pins`. `groundedness` is the verifier's score, from 0 to 1.
    `record_complete`: whether all that the run emitted was on record at its end; null until its end is on record.
    `again_of`: the run whose subject and question this one asks again. It outlives that run: where that was pruned,
    it leads to a tombstone.
    """

    id = models.CharField(primary_key=True, max_length=40)
    session = models.ForeignKey("runs.ChatSession", on_delete=models.PROTECT, related_name="runs")
    alert = models.ForeignKey("runs.Alert", null=True, blank=True, on_delete=models.SET_NULL, related_name="runs")
    trigger = models.CharField(max_length=10, choices=Trigger)
    intent = models.CharField(max_length=20, null=True, blank=True)  # noqa: DJ001 (null until the run is routed)
    status = models.CharField(max_length=10, choices=RunStatus, default=RunStatus.QUEUED)
    outcome = models.CharField(max_length=10, choices=RunOutcome, null=True, blank=True)  # noqa: DJ001
    verdict = models.CharField(max_length=12, null=True, blank=True)  # noqa: DJ001
    release_decision = models.CharField(max_length=30, choices=ReleaseDecision, null=True, blank=True)  # noqa: DJ001
    failure_code = models.CharField(max_length=30, null=True, blank=True)  # noqa: DJ001
    cancel_reason = models.CharField(max_length=20, null=True, blank=True)  # noqa: DJ001

    query = models.CharField(max_length=2000)
    subject = models.JSONField(encoder=DjangoJSONEncoder)
    published_result = models.JSONField(null=True, blank=True)
    safe_content = models.JSONField(null=True, blank=True)
    self_evaluation = models.JSONField(null=True, blank=True)

    model = models.CharField(max_length=200, default="")
    rule_set_version = models.PositiveIntegerField(null=True, blank=True)
    prompt_set_version = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001
    pinned_prompts = models.JSONField(null=True, blank=True)
    rehearsal = models.JSONField(null=True, blank=True)
    groundedness = models.FloatField(null=True, blank=True)

    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    model_calls = models.PositiveIntegerField(default=0)
    tool_calls = models.PositiveIntegerField(default=0)
    emitted = models.JSONField(default=dict)

    attempts = models.PositiveSmallIntegerField(default=0)
    lease_token = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001 (held only while RUNNING)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_reason = models.CharField(max_length=20, null=True, blank=True)  # noqa: DJ001
    enqueued_at = models.DateTimeField(null=True, blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="requested_runs"
    )
    requested_by_token = models.ForeignKey(
        "runs.ApiToken", null=True, blank=True, on_delete=models.SET_NULL, related_name="requested_runs"
    )

    again_of = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="asked_again",
    )

    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    trace_event_count = models.PositiveIntegerField(null=True, blank=True)
    trace_head_hash = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001
    record_complete = models.BooleanField(null=True, blank=True)

    alert_name = models.GeneratedField(
        expression=derived.alert_name(), output_field=models.TextField(null=True), db_persist=True
    )
    search_text = models.GeneratedField(
        expression=derived.search_text(), output_field=models.TextField(null=True), db_persist=True
    )
    took_ms = models.GeneratedField(
        expression=derived.took_ms(), output_field=models.BigIntegerField(null=True), db_persist=True
    )
    total_tokens = models.GeneratedField(
        expression=derived.total_tokens(), output_field=models.BigIntegerField(null=True), db_persist=True
    )
    nothing_notable = models.GeneratedField(
        expression=derived.nothing_notable(), output_field=models.BooleanField(null=True), db_persist=True
    )

    class Meta:
        db_table = "diagnosis_run"
        permissions = [
            ("see_all_sessions", "Can see the runs of everyone's sessions"),
            ("cancel_any_run", "Can cancel any run that they see"),
        ]
        # A CHECK whose answer is NULL lets the row in: so where a column may be null, "not null" is said as well.
        constraints = [
            models.CheckConstraint(condition=Q(status__in=RunStatus.values), name="run_status"),
            models.CheckConstraint(condition=Q(trigger__in=Trigger.values), name="run_trigger"),
            models.CheckConstraint(condition=Q(intent__isnull=True) | Q(intent__in=_values(Intent)), name="run_intent"),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True) | Q(verdict__in=_values(Verdict)), name="run_verdict"
            ),
            models.CheckConstraint(
                condition=(Q(outcome__isnull=True) & Q(status__in=["QUEUED", "RUNNING"]))
                | (Q(outcome__isnull=False) & Q(outcome=models.F("status"))),
                name="run_outcome_equals_terminal_status",
            ),
            models.CheckConstraint(
                condition=Q(status__in=TERMINAL, finished_at__isnull=False)
                | Q(status__in=["QUEUED", "RUNNING"], finished_at__isnull=True),
                name="run_finished_at_iff_terminal",
            ),
            models.CheckConstraint(
                condition=Q(status="FAILED", failure_code__isnull=False, failure_code__in=_values(FailureCode))
                | (~Q(status="FAILED") & Q(failure_code__isnull=True)),
                name="run_failure_code_iff_failed",
            ),
            models.CheckConstraint(
                condition=Q(status="CANCELLED", cancel_reason__isnull=False, cancel_reason__in=_values(CancelReason))
                | (~Q(status="CANCELLED") & Q(cancel_reason__isnull=True)),
                name="run_cancel_reason_iff_cancelled",
            ),
            models.CheckConstraint(
                condition=Q(published_result__isnull=True) | Q(status="SUCCESS"), name="run_published_only_with_success"
            ),
            models.CheckConstraint(
                condition=~Q(status="SUCCESS")
                | Q(
                    published_result__isnull=False,
                    release_decision__isnull=False,
                    release_decision__in=["RELEASED", "RELEASED_LOW_CONFIDENCE"],
                ),
                name="run_success_is_released",
            ),
            models.CheckConstraint(
                condition=~Q(status="DEGRADED") | Q(release_decision__isnull=False, release_decision="WITHHELD"),
                name="run_degraded_is_withheld",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["SUCCESS", "DEGRADED"]) | Q(release_decision__isnull=True),
                name="run_release_only_when_concluded",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=TERMINAL) | Q(safe_content__isnull=False), name="run_terminal_has_safe_content"
            ),
            models.CheckConstraint(
                condition=Q(status="RUNNING", lease_token__isnull=False, heartbeat_at__isnull=False)
                | (~Q(status="RUNNING") & Q(lease_token__isnull=True)),
                name="run_lease_iff_running",
            ),
            models.CheckConstraint(
                condition=Q(cancel_requested_at__isnull=True, cancel_requested_reason__isnull=True)
                | Q(cancel_requested_at__isnull=False, cancel_requested_reason__isnull=False),
                name="run_cancel_request_whole",
            ),
            models.CheckConstraint(
                condition=Q(rehearsal__isnull=True) | Q(trigger="EVAL", alert__isnull=True),
                name="run_rehearsal_is_eval",
            ),
            models.CheckConstraint(
                condition=Q(again_of__isnull=True)
                | (Q(trigger__in=["MANUAL", "CHAT"], rehearsal__isnull=True) & ~Q(again_of=models.F("id"))),
                name="run_again_is_asked_by_somebody",
            ),
            models.CheckConstraint(
                condition=Q(groundedness__isnull=True) | Q(groundedness__gte=0, groundedness__lte=1),
                name="run_groundedness_is_a_share",
            ),
        ]
        indexes = [
            # The run list, newest first, and its cursor. Here and below the session comes along, because whose it is
            # decides who sees the run: rows that the reader may not see are passed over without being read.
            models.Index(fields=["-queued_at", "-id"], include=["session"], name="idx_run_queued"),
            # The runs of a session, newest first: trace without runId, routing history.
            models.Index(fields=["session", "-queued_at", "-id"], name="idx_run_session"),
            # The scan for runs that wait or whose heartbeat went stale.
            models.Index(
                fields=["status", "heartbeat_at"],
                condition=Q(status__in=["QUEUED", "RUNNING"]),
                name="idx_run_open",
            ),
            # The run list filtered by one column, newest first. An outcome is a terminal status.
            _listed("status"),
            _listed("verdict"),
            _listed("intent"),
            _listed("trigger"),
            _listed("alert_name"),
            # … by a label of its alert: subject @> {"alert": {"labels": {…}}}
            GinIndex(fields=["subject"], opclasses=["jsonb_path_ops"], name="idx_run_subject"),
            # … by words: search_text LIKE '%…%'
            GinIndex(fields=["search_text"], opclasses=["gin_trgm_ops"], name="idx_run_search"),
            # … sorted by duration and by tokens, both ways.
            models.Index(fields=["-took_ms", "-id"], condition=Q(took_ms__isnull=False), name="idx_run_took"),
            models.Index(
                fields=["-total_tokens", "-id"], condition=Q(total_tokens__isnull=False), name="idx_run_tokens"
            ),
            # The runs that ask a run again, newest first.
            models.Index(
                fields=["again_of", "-queued_at", "-id"], condition=Q(again_of__isnull=False), name="idx_run_again"
            ),
            # The runs that ended and need attention, newest first, and their count.
            models.Index(
                fields=["-queued_at", "-id"], include=["session"], condition=NEEDS_ATTENTION, name="idx_run_attention"
            ),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_rehearsal(self) -> bool:
        """It tries something out: it counts in no figures, and nobody is told of it."""
        return self.rehearsal is not None
