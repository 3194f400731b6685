"""What a run takes with its record: the worker's own loop and driver, PostgreSQL with fsync, the recorder on.

The run is the kernel's (`bench.workload`); beside its model steps it is claimed, pinned, counted, settled and
finished here. The recorder alone is then given the emissions of 16 runs at once, as fast as it takes them.
"""

import asyncio
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from bench import kernel, workload
from bench.apart import measure_apart, report
from bench.figures import Figure
from runs.harness.events import Emission
from runs.harness.pipeline import drive
from runs.harness.ports import Role
from runs.harness.run import Conclusion, Kit, RunInput
from superbiz.embedded import EmbeddedServers
from superbiz.env import Env

if TYPE_CHECKING:
    from runs.observers import RunRef

REPEATS = 11
PARALLEL = 16
BURSTS = 5


async def drive_instantly(run: RunInput, kit: Kit) -> Conclusion:
    """The kernel with everything that the driver hands it, but model and tools that answer at once."""
    model = workload.InstantModel()
    models = dict.fromkeys(Role, model)
    return await drive(run, replace(kit, models=models, tools=workload.tools(), limits=workload.LIMITS))


def queue_runs(count: int) -> list[str]:
    """Alert runs that wait, each in a session of its own."""
    from django.db import transaction

    from runs import ids, lifecycle
    from runs.lifecycle import RunRequest

    run_ids = []
    for _ in range(count):
        session_id = f"bench-{ids.run_id()}"
        with transaction.atomic():
            lifecycle.open_session(session_id)
            run_ids.append(lifecycle.queue_run(RunRequest(session_id, "ALERT", workload.QUERY, workload.SUBJECT)))
    return run_ids


def recorded_counts(run_ids: list[str]) -> list[tuple[str, int]]:
    """Status and committed frames of each run."""
    from audit.models import TraceEvent
    from runs.models import DiagnosisRun

    statuses = dict(DiagnosisRun.objects.filter(id__in=run_ids).values_list("id", "status"))
    return [(statuses[run_id], TraceEvent.objects.filter(run_id=run_id).count()) for run_id in run_ids]


def time_runs() -> list[float]:
    """Milliseconds of each run, one after the other, from before its claim to after its stored end."""
    from runs.worker import WorkerLoop

    loop = WorkerLoop(announce=False, drive=drive_instantly)
    loop.start()
    run_ids = queue_runs(1 + REPEATS)
    times = []
    try:
        for run_id in run_ids:
            started = time.perf_counter()
            loop.drive(run_id)
            times.append((time.perf_counter() - started) * 1_000)
    finally:
        loop.close()
    for status, events in recorded_counts(run_ids):
        if status != "SUCCESS" or events < 2 * workload.STEPS + workload.ROUNDS:
            raise RuntimeError(f"A run of the benchmark ended {status} with {events} frames on record.")
    return times[1:]


# ---- the recorder alone -----------------------------------------------------------------------------------------


class Collector(kernel.Listener):
    """Keeps what a run emits."""

    def __init__(self) -> None:
        super().__init__()
        self.emissions: list[Emission] = []

    def emit(self, emission: Emission) -> None:
        self.emissions.append(emission)


async def emissions_of_a_run() -> list[Emission]:
    """Of one run, with ids of its own."""
    collector = Collector()
    await drive(kernel.run_input(), kernel.kit(workload.InstantModel(), collector))
    return collector.emissions


def claimed(run_ids: list[str]) -> "list[RunRef]":
    from runs import lifecycle

    held = [lifecycle.claim(run_id, "bench") for run_id in run_ids]
    return [each.ref for each in held if each is not None]


async def record(told: "list[tuple[RunRef, list[Emission]]]") -> float:
    """Seconds until the last emission is committed."""
    from audit.recorder import LedgerRecorder

    recorder = LedgerRecorder(patience=60.0)

    async def one(run: "RunRef", emissions: list[Emission]) -> bool:
        for emission in emissions:
            recorder.observe(run, emission)
            await asyncio.sleep(0)
        return (await recorder.settle(run)).complete

    started = time.perf_counter()
    complete = await asyncio.gather(*(one(run, emissions) for run, emissions in told))
    took = time.perf_counter() - started
    if not all(complete):
        raise RuntimeError("The recorder did not record everything.")
    return took


def time_recorder() -> list[float]:
    """Frames a second of each burst of `PARALLEL` runs."""
    rates = []
    for _ in range(BURSTS):
        run_ids = queue_runs(PARALLEL)
        told = [(run, asyncio.run(emissions_of_a_run())) for run in claimed(run_ids)]
        took = asyncio.run(record(told))
        rates.append(sum(events for _, events in recorded_counts(run_ids)) / took)
    return rates


def measure(_env: Env, servers: EmbeddedServers) -> list[Figure]:
    _check_durable()
    a_step = statistics.median(time_runs()) / workload.STEPS
    rate = statistics.median(time_recorder())
    return [
        Figure("ledger: a model step with its tool call, recorded", a_step, "ms", aim=4),
        Figure("ledger: recorder, 16 runs in parallel", rate, "events/s", aim=2_000, higher_is_better=True),
    ]


def _check_durable() -> None:
    from django.db import connection

    for name in ("fsync", "synchronous_commit"):
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW {name}")
            if cursor.fetchone() != ("on",):
                raise RuntimeError(f"The ledger is timed with {name} on.")


def run() -> list[Figure]:
    return measure_apart("bench.ledger", SUPERBIZ_PROCESS="worker")


if __name__ == "__main__":
    report(measure)
