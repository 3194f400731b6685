"""Redis as a doorbell: "this run changed", "cancel that run". It carries ids and nothing that could be lost.

Publishing is bounded (a quarter of a second to connect, as much to send) and never raises; after a failure
it stays quiet for a second, so that a dead Redis does not slow a busy process. Listeners reconnect by themselves
and keep a slower way to find out: the web hub polls, the worker's heartbeat re-reads the cancel marks.
"""

import asyncio
import contextlib
import functools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

import redis
import redis.asyncio
import structlog
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from runs.harness.events import Emission
from runs.harness.run import Settled
from runs.observers import RunRef

log = structlog.get_logger(__name__)

CHANGED = "superbiz:run-changed"
CANCEL = "superbiz:run-cancel"

PUBLISH_TIMEOUT_S = 0.25
QUIET_AFTER_FAILURE_S = 1.0
WORKERS = "superbiz:workers"
WORKER_SILENT_AFTER_S = 8.0
# The tools that a worker leaves alone, as JSON; the worker's name follows.
TOOLS_TOLD_FOR_S = 8
TOOLS_OF_WORKER = "superbiz:tools-left-alone:"

POLL_S = 5.0
RECONNECT_S = (0.1, 2.0)


@dataclass(frozen=True, slots=True)
class Message:
    channel: str
    run_id: str


class _Publisher:
    """One client of the process; redis-py's pool makes it safe for its threads."""

    def __init__(self) -> None:
        self._client = redis.Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=PUBLISH_TIMEOUT_S,
            socket_timeout=PUBLISH_TIMEOUT_S,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),
        )
        self._quiet_until = 0.0
        self._lock = threading.Lock()

    def publish(self, channel: str, run_ids: Iterable[str]) -> None:
        self.send(lambda pipeline: [pipeline.publish(channel, run_id) for run_id in run_ids])

    def send(self, commands: Callable[[redis.client.Pipeline], object]) -> None:
        with self._lock:
            if time.monotonic() < self._quiet_until:
                return
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                commands(pipeline)
                pipeline.execute()
        except (redis.RedisError, OSError) as error:
            with self._lock:
                self._quiet_until = time.monotonic() + QUIET_AFTER_FAILURE_S
            log.warning("redis did not take a message", error=type(error).__name__)

    def tools_left_alone(self) -> list[str]:
        names = self.workers()
        told = self._client.mget([TOOLS_OF_WORKER + name for name in names]) if names else []
        return sorted({tool for tools in told if tools for tool in json.loads(tools)})

    def workers(self) -> list[str]:
        newer = time.time() - WORKER_SILENT_AFTER_S
        return [str(name) for name in self._client.zrangebyscore(WORKERS, newer, "+inf")]


@functools.cache
def _publisher() -> _Publisher:
    return _Publisher()


def publish_changed(run_ids: Iterable[str]) -> None:
    """Tell the pages that these runs have new records. Never raises; takes half a second at most."""
    _publisher().publish(CHANGED, run_ids)


def publish_cancel(run_id: str) -> None:
    """Wake the worker that holds this run. Never raises; takes half a second at most."""
    _publisher().publish(CANCEL, [run_id])


def announce_worker(name: str, left_alone: Sequence[str] = ()) -> None:
    """Say that this process serves runs, and which tools it leaves alone; to be said again every few seconds.

    Never raises.
    """
    now = time.time()
    _publisher().send(
        lambda pipeline: (
            pipeline.zadd(WORKERS, {name: now}),
            pipeline.set(TOOLS_OF_WORKER + name, json.dumps(list(left_alone)), ex=TOOLS_TOLD_FOR_S),
            pipeline.zremrangebyscore(WORKERS, "-inf", now - 10 * WORKER_SILENT_AFTER_S),
        )
    )


def withdraw_worker(name: str) -> None:
    """Say that this process serves runs no more. Never raises."""
    _publisher().send(lambda pipeline: (pipeline.zrem(WORKERS, name), pipeline.delete(TOOLS_OF_WORKER + name)))


def workers() -> list[str]:
    """Names of the processes that serve runs now. Raises `redis.RedisError` when Redis does not answer."""
    return _publisher().workers()


def tools_left_alone() -> list[str]:
    """Tools that at least one worker does not ask now. Raises `redis.RedisError` when Redis does not answer."""
    return _publisher().tools_left_alone()


async def subscribe(channels: Sequence[str]) -> AsyncIterator[Message]:
    """Messages of the channels for as long as it is iterated; a lost connection is made again."""
    wait = RECONNECT_S[0]
    while True:
        client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=1.0, health_check_interval=10, decode_responses=True
        )
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
                await pubsub.subscribe(*channels)
                while True:
                    message = await pubsub.get_message(timeout=POLL_S)
                    wait = RECONNECT_S[0]
                    if message is not None:
                        yield Message(channel=message["channel"], run_id=message["data"])
        except (redis.RedisError, OSError) as error:
            log.warning("redis subscription lost", error=type(error).__name__)
        finally:
            with contextlib.suppress(redis.RedisError, OSError):
                await client.aclose()
        await asyncio.sleep(wait)
        wait = min(wait * 2, RECONNECT_S[1])


class RunChanged:
    """The observer that rings for the transitions of a run, once they are committed.

    What happens between them is announced by whoever records it, after its own commit.
    """

    def observe(self, run: RunRef, emission: Emission) -> None:
        return None

    async def settle(self, run: RunRef) -> Settled:
        return Settled(complete=True)

    def write(self, run: RunRef, emission: Emission) -> None:
        transaction.on_commit(functools.partial(publish_changed, [run.run_id]))
