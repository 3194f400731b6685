"""From a real Prometheus' rule, through a real Alertmanager's webhook, to a released diagnosis and back to quiet."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.outside import HOOK, Outside, check_record, event_types, verify_ledger
from tests.servers.exporter import Exporter
from tests.superbiz.instance import PATIENCE_S, Instance, free_port, running, with_tables

GAUGE = "orders_waiting"
EVENTS_OF_A_RELEASED_RUN = {
    "RUN_STARTED",
    "ROUTING_DECISION",
    "AGENT_MODEL_STEP",
    "SUPERVISION_DECISION",
    "TOOL_INVOCATION",
    "EVIDENCE_GUARD_INITIAL",
    "SEMANTIC_GUARD_DECISION",
    "AIOPS_RULE_EVALUATION",
    "RELEASE_DECISION",
    "RUN_FINISHED",
}


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed; on Debian: apt-get install {name}"
    return found


@contextmanager
def serving(ready_url: str, *words: str, log: Path) -> Iterator[None]:
    """A program for the block's duration, from when it says that it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: process.poll() is not None or answers(ready_url), f"{words[0]} to be ready")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


@dataclass(frozen=True)
class World:
    """Everything that runs: ours, theirs, and the program that is watched."""

    instance: Instance
    api: Outside
    exporter: Exporter
    prometheus_url: str
    alertmanager_url: str


def alertmanager_config(hook: str, token: str) -> dict[str, Any]:
    """Written as JSON, which is YAML too."""
    send = {"url": hook, "send_resolved": True}
    send["http_config"] = {"authorization": {"type": "Bearer", "credentials": token}}
    quick = {"group_wait": "100ms", "group_interval": "1s", "repeat_interval": "1h", "group_by": ["alertname"]}
    return {
        "route": {"receiver": "superbiz", **quick},
        "receivers": [{"name": "superbiz", "webhook_configs": [send]}],
    }


def prometheus_config(own: str, exporter: str, alertmanager: str) -> dict[str, Any]:
    def job(name: str, target: str, **labels: str) -> dict[str, Any]:
        return {"job_name": name, "static_configs": [{"targets": [target], "labels": labels}]}

    return {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [job("prometheus", own), job("order-desk", exporter, service="order-desk")],
    }


RULES = {
    "groups": [
        {
            "name": "orders",
            "rules": [
                {
                    "alert": "OrdersPileUp",
                    "expr": f"{GAUGE} > 100",
                    "for": "0s",
                    "labels": {"severity": "critical"},
                    "annotations": {"summary": "Orders wait at {{ $labels.service }} and nobody takes them"},
                }
            ],
        }
    ]
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    prometheus, alertmanager = program("prometheus"), program("prometheus-alertmanager")
    at_prometheus, at_alertmanager = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    instance = with_tables(folder / "var")
    with ExitStack() as stack:
        urls = {"PROMETHEUS_URL": f"http://{at_prometheus}", "ALERTMANAGER_URL": f"http://{at_alertmanager}"}
        up = stack.enter_context(running(instance, **urls))
        up.sign_in_link()
        made = instance.manage("create_token", "alertmanager", "--scope", "alerts:write", "--scope", "runs:read")
        assert made.returncode == 0, made.stderr
        token = made.stdout.strip()
        exporter = stack.enter_context(Exporter(GAUGE, 3))
        (folder / "alertmanager.yml").write_text(json.dumps(alertmanager_config(instance.url + HOOK, token)))
        (folder / "prometheus.yml").write_text(
            json.dumps(prometheus_config(at_prometheus, exporter.address, at_alertmanager))
        )
        (folder / "rules.yml").write_text(json.dumps(RULES))
        stack.enter_context(
            serving(
                f"http://{at_alertmanager}/-/ready",
                alertmanager,
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'alertmanager'}",
                f"--web.listen-address={at_alertmanager}",
                "--cluster.listen-address=",
                log=folder / "alertmanager.log",
            )
        )
        stack.enter_context(
            serving(
                f"http://{at_prometheus}/-/ready",
                prometheus,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={at_prometheus}",
                log=folder / "prometheus.log",
            )
        )
        yield World(instance, Outside(instance.url, token), exporter, *urls.values())


@pytest.fixture(scope="module")
def run(world: World) -> dict[str, Any]:
    """The run that the rule's alert started, ended. The gauge stood low for a while, then rose."""
    query = {"query": f"count_over_time({GAUGE}[1m])"}

    def samples() -> bool:
        found = httpx.get(f"{world.prometheus_url}/api/v1/query", params=query).json()["data"]["result"]
        return bool(found) and int(found[0]["value"][1]) >= 3

    wait_for(samples, "Prometheus to scrape")
    world.exporter.value = 950
    started = wait_for(lambda: world.api.found("/api/runs", alertName="OrdersPileUp")["items"], "the alert's run")
    assert len(started) == 1
    return world.api.ended(started[0]["runId"])


def test_the_alert_ends_in_a_report_that_cites_the_metrics(world: World, run: dict[str, Any]) -> None:
    assert (run["trigger"], run["status"], run["outcome"]) == ("ALERT", "SUCCESS", "SUCCESS")
    cited = [evidence for claim in run["publishedResult"]["claims"] for evidence in claim["evidence"]]
    by_metrics = [evidence for evidence in cited if evidence["toolName"] == "query_metrics"]
    assert any(GAUGE in each["evidenceExcerpt"] or "950" in each["evidenceExcerpt"] for each in by_metrics), cited


def test_each_excerpt_stands_in_the_record_of_its_call(world: World, run: dict[str, Any]) -> None:
    calls = {call["invocationId"]: call for call in world.api.trace(run)["toolInvocations"]}
    for claim in run["publishedResult"]["claims"]:
        for evidence in claim["evidence"]:
            call = calls[evidence["sourceInvocationId"]]
            assert call["toolName"] == evidence["toolName"]
            texts = {ref["rawPath"]: ref["text"] for ref in call["retrievalDetails"]["evidenceRefs"]}
            said, seen = evidence["evidenceExcerpt"], texts[evidence["rawPath"]]
            assert "".join(said.split()) in "".join(seen.split())


def test_the_record_is_whole(world: World, run: dict[str, Any]) -> None:
    trace = world.api.trace(run)
    check_record(trace)
    assert set(event_types(trace)) >= EVENTS_OF_A_RELEASED_RUN
    assert event_types(trace)[0] == "RUN_STARTED"
    verify_ledger(world.instance, run["runId"])


def test_an_alert_that_is_over_closes_its_row_and_starts_no_run(world: World, run: dict[str, Any]) -> None:
    world.exporter.value = 3
    look = "from runs.models import Alert; print([row.status for row in Alert.objects.all()])"
    closed = wait_for(
        lambda: "RESOLVED" in (said := world.instance.manage("shell", "-c", look).stdout) and said,
        "the alert to be closed",
    )
    assert closed.splitlines()[-1] == "['RESOLVED']"
    assert [item["runId"] for item in world.api.found("/api/runs")["items"]] == [run["runId"]]
