"""One row for each episode of an alert: opened by a firing notice, joined by its repeats, closed by its end."""

from django.db import models


class Alert(models.Model):
    class Status(models.TextChoices):
        FIRING = "FIRING"
        RESOLVED = "RESOLVED"

    class Source(models.TextChoices):
        ALERTMANAGER = "ALERTMANAGER"
        GRAFANA = "GRAFANA"
        API = "API"
        CLI = "CLI"

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.CharField(max_length=64)
    alert_name = models.CharField(max_length=200)
    severity = models.CharField(max_length=40, default="")
    status = models.CharField(max_length=10, choices=Status, default=Status.FIRING)
    source = models.CharField(max_length=15, choices=Source)
    group_key = models.CharField(max_length=1000, default="")
    labels = models.JSONField(default=dict)
    annotations = models.JSONField(default=dict)
    generator_url = models.CharField(max_length=2000, default="")
    starts_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    first_received_at = models.DateTimeField()
    last_received_at = models.DateTimeField()
    occurrences = models.PositiveIntegerField(default=1)
    last_run = models.ForeignKey(
        "runs.DiagnosisRun", null=True, blank=True, on_delete=models.SET_NULL, related_name="joined_alerts"
    )

    class Meta:
        db_table = "alert"
        permissions = [("submit_alerts", "Can have alerts diagnosed")]
        constraints = [
            # One open episode a fingerprint: repeats join it, whoever writes first.
            models.UniqueConstraint(
                fields=["fingerprint"], condition=models.Q(status="FIRING"), name="alert_one_firing_per_fingerprint"
            ),
            models.CheckConstraint(condition=models.Q(status__in=["FIRING", "RESOLVED"]), name="alert_status"),
            models.CheckConstraint(condition=models.Q(occurrences__gte=1), name="alert_occurrences"),
            models.CheckConstraint(
                condition=models.Q(last_received_at__gte=models.F("first_received_at")), name="alert_received_order"
            ),
        ]
        indexes = [
            # The newest episode of a fingerprint, at intake.
            models.Index(fields=["fingerprint", "-id"], name="idx_alert_fingerprint"),
            # The inbox, newest first.
            models.Index(fields=["-last_received_at", "-id"], name="idx_alert_received"),
        ]

    def __str__(self) -> str:
        return f"{self.alert_name} ({self.fingerprint})"
