"""Who read restricted text, and when. Written before the text is handed out."""

from django.conf import settings
from django.db import models

from audit.models.append_only import append_only, no_truncate


class ReasoningAccess(models.Model):
    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.PROTECT, related_name="reasoning_accesses")
    reader = models.CharField(max_length=150)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    token_name = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001
    what = models.CharField(max_length=60)
    at = models.DateTimeField()

    class Meta:
        db_table = "reasoning_access"
        indexes = [models.Index(fields=["run", "-at"], name="idx_reasoning_access_run")]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.reader} read {self.what} of {self.run_id}"
