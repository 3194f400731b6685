"""The event loop of a process that drives runs, in a thread of its own.

It owns model clients, HTTP pools and the Redis listener. A Celery thread hands its run over and waits. The
heartbeat keeps the leases of all held runs with one query, and re-reads the cancel marks: a lost Redis message
costs two seconds. The same loop sends the notices of runs. At shutdown held runs are handed back within about three.
"""

import asyncio
import contextlib
import functools
import gc
import os
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog
import uvloop
from django.conf import settings
from django.db import Error

from runs import driver, lifecycle, live, notices, postman, tasks
from runs.driver import Abandon, Drive, Holdings
from runs.equipment import Equipment
from runs.errors import CancelReason
from runs.harness.pipeline import drive as drive_pipeline
from runs.models import DiagnosisRun
from runs.orm import run_in_orm

log = structlog.get_logger(__name__)

T = TypeVar("T")

HEARTBEAT_S = 2.0
HEARTBEAT_RETRY_S = 0.25
CLOSE_S = 6.0


class WorkerLoop:
    """One for each process. `announce`: show `/readyz` that runs are served here."""

    def __init__(self, *, announce: bool, drive: Drive = drive_pipeline) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._announce = announce
        self._drive = drive
        self._loop = uvloop.new_event_loop()
        self._holdings = Holdings()
        self._equipment = Equipment()
        self._watch: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name="run-loop", daemon=True)

    # ---- from other threads ----

    def start(self) -> None:
        self._thread.start()
        self.run_on_loop(self._begin())

    def run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Hand work to the loop and wait for its value."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def drive(self, run_id: str) -> bool:
        """Drive the run to its end. False: it was not there to be claimed, or this process is closing."""
        return self.run_on_loop(
            driver.drive_run(run_id, self.name, self._holdings, self._equipment, self._drive),
        )

    def begin_shutdown(self) -> None:
        """Hand back what is held and take nothing more; returns at once, also in a signal handler."""
        self._loop.call_soon_threadsafe(self._holdings.close)

    def close(self) -> None:
        """Hand back what is still held, let go of all clients, end the thread."""
        self.begin_shutdown()
        self.run_on_loop(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=CLOSE_S)

    # ---- on the loop ----

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _begin(self) -> None:
        await self._equipment.open()
        # What is loaded stays. A full collection would look through all of it, with every run waiting.
        gc.collect()
        gc.freeze()
        self._watch = asyncio.create_task(self._watch_all())

    async def _watch_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._beat())
            group.create_task(postman.deliver_all(notices.targets()))

    async def _end(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._holdings.idle.wait(), CLOSE_S)
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        if self._announce:
            await asyncio.to_thread(live.withdraw_worker, self.name)
        await self._equipment.aclose()

    async def _listen(self) -> None:
        async for message in live.subscribe([live.CANCEL]):
            if message.run_id in self._holdings.held:
                self._holdings.stop(message.run_id, await run_in_orm(_cancel_reason, message.run_id))

    async def _beat(self) -> None:
        while True:
            pause = HEARTBEAT_S
            try:
                await self._keep_leases()
            except Error as error:
                log.warning("heartbeat failed", error=type(error).__name__)
                pause = HEARTBEAT_RETRY_S
            if self._announce and not self._holdings.closing:
                await asyncio.to_thread(live.announce_worker, self.name, self._equipment.tools_left_alone())
            await self._reap_when_full()
            await asyncio.sleep(pause)

    async def _reap_when_full(self) -> None:
        """With every thread taken by a run, the reaper's task would wait behind the very runs it looks after."""
        if len(self._holdings.held) < settings.SUPERBIZ.worker_concurrency:
            return
        try:
            await run_in_orm(tasks.reap)
        except Error as error:
            log.warning("lost runs could not be looked for", error=type(error).__name__)

    async def _keep_leases(self) -> None:
        leases = self._holdings.leases()
        if not leases:
            return
        answer = await run_in_orm(lifecycle.heartbeat, leases)
        for run_id in answer.lost:
            # Only that lease: the run may have ended here meanwhile.
            if self._holdings.leases().get(run_id) == leases[run_id]:
                self._holdings.stop(run_id, Abandon.LEASE_LOST)
        for run_id, reason in answer.cancel_requested.items():
            self._holdings.stop(run_id, reason)


def _cancel_reason(run_id: str) -> CancelReason:
    """The mark on the row. The message only says that there is one."""
    marked = DiagnosisRun.objects.filter(id=run_id).values_list("cancel_requested_reason", flat=True).first()
    return CancelReason(marked or CancelReason.USER_REQUESTED)


@functools.cache
def _started() -> WorkerLoop:
    worker = WorkerLoop(announce=True)
    worker.start()
    return worker


_LOCK = threading.Lock()


def current() -> WorkerLoop:
    """The loop of this worker process, started when first asked for."""
    with _LOCK:
        return _started()


def started() -> WorkerLoop | None:
    """The loop of this worker process, if it was started. Takes no lock: also for signal handlers."""
    return _started() if _started.cache_info().currsize else None
