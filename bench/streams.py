"""What 500 open chat streams cost one web process, and how fast the runs behind them end when all callers leave.

The model never answers, so 32 runs are at work, the others wait, and no stream ends by itself.
"""

import asyncio
import time
from pathlib import Path

import psycopg

from bench.apart import Instance
from bench.figures import Figure
from bench.talking import Caller, Stream, create_token, process_of, served
from superbiz.places import Places

STREAMS = 500
AT_ONCE = 25
CALM_S = 3.0
ENDED_WITHIN_S = 120.0
ENDED = "SELECT count(*) FROM diagnosis_run WHERE cancel_reason = 'CLIENT_DISCONNECTED'"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def _count(own: Instance, query: str) -> int:
    address = Places(Path(own.environ["SUPERBIZ_VAR"])).database_url()
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])


async def open_all(caller: Caller, count: int) -> list[Stream]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Stream:
        async with places:
            return await Stream.open(caller, f"Why is service-{number} slow?")

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def _measure(own: Instance, caller: Caller) -> list[Figure]:
    web = process_of(own, "superbiz.web")
    await open_all(caller, 1)
    began = time.perf_counter()
    streams = await open_all(caller, STREAMS)
    opened_s = time.perf_counter() - began
    await asyncio.sleep(CALM_S)
    memory_mb = web.memory_info().rss / 2**20
    connections = await asyncio.to_thread(_count, own, CONNECTIONS)
    began = time.perf_counter()
    for stream in streams:
        stream.writer.close()
    while await asyncio.to_thread(_count, own, ENDED) < STREAMS:
        if time.perf_counter() - began > ENDED_WITHIN_S:
            raise RuntimeError("Not all runs were cancelled when their callers left.")
        await asyncio.sleep(0.1)
    return [
        Figure(f"streams: {STREAMS} opened, each with its run", opened_s, "s"),
        Figure(f"streams: memory of the web process with {STREAMS} open", memory_mb, "MB", aim=300),
        Figure(f"streams: database connections of all processes with {STREAMS} open", connections, "", aim=60),
        Figure(f"streams: {STREAMS} callers gone, until their runs are cancelled", time.perf_counter() - began, "s"),
    ]


def run() -> list[Figure]:
    with served("--hang", "router_intent") as (own, _server):
        return asyncio.run(_measure(own, Caller(own.port, create_token(own))))
