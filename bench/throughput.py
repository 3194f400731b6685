"""How close a worker comes to its model's pace: 160 alert runs at 32 at once, a model that takes one second a call.

The model server is a process of its own; evidence is recorded and small, so that tools cost little. The ideal is
what the model calls alone would take with 32 of them under way all the time. The first figure counts only the time
in which 32 runs are in flight and no longer in step (the first 32 begin in one instant, so the first rounds are all
waiting for the model together and then all at work together); the second counts all of it, from the first claim of a
full queue to the last run's end, with fewer and fewer in flight.
"""

import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.apart import bare_environment, line_with, measure_apart, program, report
from bench.figures import Figure
from superbiz.embedded import EmbeddedServers
from superbiz.env import BASE_DIR, Env
from superbiz.processes import programs
from superbiz.programs import log_tail, start, stop

RUNS = 160
CONCURRENCY = 32
ROUNDS_IN_STEP = 2
LATENCY_S = 1.0
WAIT_S = 240.0
RECORDED_AT = "2031-03-04T05:06:07Z"
ALERT = {
    "status": "firing",
    "labels": {"alertname": "CheckoutLatencyHigh", "severity": "critical", "service": "checkout-api"},
    "annotations": {"summary": "p99 of checkout-api is above 2s"},
    "startsAt": "2031-03-04T05:00:00Z",
}


def record_evidence(folder: Path) -> None:
    """A log of a few lines and the alert itself, as `SUPERBIZ_RECORDED_EVIDENCE` wants them."""
    logs = folder / "logs" / "checkout-api"
    logs.mkdir(parents=True)
    lines = [
        f"2031-03-04T05:0{minute}:07.000Z ERROR [http-{minute}] checkout-api: HikariPool-1 - Connection is not"
        f" available, request timed out after {30_000 + minute}ms (total=10, active=10, idle=0, waiting=61)"
        for minute in range(6)
    ]
    (logs / "checkout-api.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    series = [
        {"metric": {"__name__": "up", "service": "checkout-api"}, "values": [[1930367100, "1"], [1930367160, "1"]]}
    ]
    active = {**ALERT, "status": {"state": "active"}, "fingerprint": "c0ffee00c0ffee00"}
    (folder / "meta.json").write_text(json.dumps({"recorded_at": RECORDED_AT}))
    (folder / "metrics.json").write_text(json.dumps({"series": series, "answers": []}))
    (folder / "alerts.json").write_text(json.dumps([active]))


def queue_alerts() -> None:
    """One run for each of `RUNS` alerts, through the intake, while no worker is there yet to begin."""
    from runs import alertpayload, intake

    for number in range(RUNS):
        body = {"alerts": [{**ALERT, "fingerprint": f"{number:016x}"}]}
        intake.receive(alertpayload.read_notice(body), intake.Sender())


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over: its status, its span, and when each of its model steps ended."""

    status: str
    started_at: datetime
    finished_at: datetime
    steps_ended: tuple[datetime, ...]


def wait_for_all(worker_log: Path) -> list[Ended]:
    """Every run, in the order of their claims, once all have ended."""
    from audit.models import AgentStep
    from runs.models import DiagnosisRun

    deadline = time.monotonic() + WAIT_S
    while DiagnosisRun.objects.filter(finished_at__isnull=True).exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"The runs did not end within {WAIT_S:g} s: {log_tail(worker_log, 5)}")
        time.sleep(0.25)
    steps: dict[str, list[datetime]] = defaultdict(list)
    for run_id, ended in AgentStep.objects.values_list("run_id", "finished_at"):
        steps[run_id].append(ended)
    rows = DiagnosisRun.objects.order_by("started_at").values_list("id", "status", "started_at", "finished_at")
    return [Ended(status, begun, ended, tuple(steps[run_id])) for run_id, status, begun, ended in rows]


def pace(runs: list[Ended], since: datetime, until: datetime) -> float:
    """Model steps ended in a span of time, as a share of what 32 runs could have had."""
    steps = sum(since < ended <= until for run in runs for ended in run.steps_ended)
    return steps * LATENCY_S / (CONCURRENCY * (until - since).total_seconds())


def measure(env: Env, servers: EmbeddedServers) -> list[Figure]:
    queue_alerts()
    worker = start(programs(env, {})["worker"], servers.record)
    try:
        runs = wait_for_all(worker.program.log)
    finally:
        stop(worker, servers.record)
    if len(runs) != RUNS or {run.status for run in runs} != {"SUCCESS"}:
        raise RuntimeError(f"Not all runs succeeded: {sorted({run.status for run in runs})} of {len(runs)}.")
    begun, ended = runs[0].started_at, max(run.finished_at for run in runs)
    out_of_step = max(run.finished_at for run in runs[: CONCURRENCY * ROUNDS_IN_STEP])
    return [
        Figure(
            "throughput: share of the model's pace, 32 runs in flight",
            pace(runs, out_of_step, runs[-1].started_at),
            "",
            0.95,
            True,
        ),
        Figure("throughput: the same, with start and end of a full queue", pace(runs, begun, ended), "", None, True),
        Figure(
            "throughput: runs finished",
            RUNS / (ended - begun).total_seconds() * 60,
            "runs/min",
            higher_is_better=True,
        ),
    ]


def run() -> list[Figure]:
    words = [sys.executable, "-m", "tests.servers.openai_compatible", "--latency", str(LATENCY_S)]
    with TemporaryDirectory(prefix="superbiz-bench-") as folder:
        evidence, log = Path(folder) / "evidence", Path(folder) / "model.log"
        record_evidence(evidence)
        with program(words, bare_environment(), log, BASE_DIR) as server:
            return measure_apart(
                "bench.throughput",
                SUPERBIZ_LLM="openai:bench",
                SUPERBIZ_LLM_BASE_URL=line_with(server, "http", log),
                SUPERBIZ_LLM_API_KEY="bench",
                SUPERBIZ_RECORDED_EVIDENCE=str(evidence),
                SUPERBIZ_WORKER_CONCURRENCY=str(CONCURRENCY),
            )


if __name__ == "__main__":
    report(measure)
