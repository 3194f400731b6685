"""One hub of a web process: reads committed frames once and gives them to everyone who watches the run.

Redis says which run changed; a poll once a second finds what Redis did not say. Either way the frames are read
from PostgreSQL, after the number that a reader has, so that a reader gets each frame once and in order. The hub
has a small connection pool of its own: a stream holds no connection. It lives while someone watches.
"""

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import connections
from psycopg import AsyncConnection, Error
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from audit.trace import TimelineEvent, timeline_event
from runs import live
from runs.models.run import TERMINAL

log = structlog.get_logger(__name__)

POOL_SIZE = 2
POLL_S = 1.0
PAGE = 500
QUEUE_SIZE = 1_000

# One statement, one snapshot: where the run's row has ended, the frames beside it are all there will be.
_FRAMES = """
    SELECT run.status AS run_status, frame.*
    FROM diagnosis_run AS run
    LEFT JOIN LATERAL (
        SELECT * FROM diagnosis_trace_event AS event
        WHERE event.run_id = run.id AND event.sequence_no > %s
        ORDER BY event.sequence_no LIMIT %s
    ) AS frame ON true
    WHERE run.id = %s
    ORDER BY frame.sequence_no
"""
_PLACES = """
    SELECT run.id AS run_id, run.status AS run_status, COALESCE(head.sequence_no, 0) AS sequence_no
    FROM diagnosis_run AS run LEFT JOIN diagnosis_trace_head AS head ON head.run_id = run.id
    WHERE run.id = ANY(%s)
"""


class ReaderDropped(Exception):
    """The reader was too slow. What it did not get can be read after the last number it has."""


@dataclass(frozen=True, slots=True)
class Page:
    """Committed frames after a number. `last`: the run has ended and has no more than these."""

    events: tuple[TimelineEvent, ...]
    last: bool


@dataclass(eq=False, slots=True)
class _Reader:
    """`position` is the number of the last frame that was put into the queue; None in the queue is the end."""

    run_id: str
    position: int
    queue: asyncio.Queue[TimelineEvent | None] = field(default_factory=lambda: asyncio.Queue(QUEUE_SIZE + 1))
    dropped: bool = False

    def give(self, page: Page) -> bool:
        """False: it wants no more."""
        for event in page.events:
            if event.sequence_no <= self.position:
                continue
            if self.queue.qsize() >= QUEUE_SIZE:
                self.dropped = True
                self.queue.put_nowait(None)
                return False
            self.queue.put_nowait(event)
            self.position = event.sequence_no
        if page.last:
            self.queue.put_nowait(None)
        return not page.last


class Hub:
    """Used on one event loop only; `hub()` gives that loop's."""

    def __init__(self) -> None:
        self._readers: dict[str, set[_Reader]] = {}
        self._changed: set[str] = set()
        self._ring = asyncio.Event()
        self._users = 0
        self._lock = asyncio.Lock()
        self._pool: AsyncConnectionPool[AsyncConnection[dict[str, Any]]] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def follow(
        self, run_id: str, after: int, quiet_s: float
    ) -> AsyncGenerator[tuple[int, TimelineEvent | None], None]:
        """Each frame after `after` with its number, until the run's end; None where nothing came for `quiet_s`.

        Raises `ReaderDropped` when the caller takes them too slowly.
        """
        async with self._open():
            position = after
            while True:
                page = await self._page(run_id, position)
                for known in page.events:
                    position = known.sequence_no
                    yield position, known
                if page.last:
                    return
                if len(page.events) < PAGE:
                    break
            async with contextlib.aclosing(self._live(_Reader(run_id, position), quiet_s)) as frames:
                async for event in frames:
                    position = position if event is None else event.sequence_no
                    yield position, event

    def _ensure_watching(self) -> None:
        """Started for the first reader that has to wait: whoever reads an ended run needs none of it."""
        if not self._tasks:
            work = {"live-listen": self._listen(), "live-poll": self._poll(), "live-deliver": self._deliver()}
            self._tasks = [asyncio.create_task(each, name=name) for name, each in work.items()]

    async def _live(self, reader: _Reader, quiet_s: float) -> AsyncGenerator[TimelineEvent | None, None]:
        self._ensure_watching()
        readers = self._readers.setdefault(reader.run_id, set())
        readers.add(reader)
        # What was committed between the last page and now rang when nobody listened.
        self._note([reader.run_id])
        try:
            while True:
                try:
                    async with asyncio.timeout(quiet_s):
                        event = await reader.queue.get()
                except TimeoutError:
                    yield None
                    continue
                if event is not None:
                    yield event
                elif reader.dropped:
                    raise ReaderDropped
                else:
                    return
        finally:
            readers.discard(reader)
            if not readers and self._readers.get(reader.run_id) is readers:
                del self._readers[reader.run_id]

    # ---- its life -----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """The first user starts the hub, the last one stops it."""
        self._users += 1
        try:
            async with self._lock:
                if self._pool is None:
                    await self._start()
            yield
        finally:
            self._users -= 1
            if not self._users:
                await asyncio.shield(asyncio.ensure_future(self._stop_if_unused()))

    async def _start(self) -> None:
        pool: AsyncConnectionPool[AsyncConnection[dict[str, Any]]] = AsyncConnectionPool(
            kwargs={**_connection_arguments(), "autocommit": True, "row_factory": dict_row},
            min_size=0,
            max_size=POOL_SIZE,
            timeout=10,
            max_idle=60,
            open=False,
            name="live-hub",
        )
        await pool.open()
        self._pool = pool

    async def _stop_if_unused(self) -> None:
        async with self._lock:
            if self._users or self._pool is None:
                return
            pool, tasks = self._pool, self._tasks
            self._pool, self._tasks = None, []
            await _end(tasks)
            await pool.close()

    # ---- finding out --------------------------------------------------------------------------------------------

    def _note(self, run_ids: Iterable[str]) -> None:
        self._changed.update(run_ids)
        self._ring.set()

    async def _listen(self) -> None:
        async for message in live.subscribe([live.CHANGED]):
            if message.run_id in self._readers:
                self._note([message.run_id])

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if not self._readers:
                continue
            try:
                self._note(await self._behind())
            except (Error, PoolTimeout) as error:
                log.warning("the live hub could not read the database", error=type(error).__name__)

    async def _behind(self) -> list[str]:
        """Watched runs that have more than some reader got, have ended, or are gone. One query."""
        watched = {
            run_id: min(each.position for each in readers) for run_id, readers in self._readers.items() if readers
        }
        places = {row["run_id"]: row for row in await self._rows(_PLACES, [list(watched)])}
        return [
            run_id
            for run_id, position in watched.items()
            if (place := places.get(run_id)) is None
            or place["sequence_no"] > position
            or place["run_status"] in TERMINAL
        ]

    # ---- reading and giving -------------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        while True:
            await self._ring.wait()
            self._ring.clear()
            run_ids, self._changed = self._changed, set()
            for run_id in run_ids:
                try:
                    await self._deliver_run(run_id)
                except (Error, PoolTimeout) as error:
                    # The poll asks again.
                    log.warning("the live hub could not read frames", run_id=run_id, error=type(error).__name__)

    async def _deliver_run(self, run_id: str) -> None:
        readers = self._readers.get(run_id)
        if not readers:
            return
        page = await self._page(run_id, min(reader.position for reader in readers))
        for reader in [reader for reader in readers if not reader.give(page)]:
            readers.discard(reader)
        if len(page.events) == PAGE:
            self._note([run_id])

    async def _page(self, run_id: str, after: int) -> Page:
        rows = await self._rows(_FRAMES, [after, PAGE, run_id])
        if not rows:
            return Page((), last=True)
        events = tuple(timeline_event(row) for row in rows if row["sequence_no"] is not None)
        ended = rows[0]["run_status"] in TERMINAL and len(events) < PAGE
        return Page(events, last=ended or any(event.is_terminal for event in events))

    async def _rows(self, query: str, parameters: list[Any]) -> list[dict[str, Any]]:
        if self._pool is None:
            raise RuntimeError("the hub is not open")
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query, parameters)
            return await cursor.fetchall()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel until all have ended: a client that is just connecting may take one cancellation for its own."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.2)


def _connection_arguments() -> dict[str, Any]:
    """libpq's arguments of Django's default database."""
    ours = connections["default"].get_connection_params()
    return {name: ours[name] for name in ours if name not in {"context", "cursor_factory", "prepare_threshold", "pool"}}


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
