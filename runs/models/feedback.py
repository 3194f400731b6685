"""What people say of a run's answer: one word of each person that holds, and those that it took the place of."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class Rating(models.TextChoices):
    USEFUL = "useful"
    WRONG = "wrong"


class RunFeedback(models.Model):
    """It holds while `replaced_at` is null; a changed or withdrawn one stays as history.

    `person_name` stays when the person is gone.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.CASCADE, related_name="feedback")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="run_feedback"
    )
    person_name = models.CharField(max_length=150)
    rating = models.CharField(max_length=10, choices=Rating)
    note = models.CharField(max_length=1000, default="", blank=True)
    given_at = models.DateTimeField()
    replaced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "run_feedback"
        constraints = [
            models.UniqueConstraint(
                fields=["run", "person"], condition=Q(replaced_at__isnull=True), name="run_feedback_one_holds"
            ),
            models.CheckConstraint(condition=Q(rating__in=Rating.values), name="run_feedback_rating"),
            models.CheckConstraint(
                condition=Q(replaced_at__isnull=True) | Q(replaced_at__gte=models.F("given_at")),
                name="run_feedback_order",
            ),
        ]
        indexes = [
            # The run list filtered by what holds.
            models.Index(fields=["rating", "run"], condition=Q(replaced_at__isnull=True), name="idx_feedback_rating"),
        ]

    def __str__(self) -> str:
        return f"{self.person_name}: {self.rating}"
