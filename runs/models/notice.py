"""The outbox of notices: one row for each run, occasion and address, written with the transition that it tells of.

PENDING ──claim──▶ CLAIMED ──begin──▶ SENDING ──▶ SENT
   ▲                  │                  ├──▶ PENDING, later   (refused; FAILED after the last try)
   └──── lost claim ──┘                  └──▶ UNCERTAIN        (the worker was lost while it sent)
"""

from django.db import models
from django.db.models import Q


class RunNotice(models.Model):
    """`target` is a digest of the address and `service` its masked form: addresses hold secrets and stay outside."""

    class Occasion(models.TextChoices):
        STARTED = "STARTED"
        FINISHED = "FINISHED"

    class State(models.TextChoices):
        PENDING = "PENDING"
        CLAIMED = "CLAIMED"
        SENDING = "SENDING"
        SENT = "SENT"
        FAILED = "FAILED"
        UNCERTAIN = "UNCERTAIN"

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.CASCADE, related_name="notices")
    occasion = models.CharField(max_length=10, choices=Occasion)
    target = models.CharField(max_length=16)
    service = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    claim_token = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001 (held only while claimed)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    last_error = models.CharField(max_length=300, default="")

    class Meta:
        db_table = "run_notice"
        constraints = [
            models.UniqueConstraint(fields=["run", "occasion", "target"], name="run_notice_once"),
            models.CheckConstraint(
                condition=Q(occasion__in=["STARTED", "FINISHED"])
                & Q(state__in=["PENDING", "CLAIMED", "SENDING", "SENT", "FAILED", "UNCERTAIN"]),
                name="run_notice_states",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["CLAIMED", "SENDING"], claim_token__isnull=False)
                | (~Q(state__in=["CLAIMED", "SENDING"]) & Q(claim_token__isnull=True)),
                name="run_notice_claim_iff_held",
            ),
        ]
        indexes = [
            # What an address is owed, oldest first: the next claim, and the look for lost ones.
            models.Index(
                fields=["target", "due_at", "id"],
                condition=Q(state__in=["PENDING", "CLAIMED", "SENDING"]),
                name="idx_notice_owed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.occasion} to {self.service}"
