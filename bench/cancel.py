"""How long it takes from a cancel request, or from a caller going away, until the model call in flight is closed.

Each question hangs in its router's model call. The model server runs in this process and notes when a client leaves.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg

from bench.apart import Instance, instance, line_with, program
from bench.figures import Figure
from bench.talking import Caller, Stream, create_token
from superbiz.places import Places
from tests.servers.openai_compatible import Hang, OpenAICompatibleServer

TIMES = 40
LOST = 8
PATIENCE_S = 30.0
CALM_S = 0.2


Stop = Callable[[Stream], Awaitable[None]]


async def _closed_after(server: OpenAICompatibleServer, caller: Caller, number: int, stop: Stop) -> float:
    """Seconds from the stop to the close, for one question."""
    asked, gone = len(server.requests), len(server.disconnects)
    stream = await Stream.open(caller, f"Why is service-{number} slow?")
    await asyncio.to_thread(server.wait_until, lambda each: len(each.requests) > asked, PATIENCE_S)
    await asyncio.sleep(CALM_S)
    closing = asyncio.create_task(
        asyncio.to_thread(server.wait_until, lambda each: len(each.disconnects) > gone, PATIENCE_S)
    )
    began = time.perf_counter()
    await stop(stream)
    await closing
    took = time.perf_counter() - began
    stream.writer.close()
    return took


async def _measure(own: Instance, server: OpenAICompatibleServer, caller: Caller) -> list[Figure]:
    async def ask(stream: Stream) -> None:
        if await caller.status_of(f"/api/runs/{stream.run_id}/cancel", None) != 202:
            raise RuntimeError("A run could not be cancelled.")

    async def leave(stream: Stream) -> None:
        stream.writer.close()

    async def mark(stream: Stream) -> None:
        await asyncio.to_thread(mark_without_a_word, own, stream.run_id)

    async def times(count: int, stop: Stop) -> list[float]:
        await _closed_after(server, caller, 0, stop)
        return [await _closed_after(server, caller, number, stop) for number in range(count)]

    return [
        Figure(
            "cancel: asked over HTTP, until the model call is closed, p95", _p95_ms(await times(TIMES, ask)), "ms", 500
        ),
        Figure(
            "cancel: the caller gone, until the model call is closed, p95",
            _p95_ms(await times(TIMES, leave)),
            "ms",
            500,
        ),
        Figure(
            "cancel: the broadcast lost, until the model call is closed, worst", max(await times(LOST, mark)), "s", 3
        ),
    ]


def _p95_ms(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[18] * 1_000


def mark_without_a_word(own: Instance, run_id: str) -> None:
    """What a cancel request leaves where its message got lost: the mark on the row."""
    address = Places(Path(own.environ["SUPERBIZ_VAR"])).database_url()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "UPDATE diagnosis_run SET cancel_requested_at = now(), cancel_requested_reason = 'USER_REQUESTED'"
            " WHERE id = %s AND status = 'RUNNING'",
            [run_id],
        )


def run() -> list[Figure]:
    with OpenAICompatibleServer(Hang()) as server:
        settings = {
            "SUPERBIZ_LLM": "openai:bench",
            "SUPERBIZ_LLM_BASE_URL": server.base_url,
            "SUPERBIZ_LLM_API_KEY": "bench",
        }
        with (
            instance(**settings) as own,
            program([sys.executable, "manage.py", "up"], own.environ, own.log) as up,
        ):
            line_with(up, "SuperBiz is running", own.log)
            return asyncio.run(_measure(own, server, Caller(own.port, create_token(own))))
