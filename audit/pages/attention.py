"""Which runs need a person to look, and why.

Those that ended otherwise than with a sure answer and a whole record (`NEEDS_ATTENTION`), and open ones that do not get
on: their worker fell silent, their deadline is over, or they wait for long.
"""

from datetime import datetime, timedelta
from typing import cast

from django.conf import settings
from django.core.cache import caches
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from audit.timelimit import TookTooLong, time_limit
from runs.access import Caller, visible_runs
from runs.lifecycle import STALE_AFTER
from runs.models import DiagnosisRun
from runs.models.run import NEEDS_ATTENTION, ReleaseDecision, RunStatus
from runs.pages.words import Words

LONG_WAIT = timedelta(minutes=2)
# The worker cancels at the deadline itself; a run that is still there so long after it has none.
OVERDUE_BY = timedelta(seconds=15)
SILENT_AFTER = 2 * STALE_AFTER
MOST_STUCK = 100
MOST_COUNTED = 100
COUNTED_FOR_S = 5
COUNT_LIMIT_MS = 50
_UNKNOWN = object()


def _deadline() -> timedelta:
    return timedelta(seconds=settings.SUPERBIZ.run_deadline_s) + OVERDUE_BY


def stuck(runs: QuerySet[DiagnosisRun], now: datetime) -> QuerySet[DiagnosisRun]:
    """Open runs that do not get on, the longest first."""
    silent = Q(heartbeat_at__lt=now - SILENT_AFTER)
    overdue = Q(started_at__lt=now - _deadline())
    waiting = Q(status=RunStatus.QUEUED, queued_at__lt=now - LONG_WAIT)
    going = Q(status=RunStatus.RUNNING) & (silent | overdue)
    return runs.filter(Q(status__in=[RunStatus.QUEUED, RunStatus.RUNNING]), going | waiting).order_by("queued_at", "id")


def ended_badly(runs: QuerySet[DiagnosisRun]) -> QuerySet[DiagnosisRun]:
    """What was only tried out waits for nobody."""
    return runs.filter(NEEDS_ATTENTION, rehearsal__isnull=True)


def count(runs: QuerySet[DiagnosisRun], now: datetime) -> int:
    """Of the last day, at most `MOST_COUNTED`: two short queries."""
    recent = ended_badly(runs).filter(queued_at__gte=now - timedelta(days=1)).order_by("-queued_at", "-id")
    open_ones = stuck(runs, now).values("id")[:MOST_COUNTED].count()
    return min(MOST_COUNTED, open_ones + recent.values("id")[:MOST_COUNTED].count())


def count_for(caller: Caller, now: datetime) -> int | None:
    """`count` of what the caller sees, as it was at most `COUNTED_FOR_S` ago; None where that cannot be told quickly.

    Whoever asks in between costs the database nothing, and nobody waits longer than `COUNT_LIMIT_MS` a query.
    """
    whose = "all" if caller.sees_all_sessions else f"person-{caller.user_id}"
    kept = caches["process"]
    key = f"attention-count-{whose}"
    known = kept.get(key, _UNKNOWN)
    if known is not _UNKNOWN:
        return cast("int | None", known)
    try:
        with time_limit(COUNT_LIMIT_MS):
            found = count(visible_runs(caller), now)
    except TookTooLong:
        found = None
    kept.set(key, found, COUNTED_FOR_S)
    return found


def reasons(run: DiagnosisRun, now: datetime) -> tuple[Words, ...]:
    """In plain words, the worst first; empty: it needs no attention."""
    told: list[tuple[bool, Words]] = [
        (run.status == RunStatus.FAILED, _("failed")),
        (run.status == RunStatus.DEGRADED, _("withheld")),
        (run.release_decision == ReleaseDecision.RELEASED_LOW_CONFIDENCE, _("low confidence")),
        (run.is_terminal and not run.record_complete, _("record incomplete")),
    ]
    if run.status == RunStatus.RUNNING:
        told += [
            (bool(run.heartbeat_at and run.heartbeat_at < now - SILENT_AFTER), _("its worker fell silent")),
            (bool(run.started_at and run.started_at < now - _deadline()), _("past its deadline")),
        ]
    if run.status == RunStatus.QUEUED:
        told.append((run.queued_at < now - LONG_WAIT, _("waits for a worker")))
    return tuple(words for holds, words in told if holds)
