"""Who is told what a run does: the observers named by the setting `RUN_OBSERVERS`, in its order.

`runs` knows this protocol and nothing of the ledger behind it. An observer that fails is logged and counted
and changes nothing for the run; only `LeaseLost` passes, because it says that the run is another worker's now.
"""

import asyncio
import functools
from dataclasses import dataclass
from typing import Protocol

import structlog
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string
from prometheus_client import Counter

from runs.errors import LeaseLost
from runs.harness.events import Emission
from runs.harness.run import Settled

log = structlog.get_logger(__name__)

observer_errors = Counter("superbiz_observer_errors", "Failures of run observers.", ["observer", "call"])


@dataclass(frozen=True, slots=True)
class RunRef:
    """A run as its writer knows it. `lease_token` None: written by no attempt (web, reaper, command)."""

    run_id: str
    session_id: str
    lease_token: str | None


class RunObserver(Protocol):
    def observe(self, run: RunRef, emission: Emission) -> None:
        """Called on the worker's event loop; returns at once. The order of one run's emissions is kept."""

    async def settle(self, run: RunRef) -> Settled:
        """Wait until what was observed of this run is dealt with, or named as missing. May raise `LeaseLost`."""

    def write(self, run: RunRef, emission: Emission) -> None:
        """Synchronous, inside the caller's transaction: the transitions of `runs.lifecycle`."""


@functools.cache
def observers() -> tuple[RunObserver, ...]:
    """This process's observers, made once."""
    return tuple(import_string(path)() for path in settings.RUN_OBSERVERS)


def _failed(observer: RunObserver, call: str, run: RunRef, error: Exception) -> None:
    name = type(observer).__name__
    observer_errors.labels(observer=name, call=call).inc()
    log.error("observer failed", observer=name, call=call, run_id=run.run_id, exc_info=error)


def observe_all(run: RunRef, emission: Emission) -> None:
    """Hand an emission to every observer. Never raises."""
    for observer in observers():
        try:
            observer.observe(run, emission)
        except Exception as error:  # noqa: BLE001 (counted and logged, whatever it is)
            _failed(observer, "observe", run, error)


async def settle_all(run: RunRef) -> Settled:
    """What all observers together still owe. An observer that fails counts as incomplete. May raise `LeaseLost`."""
    answers = await asyncio.gather(*(_settle(observer, run) for observer in observers()))
    return Settled(
        complete=all(answer.complete for answer in answers),
        unrecorded_invocations=frozenset().union(*(answer.unrecorded_invocations for answer in answers)),
    )


async def _settle(observer: RunObserver, run: RunRef) -> Settled:
    try:
        return await observer.settle(run)
    except LeaseLost:
        raise
    except Exception as error:  # noqa: BLE001 (counted and logged, whatever it is)
        _failed(observer, "settle", run, error)
        return Settled(complete=False)


def write_all(run: RunRef, emission: Emission) -> None:
    """Hand an emission to every observer inside the open transaction, each behind a savepoint. Never raises."""
    for observer in observers():
        try:
            with transaction.atomic():
                observer.write(run, emission)
        except Exception as error:  # noqa: BLE001 (counted and logged, whatever it is)
            _failed(observer, "write", run, error)
