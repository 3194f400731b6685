"""A source that fails again and again is left alone, everyone can see it, and it is asked again when it may be back."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runs.equipment import BREAKER_FAILURES
from tests.e2e.outside import alert_of, details_of, evidence_of
from tests.e2e.recovering import WORKER, Site, recovery_site
from tests.runs.tools.http_server import Answer, Seen, serve
from tests.superbiz.instance import PATIENCE_S

TOOL = "query_metrics"
NUMBERS = count(1)


@dataclass
class Prometheus:
    """Broken until it is mended; then it knows no series and no alert."""

    broken: bool = True
    asked: list[str] = field(default_factory=list)

    def __call__(self, seen: Seen) -> Answer:
        path = seen.path.partition("?")[0]
        self.asked.append(path)
        if self.broken:
            return Answer(b"the disk of the time series is full", 500)
        data = {"alerts": []} if path.endswith("/alerts") else {"resultType": "matrix", "result": []}
        return Answer(json.dumps({"status": "success", "data": data}).encode())


@dataclass(frozen=True)
class World:
    site: Site
    prometheus: Prometheus

    def ended_run(self) -> dict[str, Any]:
        """One more alert's run. It asks Prometheus for metrics once, if it may."""
        alert = alert_of("pool-exhausted", f"00000000000b{next(NUMBERS):04d}")
        return self.site.api.ended(self.site.api.start(alert))

    def break_and_open(self) -> dict[str, Any]:
        """Runs over the broken source until its circuit opens; the last of them."""
        self.prometheus.broken = True
        for _ in range(BREAKER_FAILURES):
            run = self.ended_run()
        self.wait_for(lambda: self.left_alone(), "the circuit to open")
        return run

    def left_alone(self) -> list[str]:
        answer = self.site.api.get("/readyz")
        return list(answer.json()["toolsLeftAlone"])

    def metric(self, name: str) -> float | None:
        """A sample of the tool's, as the web process tells it for all processes."""
        families = text_string_to_metric_families(self.site.api.get("/metrics").text)
        samples = (sample for family in families for sample in family.samples)
        return next((each.value for each in samples if each.name == name and each.labels == {"tool": TOOL}), None)

    @staticmethod
    def wait_for(condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, prometheus = tmp_path_factory.mktemp("breaker") / "var", Prometheus()
    logs = str(Path(evidence_of("pool-exhausted")) / "logs")
    with (
        serve(prometheus) as server,
        recovery_site(folder, PROMETHEUS_URL=server.url, SUPERBIZ_LOG_DIR=logs) as site,
    ):
        yield World(site, prometheus)


def call_of(trace: dict[str, Any]) -> dict[str, Any]:
    (call,) = [call for call in trace["toolInvocations"] if call["toolName"] == TOOL]
    return dict(call)


def test_a_source_that_fails_is_left_alone_until_it_may_be_back(world: World) -> None:
    api, site = world.site.api, world.site
    failed = call_of(site.check_ended_once(world.break_and_open()))
    assert (failed["status"], failed["success"]) == ("FAILED", False)
    assert "500" in failed["errorMessage"]

    # Everyone can see it, and nothing is less ready for it.
    assert TOOL in world.left_alone()
    assert api.get("/readyz").status_code == 200
    assert world.metric("tool_breaker_state") == 2
    assert world.metric("tool_breaker_opened_total") == 1
    assert not world.metric("tool_breaker_refused_total")

    # A run that comes now goes on without the source, asks it nothing, and says why.
    asked = len(world.prometheus.asked)
    run = world.ended_run()
    trace = site.check_ended_once(run)
    assert len(world.prometheus.asked) == asked
    refused = call_of(trace)
    assert (refused["status"], refused["errorCode"]) == ("REJECTED", "BREAKER_OPEN")
    assert "failed repeatedly" in refused["errorMessage"]
    assert any(each.get("errorCode") == "BREAKER_OPEN" for each in details_of(trace, "TOOL_INVOCATION"))
    assert world.metric("tool_breaker_refused_total") == 1
    assert run["outcome"] == "SUCCESS"
    limitations = run["publishedResult"]["limitations"]
    assert any(each.startswith(f"{TOOL} was not asked") for each in limitations), limitations

    # The source is mended. After the cool-down one run asks it, and the circuit is closed.
    world.prometheus.broken = False
    world.wait_for(lambda: TOOL not in world.left_alone(), "the cool-down to be over")
    assert world.metric("tool_breaker_state") == 1
    answered = call_of(site.check_ended_once(world.ended_run()))
    assert answered["status"] == "NO_EVIDENCE"
    assert world.metric("tool_breaker_state") == 0
    assert world.metric("tool_breaker_opened_total") == 1


def test_a_worker_that_died_takes_its_gauges_along_and_leaves_its_counts(world: World) -> None:
    opened = world.metric("tool_breaker_opened_total") or 0
    world.break_and_open()
    assert world.metric("tool_breaker_state") == 2

    os.kill(world.site.pid_of(WORKER), signal.SIGKILL)

    # The circuit was that worker's; the next one knows nothing of it.
    world.wait_for(lambda: world.metric("tool_breaker_state") is None, "the dead worker's gauge to go")
    assert world.metric("tool_breaker_opened_total") == opened + 1
    world.wait_for(lambda: not world.left_alone(), "the dead worker's word to be forgotten")
    world.site.wait_until_ready()
    assert call_of(world.site.check_ended_once(world.ended_run()))["errorCode"] != "BREAKER_OPEN"
