"""Alerts come in: which of them is new, and the one run that a group of them starts.

All of a body is one transaction under an advisory lock for each fingerprint, so that two notices of the same
alert agree on who was first. What to do with each alert is decided by `decide`, a pure function of its newest row.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from runs import ids
from runs.alertpayload import IncomingAlert, Notice, query_text
from runs.harness.run import Subject
from runs.lifecycle import RunRequest, open_session, queue_run
from runs.models import Alert
from runs.models.run import RunStatus, Trigger
from runs.tasks import enqueue

MAX_OTHERS = 20


class Step(StrEnum):
    """What becomes of one alert of a body."""

    IGNORE = "IGNORE"
    CLOSE = "CLOSE"
    NOTHING_TO_CLOSE = "NOTHING_TO_CLOSE"
    OPEN = "OPEN"
    OPEN_SILENCED = "OPEN_SILENCED"
    JOIN = "JOIN"
    JOIN_AND_RUN = "JOIN_AND_RUN"

    @property
    def starts_run(self) -> bool:
        return self in {Step.OPEN, Step.JOIN_AND_RUN}


@dataclass(frozen=True, slots=True)
class Known:
    """The newest row of a fingerprint, as far as a decision needs it."""

    firing: bool
    run_status: str | None
    run_queued_at: datetime | None
    silenced: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The newest row of a fingerprint: its id and what is known by it."""

    id: int
    known: Known


def decide(alert: IncomingAlert, known: Known | None, *, now: datetime, window: timedelta) -> Step:
    """The window runs from the alert's last run; a run that failed or was cancelled does not count as one.

    Inside it a repeat joins its row, also one that had been closed: a flapping alert is one episode. After it a
    row that still fires gets a new run, and a closed one is followed by a new row. A silenced alert is kept all the
    same, without a run.
    """
    if is_ignored(alert.subject.alertname):
        return Step.IGNORE
    if alert.resolved:
        return Step.CLOSE if known is not None and known.firing else Step.NOTHING_TO_CLOSE
    if known is None:
        return Step.OPEN
    if known.silenced:
        return Step.JOIN if known.firing or _is_recent(known, now, window) else Step.OPEN_SILENCED
    recent = _is_recent(known, now, window)
    if known.run_status in {RunStatus.FAILED, RunStatus.CANCELLED}:
        return Step.JOIN_AND_RUN if known.firing or recent else Step.OPEN
    still_open = known.run_status in {RunStatus.QUEUED, RunStatus.RUNNING}
    if recent or (still_open and window):
        return Step.JOIN
    return Step.JOIN_AND_RUN if known.firing else Step.OPEN


def _is_recent(known: Known, now: datetime, window: timedelta) -> bool:
    return known.run_queued_at is not None and now - known.run_queued_at < window


def is_ignored(alert_name: str) -> bool:
    """Whether alerts of this name only say that alerting works. In the setting's patterns `*` stands for any text."""
    return any(fnmatchcase(alert_name, pattern.replace("[", "[[]")) for pattern in settings.ALERT_IGNORE_NAMES)


@dataclass(frozen=True, slots=True)
class StartedRun:
    run_id: str
    session_id: str
    alert_name: str


@dataclass(frozen=True, slots=True)
class Received:
    """Counts of alerts, and the runs that were started: at most one."""

    accepted: int = 0
    deduplicated: int = 0
    resolved: int = 0
    ignored: int = 0
    runs: tuple[StartedRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Sender:
    """Where a body came from. `window` None: the setting's. Who asks by hand is not held up by a silence."""

    source: str = Alert.Source.ALERTMANAGER
    trigger: str = Trigger.ALERT
    user_id: int | None = None
    token_id: int | None = None
    window: timedelta | None = None

    @property
    def by_hand(self) -> bool:
        return self.trigger == Trigger.MANUAL


@dataclass(slots=True)
class _Plan:
    """The alerts of a body by what becomes of them. Only the first of a fingerprint counts; its twins join it."""

    steps: dict[str, tuple[Step, IncomingAlert]] = field(default_factory=dict)
    counts: dict[Step, int] = field(default_factory=dict)

    def add(self, step: Step, alert: IncomingAlert) -> None:
        self.counts[step] = self.counts.get(step, 0) + 1
        if step is not Step.IGNORE:
            self.steps[alert.fingerprint] = (step, alert)

    def of(self, *steps: Step) -> list[IncomingAlert]:
        return [alert for step, alert in self.steps.values() if step in steps]

    def count(self, *steps: Step) -> int:
        return sum(self.counts.get(step, 0) for step in steps)


def receive(notice: Notice, sender: Sender, hand_over: Callable[[Iterable[str]], object] = enqueue) -> Received:
    """Store what is new and start at most one run; after the commit its id goes to `hand_over`."""
    window = timedelta(seconds=settings.SUPERBIZ.alert_repeat_window_s) if sender.window is None else sender.window
    with transaction.atomic():
        lock_fingerprints(alert.fingerprint for alert in notice.alerts)
        # Read behind the locks: whoever waited there came later.
        now = datetime.now(UTC)
        rows = _newest_rows({alert.fingerprint for alert in notice.alerts}, heed_silences=not sender.by_hand)
        plan = _plan(notice, rows, now, window)
        started = _started(plan)
        stored = _store(plan, rows, notice, sender, now, started)
        if started is not None:
            run_id = _queue(plan, started, stored, sender)
            transaction.on_commit(lambda: hand_over([run_id]))
    return Received(
        accepted=plan.count(Step.OPEN, Step.OPEN_SILENCED, Step.JOIN_AND_RUN),
        deduplicated=plan.count(Step.JOIN),
        resolved=plan.count(Step.CLOSE, Step.NOTHING_TO_CLOSE),
        ignored=plan.count(Step.IGNORE),
        runs=() if started is None else (started,),
    )


def _plan(notice: Notice, rows: Mapping[str, Row], now: datetime, window: timedelta) -> _Plan:
    plan = _Plan()
    for alert in notice.alerts:
        if alert.fingerprint in plan.steps:
            plan.counts[Step.JOIN] = plan.counts.get(Step.JOIN, 0) + 1
            continue
        row = rows.get(alert.fingerprint)
        plan.add(decide(alert, row.known if row else None, now=now, window=window), alert)
    return plan


def lock_fingerprints(fingerprints: Iterable[str]) -> None:
    """Held to the end of the transaction; taken in one order by everyone."""
    keys = sorted(
        {int.from_bytes(hashlib.sha256(print_.encode()).digest()[:8], signed=True) for print_ in fingerprints}
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_advisory_xact_lock(key)) FROM (SELECT unnest(%s::bigint[]) AS key ORDER BY 1) AS keys",
            [keys],
        )


# Every alert that comes in asks this, and the ORM takes longer to put it together than PostgreSQL to answer.
_NEWEST_ROWS = """
    SELECT DISTINCT ON (alert.fingerprint) alert.fingerprint, alert.id, alert.status, run.status, run.queued_at,
        silence.until > clock_timestamp()
    FROM alert
    LEFT JOIN diagnosis_run AS run ON run.id = alert.last_run_id
    LEFT JOIN alert_silence AS silence ON silence.fingerprint = alert.fingerprint AND silence.ended_at IS NULL
    WHERE alert.fingerprint = ANY(%s)
    ORDER BY alert.fingerprint, alert.id DESC
"""


def _newest_rows(fingerprints: Iterable[str], *, heed_silences: bool) -> dict[str, Row]:
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_ROWS, [list(fingerprints)])
        return {
            fingerprint: Row(
                row_id,
                Known(status == Alert.Status.FIRING, run_status, queued_at, silenced=heed_silences and bool(silenced)),
            )
            for fingerprint, row_id, status, run_status, queued_at, silenced in cursor.fetchall()
        }


def _store(
    plan: _Plan, rows: Mapping[str, Row], notice: Notice, sender: Sender, now: datetime, run: StartedRun | None
) -> dict[str, int]:
    """Write the alert rows; the row's id by fingerprint. The run they name is stored later in this transaction."""
    joined = {"status": Alert.Status.FIRING, "ends_at": None, "occurrences": F("occurrences") + 1}
    if alerts := plan.of(Step.JOIN):
        _update(rows, alerts, **joined, last_received_at=now)
    if alerts := plan.of(Step.JOIN_AND_RUN):
        _update(rows, alerts, **joined, last_received_at=now, last_run=run.run_id if run else None)
    for alert in plan.of(Step.CLOSE):
        _update(rows, [alert], status=Alert.Status.RESOLVED, ends_at=alert.ends_at or now, last_received_at=now)
    rows_to_open = [_row(alert, notice, sender, now, run) for alert in plan.of(Step.OPEN)]
    rows_to_open += [_row(alert, notice, sender, now, None) for alert in plan.of(Step.OPEN_SILENCED)]
    opened = Alert.objects.bulk_create(rows_to_open)
    return {print_: row.id for print_, row in rows.items()} | {row.fingerprint: row.pk for row in opened}


def _update(rows: Mapping[str, Row], alerts: Iterable[IncomingAlert], **changes: Any) -> None:
    Alert.objects.filter(pk__in=[rows[alert.fingerprint].id for alert in alerts]).update(**changes)


def _row(alert: IncomingAlert, notice: Notice, sender: Sender, now: datetime, run: StartedRun | None) -> Alert:
    subject = alert.subject
    return Alert(
        fingerprint=subject.fingerprint,
        alert_name=subject.alertname,
        severity=subject.severity,
        source=sender.source,
        group_key=notice.group_key,
        labels=subject.labels,
        annotations=subject.annotations,
        generator_url=subject.generator_url,
        starts_at=subject.starts_at,
        first_received_at=now,
        last_received_at=now,
        last_run_id=run.run_id if run else None,
    )


def _new(plan: _Plan) -> list[IncomingAlert]:
    """The alerts that want a run, the most severe first."""
    return sorted(plan.of(Step.OPEN, Step.JOIN_AND_RUN), key=lambda alert: alert.urgency)


def _started(plan: _Plan) -> StartedRun | None:
    """The group's run: about its most severe new alert."""
    new = _new(plan)
    if not new:
        return None
    subject = new[0].subject
    return StartedRun(run_id=ids.run_id(), session_id=f"alert-{subject.fingerprint}", alert_name=subject.alertname)


def _queue(plan: _Plan, run: StartedRun, rows: Mapping[str, int], sender: Sender) -> str:
    main, *rest = _new(plan)
    others = [*rest, *sorted(plan.of(Step.JOIN), key=lambda alert: alert.urgency)][:MAX_OTHERS]
    query = query_text(main.subject)
    open_session(run.session_id, title=query)
    return queue_run(
        RunRequest(
            run_id=run.run_id,
            session_id=run.session_id,
            trigger=sender.trigger,
            query=query,
            subject=Subject(alert=main.subject, others=[alert.subject for alert in others]),
            alert_id=rows[main.fingerprint],
            requested_by=sender.user_id,
            requested_by_token=sender.token_id,
        )
    )
