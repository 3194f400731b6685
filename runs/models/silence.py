"""Silences: until when an alert that repeats starts no run, who said so and why."""

from django.conf import settings
from django.db import models


class AlertSilence(models.Model):
    """Of a fingerprint, so that it outlives an episode. It holds while `ended_at` is null and `until` is to come.

    `created_by_name` and `ended_by_name` stay when the person is gone.
    """

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.CharField(max_length=64)
    reason = models.CharField(max_length=300)
    until = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="alert_silences"
    )
    created_by_name = models.CharField(max_length=150)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by_name = models.CharField(max_length=150, default="")

    class Meta:
        db_table = "alert_silence"
        constraints = [
            # A new one takes the place of the one before: there is one answer to "until when".
            models.UniqueConstraint(
                fields=["fingerprint"], condition=models.Q(ended_at__isnull=True), name="alert_silence_one_open"
            ),
            models.CheckConstraint(condition=models.Q(until__gt=models.F("created_at")), name="alert_silence_order"),
            models.CheckConstraint(condition=~models.Q(reason=""), name="alert_silence_reason"),
        ]
        indexes = [
            # The silences of an alert, newest first, on its page.
            models.Index(fields=["fingerprint", "-id"], name="idx_silence_fingerprint"),
        ]

    def __str__(self) -> str:
        return f"{self.fingerprint} until {self.until:%Y-%m-%d %H:%M}"
