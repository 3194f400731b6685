import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gatekeeper.types import EvidenceStatus
from runs.errors import ConfigurationError, ToolRejected
from runs.harness.ports import Tool, ToolContext
from runs.tools.recorded import load_recording, recorded_now
from runs.tools.registry import Sources, build_registry
from tests.runs.tools.context import NOW, call, context

T = int(NOW.timestamp())
EXPRESSION = 'sum(rate(errors_total{service="api"}[5m]))  /\n  sum(rate(all_total[5m])) > 0.05'
ALERT: dict[str, Any] = {
    "labels": {"alertname": "Errors", "severity": "critical"},
    "annotations": {},
    "startsAt": "2026-11-12T10:00:00Z",
    "status": {"state": "active", "inhibitedBy": [], "silencedBy": []},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    metrics = {
        "series": [
            {"metric": {"__name__": "up", "service": "api"}, "values": [[T - 1200 + 30 * i, "1"] for i in range(41)]},
            {"metric": {"__name__": "load", "service": "api"}, "values": [[T - 1200, "5"], [T - 600, "7"]]},
            {"metric": {"__name__": "up", "service": "web"}, "values": [[T - 7200, "1"]]},
        ],
        "answers": [{"query": EXPRESSION, "result": [{"metric": {}, "values": [[T - 60, "0.09"], [T, "0.1"]]}]}],
    }
    quiet = {**ALERT, "labels": {"alertname": "Quiet"}, "status": {"state": "suppressed"}}
    (tmp_path / "meta.json").write_text('{"recorded_at": "2026-11-12T11:10:00+01:00"}')
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "alerts.json").write_text(json.dumps([ALERT, quiet]))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "api.log").write_text("2026-11-12T10:00:00Z ERROR boom\n")
    return tmp_path


def tool(folder: Path, name: str) -> Tool:
    found = build_registry(Sources(recorded_evidence=folder), None).get(name)
    assert found is not None
    return found


def test_the_recorded_moment_is_the_reference_time(folder: Path) -> None:
    assert recorded_now(folder) == datetime(2026, 11, 12, 10, 10, 0, tzinfo=UTC)


async def test_a_selector_reads_the_recorded_samples_step_by_step(folder: Path) -> None:
    result = await call(tool(folder, "query_metrics"), query='{service=~"api|web"}', start="-15m", step="1m")
    series = {row["metric"]["__name__"]: row for row in result.output["series"]}
    assert set(series) == {"up", "load"}  # the samples of web are too old for the window
    assert len(series["up"]["points"]) == 16
    # A sample is good for five minutes, as in Prometheus: nothing until 10:00, then 7 until 10:04.
    assert [value for _, value in series["load"]["points"]] == [7] * 5
    assert series["load"]["points"][0][0] == T - 600


async def test_a_recorded_query_is_found_whatever_its_white_space(folder: Path) -> None:
    query = 'sum( rate(errors_total{service = "api"}[5m]) ) / sum(rate(all_total[5m]))>0.05'
    result = await call(tool(folder, "query_metrics"), query=query, start="-15m", step="30s")
    assert result.output["series"][0]["last"] == 0.1


async def test_any_other_expression_is_refused_with_what_there_is(folder: Path) -> None:
    with pytest.raises(ToolRejected) as error:
        await call(tool(folder, "query_metrics"), query="rate(up[5m])")
    assert "recorded evidence answers only selectors" in error.value.safe_message
    assert "errors_total" in error.value.safe_message


async def test_a_window_without_samples_is_no_evidence(folder: Path) -> None:
    result = await call(tool(folder, "query_metrics"), query="up", start="-10h", end="-9h")
    assert result.status is EvidenceStatus.NO_EVIDENCE


async def test_suppressed_alerts_are_left_out(folder: Path) -> None:
    result = await call(tool(folder, "query_alerts"))
    assert [row["alertname"] for row in result.output["alerts"]] == ["Errors"]


async def test_logs_are_read_from_the_recording(folder: Path) -> None:
    assert (await call(tool(folder, "query_logs"), level="ERROR")).output["matched"] == 1


def test_only_what_was_recorded_has_a_tool(folder: Path) -> None:
    (folder / "alerts.json").unlink()
    (folder / "metrics.json").unlink()
    sources = Sources(recorded_evidence=folder, prometheus_url="http://live:9090", log_dir=folder)
    assert build_registry(sources, None).names == ("get_current_time", "query_logs")


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("meta.json", "", "meta.json"),
        ("meta.json", "{}", "recorded_at"),
        ("meta.json", '{"recorded_at": "2026-11-12T10:00:00"}', "recorded_at"),
        ("metrics.json", '{"series": [{"metric": {}}]}', "series.0.values"),
        ("alerts.json", "{}", "alerts.json"),
        ("alerts.json", '[{"labels": {}}]', "alerts.json"),
    ],
)
def test_a_wrong_recording_names_its_file(folder: Path, file: str, content: str, told: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(ConfigurationError) as error:
        load_recording(folder)
    assert told in error.value.safe_message
    assert str(folder) not in error.value.safe_message


INCIDENTS = sorted((Path(__file__).parents[3] / "eval" / "incidents").iterdir())


@pytest.mark.parametrize("incident", INCIDENTS, ids=[path.name for path in INCIDENTS])
async def test_every_tool_answers_from_the_bundled_incidents(incident: Path) -> None:
    evidence = incident / "evidence"
    alert = json.loads((incident / "alert.json").read_text(encoding="utf-8"))["alerts"][0]["labels"]
    recorded = json.loads((evidence / "metrics.json").read_text(encoding="utf-8"))["answers"]
    within: ToolContext = context(now=recorded_now(evidence))
    service = alert["service"]
    logs = await call(tool(evidence, "query_logs"), within=within, service=service)
    metrics = await call(tool(evidence, "query_metrics"), within=within, query=f'{{service="{service}"}}')
    alerts = await call(tool(evidence, "query_alerts"), within=within)
    assert logs.status is metrics.status is alerts.status is EvidenceStatus.OK
    assert alert["alertname"] in {row["alertname"] for row in alerts.output["alerts"]}
    for answer in recorded:
        await call(tool(evidence, "query_metrics"), within=within, query=answer["query"])
