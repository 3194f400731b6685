"""A session: the thread that runs of one conversation, or of one alert, share."""

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"


class ChatSession(models.Model):
    """`owner` is null for sessions that an alert or an API token opened.

    Turns from before `cleared_at` are forgotten: their record stays, later turns know nothing of them.
    """

    id = models.CharField(primary_key=True, max_length=64, validators=[RegexValidator(SESSION_ID_PATTERN)])
    title = models.CharField(max_length=200, default="")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "chat_session"
        constraints = [
            models.CheckConstraint(condition=models.Q(id__regex=SESSION_ID_PATTERN[:-2] + "$"), name="chat_session_id"),
        ]
        indexes = [
            # The sessions of one person, newest first.
            models.Index(fields=["owner", "-updated_at"], name="idx_session_owner_updated"),
        ]

    def __str__(self) -> str:
        return self.id
