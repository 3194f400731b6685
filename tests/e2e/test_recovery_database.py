"""What becomes of runs when PostgreSQL dies, hangs, or does not take their record. A real server, real signals."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import psycopg
import pytest

from tests.e2e.outside import alert_of, details_of, event_types, evidence_of
from tests.e2e.recovering import EXECUTOR, POSTGRES, Site, recovery_site
from tests.servers.brain import Brain
from tests.servers.chat_wire import Question, Reaction
from tests.superbiz.instance import processes_of, wait_until_gone

OUTAGE_S = 10.0
# Each time it is started again after twice as long; the last wait makes up the rest of the ten seconds.
KILLED_FOR_S = 4.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("database") / "var"
    with recovery_site(folder, SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted")) as site:
        yield site


def kill(pids: set[int]) -> None:
    """And wait for their end: until then the server might still answer who asks whether all is well."""
    for pid in pids:
        os.kill(pid, signal.SIGQUIT)
    assert wait_until_gone(pids) == set()


def dies_once(site: Site) -> None:
    kill({site.pid_of(POSTGRES)})


def dies_again_and_again(site: Site) -> None:
    end = time.monotonic() + KILLED_FOR_S
    while time.monotonic() < end:
        kill(processes_of(site.instance, POSTGRES))
        time.sleep(0.1)


def hangs(site: Site) -> None:
    postmaster = psutil.Process(site.pid_of(POSTGRES))
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        process.suspend()
    time.sleep(OUTAGE_S)
    for process in family:
        process.resume()


def refuses_the_record(site: Site) -> None:
    """Whoever wants to append to a record waits for a lock and is then thrown out; all else works."""
    url = site.instance.places.database_url()
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as thrower:
        holder.execute("LOCK TABLE diagnosis_trace_head IN ACCESS EXCLUSIVE MODE")
        end = time.monotonic() + OUTAGE_S
        while time.monotonic() < end:
            thrower.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND query LIKE '%diagnosis_trace_head%' AND pid <> pg_backend_pid()"
            )
            time.sleep(0.1)


@pytest.mark.parametrize("trouble", [dies_once, dies_again_and_again, hangs, refuses_the_record])
def test_a_run_ends_once_and_whole_when_the_database(site: Site, trouble: Callable[[Site], None]) -> None:
    begun: list[threading.Thread] = []

    def in_trouble(question: Question) -> Reaction:
        begun.append(threading.Thread(target=trouble, args=[site]))
        begun[0].start()
        return Brain()(question)

    # It begins between the tools' answers and what the executor makes of them.
    site.server.script(EXECUTOR, Brain(), in_trouble)
    run_id = site.api.start(alert_of("pool-exhausted", f"{hash(trouble) & 0xFFFFFFFF:016x}"))
    site.server.wait_until(lambda _: begun, 30.0)
    begun[0].join()
    site.wait_until_ready()

    run = site.api.ended(run_id)

    assert run["outcome"] == "SUCCESS"
    trace = site.check_ended_once(run)
    # Its worker lived and kept the run: nobody took it away.
    assert "RUN_RECOVERED" not in event_types(trace)
    assert [started["attempt"] for started in details_of(trace, "RUN_STARTED")] == [1]
