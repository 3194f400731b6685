"""A running instance whose processes and servers are stopped, killed and started again by the tests of recovery."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.outside import Outside, alert_of, browser_of, check_record, make_callers, verify_ledger
from tests.servers.chat_wire import Behaviour, Hang
from tests.servers.openai_compatible import OpenAICompatibleServer
from tests.superbiz.instance import PATIENCE_S, Instance, Up, processes_of, running, with_tables

EXECUTOR = "executor_evidence_v2"
WORKER = "superbiz --quiet worker"
VALKEY = "valkey-server"
WEB = "superbiz.web"
POSTGRES = "postgres"


@dataclass(frozen=True)
class Site:
    """`run_id`s below are of runs that it starts; `server` is their model."""

    instance: Instance
    up: Up
    api: Outside
    server: OpenAICompatibleServer

    def start_and_hang(self, fingerprint: str) -> str:
        """Start a run and wait until it hangs in a model call of its executor, and its record says so.

        The call after that is answered.
        """
        return self.start_and_wait(fingerprint, Hang())

    def start_and_wait(self, fingerprint: str, behaviour: Behaviour) -> str:
        """The same with a call that is answered so."""
        before = len(self.server.asked_by(EXECUTOR))
        self.server.script(EXECUTOR, behaviour)
        run_id = self.api.start(alert_of("pool-exhausted", fingerprint))
        self.server.wait_until(lambda server: len(server.asked_by(EXECUTOR)) > before, PATIENCE_S)
        run = self.api.run(run_id)
        assert run["status"] == "RUNNING"
        self.wait_until_recorded(run_id, "Executor asked")
        return run_id

    def wait_until_recorded(self, run_id: str, last: str) -> None:
        """Until the record's last event says so and its counts agree: what is not committed dies with the worker."""
        run, deadline = self.api.run(run_id), time.monotonic() + PATIENCE_S
        while True:
            trace = self.api.trace(run)
            summary = trace["summary"]
            agrees = summary["complete"] and summary["tokens"]["consistent"]
            agrees = agrees and all(
                summary[part]["emitted"] == summary[part]["persisted"] for part in ("events", "steps")
            )
            if agrees and trace["timeline"][-1:] and last in trace["timeline"][-1]["summary"]:
                return
            assert time.monotonic() < deadline, (last, trace["timeline"][-1:], summary)
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            assert time.monotonic() < deadline, "it does not get ready again"
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            return self.api.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def pid_of(self, said: str) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := processes_of(self.instance, said)):
            assert time.monotonic() < deadline, f"no {said} runs"
            time.sleep(0.05)
        (pid,) = found
        return pid

    def check_ended_once(self, run: dict[str, Any]) -> dict[str, Any]:
        trace = self.api.trace(run)
        assert trace["timeline"][-1]["details"]["outcome"] == run["outcome"]
        check_record(trace)
        verify_ledger(self.instance, run["runId"])
        self.check_page(run, trace)
        return trace

    def check_page(self, run: dict[str, Any], trace: dict[str, Any]) -> None:
        """The run's page says what happened: each event, and how it ended."""
        with browser_of(self.instance, "reader") as browser:
            page = browser.get(run["url"])
        assert page.status_code == 200
        said = unescape(page.text)
        for told in (event["summary"] for event in trace["timeline"]):
            assert told in said, told
        assert run["publishedResult"] or run["safeContent"]["headline"] in said


@contextmanager
def recovery_site(var: Path, **settings: str) -> Iterator[Site]:
    """An instance on a model server of its own."""
    with OpenAICompatibleServer() as server:
        instance = with_tables(var)
        model = {
            "SUPERBIZ_LLM": "openai:test-model",
            "SUPERBIZ_LLM_BASE_URL": server.base_url,
            "SUPERBIZ_LLM_API_KEY": "unused",
        }
        with running(instance, **model, **settings) as up:
            up.sign_in_link()
            scopes = ["alerts:write", "runs:read", "runs:cancel"]
            api = make_callers(instance, {"all": scopes}, {"reader": (False, ["view_"])})["all"]
            yield Site(instance, up, api, server)
