"""Prompts, their immutable versions, and the append-only log of what was made active."""

import pgtrigger
from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

RELEASE = "sync_prompts"
"""Who made what no person made."""


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
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
        permissions = [("activate_prompt", "Can make a version of a prompt active, or roll it back")]
        triggers = [_no_truncate()]

    def __str__(self) -> str:
        return self.title

    def newest_activation(self) -> "PromptActivation | None":
        """What is active: its version comes with it."""
        return self.activations.order_by("-id").select_related("version", "activated_by").first()

    def newest_shipped(self) -> "PromptVersion | None":
        return self.versions.filter(origin=PromptVersion.Origin.SHIPPED).order_by("-number").first()


class PromptVersion(models.Model):
    """One text, never changed. `based_on`: the version that it was edited from, and `reason` why."""

    class Origin(models.TextChoices):
        SHIPPED = "SHIPPED", _("shipped")
        ADMIN = "ADMIN", _("edited here")

    id = models.BigAutoField(primary_key=True)
    prompt = models.ForeignKey(Prompt, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    origin = models.CharField(max_length=10, choices=Origin)
    based_on = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="edits")
    reason = models.CharField(max_length=500, default="")
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        db_table = "prompt_version"
        verbose_name = _("prompt version")
        verbose_name_plural = _("prompt versions")
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
        return label_of(self.prompt_id, self.number)

    @property
    def who(self) -> str:
        return self.created_by.get_username() if self.created_by else RELEASE


def label_of(prompt: str, number: int) -> str:
    return f"{prompt.replace('_', '-')}-v{number}"


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
        verbose_name = _("prompt activation")
        verbose_name_plural = _("prompt activations")
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

    @property
    def who(self) -> str:
        return self.activated_by.get_username() if self.activated_by else RELEASE
