"""5,000 alerts in one minute: none is lost, and memory stays where it was.

Against a whole `manage.py up`, as in `bench.webhook`: a model server that never answers holds the worker's threads, so
what is measured is the intake. Most alerts come alone; every fortieth body is a group of 25, which starts one run.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from bench.apart import Instance
from bench.figures import Figure
from bench.openloop import Answered, Client
from bench.talking import process_of, served
from bench.webhook import PATH, bodies, create_token
from superbiz.places import Places

ALERTS = 5_000
SECONDS = 60
GROUP = 25
GROUP_EVERY = 40
LOOK_EVERY_S = 0.5
WATCHED = {"web": "superbiz.web", "worker": "worker"}


@dataclass(frozen=True, slots=True)
class Storm:
    """What was answered, how long it took, and the most memory that each process had, in MB."""

    answers: Sequence[Answered]
    took_s: float
    peak_mb: dict[str, float]


def storm_bodies(alerts: int) -> list[bytes]:
    """Bodies that hold so many alerts in all, each another one."""
    singles = [json.loads(body) for body in bodies(alerts, 0)]
    made, left = [], singles
    while left:
        size = GROUP if len(made) % GROUP_EVERY == GROUP_EVERY - 1 else 1
        group, left = left[:size], left[size:]
        made.append(json.dumps({**group[0], "alerts": [body["alerts"][0] for body in group]}).encode())
    return made


async def _watch(processes: dict[str, psutil.Process], peak: dict[str, float]) -> None:
    while True:
        for name, process in processes.items():
            with suppress(psutil.NoSuchProcess):
                peak[name] = max(peak[name], process.memory_info().rss / 2**20)
        await asyncio.sleep(LOOK_EVERY_S)


async def _storm(own: Instance, token: str) -> Storm:
    processes = {name: process_of(own, said) for name, said in WATCHED.items()}
    peak = dict.fromkeys(processes, 0.0)
    sent = storm_bodies(ALERTS)
    client = Client(own.port, token)
    watching = asyncio.create_task(_watch(processes, peak))
    began = time.monotonic()
    try:
        answers = await client.post_all(PATH, sent, len(sent) / SECONDS)
        return Storm(answers, time.monotonic() - began, peak)
    finally:
        watching.cancel()
        client.close()


def _stored(own: Instance) -> tuple[int, int]:
    """Rows of alerts, and runs."""
    with psycopg.connect(Places(Path(own.environ["SUPERBIZ_VAR"])).database_url()) as connection:
        row = connection.execute("SELECT (SELECT count(*) FROM alert), (SELECT count(*) FROM diagnosis_run)").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def figures(storm: Storm, alerts: int, runs: int) -> list[Figure]:
    """Raises RuntimeError where a body was not taken."""
    for answer in storm.answers:
        if answer.status != 202:
            raise RuntimeError(f"An alert was answered {answer.status}: {answer.body[:500]!r}")
    latencies = [answer.latency_s * 1_000 for answer in storm.answers]
    told = sum(len(json.loads(answer.body)["runs"]) for answer in storm.answers)
    return [
        Figure("storm: alerts lost of 5,000 in a minute", ALERTS - alerts, "alerts", aim=0),
        Figure("storm: runs promised and not queued", told - runs, "runs", aim=0),
        Figure("storm: runs started, one a group", runs, "runs"),
        Figure("storm: from the first alert to the last answer", storm.took_s, "s", aim=SECONDS + 5),
        Figure("storm: p99", statistics.quantiles(latencies, n=100)[98], "ms"),
        *(Figure(f"storm: most memory of the {name} process", mb, "MB", aim=300) for name, mb in storm.peak_mb.items()),
    ]


def run() -> list[Figure]:
    with served("--hang", "aiops_supervision") as (own, _server):
        storm = asyncio.run(_storm(own, create_token(own)))
        return figures(storm, *_stored(own))
