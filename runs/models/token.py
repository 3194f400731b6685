"""API tokens: shown once, stored hashed."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Scope(models.TextChoices):
    ALERTS_WRITE = "alerts:write"
    CHAT_WRITE = "chat:write"
    RUNS_READ = "runs:read"
    RUNS_CANCEL = "runs:cancel"
    REASONING_READ = "reasoning:read"


class ApiToken(models.Model):
    """`digest` is the SHA-256 of the token: 256 random bits need no slow hash."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=100, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=30, choices=Scope))
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "api_token"
        constraints = [
            models.CheckConstraint(condition=~models.Q(scopes=[]), name="api_token_has_scope"),
        ]

    def __str__(self) -> str:
        return self.name
