"""What a role is told, read from the JSON texts of its messages into frozen values.

A real model reads the same texts. What is missing or malformed is read as absent: the offline model answers with what
it has, it does not fail a run over a field.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gatekeeper.types import ClaimKind
from runs.harness.ports import Message, UserMessage
from runs.llm.offline.questions import meant, window_of
from runs.llm.offline.tokens import is_chinese, joined, words

SERVICE_LABELS = (
    "service",
    "app",
    "app_kubernetes_io_name",
    "application",
    "service_name",
    "deployment",
    "statefulset",
)
WORKLOAD_LABELS = ("container", "pod", "job_name", "job")
_SCRAPER = re.compile(r"exporter|kubelet|kube-state|cadvisor|prometheus|blackbox|^node$", re.IGNORECASE)
_NOT_A_SUBJECT = frozenset(
    {"severity", "job", "cluster", "team", "namespace", "env", "environment", "region", "prometheus"}
)
DEFAULT_WINDOW = timedelta(hours=1)
_POD_HASH = re.compile(r"(?:-[a-f0-9]{6,10})?-[a-z0-9]{5}$|-\d{1,3}$")
_NAME = re.compile(r"(?<![\w/.-])[a-z][a-z0-9]*(?:-[a-z0-9]+)+(?![\w/-])")
_NAMED = re.compile(
    r"(?:service|服务)\s*[:：]?\s*[`\"']?([A-Za-z][\w-]{2,})|[`\"']?([A-Za-z][\w-]{2,})[`\"']?\s*(?:service\b|服务)"
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What an executor or planner is asked about. Times are aware, UTC; `expression` is the alert rule's PromQL."""

    query: str
    now: datetime
    start: datetime
    end: datetime
    alert_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    expression: str | None = None
    guessed: str | None = None
    """A service that the question seems to mean, known from the evidence."""
    asked: str = ""
    """The question as it was asked, where `query` has what it follows up on as well."""
    subject: str = ""
    """What was released before and a follow-up points back to."""

    @property
    def chinese(self) -> bool:
        return is_chinese(self.asked or self.query)

    @property
    def has_alert(self) -> bool:
        return bool(self.alert_name or self.labels)

    @property
    def onset(self) -> datetime:
        """When the trouble is known to exist: the alert's start, else the middle of the window."""
        return self.started_at or self.start + (self.end - self.start) / 2

    @property
    def service(self) -> str | None:
        for name in SERVICE_LABELS:
            if self.labels.get(name):
                return self.labels[name]
        for name in WORKLOAD_LABELS:
            value = self.labels.get(name)
            if value and not _SCRAPER.search(value):
                return _POD_HASH.sub("", value) if name == "pod" else value
        return None if self.has_alert else service_named_in(self.query) or self.guessed

    @property
    def named(self) -> frozenset[str]:
        """Words of the alert and of what it is about: host, device, topic."""
        return self.terms | words(joined(value for name, value in self.labels.items() if name not in _NOT_A_SUBJECT))

    @property
    def summary(self) -> str:
        return self.annotations.get("summary") or self.annotations.get("description") or self.query

    @property
    def terms(self) -> frozenset[str]:
        """Words of the alert or question, the service's own name left out: it stands in every line."""
        texts = [self.alert_name, self.query, *self.annotations.values()]
        return words(joined(texts)) - words(self.service or "")


def service_named_in(query: str) -> str | None:
    """The service a question speaks of: a hyphenated name, or the word beside "service"."""
    hyphenated = _NAME.search(query)
    if hyphenated:
        return hyphenated.group()
    named = _NAMED.search(query)
    found = next((group for group in named.groups() if group), None) if named else None
    return None if found is None or found.lower() in _NO_NAMES else found


_NO_NAMES = frozenset("the this that our your any some which what each every is are was has web down slow".split())


def situation(payload: Mapping[str, Any]) -> Situation:
    """Reads `{"query", "alert", "now", "window", …}`; for a question `history` and `previous` too."""
    now = _situation(payload)
    if now.has_alert:
        return now
    told = meant(payload)
    start, end = window_of(now.query, now.now) or (now.start, now.end)
    return replace(now, query=told.text, asked=now.query, subject=told.subject, start=start, end=end)


def _situation(payload: Mapping[str, Any]) -> Situation:
    alert = _object(payload.get("alert"))
    now = parse_time(payload.get("now")) or datetime(1970, 1, 1, tzinfo=UTC)
    started = parse_time(alert.get("startsAt"))
    window = _object(payload.get("window"))
    end = parse_time(window.get("end")) or now
    labels = _strings(alert.get("labels"))
    return Situation(
        query=str(payload.get("query") or ""),
        now=now,
        start=parse_time(window.get("start")) or (started or end) - DEFAULT_WINDOW,
        end=end,
        alert_name=str(alert.get("alertname") or labels.get("alertname") or ""),
        labels=labels,
        annotations=_strings(alert.get("annotations")),
        started_at=started if started and started <= end else None,
        expression=expression_of(str(alert.get("generatorURL") or "")),
    )


def expression_of(generator_url: str) -> str | None:
    """The PromQL that Prometheus puts into an alert's link as `g0.expr`."""
    try:
        found = parse_qs(urlsplit(generator_url).query).get("g0.expr")
    except ValueError:
        return None
    return found[0].strip() if found and found[0].strip() else None


def parse_time(value: Any) -> datetime | None:
    """ISO 8601 as an aware UTC time; without a zone UTC is meant. None where it is not one, or Go's zero time."""
    try:
        moment = datetime.fromisoformat(str(value).replace(",", "."))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC) if moment.year > 1970 else None


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- verifier and composer -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quoted:
    """One evidence item of an allowed claim; `context` is the whole line or paragraph around the excerpt."""

    tool_name: str
    raw_path: str
    evidence_excerpt: str
    context: str


@dataclass(frozen=True, slots=True)
class AllowedClaim:
    claim_id: str
    kind: ClaimKind
    claim_text: str
    critical: bool
    evidence: tuple[Quoted, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """One line of `tool_trace_summary`."""

    tool_name: str
    status: str
    evidence_count: int


@dataclass(frozen=True, slots=True)
class Deliberation:
    """What verifier and composer are given."""

    query: str
    claims: tuple[AllowedClaim, ...]
    looked: tuple[Looked, ...]

    @property
    def chinese(self) -> bool:
        return is_chinese(self.query)


def deliberation(payload: Mapping[str, Any]) -> Deliberation:
    return Deliberation(
        query=str(payload.get("query") or ""),
        claims=tuple(_claim(item) for item in objects(payload.get("claims"))),
        looked=tuple(
            Looked(
                tool_name=str(item.get("tool_name") or ""),
                status=str(item.get("status") or ""),
                evidence_count=count if isinstance(count := item.get("evidence_count"), int) else 0,
            )
            for item in objects(payload.get("tool_trace_summary"))
        ),
    )


def _claim(item: Mapping[str, Any]) -> AllowedClaim:
    kind = item.get("kind")
    return AllowedClaim(
        claim_id=str(item.get("claim_id") or ""),
        kind=ClaimKind(kind) if kind in set(ClaimKind) else ClaimKind.OBSERVATION,
        claim_text=str(item.get("claim_text") or ""),
        critical=item.get("critical") is True,
        evidence=tuple(
            Quoted(
                tool_name=str(cited.get("tool_name") or ""),
                raw_path=str(cited.get("raw_path") or ""),
                evidence_excerpt=str(cited.get("evidence_excerpt") or ""),
                context=str(cited.get("context") or ""),
            )
            for cited in objects(item.get("evidence"))
        ),
    )


# ---- JSON ------------------------------------------------------------------------------------


def payloads(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The JSON objects of the user messages, in order; prose is taken as the query."""
    return [payload_of(message.text) for message in messages if isinstance(message, UserMessage)]


def payload_of(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:
        return {"query": text}
    return read if isinstance(read, dict) else {"query": text}


def objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in _object(value).items() if text is not None}
