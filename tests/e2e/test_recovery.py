"""What becomes of runs when workers die, people cancel and the broker is away. Real processes, real signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from superbiz.env import BASE_DIR
from tests.e2e.outside import alert_of, details_of, event_types, evidence_of
from tests.e2e.recovering import EXECUTOR, VALKEY, WEB, WORKER, Site, recovery_site
from tests.servers.brain import Brain
from tests.servers.chat_wire import Question, Reaction
from tests.servers.openai_compatible import Hang, HttpError, Reset
from tests.superbiz.instance import PATIENCE_S

# Workers count as silent after 8 s, and beat every 2 s.
DOWN_S = 9.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("recovery") / "var"
    with recovery_site(folder, SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted")) as site:
        yield site


def test_a_run_whose_worker_is_told_to_stop_goes_back_and_ends_after_the_restart(site: Site) -> None:
    run_id = site.start_and_hang("00000000000000c1")
    gone = len(site.server.disconnects)
    os.kill(site.pid_of(WORKER), signal.SIGTERM)
    site.server.wait_until(lambda server: len(server.disconnects) > gone, PATIENCE_S)

    run = site.api.ended(run_id)

    assert run["outcome"] == "SUCCESS"
    trace = site.check_ended_once(run)
    # Being shut down is no failure: the second start is the first attempt still.
    assert [started["attempt"] for started in details_of(trace, "RUN_STARTED")] == [1, 1]
    (recovered,) = details_of(trace, "RUN_RECOVERED")
    assert "shut down" in recovered["reason"]


def test_cancelling_ends_the_model_call_in_flight(site: Site) -> None:
    run_id = site.start_and_hang("00000000000000b1")
    gone = len(site.server.disconnects)

    assert site.api.post(f"/api/runs/{run_id}/cancel").status_code == 202
    site.server.wait_until(lambda server: len(server.disconnects) > gone, PATIENCE_S)
    run = site.api.ended(run_id)

    assert site.server.disconnects[gone:] == [EXECUTOR]
    assert (run["status"], run["cancelReason"], run["failureCode"]) == ("CANCELLED", "USER_REQUESTED", None)
    assert run["publishedResult"] is None
    assert run["safeContent"]["headline"]
    trace = site.check_ended_once(run)
    assert event_types(trace).count("RUN_CANCEL_REQUESTED") == 1
    assert [step["status"] for step in trace["steps"]][-1] == "FAILED"

    again = site.api.post(f"/api/runs/{run_id}/cancel")
    assert (again.status_code, again.json()["status"]) == (202, "CANCELLED")
    assert site.api.trace(run)["timeline"] == trace["timeline"]


def test_every_attempt_of_a_model_call_is_on_record(site: Site) -> None:
    site.server.script(EXECUTOR, HttpError(500), HttpError(429, headers={"Retry-After": "1"}), Reset())
    run = site.api.ended(site.api.start(alert_of("pool-exhausted", "00000000000000b4")))
    assert run["outcome"] == "SUCCESS"
    trace = site.check_ended_once(run)
    (retried,) = [step for step in trace["steps"] if len(calls_of(site, step["id"])) > 1]
    assert calls_of(site, retried["id"]) == [
        [1, "ERROR", "SERVER_ERROR"],
        [2, "ERROR", "RATE_LIMITED"],
        [3, "ERROR", "CONNECTION"],
        [4, "OK", None],
    ]
    # Attempts are model calls: the run's budget and its record count them alike.
    assert run["modelCalls"] == trace["summary"]["modelCalls"]["persisted"] == len(trace["steps"]) + 3


def calls_of(site: Site, step_id: str) -> list[list[Any]]:
    """Attempt, status and error code of each model call of a step, from the ledger's table."""
    with psycopg.connect(site.instance.places.database_url()) as ledger:
        found = ledger.execute(
            "SELECT attempt, status, error_code FROM model_call_ledger WHERE step_id = %s ORDER BY attempt", [step_id]
        )
        return [list(row) for row in found]


def test_a_run_that_ended_otherwise_cannot_be_cancelled(site: Site) -> None:
    run = site.api.ended(site.api.start(alert_of("pool-exhausted", "00000000000000b2")))
    answer = site.api.post(f"/api/runs/{run['runId']}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "RUN_ENDED")
    assert answer.json()["details"] == {"runId": run["runId"], "outcome": "SUCCESS"}


def test_a_cancelled_alert_may_start_a_run_again(site: Site) -> None:
    run_id = site.start_and_hang("00000000000000b3")
    site.api.post(f"/api/runs/{run_id}/cancel")
    site.api.ended(run_id)
    again = site.api.start(alert_of("pool-exhausted", "00000000000000b3"))
    assert again != run_id
    assert site.api.ended(again)["outcome"] == "SUCCESS"


def test_an_alert_that_comes_while_the_broker_hangs_is_taken_at_once_and_run_later(site: Site) -> None:
    valkey = site.pid_of(VALKEY)
    os.kill(valkey, signal.SIGSTOP)
    # Whatever happens below, it goes on.
    waking = threading.Timer(8.0, os.kill, (valkey, signal.SIGCONT))
    waking.start()
    try:
        began = time.monotonic()
        run_id = site.api.start(alert_of("pool-exhausted", "00000000000000d1"))
        took_s = time.monotonic() - began
        assert site.api.run(run_id)["status"] == "QUEUED"
        assert site.api.get("/readyz").status_code == 503
    finally:
        os.kill(valkey, signal.SIGCONT)
        waking.cancel()
    assert took_s < 1.0
    run = site.api.ended(run_id)
    assert run["outcome"] == "SUCCESS"
    site.check_ended_once(run)


def test_a_run_ends_while_the_broker_hangs_for_many_heartbeats(site: Site) -> None:
    valkey, stopped = site.pid_of(VALKEY), threading.Event()

    def silenced(question: Question) -> Reaction:
        os.kill(valkey, signal.SIGSTOP)
        threading.Timer(DOWN_S, os.kill, (valkey, signal.SIGCONT)).start()
        stopped.set()
        return Brain()(question)

    site.server.script(EXECUTOR, Brain(), silenced)
    run_id = site.api.start(alert_of("pool-exhausted", "00000000000000d3"))
    assert stopped.wait(PATIENCE_S)
    run = site.api.ended(run_id)
    assert run["outcome"] == "SUCCESS"
    assert psutil.Process(valkey).status() == psutil.STATUS_STOPPED, "the run waited for the broker"
    site.wait_until_ready()
    trace = site.check_ended_once(run)
    assert "RUN_RECOVERED" not in event_types(trace)


def test_an_alert_that_comes_while_the_broker_is_dead_is_run_when_it_is_back(site: Site) -> None:
    os.kill(site.pid_of(VALKEY), signal.SIGKILL)
    run_id = site.api.start(alert_of("pool-exhausted", "00000000000000d2"))
    run = site.api.ended(run_id)
    assert run["outcome"] == "SUCCESS"
    site.check_ended_once(run)


def watch_until_killed(site: Site, run_id: str, seen: list[int]) -> None:
    """Watch a run, note the numbers that came, and kill the web process after the fifth."""
    with site.api.http.stream("GET", f"/api/runs/{run_id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("id: "):
                seen.append(int(line.removeprefix("id: ")))
                if len(seen) == 5:
                    os.kill(site.pid_of(WEB), signal.SIGKILL)


def test_who_watched_when_the_web_process_died_goes_on_without_gap_or_repeat(site: Site) -> None:
    run_id = site.start_and_hang("00000000000000e1")
    seen: list[int] = []
    with pytest.raises(httpx.TransportError):
        watch_until_killed(site, run_id, seen)
    site.wait_until_ready()

    # The run did not notice.
    assert site.api.run(run_id)["status"] == "RUNNING"
    site.api.post(f"/api/runs/{run_id}/cancel")
    *events, end = site.api.events(run_id, headers={"Last-Event-ID": str(seen[-1])})
    assert end.event == "done"
    seen += [event.id for event in events if event.id]
    assert seen == list(range(1, len(seen) + 1))
    trace = site.check_ended_once(site.api.ended(run_id))
    assert len(trace["timeline"]) == len(seen)


def test_ctrl_c_on_the_command_cancels_its_run(site: Site, tmp_path: Path) -> None:
    before = len(site.server.asked_by(EXECUTOR))
    site.server.script(EXECUTOR, Hang())
    file = tmp_path / "alert.json"
    file.write_text(json.dumps({"alerts": [alert_of("pool-exhausted", "00000000000000f1")]}))
    command = subprocess.Popen(
        [sys.executable, "manage.py", "diagnose", str(file)],
        cwd=BASE_DIR,
        env=site.instance.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    site.server.wait_until(lambda server: len(server.asked_by(EXECUTOR)) > before, PATIENCE_S)
    command.send_signal(signal.SIGINT)
    said, complained = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, complained
    assert "Traceback" not in said + complained
    assert "CANCELLED (USER_REQUESTED)" in said
