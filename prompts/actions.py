"""Writes to prompts: new versions, and activations by compare-and-set.

Writers are serialized by one advisory lock, so numbers have no gaps and an activation is always decided over the
one that its author saw. Whatever a person does is in the prompt's admin history in the same transaction.

    PromptError          the text is one sentence for the person who asked
    ├── Unusable         no text that can be kept at all, or no reason was given
    ├── SameText         the prompt has a version with this very text; it is named
    ├── NotFit           the version may not be active; says why
    └── Stale            another version was made active meanwhile; its activation is named
"""

import hashlib
from collections.abc import Sequence

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from prompts.catalogue import CATALOGUE, Shipped
from prompts.diffs import count_changes
from prompts.models import Prompt, PromptActivation, PromptVersion
from prompts.needs import shortfalls
from prompts.unseen import unseen

SYNC_REASON = "shipped with this release"
MAX_REASON_CHARS = 500
MAX_DRAFT_LINES = 2_000
MAX_DRAFT_CHARS = 100_000
"""Of any text that is kept. What may be active is shorter: `prompts.catalogue.Shipped.max_chars`."""


class PromptError(Exception):
    """The text is one sentence that may be shown to the person who asked."""


class Unusable(PromptError):
    pass


class SameText(PromptError):
    def __init__(self, version: PromptVersion) -> None:
        super().__init__(_("%(label)s has this very text already.") % {"label": version.label})
        self.version = version


class NotFit(PromptError):
    def __init__(self, version: PromptVersion, reasons: Sequence[str]) -> None:
        super().__init__(_("%(label)s cannot be activated.") % {"label": version.label} + " " + " ".join(reasons))
        self.reasons = tuple(reasons)


class Stale(PromptError):
    def __init__(self, current: PromptActivation) -> None:
        sentence = _("Meanwhile %(who)s made %(label)s active: %(why)s")
        super().__init__(sentence % {"who": current.who, "label": current.version.label, "why": current.reason})
        self.current = current


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ---- by people --------------------------------------------------------------------------------------------------


def save_version(base: PromptVersion, text: str, *, by: AbstractBaseUser, reason: str) -> PromptVersion:
    """Keep an edit of `base` as a new version. It is not active by that, and may lack what its role needs.

    Raises `Unusable`, `SameText`.
    """
    why = check_reason(reason)
    kept = check_draft(text)
    added, removed = count_changes(base.text, kept)
    with transaction.atomic():
        _wait_for_other_writers()
        digest = sha256_of(kept)
        same = base.prompt.versions.filter(sha256=digest).order_by("-number").first()
        if same is not None:
            raise SameText(same)
        version = _add_version(base.prompt, kept, PromptVersion.Origin.ADMIN, based_on=base, by=by, reason=why)
        message = _(
            "%(after)s was saved, edited from %(before)s: %(added)d lines added, %(removed)d removed. Why: %(why)s"
        )
        words = {"after": version.label, "before": base.label, "added": added, "removed": removed, "why": why}
        _log(by, base.prompt, message % words)
    return version


def do_activate(version: PromptVersion, *, shown: int | None, by: AbstractBaseUser, reason: str) -> PromptActivation:
    """Make the version active, if what is active is still what its author saw.

    `shown`: id of the activation that was the newest on the author's page, None where there was none. When this
    returns and its transaction is committed, every run that starts pins this version. Raises `Unusable`, `NotFit`,
    `Stale`, and `SameText` where the version is active already.
    """
    why = check_reason(reason)
    with transaction.atomic():
        _wait_for_other_writers()
        current = version.prompt.newest_activation()
        if current is not None and current.id != shown:
            raise Stale(current)
        if current is not None and current.version_id == version.id:
            raise SameText(version)
        if reasons := shortfalls(version.prompt_id, version.text):
            raise NotFit(version, reasons)
        activation = _activate(version, current, by=by, reason=why)
        before = current.version.label if current else "–"
        message = _("%(after)s was made active in place of %(before)s. Why: %(why)s")
        _log(by, version.prompt, message % {"after": version.label, "before": before, "why": why})
    return activation


def check_reason(reason: str) -> str:
    """The reason as it is kept. Raises `Unusable`."""
    why = " ".join(reason.replace("\x00", "").split())
    if not why:
        raise Unusable(_("Say why."))
    if hidden := unseen(why):
        raise Unusable(_("The reason holds characters that cannot be seen: %(codes)s.") % {"codes": hidden[:200]})
    if len(why) > MAX_REASON_CHARS:
        raise Unusable(_("The reason may have %(limit)d characters.") % {"limit": MAX_REASON_CHARS})
    return why


def check_draft(text: str) -> str:
    """The text as it is kept: Unix line ends, one at the end. Raises `Unusable` for what cannot be a prompt at all."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
    if not lines:
        raise Unusable(_("The text is empty."))
    if "\x00" in lines:
        raise Unusable(_("The text holds a NUL character."))
    if len(lines) >= MAX_DRAFT_CHARS:
        raise Unusable(_("A text of more than %(limit)d characters is not kept.") % {"limit": MAX_DRAFT_CHARS})
    if lines.count("\n") >= MAX_DRAFT_LINES:
        raise Unusable(_("A text of more than %(limit)d lines is not kept.") % {"limit": MAX_DRAFT_LINES})
    if hidden := unseen(lines):
        raise Unusable(_("The text holds characters that cannot be seen: %(codes)s.") % {"codes": hidden[:200]})
    return lines + "\n"


# ---- with a release ---------------------------------------------------------------------------------------------


def sync_shipped() -> list[str]:
    """Turns changed shipped files into new versions and activates them, unless an admin's own version is active.

    Idempotent; safe to run in two processes at once. Returns one sentence for each change. Raises ValueError naming
    a file that cannot serve as its role's prompt.
    """
    changes: list[str] = []
    with transaction.atomic():
        _wait_for_other_writers()
        for shipped in CATALOGUE:
            change = _sync_one(shipped)
            if change:
                changes.append(change)
    return changes


def _sync_one(shipped: Shipped) -> str | None:
    text = _text_of(shipped)
    prompt, _created = Prompt.objects.update_or_create(
        name=shipped.name, defaults={"title": shipped.title, "resource": shipped.resource}
    )
    newest_shipped = prompt.newest_shipped()
    if newest_shipped is not None and newest_shipped.sha256 == sha256_of(text):
        return None
    version = _add_version(prompt, text, PromptVersion.Origin.SHIPPED, reason=SYNC_REASON)
    active = prompt.newest_activation()
    if active is not None and active.version.origin == PromptVersion.Origin.ADMIN:
        return f"{version.label} was added and waits: {active.version.label}, an admin's own version, stays active"
    _activate(version, active, by=None, reason=SYNC_REASON)
    return f"{version.label} was added and is active"


def _text_of(shipped: Shipped) -> str:
    text = shipped.text()
    try:
        check_draft(text)
    except Unusable as error:
        raise ValueError(f"{shipped.resource}: {error}") from error
    if reasons := shortfalls(shipped.name, text):
        raise ValueError(f"{shipped.resource}: {' '.join(reasons)}")
    return text


# ---- shared by the above ----------------------------------------------------------------------------------------


def _wait_for_other_writers() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('prompts.sync'))")


def _add_version(
    prompt: Prompt,
    text: str,
    origin: str,
    *,
    reason: str,
    based_on: PromptVersion | None = None,
    by: AbstractBaseUser | None = None,
) -> PromptVersion:
    newest = prompt.versions.order_by("-number").first()
    return PromptVersion.objects.create(
        prompt=prompt,
        number=newest.number + 1 if newest else 1,
        text=text,
        sha256=sha256_of(text),
        origin=origin,
        based_on=based_on,
        reason=reason,
        created_at=timezone.now(),
        created_by_id=by.pk if by else None,
    )


def _activate(
    version: PromptVersion, current: PromptActivation | None, *, by: AbstractBaseUser | None, reason: str
) -> PromptActivation:
    return PromptActivation.objects.create(
        prompt_id=version.prompt_id,
        version=version,
        previous=current.version if current else None,
        activated_at=timezone.now(),
        activated_by_id=by.pk if by else None,
        reason=reason,
    )


def _log(by: AbstractBaseUser, prompt: Prompt, message: str) -> None:
    LogEntry.objects.log_actions(by.pk, [prompt], CHANGE, message, single_object=True)
