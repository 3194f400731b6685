"""Writes to prompts: new versions from shipped files, activations by compare-and-set."""

import hashlib

from django.db import connection, transaction
from django.utils import timezone

from prompts.catalogue import CATALOGUE, MAX_PROMPT_CHARS, Shipped
from prompts.models import Prompt, PromptActivation, PromptVersion

SYNC_REASON = "shipped with this release"


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check_text(shipped: Shipped, text: str) -> None:
    """Raises ValueError where a text cannot serve as a prompt."""
    if not text.strip():
        raise ValueError(f"{shipped.resource} is empty.")
    if len(text) > MAX_PROMPT_CHARS:
        raise ValueError(f"{shipped.resource} is longer than {MAX_PROMPT_CHARS} characters.")
    if "\x00" in text:
        raise ValueError(f"{shipped.resource} contains a NUL byte.")


def sync_shipped() -> list[str]:
    """Turns changed shipped files into new versions and activates them, unless an admin's own version is active.

    Idempotent; safe to run in two processes at once. Returns one sentence for each change.
    """
    changes: list[str] = []
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('prompts.sync'))")
        for shipped in CATALOGUE:
            change = _sync_one(shipped)
            if change:
                changes.append(change)
    return changes


def _sync_one(shipped: Shipped) -> str | None:
    text = shipped.text()
    check_text(shipped, text)
    prompt, _ = Prompt.objects.update_or_create(
        name=shipped.name, defaults={"title": shipped.title, "resource": shipped.resource}
    )
    newest_shipped = prompt.versions.filter(origin=PromptVersion.Origin.SHIPPED).order_by("-number").first()
    digest = sha256_of(text)
    if newest_shipped is not None and newest_shipped.sha256 == digest:
        return None
    newest = prompt.versions.order_by("-number").first()
    version = PromptVersion.objects.create(
        prompt=prompt,
        number=newest.number + 1 if newest else 1,
        text=text,
        sha256=digest,
        origin=PromptVersion.Origin.SHIPPED,
        created_at=timezone.now(),
    )
    active = prompt.activations.order_by("-id").select_related("version").first()
    if active is not None and active.version.origin == PromptVersion.Origin.ADMIN:
        return f"{version.label} was added and waits: {active.version.label}, an admin's own version, stays active"
    PromptActivation.objects.create(
        prompt=prompt,
        version=version,
        previous=active.version if active else None,
        activated_at=timezone.now(),
        reason=SYNC_REASON,
    )
    return f"{version.label} was added and is active"
