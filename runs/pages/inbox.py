"""The inbox of alerts: what its address asks for, and one page of rows. Three queries, however many rows there are."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.db.models import Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Lower
from django.utils.translation import gettext_lazy as _

from runs.access import Caller, visible_runs
from runs.alert_actions import OPEN, holding
from runs.alertpayload import PLACE_LABELS, SEVERITY_RANKS, UNKNOWN_SEVERITY_RANK, severity_rank
from runs.models import Alert, AlertSilence, DiagnosisRun
from runs.models.run import RunStatus
from runs.pages.hostile import one_line
from runs.pages.words import Tone, Words, badge

PAGE = 40
WATCHED = 40
SEARCH_LIMIT = 200
CONCLUSION_CHARS = 240
SUMMARY_CHARS = 240
SHOWN_LABELS = 4
_LARGE = ("subject", "published_result", "safe_content", "self_evaluation", "pinned_prompts", "rehearsal", "emitted")
# Labels that tell where an alert is, the most telling first.
TELLING = (*PLACE_LABELS, "cluster", "env", "environment", "region")

FIRING, RESOLVED, SILENCED = "firing", "resolved", "silenced"
STATES: dict[str, Words] = {FIRING: _("Firing"), RESOLVED: _("Resolved"), SILENCED: _("Silenced")}
SEVERITIES: dict[str, tuple[Words, int]] = {
    "critical": (_("critical"), 0),
    "error": (_("error"), 1),
    "warning": (_("warning"), 2),
    "info": (_("info"), 4),
    "other": (_("other or none"), UNKNOWN_SEVERITY_RANK),
}
SEVERITY_TONES = {0: Tone.BAD, 1: Tone.BAD, 2: Tone.WARN}
RUNS: dict[str, tuple[Words, tuple[str, ...]]] = {
    "open": (_("waiting or running"), OPEN),
    "answered": (_("answered"), (RunStatus.SUCCESS,)),
    "withheld": (_("withheld"), (RunStatus.DEGRADED,)),
    "failed": (_("failed"), (RunStatus.FAILED,)),
    "cancelled": (_("cancelled"), (RunStatus.CANCELLED,)),
    "none": (_("none"), ()),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What the address asks for. A value that is none of ours counts as not given."""

    state: str = ""
    severity: str = ""
    run: str = ""
    q: str = ""

    @property
    def given(self) -> bool:
        return any((self.state, self.severity, self.run, self.q))

    def query(self, **changes: str) -> str:
        named = {"state": self.state, "severity": self.severity, "run": self.run, "q": self.q} | changes
        return urlencode({name: value for name, value in named.items() if value})


def read_filters(sent: Mapping[str, str]) -> Filters:
    def choice(name: str, choices: Mapping[str, object]) -> str:
        value = sent.get(name, "")
        return value if value in choices else ""

    return Filters(
        state=choice("state", STATES),
        severity=choice("severity", SEVERITIES),
        run=choice("run", RUNS),
        q=sent.get("q", "").replace("\0", "").strip()[:SEARCH_LIMIT],
    )


# ---- rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatestRun:
    """`conclusion`: what was published, or, of a run that released nothing, why."""

    id: str
    badge: Words
    tone: Tone
    conclusion: str
    open: bool
    queued_at: datetime


@dataclass(frozen=True, slots=True)
class AlertRow:
    """`run` None: none was started, or the reader may not see it."""

    id: int
    name: str
    firing: bool
    severity: str
    severity_tone: Tone
    labels: tuple[tuple[str, str], ...]
    summary: str
    occurrences: int
    first_seen: datetime
    last_seen: datetime
    silenced_until: datetime | None
    run: LatestRun | None


@dataclass(frozen=True, slots=True)
class Inbox:
    """`older`: the query string of the next page, empty on the last one. `firing`: how many alerts fire in all."""

    rows: tuple[AlertRow, ...]
    older: str
    firing: int

    @property
    def open_ids(self) -> tuple[int, ...]:
        return tuple(row.id for row in self.rows if row.run and row.run.open)[:WATCHED]


class BadCursor(ValueError):
    """The address names a place in the list that is none."""


def inbox(caller: Caller, filters: Filters, before: str = "") -> Inbox:
    """Raises `BadCursor`."""
    now = datetime.now(UTC)
    alerts = _chosen(filters, now)
    if before:
        at, row_id = _place(before)
        alerts = alerts.filter(Q(last_received_at__lt=at) | Q(last_received_at=at, id__lt=row_id))
    found = list(alerts[: PAGE + 1])
    older = filters.query(before=_cursor(found[PAGE - 1])) if len(found) > PAGE else ""
    firing = Alert.objects.filter(status=Alert.Status.FIRING).count()
    return Inbox(rows_of(caller, found[:PAGE], now), older, firing)


def watched(caller: Caller, alert_ids: list[str]) -> tuple[AlertRow, ...]:
    """The rows of alerts whose runs the page shows as open, as they are now."""
    wanted = [int(text) for text in alert_ids[:WATCHED] if text.isascii() and text.isdigit() and len(text) < 19]
    return rows_of(caller, list(_newest_first().filter(id__in=wanted)), datetime.now(UTC))


def _newest_first() -> QuerySet[Alert]:
    return Alert.objects.defer("group_key", "generator_url").order_by("-last_received_at", "-id")


def _chosen(filters: Filters, now: datetime) -> QuerySet[Alert]:
    alerts = _newest_first()
    if filters.state == SILENCED:
        alerts = alerts.filter(fingerprint__in=holding(now).values("fingerprint"))
    elif filters.state:
        alerts = alerts.filter(status=filters.state.upper())
    if filters.severity:
        alerts = alerts.annotate(severity_word=Lower("severity"))
        rank = SEVERITIES[filters.severity][1]
        if rank == UNKNOWN_SEVERITY_RANK:
            alerts = alerts.exclude(severity_word__in=list(SEVERITY_RANKS))
        else:
            alerts = alerts.filter(severity_word__in=[word for word, its in SEVERITY_RANKS.items() if its == rank])
    if filters.run:
        statuses = RUNS[filters.run][1]
        alerts = alerts.filter(last_run__status__in=statuses) if statuses else alerts.filter(last_run__isnull=True)
    if filters.q:
        texts = {"label_text": Cast("labels", TextField()), "note_text": Cast("annotations", TextField())}
        words = Q(alert_name__icontains=filters.q) | Q(fingerprint=filters.q)
        words |= Q(label_text__icontains=filters.q) | Q(note_text__icontains=filters.q)
        alerts = alerts.annotate(**texts).filter(words)
    return alerts


def _cursor(row: Alert) -> str:
    return base64.urlsafe_b64encode(f"{row.last_received_at.isoformat()} {row.id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[datetime, int]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        at, _space, row_id = text.partition(" ")
        place = datetime.fromisoformat(at).astimezone(UTC), int(row_id)
    except (ValueError, OverflowError, binascii.Error) as error:
        raise BadCursor from error
    if not 0 < place[1] < 2**63 or len(cursor) > 100:
        raise BadCursor
    return place


def rows_of(caller: Caller, alerts: list[Alert], now: datetime) -> tuple[AlertRow, ...]:
    """Two queries: the runs that the reader may see, and the silences that hold."""
    runs = latest_runs(caller, [row.last_run_id for row in alerts if row.last_run_id])
    silences = holding(now).filter(fingerprint__in=[row.fingerprint for row in alerts])
    until = dict(silences.values_list("fingerprint", "until"))
    return tuple(_row(alert, runs, until) for alert in alerts)


def latest_runs(caller: Caller, run_ids: list[str]) -> dict[str, LatestRun]:
    told = {
        "conclusion": KeyTextTransform("conclusion", "published_result"),
        "headline": KeyTextTransform("headline", "safe_content"),
        "reason": KeyTextTransform("reason", "safe_content"),
    }
    runs = visible_runs(caller).filter(id__in=run_ids).annotate(**told)
    return {run.id: latest_run(run) for run in runs.defer(*_LARGE)}


def latest_run(run: DiagnosisRun) -> LatestRun:
    """Of a run as `latest_runs` reads it."""
    words, tone = badge(run)
    told = vars(run)
    said = told["conclusion"] or " ".join(part for part in (told["headline"], told["reason"]) if part)
    return LatestRun(run.id, words, tone, one_line(said, CONCLUSION_CHARS), run.status in OPEN, run.queued_at)


def _row(alert: Alert, runs: Mapping[str, LatestRun], until: Mapping[str, datetime]) -> AlertRow:
    notes = alert.annotations
    summary = next((notes[key] for key in ("summary", "description", "message") if notes.get(key)), "")
    return AlertRow(
        id=alert.id,
        name=one_line(alert.alert_name, 120),
        firing=alert.status == Alert.Status.FIRING,
        severity=one_line(alert.severity, 40),
        severity_tone=severity_tone(alert.severity),
        labels=telling_labels(alert.labels),
        summary=one_line(summary, SUMMARY_CHARS),
        occurrences=alert.occurrences,
        first_seen=alert.first_received_at,
        last_seen=alert.last_received_at,
        silenced_until=until.get(alert.fingerprint),
        run=runs.get(alert.last_run_id or ""),
    )


def severity_tone(severity: str) -> Tone:
    return SEVERITY_TONES.get(severity_rank(severity), Tone.QUIET)


def telling_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those that tell where the alert is; of an alert that has none of them, the first others."""
    known = [name for name in TELLING if labels.get(name)]
    others = [name for name in sorted(labels) if labels[name] and name not in {"alertname", "severity"}]
    names = list(dict.fromkeys([*known, *([] if known else others)]))[:SHOWN_LABELS]
    return tuple((one_line(name, 40), one_line(labels[name], 80)) for name in names)


def silence_of(fingerprint: str, now: datetime) -> AlertSilence | None:
    return holding(now).filter(fingerprint=fingerprint).first()
