"""Who read restricted text, and when. Written before the text is handed out; `audit.readings` is the one writer."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from audit.models.append_only import append_only, kept, no_truncate


class ReasoningAccess(models.Model):
    """One reading. Those of a run are numbered from 1 and chained (`audit.chain`)."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        "runs.DiagnosisRun", verbose_name=_("run"), on_delete=models.PROTECT, related_name="reasoning_accesses"
    )
    sequence_no = models.PositiveIntegerField(_("number"))
    reader = models.CharField(_("reader"), max_length=150)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
    )
    token_name = models.CharField(_("token"), max_length=100, null=True, blank=True)  # noqa: DJ001
    what = models.CharField(_("what"), max_length=60)
    at = models.DateTimeField(_("at"))
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "reasoning_access"
        verbose_name = _("reading of reasoning")
        verbose_name_plural = _("readings of reasoning")
        constraints = [
            models.UniqueConstraint(fields=["run", "sequence_no"], name="reasoning_access_sequence"),
            models.CheckConstraint(condition=models.Q(sequence_no__gte=1), name="reasoning_access_from_one"),
        ]
        indexes = [models.Index(fields=["run", "-at"], name="idx_reasoning_access_run")]
        triggers = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.reader} read {self.what} of {self.run_id}"


class ReasoningAccessHead(models.Model):
    """The end of the chain of a run's readings. Its row lock hands out numbers and hashes."""

    run = models.OneToOneField("runs.DiagnosisRun", primary_key=True, on_delete=models.PROTECT, related_name="+")
    sequence_no = models.PositiveIntegerField(_("number"))
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "reasoning_access_head"
        triggers = [kept(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.run_id}@{self.sequence_no}"
