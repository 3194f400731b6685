"""A run's answer as Markdown, to be pasted into an incident channel: the answer, its evidence, the way to the page.

Texts from models, alerts and tools may not become markup, links or mentions there: prose is escaped, and excerpts stand
in fences longer than any in them. What is written is otherwise what is on record.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from audit.pages.words import KIND_WORDS
from gatekeeper.text import strip_ansi
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line, seen
from runs.pages.words import VERDICT_WORDS, badge

EXCERPT_CHARS = 1_500
_MARKUP = re.compile(r"([\\`*_~\[\]<>|])")
# At the beginning of a line these make headings, lists, quotes.
_BLOCK = re.compile(r"^(\s*)([#+>-]|\d+[.)])", re.MULTILINE)
_MENTION = re.compile(r"@(?=\w)")
_WORD_JOINER = "\u2060"


def report_markdown(run: DiagnosisRun, address: str) -> str:
    """`address`: of the run's page."""
    words, _tone = badge(run)
    alert = (run.subject or {}).get("alert") or {}
    title = one_line(alert.get("alertname") or run.query, 160)
    verdict = f", {VERDICT_WORDS.get(run.verdict, run.verdict)}" if run.verdict else ""
    lines = [f"**{prose(title)}** · {words}{verdict}", ""]
    lines += _answer(run.published_result) if run.published_result else _without_answer(run)
    lines += ["", f"<{address}>", ""]
    return "\n".join(lines)


def prose(text: str) -> str:
    """The text as words and nothing else: no markup, no mention."""
    escaped = _BLOCK.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", seen(text)))
    return _MENTION.sub(f"@{_WORD_JOINER}", escaped)


def fenced(text: str) -> list[str]:
    """The text as it is, in a fence that it cannot end."""
    plain = strip_ansi(text).replace("\r\n", "\n").rstrip("\n")
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * max(3, longest + 1)
    cut = plain[:EXCERPT_CHARS] + ("…" if len(plain) > EXCERPT_CHARS else "")
    return [fence, cut, fence]


def _answer(published: Mapping[str, Any]) -> Iterator[str]:
    claims = {claim["claimId"]: claim for claim in published["claims"]}
    if published["confidence"] == "LOW":
        yield f"**{_('Low confidence.')}**"
        yield ""
    yield prose(published["conclusion"])
    for number, statement in enumerate(published["statements"], start=1):
        yield ""
        yield f"{number}. {prose(statement['text'])}"
        for claim_id in statement["claimIds"]:
            yield from _evidence(claims.get(claim_id))
    yield from _listed(_("Limitations"), published["limitations"])


def _evidence(claim: Mapping[str, Any] | None) -> Iterator[str]:
    for item in claim["evidence"] if claim else ():
        where = f"{item['toolName']} {item['sourceInvocationId']} {item['rawPath']}"
        kind = KIND_WORDS.get(claim["kind"], claim["kind"]) if claim else ""
        yield ""
        yield f"   {prose(str(kind))} · {prose(where)}"
        yield ""
        yield from (f"   {line}" for text in fenced(item["evidenceExcerpt"]) for line in text.split("\n"))


def _without_answer(run: DiagnosisRun) -> Iterator[str]:
    safe = run.safe_content
    if not safe:
        yield _("No answer yet.")
        return
    yield prose(safe.get("headline", ""))
    if safe.get("reason"):
        yield ""
        yield prose(safe["reason"])
    yield from _listed(_("Looked at"), safe.get("lookedAt", ()))


def _listed(title: str, texts: Any) -> Iterator[str]:
    if texts:
        yield ""
        yield f"**{title}**"
        yield ""
        yield from (f"- {prose(text)}" for text in texts)
