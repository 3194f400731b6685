"""Building `ToolResult`s: the one place where a result with nothing in it gets its text."""

from collections.abc import Mapping
from typing import Any

from gatekeeper.types import NO_EVIDENCE_PATH, EvidenceRef, EvidenceStatus
from runs.harness.ports import ToolResult
from runs.tools.redaction import clean

PREVIEW_CHARS = 400


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, and a mark where the rest was cut off."""
    return text if len(text) <= limit else f"{text[:limit]} … [cut]"


def preview_of(texts: list[str]) -> str:
    """A few lines for people who look at a list of calls."""
    return cut("\n".join(cut(text, PREVIEW_CHARS // 2) for text in texts[:3]), PREVIEW_CHARS)


def no_evidence(text: str, *, output: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> ToolResult:
    """A query that was carried out and found nothing. `text` states tool, query, window and what was looked at."""
    text = clean(text)
    return ToolResult(
        status=EvidenceStatus.NO_EVIDENCE,
        output={**output, NO_EVIDENCE_PATH.removeprefix("$."): text},
        evidence_refs=(EvidenceRef(raw_path=NO_EVIDENCE_PATH, text=text),),
        preview=cut(text, PREVIEW_CHARS),
        details=details or {},
    )
