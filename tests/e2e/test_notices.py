"""Notices of runs, received by a local HTTP server: once each, whatever dies meanwhile."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.outside import alert_of, evidence_of
from tests.e2e.recovering import WORKER, Site, recovery_site
from tests.runs.tools.http_server import Answer, Running, Seen, serve
from tests.superbiz.instance import PATIENCE_S


@dataclass
class Service:
    """Takes notices; `answers` says how the next ones are answered, then 200."""

    answers: list[Answer] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)
    tried: int = 0

    def answer(self, seen: Seen) -> Answer:
        self.tried += 1
        given = self.answers.pop(0) if self.answers else Answer()
        if given.status == 200:
            self.taken.append(json.loads(seen.body))
        return given

    def of(self, run_id: str) -> list[str]:
        """Titles of the notices of a run."""
        return [body["title"] for body in self.taken if f"/runs/{run_id}/" in body["message"]]


@dataclass(frozen=True)
class Told:
    site: Site
    service: Service

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.site.instance.places.database_url(), autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def states(self, run_id: str) -> list[tuple[Any, ...]]:
        query = "SELECT occasion, state FROM run_notice WHERE run_id = %s AND service = 'json #1' ORDER BY id"
        return self.sql(query, run_id)

    def kill_worker(self) -> None:
        old = self.site.pid_of(WORKER)
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: self.site.pid_of(WORKER) != old)

    def age(self, run_id: str) -> None:
        """As if the worker that holds the notice had been silent for long."""
        self.sql(
            "UPDATE run_notice SET changed_at = now() - interval '1 hour', due_at = now() WHERE run_id = %s", run_id
        )


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come so"
        time.sleep(0.05)


@contextmanager
def listening() -> Iterator[tuple[Service, Running]]:
    service = Service()
    with serve(service.answer) as server:
        yield service, server


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    var: Path = tmp_path_factory.mktemp("notices") / "var"
    with ExitStack() as stack:
        service, server = stack.enter_context(listening())
        urls = f"{server.url.replace('http://', 'json://')}/hook, json://127.0.0.1:1/dead"
        site = stack.enter_context(
            recovery_site(
                var,
                SUPERBIZ_NOTIFY_URLS=urls,
                SUPERBIZ_NOTIFY_STARTED="true",
                SUPERBIZ_PUBLIC_URL="https://superbiz.example",
                SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted"),
            )
        )
        yield Told(site, service)


STARTED = "Diagnosis started: CheckoutHighErrorRate on checkout-api"


def test_start_and_end_are_told_once_each_beside_a_dead_address(told: Told) -> None:
    run_id = told.site.api.start(alert_of("pool-exhausted", "0000000000000001"))
    run = told.site.api.ended(run_id)
    wait_for(lambda: len(told.service.of(run_id)) == 2)
    first, last = told.service.of(run_id)
    assert first == STARTED
    assert last.startswith("Answered")
    assert last.endswith(": CheckoutHighErrorRate on checkout-api")
    message = told.service.taken[-1]["message"]
    assert message.startswith(run["publishedResult"]["conclusion"])
    assert "Verdict: " in message
    assert message.endswith(f"https://superbiz.example/runs/{run_id}/")
    wait_for(lambda: told.states(run_id) == [("STARTED", "SENT"), ("FINISHED", "SENT")])


def test_a_run_that_loses_its_worker_is_told_once_each(told: Told) -> None:
    run_id = told.site.start_and_hang("0000000000000002")
    told.kill_worker()
    assert told.site.api.ended(run_id)["outcome"] == "SUCCESS"
    wait_for(lambda: len(told.service.of(run_id)) == 2)
    told.site.wait_until_ready()
    time.sleep(2.5)
    assert len(told.service.of(run_id)) == 2


def test_a_notice_whose_worker_dies_between_claim_and_send_arrives_once(told: Told) -> None:
    run_id = told.site.start_and_hang("0000000000000003")
    wait_for(lambda: told.service.of(run_id) == [STARTED])
    told.service.answers.append(Answer(status=503))
    told.site.api.post(f"/api/runs/{run_id}/cancel")
    told.site.api.ended(run_id)
    wait_for(lambda: ("FINISHED", "PENDING") in told.states(run_id) and not told.service.answers)
    tried = told.service.tried
    # What a sender reads between its claim and its call is held back.
    with psycopg.connect(told.site.instance.places.database_url()) as holding:
        holding.execute("LOCK TABLE diagnosis_run IN ACCESS EXCLUSIVE MODE")
        told.sql("UPDATE run_notice SET due_at = now() WHERE run_id = %s", run_id)
        wait_for(lambda: ("FINISHED", "CLAIMED") in told.states(run_id))
        os.kill(told.site.pid_of(WORKER), signal.SIGKILL)
        holding.rollback()
    assert told.service.tried == tried
    told.age(run_id)
    wait_for(lambda: len(told.service.of(run_id)) == 2)
    wait_for(lambda: told.states(run_id) == [("STARTED", "SENT"), ("FINISHED", "SENT")])
    assert (told.service.tried, told.service.of(run_id)[1][:9]) == (tried + 1, "Cancelled")


def test_a_call_that_dies_with_its_worker_is_not_made_again(told: Told) -> None:
    never = threading.Event()
    told.site.wait_until_ready()
    run_id = told.site.start_and_hang("0000000000000004")
    wait_for(lambda: told.service.of(run_id) == [STARTED])
    told.service.answers.append(Answer(wait=never))
    told.site.api.post(f"/api/runs/{run_id}/cancel")
    wait_for(lambda: len(told.service.of(run_id)) == 2)
    assert ("FINISHED", "SENDING") in told.states(run_id)
    told.kill_worker()
    never.set()
    told.age(run_id)
    wait_for(lambda: ("FINISHED", "UNCERTAIN") in told.states(run_id))
    told.site.wait_until_ready()
    time.sleep(2.5)
    assert len(told.service.of(run_id)) == 2
    told.site.api.ended(run_id)


def test_a_dead_address_is_tried_again_and_says_why(told: Told) -> None:
    rows = told.sql("SELECT state, attempts, last_error FROM run_notice WHERE service = 'json #2' AND attempts > 0")
    assert rows
    assert {state for state, _attempts, _why in rows} <= {"PENDING", "CLAIMED", "SENDING"}
    assert any(why for _state, _attempts, why in rows)
