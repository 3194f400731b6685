"""What a person does with an alert: diagnose it now, silence its re-diagnosis, end that silence.

Each is one transaction under the fingerprint's lock of `runs.intake`, so that it agrees with a notice that comes in
at the same moment on which run is the last one and on whether the alert is silenced.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import F, QuerySet

from gatekeeper.text import unseen
from runs import intake
from runs.access import Caller
from runs.alertpayload import query_text, severity_rank
from runs.harness.run import AlertSubject, Subject
from runs.lifecycle import RunRequest, open_session, queue_run
from runs.models import Alert, AlertSilence, DiagnosisRun
from runs.models.run import RunStatus, Trigger
from runs.tasks import enqueue

MAX_SILENCE = timedelta(days=30)
MAX_REASON = 300
OPEN = (RunStatus.QUEUED, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Asked:
    """`started` False: the alert is being diagnosed by that run already."""

    run_id: str
    started: bool


def diagnose_now(alert_id: int, caller: Caller) -> Asked:
    """A run of the alert, also inside the window and while it is silenced. Raises `Alert.DoesNotExist`."""
    with transaction.atomic():
        row = _locked(alert_id)
        if going := _going(row):
            return Asked(going, started=False)
        alert = subject_of(row)
        run_id = _queue(row, Subject(alert=alert, others=_others(row)), query_text(alert), caller)
    return Asked(run_id, started=True)


def diagnose_again(run: DiagnosisRun, caller: Caller) -> Asked:
    """Ask again what an ended run of an alert was asked, its subject as it was then. Inside a transaction."""
    assert run.alert_id is not None, "who calls this has looked"
    row = _locked(run.alert_id)
    if going := _going(row):
        return Asked(going, started=False)
    return Asked(_queue(row, Subject.model_validate(run.subject), run.query, caller, again_of=run.id), started=True)


def _going(row: Alert) -> str | None:
    """The run by which the alert is being diagnosed."""
    return row.last_run.id if row.last_run is not None and row.last_run.status in OPEN else None


def _queue(row: Alert, subject: Subject, query: str, caller: Caller, again_of: str | None = None) -> str:
    session_id = f"alert-{row.fingerprint}"
    open_session(session_id, title=query)
    run_id = queue_run(
        RunRequest(
            session_id=session_id,
            trigger=Trigger.MANUAL,
            query=query,
            subject=subject,
            alert_id=row.id,
            requested_by=caller.user_id,
            requested_by_token=caller.token_id,
            again_of=again_of,
        )
    )
    Alert.objects.filter(id=row.id).update(last_run=run_id)
    transaction.on_commit(lambda: enqueue([run_id]))
    return run_id


def _locked(alert_id: int) -> Alert:
    """The row, read behind its fingerprint's lock."""
    intake.lock_fingerprints([Alert.objects.values_list("fingerprint", flat=True).get(id=alert_id)])
    return Alert.objects.select_related("last_run").get(id=alert_id)


def subject_of(row: Alert) -> AlertSubject:
    """The alert as it came in."""
    return AlertSubject(
        alertname=row.alert_name,
        severity=row.severity,
        status="firing" if row.status == Alert.Status.FIRING else "resolved",
        starts_at=row.starts_at,
        labels=row.labels,
        annotations=row.annotations,
        generator_url=row.generator_url,
        fingerprint=row.fingerprint,
    )


def _others(row: Alert) -> list[AlertSubject]:
    """What fires now in the alert's group, the most severe first."""
    if not row.group_key:
        return []
    group = Alert.objects.filter(group_key=row.group_key, status=Alert.Status.FIRING).exclude(
        fingerprint=row.fingerprint
    )
    newest = sorted(group.order_by("-last_received_at")[:500], key=lambda other: severity_rank(other.severity))
    return [subject_of(other) for other in newest[: intake.MAX_OTHERS]]


def holding(now: datetime) -> QuerySet[AlertSilence]:
    """The silences that hold."""
    return AlertSilence.objects.filter(ended_at__isnull=True, until__gt=now)


def silence(alert_id: int, caller: Caller, *, lasts: timedelta, reason: str) -> AlertSilence:
    """Start no run for repeats of the alert for so long; takes the place of a silence that holds.

    Raises `ValueError` for a time or reason out of bounds or a reason that cannot be seen whole, and
    `Alert.DoesNotExist`.
    """
    told = " ".join(reason.split())
    if not told or unseen(told) or len(told) > MAX_REASON or not timedelta(0) < lasts <= MAX_SILENCE:
        raise ValueError("a silence needs a reason and an end")
    with transaction.atomic():
        row = _locked(alert_id)
        now = datetime.now(UTC)
        _end(row.fingerprint, caller, now)
        return AlertSilence.objects.create(
            fingerprint=row.fingerprint,
            reason=told,
            until=now + lasts,
            created_at=now,
            created_by_id=caller.user_id,
            created_by_name=caller.name[:150],
        )


def end_silence(alert_id: int, caller: Caller) -> bool:
    """Let repeats start runs again. False: no silence held. Raises `Alert.DoesNotExist`."""
    with transaction.atomic():
        row = _locked(alert_id)
        return _end(row.fingerprint, caller, datetime.now(UTC))


def _end(fingerprint: str, caller: Caller, now: datetime) -> bool:
    """End what is not ended. One that ran out ends at its own time, by nobody."""
    mine = AlertSilence.objects.filter(fingerprint=fingerprint, ended_at__isnull=True)
    mine.filter(until__lte=now).update(ended_at=F("until"))
    return bool(mine.filter(until__gt=now).update(ended_at=now, ended_by_name=caller.name[:150]))
