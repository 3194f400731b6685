"""How many dry-runs go on at once: a person has two, and all together take a share of the workers.

A dry-run is a real run, or two, on the workers that alerts and questions wait for. Only the start of a dry-run is
held up, never a run.
"""

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import connection
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.models.run import RunStatus, Trigger

OWN_AT_ONCE = 2
SHARE_OF_WORKER = 4


class TooManyDryRuns(Exception):
    """The text says of what there is too much, and when there will be room."""


def share() -> int:
    """How many runs of dry-runs, waiting or driven, there may be at once: a quarter of what one worker takes."""
    return max(1, int(settings.SUPERBIZ.worker_concurrency) // SHARE_OF_WORKER)


def make_room(by: AbstractBaseUser, runs: int) -> None:
    """Raises `TooManyDryRuns` where a dry-run of so many runs has no room. To be called in a transaction.

    Who starts one waits here until the transaction of whoever came before has ended. Where no dry-run goes on, there
    is room for one, however few runs a worker takes.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('audit.dryruns'))")
    unfinished = list(_unfinished())
    own = _tries_among(DiagnosisRun.objects.filter(requested_by_id=by.pk), unfinished).count()
    if own >= OWN_AT_ONCE:
        raise TooManyDryRuns(
            _(
                "%(count)d of your dry-runs go on still, and nobody may have more at once."
                " Start another when one of them has ended or was cancelled."
            )
            % {"count": own}
        )
    if unfinished and len(unfinished) + runs > share():
        raise TooManyDryRuns(
            _(
                "Everybody's dry-runs fill their share of the workers: %(going)d runs go on, and there is room for"
                " %(share)d. Start yours when some of them have ended."
            )
            % {"going": len(unfinished), "share": share()}
        )


def dry_runs_going(caller: Caller) -> QuerySet[DiagnosisRun]:
    """The dry-runs of which a run has not ended, newest first, that the caller may see."""
    return _tries_among(visible_runs(caller), list(_unfinished())).order_by("-queued_at", "-id")


def _unfinished() -> QuerySet[DiagnosisRun, str]:
    going = DiagnosisRun.objects.filter(status__in=(RunStatus.QUEUED, RunStatus.RUNNING), rehearsal__isnull=False)
    return going.values_list("id", flat=True)


def _tries_among(runs: QuerySet[DiagnosisRun], unfinished: list[str]) -> QuerySet[DiagnosisRun]:
    """Of the runs those that try a version and go on, or whose run to compare with does."""
    tries = runs.filter(trigger=Trigger.EVAL, rehearsal__isnull=False).exclude(rehearsal__beside=None)
    return tries.filter(Q(id__in=unfinished) | Q(rehearsal__beside__in=unfinished))
