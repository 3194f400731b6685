"""Drives one run: claim it, hand the kernel its kit, and store how it ended.

The kernel works in a task of its own. Whatever wants it to stop (a cancel request, the deadline, a lost lease,
the process's shutdown) names why on the `Held` and cancels that task, and with it the model or tool call in
flight; the driver itself is never cancelled and always says what became of the run.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

import structlog
from django.db import Error

from runs import lifecycle
from runs.books import Books
from runs.clock import SystemClock
from runs.conclusions import cancelled, failed
from runs.equipment import Equipment, Prepared
from runs.errors import CancelReason, ConfigurationError, FailureCode, LeaseLost, ModelError, RunCancelled
from runs.harness.pipeline import drive as drive_pipeline
from runs.harness.ports import Role
from runs.harness.run import Conclusion, Kit, RunInput
from runs.ids import RandomIds
from runs.lifecycle import Claimed, Pins
from runs.observers import RunRef
from runs.orm import run_in_orm
from runs.tools.redaction import clean_json

log = structlog.get_logger(__name__)

T = TypeVar("T")

Drive: TypeAlias = Callable[[RunInput, Kit], Awaitable[Conclusion]]

# How long a cancelled kernel may take to let go; what it does after that is fenced off by its lost lease.
LET_GO_S = 2.0
# How long a database that is away is waited for: long enough for a server that is started again.
PERSIST_S = 20.0
PERSIST_RETRY_S = 0.25
SETTLE_AT_SHUTDOWN_S = 1.0


class Abandon(StrEnum):
    """Why a held run stops without an outcome of this attempt."""

    LEASE_LOST = "LEASE_LOST"
    SHUTTING_DOWN = "SHUTTING_DOWN"


Stop: TypeAlias = CancelReason | Abandon


@dataclass(slots=True)
class Held:
    """A run that this process holds. The first reason to stop counts."""

    ref: RunRef
    work: asyncio.Task[Conclusion] | None = None
    why: Stop | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, why: Stop) -> None:
        """On the loop that drives the run."""
        if self.why is None:
            self.why = why
        self.stopping.set()
        if self.work is not None:
            self.work.cancel()


class Holdings:
    """The runs that a process holds, by id. `idle` is set while none is held, nor on its way in or out."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.closing = False
        self.idle = asyncio.Event()
        self.idle.set()
        self._busy = 0

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        self._busy += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if self._busy == 0:
                self.idle.set()

    @contextlib.contextmanager
    def holding(self, held: Held) -> Iterator[None]:
        """An earlier attempt that still lets go of the run lost its lease to this one, which alone is held now."""
        run_id = held.ref.run_id
        if earlier := self.held.get(run_id):
            earlier.stop(Abandon.LEASE_LOST)
        self.held[run_id] = held
        try:
            yield
        finally:
            if self.held.get(run_id) is held:
                del self.held[run_id]

    def leases(self) -> dict[str, str]:
        return {run_id: held.ref.lease_token for run_id, held in self.held.items() if held.ref.lease_token}

    def stop(self, run_id: str, why: Stop) -> None:
        if run_id in self.held:
            self.held[run_id].stop(why)

    def close(self) -> None:
        """Take no more runs, and hand back those that are held."""
        self.closing = True
        for held in list(self.held.values()):
            held.stop(Abandon.SHUTTING_DOWN)


async def drive_run(
    run_id: str, worker: str, holdings: Holdings, equipment: Equipment, drive: Drive = drive_pipeline
) -> bool:
    """Claim the run and drive it to its end. False: it was not there to be claimed, or this process is closing."""
    if holdings.closing:
        return False
    with holdings.at_work():
        lease = lifecycle.new_lease()
        claimed = await _persistently(lambda: run_in_orm(lifecycle.claim, run_id, worker, lease))
        if claimed is None:
            return False
        held = Held(claimed.ref)
        with holdings.holding(held):
            await _attempt(claimed, held, holdings, equipment, drive)
    return True


async def _attempt(claimed: Claimed, held: Held, holdings: Holdings, equipment: Equipment, drive: Drive) -> None:
    books = Books(claimed.ref, claimed.tally, on_lost=lambda: held.stop(Abandon.LEASE_LOST))
    books.open()
    held.work = asyncio.create_task(_work(claimed, books, equipment, drive), name=f"run {claimed.run.run_id}")
    if holdings.closing:
        held.stop(Abandon.SHUTTING_DOWN)
    used = (datetime.now(UTC) - claimed.run.started_at).total_seconds()
    await _until_done(held, held.work, deadline_in=equipment.limits.deadline_s - used)
    await _store(_end_of(held, held.work, books), books)


async def _work(claimed: Claimed, books: Books, equipment: Equipment, drive: Drive) -> Conclusion:
    async def pinned() -> Prepared:
        prepared = await equipment.prepare(question=claimed.run.is_question, order=claimed.order)
        if not await run_in_orm(lifecycle.pin, claimed.ref, pins_of(prepared)):
            raise LeaseLost
        return prepared

    return await drive(claimed.run, kit_of(await _persistently(pinned), books))


async def _persistently(call: Callable[[], Awaitable[T]]) -> T:
    """Call again and again while the database is away; raises its last error after `PERSIST_S`."""
    clock = asyncio.get_running_loop().time
    give_up_at = clock() + PERSIST_S
    while True:
        try:
            return await call()
        except Error as error:
            if clock() >= give_up_at:
                raise
            log.warning("the database does not answer", error=type(error).__name__)
        await asyncio.sleep(PERSIST_RETRY_S)


def pins_of(prepared: Prepared) -> Pins:
    """`model` is the executor's, whose claims the run is about."""
    return Pins(
        model=prepared.models[Role.AIOPS_EXECUTOR].name[:200],
        prompt_set_version=prepared.pinned.prompt_set,
        rule_set_version=prepared.rule_set.number,
        pinned_prompts=prepared.pinned.model_dump(mode="json"),
    )


def kit_of(prepared: Prepared, books: Books) -> Kit:
    return Kit(
        models=prepared.models,
        tools=prepared.registry.tools,
        prompts=prepared.prompts,
        prompt_set_version=prepared.pinned.prompt_set,
        rule_set=prepared.rule_set,
        limits=prepared.limits,
        clock=SystemClock(),
        ids=RandomIds(),
        emit=books.emit,
        spend=books.spend,
        settle=books.settle,
        mark_intent=books.mark_intent,
        breakers=prepared.breakers,
        evidence_now=prepared.evidence_now,
        looks_back=prepared.looks_back,
        redact=clean_json,
    )


async def _until_done(held: Held, work: asyncio.Task[Conclusion], deadline_in: float) -> None:
    """Wait for the kernel; past the deadline, or once stopped, only as long as it may take to let go."""
    stopping = asyncio.create_task(held.stopping.wait())
    await asyncio.wait({work, stopping}, timeout=max(0.0, deadline_in), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not work.done():
        held.stop(CancelReason.DEADLINE)
        await asyncio.wait({work}, timeout=LET_GO_S)
    if not work.done():
        log.error("a cancelled run does not let go", run_id=held.ref.run_id)


def _end_of(held: Held, work: asyncio.Task[Conclusion], books: Books) -> Conclusion | Stop:
    """The kernel's conclusion if it reached one; else why it was stopped; else what its error means."""
    error = work.exception() if work.done() and not work.cancelled() else asyncio.CancelledError()
    if error is None:
        return work.result()
    if held.why is not None:
        return held.why
    match error:
        case LeaseLost():
            return Abandon.LEASE_LOST
        case RunCancelled(reason=reason):
            return reason
        case ModelError(failure_code=code) | ConfigurationError(failure_code=code):
            log.warning("run failed", run_id=held.ref.run_id, failure_code=code, error=error.safe_message)
        case _:
            code = FailureCode.INTERNAL
            log.error("run failed", run_id=held.ref.run_id, failure_code=code, exc_info=error)
    return failed(code, books.emitted, books.looked_at())


async def _store(end: Conclusion | Stop, books: Books) -> None:
    """Store the end. What cannot be stored is left to the reaper, which finds the run's heartbeat gone silent."""
    try:
        await _persistently(lambda: _store_once(end, books))
    except LeaseLost:
        log.warning("lease lost", run_id=books.ref.run_id)
    except Error as error:
        log.error("the end of a run could not be stored", run_id=books.ref.run_id, exc_info=error)


async def _store_once(end: Conclusion | Stop, books: Books) -> None:
    await books.close()
    if end is Abandon.LEASE_LOST:
        raise LeaseLost
    if end is Abandon.SHUTTING_DOWN:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(books.settle(), SETTLE_AT_SHUTDOWN_S)
        done = await run_in_orm(lifecycle.release_for_shutdown, books.ref)
    else:
        await books.settle()
        if isinstance(end, CancelReason):
            end = cancelled(end, books.emitted, books.looked_at())
        done = await run_in_orm(lifecycle.finish, books.ref, end, books.closing_tally(end))
    if not done:
        log.info("the run had ended already", run_id=books.ref.run_id)
