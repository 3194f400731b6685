"""What a notice says of a run: published words only, or the safe content; never a draft."""

import re
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from runs.models import DiagnosisRun, RunNotice
from runs.pages.hostile import one_line, seen
from runs.pages.words import VERDICT_WORDS, Tone, badge

TITLE_CHARS = 200
TEXT_CHARS = 1500
LIMITATIONS = 3
# How Slack, Teams, Discord, Feishu and others are told to call everybody.
_CALLS = re.compile(r"@(?=everyone|here|channel|all\b|所有人)|<(?=[!@#/]|at\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Message:
    """`kind` is one of Apprise's types: info, success, warning, failure."""

    title: str
    body: str
    kind: str


_KINDS = {Tone.GOOD: "success", Tone.WARN: "warning", Tone.BAD: "failure"}


def message_of(run: DiagnosisRun, occasion: str, link: str) -> Message:
    """`link` leads to the run's page."""
    if occasion == RunNotice.Occasion.STARTED:
        return Message(_title(_("Diagnosis started"), run), _body([*_facts(run), link]), "info")
    words, tone = badge(run)
    return Message(_title(str(words), run), _body([*_told(run), *_facts(run), link]), _KINDS.get(tone, "info"))


def _title(state: str, run: DiagnosisRun) -> str:
    alert = run.subject.get("alert") or {}
    labels = alert.get("labels") or {}
    place = labels.get("service") or labels.get("job") or labels.get("instance") or ""
    name = alert.get("alertname") or run.query
    about = _("%(name)s on %(place)s") % {"name": name, "place": place} if place else name
    return _quiet(one_line(f"{state}: {about}", TITLE_CHARS))


def _told(run: DiagnosisRun) -> list[str]:
    published: dict[str, Any] = run.published_result or {}
    if published:
        missing = [_("Missing: %(what)s") % {"what": text} for text in published.get("limitations", [])[:LIMITATIONS]]
        return [published["conclusion"], *missing]
    safe: dict[str, Any] = run.safe_content or {}
    return [text for text in (safe.get("headline"), safe.get("reason")) if text]


def _facts(run: DiagnosisRun) -> list[str]:
    severity = (run.subject.get("alert") or {}).get("severity")
    facts = []
    if run.verdict:
        facts.append(_("Verdict: %(verdict)s") % {"verdict": VERDICT_WORDS.get(run.verdict, run.verdict)})
    if (run.published_result or {}).get("confidence") == "LOW":
        facts.append(_("Confidence: low"))
    if severity:
        facts.append(_("Severity: %(severity)s") % {"severity": severity})
    return [" · ".join(facts)] if facts else []


def _body(lines: list[str]) -> str:
    *told, link = lines
    return "\n".join([*(_quiet(seen(line[:TEXT_CHARS])) for line in told), link])


def _quiet(text: str) -> str:
    """An alert's text calls nobody."""
    return _CALLS.sub(lambda sign: f"{sign[0]}\u2060", text)
