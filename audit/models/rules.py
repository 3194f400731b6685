"""The gatekeeper's rules and the runs: which rule failed in which run, and what a change of rules would do."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from audit.models.append_only import append_only, no_truncate


class RunRule(models.Model):
    """A rule that failed in a run: with mode ENFORCED it had its effect, with SHADOW it would have had.

    `claims`: for how many of the run's claims, in the round in which it failed first; 0: for the draft as such. An
    index for figures, written with the gate's frame; no part of the chain, since the run's `gatekeeper_result`, which
    is, says the same in full.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.PROTECT, related_name="rules_failed")
    rule = models.CharField(max_length=40)
    mode = models.CharField(max_length=8)
    rule_set_version = models.IntegerField()
    claims = models.IntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "run_rule"
        constraints = [
            # A later attempt of the run, or its repair round, tells again what failed.
            models.UniqueConstraint(fields=["run", "rule", "mode"], name="run_rule_once"),
        ]
        indexes = [
            # Of one rule: its count by day, and its runs, newest first.
            models.Index(fields=["rule", "-at"], name="idx_run_rule_at"),
        ]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.run_id} {self.rule}"


class RulePreview(models.Model):
    """A proposed change of rules, tried on past runs in the background.

    `rules`: the rules document that is judged by, made of the proposal on set `base_number`. `total` runs are judged,
    `done` so far; `changed` of them would come out otherwise, `unjudged` could not be judged. `beat_at`: last sign of
    the worker that is at it.
    """

    class Status(models.TextChoices):
        QUEUED = "QUEUED"
        RUNNING = "RUNNING"
        DONE = "DONE"
        FAILED = "FAILED"

    proposal = models.ForeignKey("gatekeeper.RuleProposal", on_delete=models.CASCADE, related_name="previews")
    base_number = models.PositiveIntegerField()
    rules = models.JSONField()
    size = models.PositiveIntegerField()
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.QUEUED)
    total = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    unjudged = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True, default="")
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    beat_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "rule_preview"
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["QUEUED", "RUNNING"], finished_at__isnull=True)
                | Q(status__in=["DONE", "FAILED"], finished_at__isnull=False),
                name="rule_preview_finished_iff_over",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class RulePreviewRun(models.Model):
    """A run that would come out otherwise, or that could not be judged (`why_not`). No text of a claim is in it.

    `claims` = [{"claim_id", "before": bool or null, "after": bool, "failed_before": [code], "failed_after": [code]}]:
    those that change.
    """

    class Consequence(models.TextChoices):
        WITHHELD = "WITHHELD", _("nothing would be released")
        LOWERED = "LOWERED", _("released at low confidence only")
        FEWER = "FEWER", _("released with fewer claims")
        RAISED = "RAISED", _("the gate would no longer lower its confidence")
        OPEN = "OPEN", _("claims come back: verifier and composer would have to judge them")
        SAME = "SAME", _("what was released stays")

    preview = models.ForeignKey(RulePreview, on_delete=models.CASCADE, related_name="runs")
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.CASCADE, related_name="+")
    before = models.CharField(max_length=10, blank=True, default="")
    after = models.CharField(max_length=10, blank=True, default="")
    consequence = models.CharField(max_length=8, choices=Consequence.choices, blank=True, default="")
    claims = models.JSONField(default=list)
    why_not = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        db_table = "rule_preview_run"
        constraints = [
            models.UniqueConstraint(fields=["preview", "run"], name="rule_preview_run_once"),
            models.CheckConstraint(
                condition=Q(why_not="", consequence__in=["WITHHELD", "LOWERED", "FEWER", "RAISED", "OPEN", "SAME"])
                | (~Q(why_not="") & Q(consequence="")),
                name="rule_preview_run_judged_or_not",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.preview_id} {self.run_id}"
