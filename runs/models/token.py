"""API tokens: shown once, stored hashed."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _


class Scope(models.TextChoices):
    ALERTS_WRITE = "alerts:write"
    CHAT_WRITE = "chat:write"
    RUNS_READ = "runs:read"
    RUNS_CANCEL = "runs:cancel"
    REASONING_READ = "reasoning:read"


class ApiToken(models.Model):
    """`digest` is the SHA-256 of the token: 256 random bits need no slow hash.

    A rotated token has a new digest; the one before it is kept in `previous_digest` and answers until
    `previous_ends_at`. `generation` counts the digests: who changes a token names the one that was shown.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(_("name"), max_length=100, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    previous_digest = models.CharField(max_length=64, null=True, blank=True, unique=True)
    previous_ends_at = models.DateTimeField(_("old secret ends"), null=True, blank=True)
    previous_used_at = models.DateTimeField(_("old secret last used"), null=True, blank=True)
    generation = models.PositiveIntegerField(default=1)
    scopes = ArrayField(models.CharField(max_length=30, choices=Scope), verbose_name=_("scopes"))
    created_at = models.DateTimeField(_("created"))
    # Null: made on the command line, or by somebody who is gone.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("created by"),
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        db_table = "api_token"
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        constraints = [
            models.CheckConstraint(condition=~models.Q(scopes=[]), name="api_token_has_scope"),
            models.CheckConstraint(
                condition=models.Q(previous_digest__isnull=True, previous_ends_at__isnull=True)
                | models.Q(previous_digest__isnull=False, previous_ends_at__isnull=False),
                name="api_token_old_secret_ends",
            ),
        ]

    def __str__(self) -> str:
        return self.name
