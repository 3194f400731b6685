"""Alertmanager's webhook (version 4), and Grafana's that imitates it, as values, whatever shape it arrives in.

Format: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config. Read leniently, because
many senders imitate it: any envelope field may be missing, a group key may be a number, an alert may lack its
fingerprint, status or times. What is kept is bounded, and holds no character that PostgreSQL refuses and none of
the secrets that people put into labels and annotations. Two alerts that differ in a secret alone are still two: a
fingerprint is made of what was sent.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runs.harness.run import AlertSubject
from runs.tools.redaction import clean, clean_json

MAX_ALERTS = 500
MAX_LABELS = 64
MAX_KEY = 200
MAX_VALUE = 2000
MAX_NAME = 200
MAX_SEVERITY = 40
MAX_URL = 2000
MAX_GROUP_KEY = 1000
QUERY_LIMIT = 2000
# What fits behind "alert-" in a session id.
FINGERPRINT = re.compile(r"[A-Za-z0-9._-]{1,58}")
FINGERPRINT_CHARS = 16
UNNAMED = "UnnamedAlert"
EARLIEST_YEAR = 1970
GRAFANA_FIELDS = ("valueString", "dashboardURL", "panelURL")

# The first of these labels that an alert has tells where it is.
PLACE_LABELS = ("service", "app", "application", "job", "deployment", "pod", "instance", "host", "namespace")

SEVERITY_RANKS = {
    **dict.fromkeys(("critical", "crit", "emergency", "fatal", "disaster", "page", "p0", "p1"), 0),
    **dict.fromkeys(("error", "high", "major", "p2"), 1),
    **dict.fromkeys(("warning", "warn", "medium", "minor", "p3"), 2),
    **dict.fromkeys(("info", "information", "informational", "notice", "low", "none", "debug", "p4", "p5"), 4),
}
UNKNOWN_SEVERITY_RANK = 3

_UNFIT = re.compile("[\0\ud800-\udfff]")


class BadPayload(Exception):
    """The body cannot be read. `status` is 400 for what is no JSON, 422 for what is the wrong JSON."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class IncomingAlert:
    subject: AlertSubject
    ends_at: datetime | None

    @property
    def fingerprint(self) -> str:
        return self.subject.fingerprint

    @property
    def resolved(self) -> bool:
        return self.subject.status == "resolved"

    @property
    def urgency(self) -> tuple[int, datetime, str]:
        """Sorts the most severe first, then the earliest, then by name."""
        subject = self.subject
        return severity_rank(subject.severity), subject.starts_at or datetime.max.replace(tzinfo=UTC), subject.alertname


@dataclass(frozen=True, slots=True)
class Notice:
    """One webhook body: the alerts of one group."""

    group_key: str
    alerts: tuple[IncomingAlert, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An alert of a body that is none: its place in the list, from 0, and why."""

    index: int
    message: str


def read_json(body: bytes) -> Any:
    """The body as JSON. Raises `BadPayload` 400, also where it is nested too deep to be read."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadPayload(400, "BAD_JSON", "The body is not valid JSON.") from error


def read_notice(value: Any) -> Notice:
    """All of a body. Raises `BadPayload` 422, also where one of its alerts cannot be read."""
    notice, unreadable = read_webhook(value)
    if unreadable:
        raise _unreadable(unreadable)
    return notice


def read_webhook(value: Any) -> tuple[Notice, tuple[Unreadable, ...]]:
    """What of a body can be read, and what cannot: a sender that is refused does not send the good alerts again.

    Raises `BadPayload` 422 where nothing can be read.
    """
    if not isinstance(value, dict):
        raise BadPayload(422, "BAD_BODY", "The body must be a JSON object.")
    alerts = value.get("alerts")
    if not isinstance(alerts, list):
        raise BadPayload(422, "BAD_BODY", "The body must hold a list of objects under the key 'alerts'.")
    if len(alerts) > MAX_ALERTS:
        raise BadPayload(422, "TOO_MANY_ALERTS", f"A body may hold {MAX_ALERTS} alerts at most.")
    faults = [_fault(alert) for alert in alerts]
    unreadable = tuple(Unreadable(index, fault) for index, fault in enumerate(faults) if fault)
    if alerts and len(unreadable) == len(alerts):
        raise _unreadable(unreadable)
    key = value.get("groupKey")
    readable = (alert for alert, fault in zip(alerts, faults, strict=True) if not fault)
    notice = Notice(
        group_key="" if key is None else clean(text(key, MAX_GROUP_KEY))[:MAX_GROUP_KEY],
        alerts=tuple(read_alert(alert, envelope=value) for alert in readable),
    )
    return notice, unreadable


def _fault(alert: Any) -> str:
    if not isinstance(alert, dict):
        return "An alert must be an object."
    if not all(isinstance(alert.get(part), dict | None) for part in ("labels", "annotations")):
        return "An alert's labels and annotations must be objects."
    return ""


def _unreadable(unreadable: tuple[Unreadable, ...]) -> BadPayload:
    first = unreadable[0]
    return BadPayload(422, "BAD_BODY", f"{first.message} That is alert {first.index + 1} of the list 'alerts'.")


def read_alert(alert: Mapping[str, Any], envelope: Mapping[str, Any]) -> IncomingAlert:
    """One alert; what it lacks comes from the envelope's common labels and annotations."""
    sent = _texts(envelope.get("commonLabels")) | _texts(alert.get("labels"))
    labels = _without_secrets(sent)
    annotations = _without_secrets(
        _texts(envelope.get("commonAnnotations")) | _of_grafana(alert) | _texts(alert.get("annotations"))
    )
    status = alert.get("status") or envelope.get("status")
    name = labels.get("alertname") or clean(text(alert.get("alertname") or UNNAMED, MAX_NAME))
    subject = AlertSubject(
        alertname=name[:MAX_NAME],
        severity=(labels.get("severity") or annotations.get("severity") or "")[:MAX_SEVERITY],
        status="resolved" if isinstance(status, str) and status.strip().lower() == "resolved" else "firing",
        starts_at=moment(alert.get("startsAt")),
        labels=labels,
        annotations=annotations,
        generator_url=clean(text(alert.get("generatorURL") or "", MAX_URL))[:MAX_URL],
        fingerprint=_fingerprint(alert.get("fingerprint"), sent),
    )
    return IncomingAlert(subject=subject, ends_at=moment(alert.get("endsAt")))


def _of_grafana(alert: Mapping[str, Any]) -> dict[str, str]:
    """What Grafana measured when the alert fired, and where it is drawn: its fields beside those of Alertmanager.

    https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/
    """
    return _texts({name: value for name in GRAFANA_FIELDS if isinstance(value := alert.get(name), str) and value})


def _fingerprint(given: Any, labels: Mapping[str, str]) -> str:
    """The sender's own, or one from the labels in whatever order they came."""
    if isinstance(given, str) and FINGERPRINT.fullmatch(given):
        return given
    basis = given if isinstance(given, str) and given else json.dumps(labels, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(basis.encode("utf-8", "replace")).hexdigest()[:FINGERPRINT_CHARS]


def text(value: Any, limit: int) -> str:
    """Any JSON value as bounded text that PostgreSQL takes."""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return _UNFIT.sub("\ufffd", value[:limit])


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    items = list(value.items())[:MAX_LABELS]
    return {text(key, MAX_KEY): text("" if item is None else item, MAX_VALUE) for key, item in items}


def _without_secrets(texts: dict[str, str]) -> dict[str, str]:
    """A mask may be longer than what it hides, so the bounds are kept anew."""
    cleaned: dict[str, str] = clean_json(texts)
    return {key[:MAX_KEY]: value[:MAX_VALUE] for key, value in cleaned.items()}


def moment(value: Any) -> datetime | None:
    """ISO 8601 or seconds since 1970, as UTC. None for what is no time, and for Go's zero time."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            parsed = datetime.fromtimestamp(value, UTC)
        else:
            return None
        at = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at if at.year >= EARLIEST_YEAR else None


def severity_rank(severity: str) -> int:
    """0 is the most severe."""
    return SEVERITY_RANKS.get(severity.strip().lower(), UNKNOWN_SEVERITY_RANK)


def query_text(subject: AlertSubject) -> str:
    """The question a run of this alert asks, such as `HighErrorRate on checkout-api: 5% of requests fail`."""
    place = next((subject.labels[name] for name in PLACE_LABELS if subject.labels.get(name)), "")
    said = next(
        (subject.annotations[key] for key in ("summary", "description", "message") if subject.annotations.get(key)), ""
    )
    query = subject.alertname + (f" on {place}" if place else "") + (f": {said}" if said else "")
    return " ".join(query.split())[:QUERY_LIMIT]
