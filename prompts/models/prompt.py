"""Prompts, their immutable versions, and the append-only log of what was made active."""

import pgtrigger
from django.conf import settings
from django.db import models


def _no_truncate() -> pgtrigger.Trigger:
    return pgtrigger.Trigger(
        name="no_truncate",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func="RAISE EXCEPTION 'append-only: TRUNCATE of % is refused', TG_TABLE_NAME;",
    )


class Prompt(models.Model):
    """One role's system prompt. `resource` is its shipped file, relative to the project."""

    name = models.CharField(primary_key=True, max_length=40)
    title = models.CharField(max_length=100)
    resource = models.CharField(max_length=200)

    class Meta:
        db_table = "prompt"
        triggers = [_no_truncate()]

    def __str__(self) -> str:
        return self.name


class PromptVersion(models.Model):
    class Origin(models.TextChoices):
        SHIPPED = "SHIPPED"
        ADMIN = "ADMIN"

    id = models.BigAutoField(primary_key=True)
    prompt = models.ForeignKey(Prompt, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    origin = models.CharField(max_length=10, choices=Origin)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        db_table = "prompt_version"
        constraints = [
            models.UniqueConstraint(fields=["prompt", "number"], name="prompt_version_number"),
            models.CheckConstraint(condition=models.Q(number__gte=1), name="prompt_version_from_one"),
            models.CheckConstraint(condition=models.Q(origin__in=["SHIPPED", "ADMIN"]), name="prompt_version_origin"),
            models.CheckConstraint(condition=~models.Q(text=""), name="prompt_version_has_text"),
        ]
        triggers = [
            pgtrigger.Protect(name="immutable", operation=pgtrigger.Update | pgtrigger.Delete),
            _no_truncate(),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """For people and the ledger, e.g. `chat-executor-v2`."""
        return f"{self.prompt_id.replace('_', '-')}-v{self.number}"


class PromptActivation(models.Model):
    """The newest row of a prompt names its active version. A rollback is one more row."""

    id = models.BigAutoField(primary_key=True)
    prompt = models.ForeignKey(Prompt, on_delete=models.PROTECT, related_name="activations")
    version = models.ForeignKey(PromptVersion, on_delete=models.PROTECT, related_name="activations")
    previous = models.ForeignKey(
        PromptVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    activated_at = models.DateTimeField()
    activated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    reason = models.CharField(max_length=500)

    class Meta:
        db_table = "prompt_activation"
        constraints = [
            models.CheckConstraint(condition=~models.Q(reason=""), name="prompt_activation_has_reason"),
            # Two activations over the same current version: the second one loses.
            models.UniqueConstraint(
                fields=["prompt"], condition=models.Q(previous__isnull=True), name="prompt_activation_one_first"
            ),
        ]
        indexes = [
            # What is active: the newest row of a prompt.
            models.Index(fields=["prompt", "-id"], name="idx_activation_newest"),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            _no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.prompt_id}: {self.version_id}"
