"""A worker dies, or is one of two, while runs are in every phase at once. Live tools, one of which hangs."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import redis

from superbiz.env import BASE_DIR
from tests.e2e.outside import alert_of, details_of, event_types, evidence_of
from tests.e2e.recovering import EXECUTOR, WORKER, Site, recovery_site
from tests.servers.openai_compatible import Hang
from tests.superbiz.instance import PATIENCE_S


class Metrics(ThreadingHTTPServer):
    """A Prometheus that knows nothing. While `hanging` is clear it answers; `asked` is set by each query."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _MetricsHandler)
        self.asked = threading.Event()
        self.answering = threading.Event()
        self.answering.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _MetricsHandler(BaseHTTPRequestHandler):
    server: Metrics

    def do_GET(self) -> None:
        self.server.asked.set()
        self.server.answering.wait()
        body = b'{"status": "success", "data": {"resultType": "matrix", "result": []}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: its requests are no news."""


@dataclass(frozen=True)
class Phases:
    site: Site
    metrics: Metrics


@pytest.fixture(scope="module")
def phases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phases]:
    metrics = Metrics()
    threading.Thread(target=metrics.serve_forever, daemon=True).start()
    settings = {"PROMETHEUS_URL": metrics.url, "SUPERBIZ_LOG_DIR": str(Path(evidence_of("pool-exhausted")) / "logs")}
    with recovery_site(tmp_path_factory.mktemp("phases") / "var", **settings) as site:
        yield Phases(site, metrics)
    metrics.answering.set()
    metrics.shutdown()
    metrics.server_close()


def hang_in_a_tool(phases: Phases) -> str:
    phases.metrics.asked.clear()
    phases.metrics.answering.clear()
    run_id = phases.site.api.start(alert_of("pool-exhausted", "00000000000001a0"))
    assert phases.metrics.asked.wait(PATIENCE_S)
    phases.site.wait_until_recorded(run_id, "Executor")
    return run_id


def hang_in_a_model_call(phases: Phases, schema: str, number: int) -> str:
    site = phases.site
    before = len(site.server.asked_by(schema))
    site.server.script(schema, Hang())
    run_id = site.api.start(alert_of("pool-exhausted", f"{0x1B0 + number:016x}"))
    site.server.wait_until(lambda server: len(server.asked_by(schema)) > before, PATIENCE_S)
    site.wait_until_recorded(run_id, " asked")
    return run_id


MODEL_CALLS = ("aiops_supervision", "aiops_plan", EXECUTOR, "verifier_evaluation", "composer_output")


def test_a_worker_killed_under_runs_in_every_phase_loses_none_of_them(phases: Phases) -> None:
    site = phases.site
    run_ids = {"tool": hang_in_a_tool(phases)}
    # The metrics go on hanging for that run alone: the others do not get as far, or have them answered.
    phases.metrics.answering = threading.Event()
    phases.metrics.answering.set()
    run_ids |= {schema: hang_in_a_model_call(phases, schema, number) for number, schema in enumerate(MODEL_CALLS)}
    os.kill(site.pid_of(WORKER), signal.SIGKILL)
    assert site.up.wait_for(r"^worker ended unexpectedly.*starting it again")

    ends = {phase: site.api.ended(run_id) for phase, run_id in run_ids.items()}

    assert {phase: run["outcome"] for phase, run in ends.items()} == dict.fromkeys(ends, "SUCCESS")
    for run in ends.values():
        trace = site.check_ended_once(run)
        assert [started["attempt"] for started in details_of(trace, "RUN_STARTED")] == [1, 2]
        assert event_types(trace).count("RUN_RECOVERED") == 1
    # The alert keeps its run: a repeat joins it.
    assert site.api.send(alert_of("pool-exhausted", "00000000000001a0"))["deduplicated"] == 1


@contextmanager
def second_worker(site: Site) -> Iterator[int]:
    places = site.instance.places
    settings = site.instance.environ(
        **site.up.environ,
        DATABASE_URL=places.database_url(),
        REDIS_URL=places.redis_url(),
        SUPERBIZ_PROCESS="worker",
        PROMETHEUS_MULTIPROC_DIR=str(places.metrics),
    )
    command = [sys.executable, "-m", "celery", "-A", "superbiz", "--quiet", "worker", "-P", "threads", "-c", "4"]
    with (places.log / "second-worker.log").open("wb") as log:
        process = subprocess.Popen([*command, "-n", "second@%h"], cwd=BASE_DIR, env=settings, stdout=log, stderr=log)
    try:
        with redis.Redis.from_url(places.redis_url()) as broker:
            deadline = time.monotonic() + PATIENCE_S
            while not any(
                name.endswith(f":{process.pid}".encode()) for name in broker.zrange("superbiz:workers", 0, -1)
            ):
                assert time.monotonic() < deadline, "the second worker does not come"
                time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def test_two_workers_handed_one_run_many_times_run_it_once(phases: Phases) -> None:
    site = phases.site
    with second_worker(site) as second:
        workers = [site.pid_of(WORKER), second]
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        run_id = site.api.start(alert_of("pool-exhausted", "00000000000001d0"))
        sent = site.instance.manage("shell", "-c", f"from runs.tasks import enqueue; print(enqueue(['{run_id}'] * 20))")
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        assert sent.stdout.splitlines()[-1] == "20", sent.stderr
        run = site.api.ended(run_id)
    assert run["outcome"] == "SUCCESS"
    trace = site.check_ended_once(run)
    assert event_types(trace).count("RUN_STARTED") == 1


def test_the_metrics_of_the_web_process_are_those_of_all(phases: Phases) -> None:
    site = phases.site
    run = site.api.ended(site.api.start(alert_of("pool-exhausted", "00000000000001e0")))
    assert run["outcome"] == "SUCCESS"
    text = site.api.get("/metrics").text
    recorded = re.search(r'^recorder_events_total\{outcome="recorded"\} (\S+)$', text, re.MULTILINE)
    assert recorded, text
    # Frames of transitions are the web's and the worker's; what a run tells, and the breakers, are the worker's alone.
    assert float(recorded[1]) > len(site.api.trace(run)["timeline"])
    assert re.search(r'^tool_breaker_state\{tool="query_logs"\} 0\.0$', text, re.MULTILINE), text
