"""`query_alerts`: what is firing now, from Alertmanager, else from Prometheus itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.types import EvidenceRef, EvidenceStatus, SourceKind
from runs.errors import ToolFailed, ToolRejected
from runs.harness.ports import ToolContext, ToolResult
from runs.tools.evidence import cut, no_evidence, preview_of
from runs.tools.http import Server
from runs.tools.redaction import clean
from runs.tools.timewindow import format_time

MAX_ALERTS = 50
TEXT_CHARS = 800
_SEVERITIES = (
    "critical",
    "page",
    "error",
    "major",
    "high",
    "warning",
    "warn",
    "minor",
    "medium",
    "low",
    "info",
    "none",
)
_MATCHER = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*\"?(.*?)\"?\s*", re.DOTALL)


class AlertsQuery(BaseModel):
    """List the alerts that are active now."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: list[Annotated[str, Field(min_length=2, max_length=300)]] | None = Field(
        None,
        max_length=10,
        description="Labels that must all be equal, each written label=value, e.g. service=checkout.",
    )


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """One alert as either server states it. `starts_at` is None where it is missing or unreadable."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str
    starts_at: datetime | None

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "(unnamed)")

    @property
    def severity(self) -> str | None:
        return self.labels.get("severity")

    @property
    def rank(self) -> tuple[int, str, str]:
        """The most severe first, then the oldest."""
        severity = (self.severity or "").lower()
        place = _SEVERITIES.index(severity) if severity in _SEVERITIES else len(_SEVERITIES)
        return (place, format_time(self.starts_at) if self.starts_at else "~", self.name)


class QueryAlerts:
    """The tool. `prometheus` says that `server` is a Prometheus, whose own list has no silences."""

    name = "query_alerts"
    description = (
        "List the alerts that are active at the reference time, the most severe first, optionally only those with "
        "given labels. Shows what else is firing besides the alert in question."
    )
    arguments: type[BaseModel] = AlertsQuery
    source_kind = SourceKind.TELEMETRY

    def __init__(self, server: Server, *, prometheus: bool = False) -> None:
        self._server = server
        self._prometheus = prometheus

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        query: AlertsQuery = arguments
        matchers = matchers_of(query)
        if self._prometheus:
            answer = await self._server.get("/api/v1/alerts")
        else:
            # All active ones, matched here: so the answer can say how many there were besides.
            states = [("active", "true"), ("silenced", "false"), ("inhibited", "false"), ("unprocessed", "true")]
            answer = await self._server.get("/api/v2/alerts", states)
        alerts = read_alerts(answer, self._server.title, prometheus=self._prometheus)
        matching = [alert for alert in alerts if all(alert.labels.get(k) == v for k, v in matchers.items())]
        return _result(matchers, sorted(matching, key=lambda alert: alert.rank), len(alerts), context.now)


def matchers_of(query: AlertsQuery) -> dict[str, str]:
    """Raises `ToolRejected` for one that is not `label=value`."""
    matchers = {}
    for text in query.match or ():
        found = _MATCHER.fullmatch(text)
        if found is None or found[2][:1] == "~":
            raise ToolRejected(
                "A matcher is not label=value; only equality can be asked for.", error_code="BAD_MATCHER"
            )
        matchers[found[1]] = found[2]
    return matchers


def read_alerts(answer: Any, title: str, *, prometheus: bool) -> list[ActiveAlert]:
    """Raises `ToolFailed` where the answer is of another shape."""
    try:
        rows = answer["data"]["alerts"] if prometheus else answer
        if not isinstance(rows, list):
            raise TypeError("not a list")
        return [_alert(row, prometheus) for row in rows]
    except (KeyError, TypeError, AttributeError) as error:
        raise ToolFailed(f"{title} answered in a form that is not its own.", error_code="BAD_ANSWER") from error


def _alert(row: Mapping[str, Any], prometheus: bool) -> ActiveAlert:
    return ActiveAlert(
        labels=_texts(row["labels"]),
        annotations=_texts(row.get("annotations") or {}),
        state=str(row["state"] if prometheus else row["status"]["state"]),
        starts_at=_moment(row.get("activeAt" if prometheus else "startsAt")),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {clean(str(key)): clean(str(value)) for key, value in values.items()}


def _moment(text: Any) -> datetime | None:
    try:
        # Prometheus states nanoseconds; datetime reads any number of digits and keeps six.
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def sentence(alert: ActiveAlert) -> str:
    """One quotable sentence: name, severity, state, since when, on what, and what its author wrote."""
    labels = ", ".join(
        f"{key}={value}" for key, value in sorted(alert.labels.items()) if key not in {"alertname", "severity"}
    )
    since = f" since {format_time(alert.starts_at)}" if alert.starts_at else ""
    severity = f" ({alert.severity})" if alert.severity else ""
    told = [
        alert.annotations[key].strip() for key in ("summary", "description", "message") if alert.annotations.get(key)
    ]
    text = f"{alert.name}{severity} is {alert.state}{since}"
    text = f"{text} on {labels}" if labels else text
    return cut(f"{text}: {' '.join(map(_ended, told))}" if told else text, TEXT_CHARS)


def _ended(text: str) -> str:
    return text if text[-1:] in ".!?。" else f"{text}."


def _result(matchers: Mapping[str, str], alerts: list[ActiveAlert], in_all: int, now: datetime) -> ToolResult:
    asked = {key: clean(value) for key, value in matchers.items()}
    if not alerts:
        having = f" with {', '.join(f'{key}={value}' for key, value in asked.items())}" if asked else ""
        text = (
            f"query_alerts found no active alert{having} at {format_time(now)}: {in_all} active alerts were looked at."
        )
        return no_evidence(text, output={"match": asked, "alerts": [], "alerts_total": 0})
    rows = [
        {
            "alertname": alert.name,
            "severity": alert.severity,
            "state": alert.state,
            "starts_at": format_time(alert.starts_at) if alert.starts_at else None,
            "labels": dict(alert.labels),
            "text": sentence(alert),
        }
        for alert in alerts[:MAX_ALERTS]
    ]
    texts = [str(row["text"]) for row in rows]
    return ToolResult(
        status=EvidenceStatus.OK,
        output={"match": asked, "alerts": rows, "alerts_total": len(alerts)},
        evidence_refs=tuple(EvidenceRef(f"$.alerts[{i}].text", text) for i, text in enumerate(texts)),
        preview=preview_of(texts),
        details={"alerts_total": len(alerts)},
    )
