"""The one writer of the ledger: an observer of runs.

While a run goes on, its emissions are queued and written behind it, group by group: one transaction takes all
that has come within some milliseconds, over all runs of the process. The transitions of a run are written at
once, in the transaction that makes them. Nothing here ever raises into a run, but `settle` raises `LeaseLost`:
the run is another worker's now.

A group that fails for a passing reason (connection, lock) is tried again, with its order kept. One that is refused
for its content is halved until the emission at fault stands alone; that one is dropped, counted
and named by `settle`, and the others are recorded.
"""

import asyncio
import contextlib
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog
from django.db import DataError, InterfaceError, OperationalError, connection, transaction
from prometheus_client import Counter, Gauge
from psycopg_pool import PoolTimeout

from audit.append import Item, Outcome, append
from runs.errors import LeaseLost
from runs.harness.events import Emission, EventType, InvocationRecord
from runs.harness.run import Settled
from runs.live import publish_changed
from runs.observers import RunRef
from runs.orm import run_in_orm

log = structlog.get_logger(__name__)

GROUP_SIZE = 256
# What a step tells comes within milliseconds: one transaction for it costs a fraction of one for each emission.
GATHER_S = 0.02
QUEUE_LIMIT = 20_000
RETRY_S = (0.05, 2.0)
# How long a run waits for its record: long enough for a database server that is started again.
SETTLE_S = 20.0
FORGET_AFTER_S = 3600.0

events_total = Counter("recorder_events", "Emissions by what became of them.", ["outcome"])
errors_total = Counter("recorder_errors", "Groups of emissions that could not be committed at once.", ["kind"])
queue_length = Gauge("recorder_queue_length", "Emissions that wait to be committed.", multiprocess_mode="livesum")

PASSING_ERRORS = (OperationalError, InterfaceError, PoolTimeout)


class RecordRefused(Exception):
    """A transition could not be appended; the outcome is the message."""


@dataclass(slots=True)
class Group:
    """Items that are committed together. `transaction_id` is set while it is not known whether they were."""

    items: Sequence[Item]
    outcomes: list[Outcome] = field(default_factory=list)
    transaction_id: str | None = None


class Passing(Exception):
    """A group could not be committed now; `group` is the one to try again."""

    def __init__(self, group: Group) -> None:
        super().__init__("try again")
        self.group = group


def _committed_after_all(transaction_id: str) -> bool:
    """Ask the server about a transaction whose answer was lost with its connection."""
    with connection.cursor() as cursor:
        try:
            cursor.execute("SELECT pg_xact_status(%s::xid8)", [transaction_id])
        except DataError:
            # Ids the server never wrote down, before a crash, are in its future: nothing of them was committed.
            return False
        (status,) = cursor.fetchone()
    if status == "in progress":
        raise OperationalError("the transaction of the earlier try has not ended")
    return bool(status == "committed")


def _commit_once(group: Group) -> list[Outcome]:
    """Record a group in one transaction."""
    if group.transaction_id is not None and _committed_after_all(group.transaction_id):
        return group.outcomes
    group.transaction_id = None
    with transaction.atomic():
        outcomes = append(group.items, fenced=True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            (transaction_id,) = cursor.fetchone()
        group.outcomes, group.transaction_id = outcomes, transaction_id
    return outcomes


def commit(group: Group) -> Iterator[Outcome]:
    """The outcomes of the group's items in order, each yielded once it is committed. Raises `Passing`."""
    try:
        yield from _commit_once(group)
        return
    except PASSING_ERRORS as error:
        raise Passing(group) from error
    except Exception as error:  # noqa: BLE001 (whatever it is, it must not keep the others from the record)
        errors_total.labels(kind="content").inc()
        reason = error
    if len(group.items) > 1:
        middle = len(group.items) // 2
        yield from commit(Group(group.items[:middle]))
        yield from commit(Group(group.items[middle:]))
        return
    log.error("an emission cannot be recorded", run_id=group.items[0].run.run_id, reason=repr(reason))
    yield Outcome.INVALID


def _commit_all(group: Group) -> tuple[list[Outcome], Passing | None]:
    """What was committed, and what stopped it before the end."""
    outcomes: list[Outcome] = []
    try:
        for outcome in commit(group):
            outcomes.append(outcome)  # noqa: PERF402 (what came before an error counts)
    except Passing as passing:
        return outcomes, passing
    return outcomes, None


@dataclass(slots=True)
class _RunState:
    """What a writer knows of one attempt at a run."""

    waiting: int = 0
    missing: bool = False
    missing_invocations: set[str] = field(default_factory=set)
    lease_lost: bool = False
    touched: float = 0.0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def lose(self, item: Item) -> None:
        self.missing = True
        self.missing_invocations |= _invocations(item)


def _invocations(item: Item) -> set[str]:
    return {record.invocation_id for record in item.emission.records if isinstance(record, InvocationRecord)}


class _Writer:
    """The write-behind of one event loop. Used on that loop only."""

    def __init__(self) -> None:
        self.queue: deque[Item] = deque()
        self.runs: dict[RunRef, _RunState] = {}
        self._changed: set[str] = set()
        self._nudge = asyncio.Event()
        self._settling = 0
        self._draining: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None

    def put(self, item: Item) -> None:
        state = self._state(item.run)
        if len(self.queue) >= QUEUE_LIMIT:
            state.lose(item)
            events_total.labels(outcome="dropped").inc()
            return
        self.queue.append(item)
        state.waiting += 1
        state.idle.clear()
        if len(self.queue) == GROUP_SIZE:
            self._nudge.set()
        queue_length.inc()
        self._ensure_draining()

    async def settle(self, run: RunRef, patience: float) -> Settled:
        state = self._state(run)
        if state.waiting:
            self._nudge.set()
            self._settling += 1
            self._ensure_draining()
            try:
                await asyncio.wait_for(state.idle.wait(), patience)
            except TimeoutError:
                log.error("the record of a run is behind", run_id=run.run_id, waiting=state.waiting)
            finally:
                self._settling -= 1
        if state.lease_lost:
            self.runs.pop(run, None)
            raise LeaseLost
        owed = set().union(*(_invocations(item) for item in self.queue if item.run == run)) if state.waiting else set()
        return Settled(
            complete=not state.missing and not state.waiting,
            unrecorded_invocations=frozenset(state.missing_invocations | owed),
        )

    def forget(self, run_id: str) -> None:
        for run in [run for run in self.runs if run.run_id == run_id]:
            del self.runs[run]

    def _state(self, run: RunRef) -> _RunState:
        now = time.monotonic()
        state = self.runs.get(run)
        if state is None:
            for old in [ref for ref, each in self.runs.items() if now - each.touched > FORGET_AFTER_S]:
                del self.runs[old]
            state = self.runs[run] = _RunState()
        state.touched = now
        return state

    def _ensure_draining(self) -> None:
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain(), name="ledger-recorder")

    async def _drain(self) -> None:
        retry_after = RETRY_S[0]
        group: Group | None = None
        while self.queue:
            if group is None:
                await self._gather()
            group = group or Group(tuple(islice(self.queue, GROUP_SIZE)))
            try:
                outcomes, passing = await run_in_orm(_commit_all, group)
            except Exception:
                log.exception("the recorder met an unexpected error")
                outcomes, passing = [], Passing(group)
            self._done(group.items[: len(outcomes)], outcomes)
            if passing is None:
                group, retry_after = None, RETRY_S[0]
                continue
            group = passing.group
            errors_total.labels(kind="passing").inc()
            log.warning("the ledger could not be written", reason=repr(passing.__cause__), queued=len(self.queue))
            retry_after = await self._pause(retry_after)

    async def _gather(self) -> None:
        """Let a few more emissions come, unless someone waits or a whole group is there."""
        if self._settling or len(self.queue) >= GROUP_SIZE:
            return
        self._nudge.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._nudge.wait(), GATHER_S)

    async def _pause(self, seconds: float) -> float:
        """Wait, or until someone settles, and say how long to wait next time."""
        self._nudge.clear()
        try:
            await asyncio.wait_for(self._nudge.wait(), seconds)
        except TimeoutError:
            return min(seconds * 2, RETRY_S[1])
        return RETRY_S[0]

    def _done(self, items: Sequence[Item], outcomes: Sequence[Outcome]) -> None:
        for item, outcome in zip(items, outcomes, strict=True):
            self.queue.popleft()
            queue_length.dec()
            events_total.labels(outcome=outcome.value).inc()
            state = self.runs.get(item.run)
            if outcome is Outcome.RECORDED:
                self._changed.add(item.run.run_id)
            elif outcome is not Outcome.LEASE_LOST:
                log.error("an emission was not recorded", run_id=item.run.run_id, outcome=outcome.value)
            if state is None:
                continue
            if outcome is Outcome.LEASE_LOST:
                state.lease_lost = True
            elif outcome is not Outcome.RECORDED:
                state.lose(item)
            state.waiting -= 1
            if not state.waiting:
                state.idle.set()
        if self._changed and (self._announcing is None or self._announcing.done()):
            self._announcing = asyncio.create_task(self._announce(), name="ledger-announcer")

    async def _announce(self) -> None:
        """Beside the writing, so that a slow Redis does not hold the ledger up."""
        while self._changed:
            run_ids, self._changed = self._changed, set()
            await asyncio.to_thread(publish_changed, run_ids)


class LedgerRecorder:
    """Observer of runs (`runs.observers.RunObserver`): makes the trace and the ledgers.

    `patience`: the most seconds that a run waits for its record.
    """

    def __init__(self, *, patience: float = SETTLE_S) -> None:
        self._patience = patience
        self._writers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Writer] = weakref.WeakKeyDictionary()

    def _writer(self) -> _Writer:
        loop = asyncio.get_running_loop()
        writer = self._writers.get(loop)
        if writer is None:
            writer = self._writers[loop] = _Writer()
        return writer

    def observe(self, run: RunRef, emission: Emission) -> None:
        self._writer().put(Item(run, emission))

    async def settle(self, run: RunRef) -> Settled:
        return await self._writer().settle(run, self._patience)

    def write(self, run: RunRef, emission: Emission) -> None:
        """Raises `RecordRefused` or the database's error; the caller's savepoint undoes what was begun."""
        (outcome,) = append([Item(run, emission)], fenced=False)
        events_total.labels(outcome=outcome.value).inc()
        if outcome is not Outcome.RECORDED:
            raise RecordRefused(outcome.value)
        if emission.frame is not None and emission.frame.event_type is EventType.RUN_FINISHED:
            transaction.on_commit(lambda: self._forget(run.run_id))

    def _forget(self, run_id: str) -> None:
        for loop, writer in list(self._writers.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(writer.forget, run_id)
