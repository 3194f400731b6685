"""API tokens: made once, shown once, kept as a digest."""

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import IntegrityError, transaction

from runs.access import token_digest
from runs.models import ApiToken
from runs.models.token import Scope

PREFIX = "sbz_"
NAME_LIMIT = 100


class TokenRefused(ValueError):
    """The message is one sentence for the person who asked."""


def create_token(name: str, scopes: Iterable[str]) -> str:
    """Store a new token and return its text: the one time that it is to be had. Raises `TokenRefused`."""
    wanted = list(dict.fromkeys(scopes))
    unknown = [scope for scope in wanted if scope not in Scope.values]
    if unknown:
        raise TokenRefused(f"{unknown[0]} is not a scope; the scopes are {', '.join(Scope.values)}.")
    if not wanted:
        raise TokenRefused("A token needs at least one scope.")
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise TokenRefused(f"A token needs a name of 1 to {NAME_LIMIT} printable characters.")
    text = PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            ApiToken.objects.create(name=name, digest=token_digest(text), scopes=wanted, created_at=datetime.now(UTC))
    except IntegrityError as error:
        raise TokenRefused(f"There is a token named {name} already.") from error
    return text
