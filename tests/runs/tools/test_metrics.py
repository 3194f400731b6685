import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from gatekeeper.types import EvidenceStatus
from runs.errors import ToolFailed, ToolRejected
from runs.tools.http import Server
from runs.tools.metrics import MAX_SERIES, QueryMetrics, step_seconds
from runs.tools.timewindow import resolve_window
from tests.runs.tools.context import NOW, call
from tests.runs.tools.http_server import Answer, Seen, serve

BEGIN = NOW.timestamp() - 1800


def matrix(*series: dict[str, Any], **more: Any) -> bytes:
    data = {"resultType": "matrix", "result": list(series)}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def values(before: list[str], inside: list[str]) -> list[list[Any]]:
    return [[BEGIN - 30 * (len(before) - i), v] for i, v in enumerate(before)] + [
        [BEGIN + 30 * i, v] for i, v in enumerate(inside)
    ]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as opened:
        yield opened


def tool(url: str, client: httpx.AsyncClient) -> QueryMetrics:
    return QueryMetrics(Server("Prometheus", url, client, 10))


async def test_the_window_is_asked_for_with_as_long_before_it(client: httpx.AsyncClient) -> None:
    with serve(lambda seen: Answer(matrix())) as running:
        await call(tool(running.url, client), query="up", start="-30m")
    form = dict(httpx.QueryParams(running.seen[0].body))
    assert running.seen[0].path == "/api/v1/query_range"
    assert form == {"query": "up", "start": f"{BEGIN - 1800:.3f}", "end": f"{NOW.timestamp():.3f}", "step": "30.000"}


async def test_series_come_with_numbers_points_and_a_sentence(client: httpx.AsyncClient) -> None:
    body = matrix(
        {"metric": {"__name__": "flat"}, "values": values(["1"] * 5, ["1"] * 61)},
        {
            "metric": {"__name__": "pool", "url": "redis://:s3cret@h"},
            "values": values(["4"] * 5, ["4"] * 30 + ["10"] * 31),
        },
        {"metric": {"__name__": "over"}, "values": values(["4"] * 5, [])},
        {"metric": {"__name__": "odd"}, "values": values([], ["NaN"] * 60 + ["+Inf"])},
        {"metric": {"__name__": "histogram"}, "histograms": []},
        warnings=["scrape of http://u:s3cret@h failed", "w" * 900],
    )
    with serve(lambda seen: Answer(body)) as running:
        result = await call(tool(running.url, client), query='{job="x"}')
    assert result.status is EvidenceStatus.OK
    assert [row["metric"]["__name__"] for row in result.output["series"]] == ["pool", "flat", "odd"]
    pool = result.output["series"][0]
    assert (pool["first"], pool["last"], pool["min"], pool["max"]) == (4, 10, 4, 10)
    assert pool["mean"] == pytest.approx(7.049, abs=0.01)
    assert len(pool["points"]) <= 60
    assert pool["points"][-1] == [NOW.timestamp(), 10]
    assert "s3cret" not in json.dumps(result.output)
    assert result.output["series"][2]["points"][-1][1] == "+Inf"
    assert result.output["series"][2]["last"] is None
    assert result.output["series_total"] == 3
    assert all(len(text) < 330 for text in result.output["warnings"])


async def test_many_series_are_cut_and_counted(client: httpx.AsyncClient) -> None:
    body = matrix(*({"metric": {"n": str(i)}, "values": values([], ["1", "2"])} for i in range(50)))
    with serve(lambda seen: Answer(body)) as running:
        result = await call(tool(running.url, client), query="x")
    assert len(result.output["series"]) == len(result.evidence_refs) == MAX_SERIES
    assert result.output["series_total"] == 50


async def test_no_series_is_no_evidence_with_query_window_and_step(client: httpx.AsyncClient) -> None:
    with serve(lambda seen: Answer(matrix())) as running:
        result = await call(tool(running.url, client), query='up{job="x"}', start="-10m", step="1m")
    assert result.evidence_refs[0].text == (
        'query_metrics found no series for up{job="x"} from 2026-11-12T10:00:00Z to 2026-11-12T10:10:00Z (step 60s): '
        "the answer held 0 series."
    )


async def test_bad_promql_is_the_models_to_correct(client: httpx.AsyncClient) -> None:
    def refuse(seen: Seen) -> Answer:
        return Answer(json.dumps({"status": "error", "error": '1:3: parse error: unexpected "}"'}).encode(), 400)

    with serve(refuse) as running, pytest.raises(ToolRejected) as error:
        await call(tool(running.url, client), query="up}")
    assert "parse error" in error.value.safe_message


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"status": "success"}',
        b'{"status": "error", "error": "x"}',
        b'{"status": "success", "data": {"resultType": "vector", "result": []}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [["x", "y"]]}]}}',
    ],
)
async def test_another_shape_is_a_failure_not_an_absence(client: httpx.AsyncClient, body: bytes) -> None:
    with serve(lambda seen: Answer(body)) as running, pytest.raises(ToolFailed) as error:
        await call(tool(running.url, client), query="up")
    assert error.value.error_code == "BAD_ANSWER"


@pytest.mark.parametrize(
    ("start", "asked", "seconds"),
    [("-10m", None, 15), ("-1h", None, 60), ("-24h", None, 1800), ("-31d", None, 86_400), ("-1h", "10s", 10)],
)
def test_the_step_fits_the_window(start: str, asked: str | None, seconds: float) -> None:
    window = resolve_window(start, None, NOW, default=timedelta(hours=1))
    assert step_seconds(asked, window) == seconds


async def test_a_step_too_fine_for_the_window_is_refused(client: httpx.AsyncClient) -> None:
    with pytest.raises(ToolRejected) as error:
        await call(tool("http://127.0.0.1:9", client), query="up", start="-24h", step="1s")
    assert error.value.error_code == "BAD_STEP"
