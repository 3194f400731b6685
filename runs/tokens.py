"""API tokens: made once, shown once, kept as a digest; rotated, given other scopes, revoked.

A token sees every session and speaks for no person. So a person grants a scope only where they hold it without limit
(`grantable`), and whoever rotates a token learns its new secret: that needs a right to all its scopes.
Each writer locks the row and is held to the `generation` that its author was shown.

    TokenRefused        the wish cannot be fulfilled
    └── StaleToken      somebody else changed the token meanwhile
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from runs.access import CANCEL_ANY_RUN, READ_REASONING, SEE_ALL_SESSIONS, SUBMIT_ALERTS, token_digest
from runs.models import ApiToken
from runs.models.token import Scope

PREFIX = "sbz_"
NAME_LIMIT = 100
NEEDED_TO_GRANT: dict[str, frozenset[str]] = {
    Scope.ALERTS_WRITE: frozenset({SUBMIT_ALERTS}),
    Scope.CHAT_WRITE: frozenset({SEE_ALL_SESSIONS}),
    Scope.RUNS_READ: frozenset({SEE_ALL_SESSIONS}),
    Scope.RUNS_CANCEL: frozenset({SEE_ALL_SESSIONS, CANCEL_ANY_RUN}),
    Scope.REASONING_READ: frozenset({SEE_ALL_SESSIONS, READ_REASONING}),
}


class TokenRefused(ValueError):
    """The message is one sentence for the person who asked."""


class StaleToken(TokenRefused):
    def __init__(self) -> None:
        super().__init__("The token was changed meanwhile. Look at it and try again.")


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change did, for the token's history."""

    before: str
    after: str


def grantable(person: User) -> list[str]:
    """The scopes that this person may give to a token, in the order of `Scope`."""
    return [scope for scope in Scope.values if person.has_perms(NEEDED_TO_GRANT[scope])]


def create_token(name: str, scopes: Iterable[str], by: User | None = None) -> str:
    """Store a new token and return its text: the one time that it is to be had. Raises `TokenRefused`.

    `by` None: from the command line, whose user may do anything.
    """
    wanted = _checked(scopes)
    _check_grant(wanted, by)
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise TokenRefused(f"A token needs a name of 1 to {NAME_LIMIT} printable characters.")
    text = _new_text()
    try:
        with transaction.atomic():
            ApiToken.objects.create(
                name=name, digest=token_digest(text), scopes=wanted, created_at=datetime.now(UTC), created_by=by
            )
    except IntegrityError as error:
        raise TokenRefused(f"There is a token named {name} already.") from error
    return text


def change_scopes(
    token_id: int, scopes: Iterable[str], *, generation: int, by: User
) -> tuple[str | None, Changed | None]:
    """Give a token other scopes: the new secret, if one was made, and what changed, if anything did.

    Added ones must be `by`'s to grant, and make a new secret, the only one from then on: somebody who may not hold
    them may know the old one, having rotated the token while it had fewer. Raises `TokenRefused`.
    """
    wanted = _checked(scopes)
    with transaction.atomic():
        token = _locked(token_id, generation)
        if set(wanted) == set(token.scopes):
            return None, None
        added = [scope for scope in wanted if scope not in token.scopes]
        _check_grant(added, by)
        before, token.scopes = token.scopes, [scope for scope in Scope.values if scope in wanted]
        text = _new_text() if added else None
        if text is not None:
            token.previous_used_at, token.last_used_at = token.last_used_at, None
            token.digest, token.previous_digest, token.previous_ends_at = token_digest(text), None, None
        token.generation += 1
        token.save()
    after = _listed(token.scopes)
    return text, Changed(_listed(before), f"{after}; secret {token.generation}" if text else after)


def rotate(token_id: int, *, generation: int, by: User, grace: timedelta = timedelta(0)) -> tuple[str, Changed]:
    """A new secret for a token; the old one answers for `grace` more, or dies at once. Raises `TokenRefused`."""
    text, now = _new_text(), datetime.now(UTC)
    with transaction.atomic():
        token = _locked(token_id, generation)
        _check_grant(token.scopes, by)
        token.previous_digest, token.previous_ends_at = (token.digest, now + grace) if grace else (None, None)
        token.previous_used_at = token.last_used_at
        token.digest, token.last_used_at = token_digest(text), None
        token.generation += 1
        token.save()
    ends = f"the old secret ends {token.previous_ends_at:%Y-%m-%d %H:%M} UTC" if grace else "the old secret has ended"
    return text, Changed(f"secret {generation}", f"secret {token.generation}; {ends}")


def end_old_secret(token_id: int, *, generation: int) -> Changed:
    """End the grace of a rotated token now. Raises `TokenRefused`."""
    with transaction.atomic():
        token = _locked(token_id, generation)
        if token.previous_ends_at is None:
            raise TokenRefused("The token has no old secret.")
        before = f"the old secret ends {token.previous_ends_at:%Y-%m-%d %H:%M} UTC"
        token.previous_digest = token.previous_ends_at = None
        token.generation += 1
        token.save(update_fields=["previous_digest", "previous_ends_at", "generation"])
    return Changed(before, "the old secret has ended")


def revoke(token_id: int) -> Changed:
    """End a token for good, whatever others did to it meanwhile. Its row stays: records name it.

    Raises `TokenRefused` where it was revoked before.
    """
    with transaction.atomic():
        token = _locked(token_id)
        token.revoked_at = datetime.now(UTC)
        token.previous_digest = token.previous_ends_at = None
        token.generation += 1
        token.save(update_fields=["revoked_at", "previous_digest", "previous_ends_at", "generation"])
    return Changed("answers", "revoked")


def _new_text() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _listed(scopes: Iterable[str]) -> str:
    return ", ".join(scopes)


def _checked(scopes: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(scopes))
    unknown = [scope for scope in wanted if scope not in Scope.values]
    if unknown:
        raise TokenRefused(f"{unknown[0]} is not a scope; the scopes are {_listed(Scope.values)}.")
    if not wanted:
        raise TokenRefused("A token needs at least one scope.")
    return wanted


def _check_grant(scopes: Iterable[str], by: User | None) -> None:
    missing = [scope for scope in scopes if by is not None and not by.has_perms(NEEDED_TO_GRANT[scope])]
    if missing:
        raise TokenRefused(f"You may not grant {_listed(missing)}: you do not hold it for everyone's runs yourself.")


def _locked(token_id: int, generation: int | None = None) -> ApiToken:
    """The row, locked; with a generation, only as the author of the change saw it."""
    rows: QuerySet[ApiToken] = ApiToken.objects.select_for_update().filter(pk=token_id)
    token = rows.first()
    if token is None or generation not in {None, token.generation}:
        raise StaleToken
    if token.revoked_at is not None:
        raise TokenRefused("The token was revoked; make a new one.")
    return token
