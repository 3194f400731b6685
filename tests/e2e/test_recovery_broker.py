"""The broker is away for more than a minute, while a run is in flight and alerts go on coming in. A real one, killed
again whenever it is started again."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.e2e.outside import alert_of, event_types, evidence_of
from tests.e2e.recovering import VALKEY, WEB, WORKER, Site, recovery_site
from tests.servers.chat_wire import Drip, Hang
from tests.superbiz.instance import processes_of

# `up` starts it again after 0.5, 1, 2, … seconds: it is left alone when the next start is due, after a minute.
KILLED_FOR_S = 60.5
ALERT_EVERY_S = 13.0
# One model call ends while the broker is away, the other one outlasts it.
SHORT_CALL = Drip(pause_s=0.3, size=100)
MODEL_TIMEOUT_S = "75"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("broker") / "var"
    settings = {
        "SUPERBIZ_RECORDED_EVIDENCE": evidence_of("pool-exhausted"),
        "SUPERBIZ_MODEL_TIMEOUT_S": MODEL_TIMEOUT_S,
    }
    with recovery_site(folder, **settings) as site:
        yield site


@contextmanager
def no_broker(site: Site) -> Iterator[None]:
    """While the block runs, each broker that is started is killed at once."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.05):
            for pid in processes_of(site.instance, VALKEY):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def test_a_broker_that_is_away_for_a_minute_costs_no_alert_and_no_run(site: Site) -> None:
    processes = site.pid_of(WORKER), site.pid_of(WEB)
    short = site.start_and_wait("00000000000d0000", SHORT_CALL)
    long = site.start_and_wait("00000000000d0001", Hang())
    began, waiting = time.monotonic(), []
    with no_broker(site):
        while time.monotonic() - began < KILLED_FOR_S:
            # Taken at once, though there is nobody to tell.
            waiting.append(site.api.start(alert_of("pool-exhausted", f"00000000000d1{len(waiting):03d}")))
            threading.Event().wait(ALERT_EVERY_S)
        assert site.api.get("/readyz").status_code == 503
        assert site.api.run(short)["outcome"] == "SUCCESS", "the run waited for the broker"
        assert site.api.run(long)["status"] == "RUNNING"
        assert "QUEUED" in {site.api.run(run_id)["status"] for run_id in waiting}
    site.wait_until_ready()
    assert time.monotonic() - began > 60

    for run_id in [short, long, *waiting]:
        run = site.api.ended(run_id)
        assert run["outcome"] == "SUCCESS"
        trace = site.check_ended_once(run)
        # Nobody lost it, nobody began it twice.
        assert event_types(trace).count("RUN_STARTED") == 1
        assert "RUN_RECOVERED" not in event_types(trace)
    assert (site.pid_of(WORKER), site.pid_of(WEB)) == processes
