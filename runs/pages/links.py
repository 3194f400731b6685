"""Addresses that come with alerts and evidence: a link only where following it can do nothing but open a page."""

import re
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from django.urls import reverse

from runs.pages.hostile import one_line

LONGEST = 2_000
# Enough to find a passage by.
EXCERPT_CHARS = 300
_DOCUMENT_ID = re.compile(r"[\w.-]{1,200}")


@dataclass(frozen=True, slots=True)
class Linked:
    """A value to be shown. `href` empty: it is no address, or none to be followed."""

    text: str
    href: str = ""


def linked(value: str, limit: int = 500) -> Linked:
    return Linked(one_line(value, limit), safe_address(value))


def safe_address(value: str) -> str:
    """The value where the whole of it is one plain http or https address, else empty.

    Addresses with a name or password in them are none: what is shown before the @ is not where they lead.
    """
    text = value.strip()
    if len(text) > LONGEST or not text.isprintable() or any(character.isspace() for character in text):
        return ""
    try:
        parts = urlsplit(text)
        known = parts.scheme.lower() in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return ""
    return text if known else ""


def document_address(document_id: str, excerpt: str = "") -> str:
    """The page of a document, at the passage that holds the excerpt; empty for an id that no document can have."""
    if not _DOCUMENT_ID.fullmatch(document_id):
        return ""
    page = reverse("document", args=[document_id])
    return f"{page}?{urlencode({'excerpt': excerpt[:EXCERPT_CHARS]})}" if excerpt else page


def turn_address(session_id: str, run_id: str, part: str = "turn") -> str:
    """Where a turn, or a part of it, stands in its conversation, however many came after it."""
    return f"{reverse('conversation', args=[session_id])}?{urlencode({'at': run_id})}#{part}-{run_id}"
