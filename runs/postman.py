"""Sends the notices of `runs.notices` through Apprise, from a worker's event loop.

One sender for each address, one notice at a time: a service that is dead or slow holds up its own notices alone. They
do not go through the broker: behind a queue of runs they would come late, and without a broker not at all. Every
worker looks once a second; the claims keep them apart.
"""

import asyncio
import functools
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog
from django.db import Error

from runs import notices
from runs.notices import Target
from runs.noticetext import Message
from runs.orm import run_in_orm
from runs.tools.redaction import clean

log = structlog.get_logger(__name__)

T = TypeVar("T")

LOOK_EVERY_S = 1.0
# What a call in flight is given at shutdown.
CLOSE_S = 4.0
REASON_CHARS = 200


async def deliver_all(targets: tuple[Target, ...]) -> None:
    """Send what is owed to these addresses until cancelled; a notice in flight is brought to its end first."""
    if not targets:
        return
    with_threads = ThreadPoolExecutor(max_workers=len(targets), thread_name_prefix="notices")
    try:
        async with asyncio.TaskGroup() as group:
            for target in targets:
                group.create_task(_deliver(target, with_threads))
    finally:
        with_threads.shutdown(wait=False, cancel_futures=True)


async def _deliver(target: Target, threads: ThreadPoolExecutor) -> None:
    while True:
        try:
            while await _whole(deliver_next(target, threads)):
                pass
        except Error as error:
            log.warning("notices could not be looked for", error=type(error).__name__)
        except Exception as error:
            log.error("a notice could not be dealt with", service=target.name, exc_info=error)
        await asyncio.sleep(LOOK_EVERY_S)


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=CLOSE_S)
        raise


async def deliver_next(target: Target, threads: ThreadPoolExecutor) -> bool:
    """Send the next notice that the address is owed. False: there is none."""
    held = await run_in_orm(notices.claim, target.key)
    if held is None:
        return False
    if held.attempt > notices.MAX_ATTEMPTS:
        await run_in_orm(notices.refused, held, "Worker after worker was lost with it.")
        return True
    message = await run_in_orm(notices.begin, held)
    if message is not None:
        loop = asyncio.get_running_loop()
        reason = await loop.run_in_executor(threads, functools.partial(send, target.url, message))
        if reason is None:
            await run_in_orm(notices.sent, held)
        else:
            await run_in_orm(notices.refused, held, reason)
    return True


def send(url: str, message: Message) -> str | None:
    """Hand the message to the service. None: it was taken; else why not, without secrets. Blocks for some seconds."""
    # Loads its hundred services, and only instances that send notices need them.
    import apprise

    asset = apprise.AppriseAsset(app_id="SuperBiz", app_desc="SuperBiz", async_mode=False)
    service = apprise.Apprise.instantiate(url, asset=asset)
    if service is None:
        return "Apprise cannot use the address."
    with _Heard() as heard:
        try:
            taken = service.notify(
                title=message.title, body=message.body, notify_type=message.kind, body_format=apprise.NotifyFormat.TEXT
            )
        except Exception as error:  # noqa: BLE001 (a service's plugin may raise anything; it is told on the notice)
            return f"The service's plugin failed: {type(error).__name__}."
    return None if taken else heard.reason


class _Heard(logging.Handler):
    """What Apprise logged in this thread: its only way to tell why a service took nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._thread = threading.get_ident()
        self.reason = "The service did not take it."

    def __enter__(self) -> "_Heard":
        logging.getLogger("apprise").addHandler(self)
        return self

    def __exit__(self, *_error: object) -> None:
        logging.getLogger("apprise").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.reason = clean(record.getMessage())[:REASON_CHARS]
