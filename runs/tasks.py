"""What Celery carries: a run's id, and every few seconds a look for what got lost.

PostgreSQL is the truth about which runs wait; a message is only a hint. So `drive_run` claims the run or
returns, `enqueue` gives up quickly when the broker does not answer, and `reap` makes up for what got lost.
"""

import functools
import importlib
import time
from collections.abc import Iterable
from types import ModuleType

import structlog
from celery import Task, current_app, shared_task, signals
from django.conf import settings
from django.db import connection
from kombu.connection import Connection
from kombu.exceptions import OperationalError
from kombu.pools import producers

from runs import lifecycle, notices

log = structlog.get_logger(__name__)

PUBLISH_TIMEOUT_S = 0.25
QUIET_AFTER_FAILURE_S = 1.0
# The advisory lock of the one reaper.
REAPER_LOCK = 7_203_400
GRACE_AFTER_START = lifecycle.STALE_AFTER
HUNG_AFTER_S = 2.0


def _worker() -> ModuleType:
    """The module with the loop, models and tools: only workers load it, not those who merely enqueue."""
    return importlib.import_module("runs.worker")


@signals.worker_ready.connect
def _start_loop(**_kwargs: object) -> None:
    _worker().current()


@signals.worker_shutting_down.connect
def _hand_runs_back(**_kwargs: object) -> None:
    """Sent from the signal handler of SIGTERM, SIGINT and SIGQUIT."""
    loop = _worker().started()
    if loop is not None:
        loop.begin_shutdown()


@signals.worker_shutdown.connect
def _close_loop(**_kwargs: object) -> None:
    loop = _worker().started()
    if loop is not None:
        loop.close()


@shared_task(name="runs.tasks.drive_run")
def drive_run(run_id: str) -> None:
    """Drive the run to its end, if it is still there to be claimed."""
    _worker().current().drive(run_id)


@shared_task(name="runs.tasks.reap")
def reap() -> None:
    """Recover runs whose worker went silent, enqueue runs that wait without a message, settle lost notices.

    One at a time anywhere.
    """
    began = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_lock(%s),"
            " clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => %s)",
            [REAPER_LOCK, GRACE_AFTER_START.total_seconds()],
        )
        mine, long_up = cursor.fetchone()
        if not mine:
            return
        try:
            # While the database was away or hung nobody could be heard: silence means something again a little later.
            heard = long_up and time.monotonic() - began < HUNG_AFTER_S
            lost = lifecycle.recover_lost() if heard else []
            waiting = list(dict.fromkeys([*lost, *lifecycle.waiting_runs()]))
            lifecycle.mark_enqueued(waiting)
            notices.tidy()
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [REAPER_LOCK])
    if waiting:
        log.info("runs enqueued again", count=len(waiting), sent=enqueue(waiting))


class _Mouth:
    """The process's way to the broker, with short timeouts of its own; quiet for a second after a failure."""

    def __init__(self) -> None:
        options = {
            **settings.CELERY_BROKER_TRANSPORT_OPTIONS,
            "socket_connect_timeout": PUBLISH_TIMEOUT_S,
            "socket_timeout": PUBLISH_TIMEOUT_S,
        }
        self._connection: Connection = current_app.connection_for_write(
            connect_timeout=PUBLISH_TIMEOUT_S, transport_options=options
        )
        self._quiet_until = 0.0

    def send(self, task: Task, argument: str | int) -> bool:
        if time.monotonic() < self._quiet_until:
            return False
        try:
            with producers[self._connection].acquire(block=True, timeout=PUBLISH_TIMEOUT_S) as producer:
                task.apply_async((argument,), producer=producer, retry=False)
        except (OperationalError, OSError) as error:
            self._quiet_until = time.monotonic() + QUIET_AFTER_FAILURE_S
            log.warning("the broker did not take a message", task=task.name, argument=argument, error=repr(error))
            return False
        return True


@functools.cache
def _mouth() -> _Mouth:
    return _Mouth()


def hand_over(task: Task, argument: str | int) -> bool:
    """Send the task to a worker, unless the broker does not answer at once: False."""
    return _mouth().send(task, argument)


def enqueue(run_ids: Iterable[str]) -> int:
    """Hand committed runs, marked as enqueued, to the workers. Returns how many the broker took.

    Takes half a second at most when the broker does not answer, and never raises for that: the mark of what it did
    not take is removed, and the reaper finds it.
    """
    waiting = list(run_ids)
    sent = 0
    while sent < len(waiting) and hand_over(drive_run, waiting[sent]):
        sent += 1
    if sent < len(waiting):
        lifecycle.mark_enqueued(waiting[sent:], sent=False)
    return sent
