"""Recorded evidence, served to the live tools through an HTTP transport in this process.

A folder holds `meta.json` (`{"recorded_at"}`), `logs/`, `metrics.json` (`{"series": [{"metric", "values":
[[unix_s, "v"], …]}], "answers": [{"query", "result": […]}]}`) and `alerts.json` (what Alertmanager's
`GET /api/v2/alerts` returned). `series` are raw samples, read with any selector; `answers` are results of
other expressions, found by their text. Any further expression is refused as Prometheus refuses one.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import AwareDatetime, BaseModel, ValidationError

from runs.errors import ConfigurationError
from runs.tools.selectors import NoSelector, parse_selector, selects

BASE_URL = "http://recorded.invalid"
LOOKBACK_S = 300.0
MAX_STEPS = 11_000
LISTED_QUERIES = 5


Shape = TypeVar("Shape", bound=BaseModel)


class RecordedSeries(BaseModel):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class RecordedAnswer(BaseModel):
    query: str
    result: list[RecordedSeries]


class RecordedMetrics(BaseModel):
    series: list[RecordedSeries] = []
    answers: list[RecordedAnswer] = []


class _Meta(BaseModel):
    recorded_at: AwareDatetime


class _AlertStatus(BaseModel, extra="allow"):
    state: str


class _Alert(BaseModel, extra="allow"):
    labels: dict[str, str]
    status: _AlertStatus


@dataclass(frozen=True, slots=True)
class Recording:
    """What a folder holds. `metrics` and `alerts` are None where their files are missing; so is `logs`."""

    recorded_at: datetime
    logs: Path | None
    metrics: RecordedMetrics | None
    alerts: list[dict[str, Any]] | None


def load_recording(folder: Path) -> Recording:
    """Raises `ConfigurationError` naming the file that is missing or wrong."""
    metrics, alerts, logs = folder / "metrics.json", folder / "alerts.json", folder / "logs"
    return Recording(
        recorded_at=recorded_now(folder),
        logs=logs if logs.is_dir() else None,
        metrics=_read(metrics, RecordedMetrics) if metrics.is_file() else None,
        alerts=_alerts(alerts) if alerts.is_file() else None,
    )


def recorded_now(folder: Path) -> datetime:
    """The moment the evidence was recorded at, UTC. Raises `ConfigurationError`."""
    return _read(folder / "meta.json", _Meta).recorded_at.astimezone(UTC)


def _alerts(path: Path) -> list[dict[str, Any]]:
    rows = _json(path)
    if not isinstance(rows, list):
        raise ConfigurationError(f"{path.name} of the recorded evidence must be a list of alerts.")
    try:
        return [_Alert.model_validate(row).model_dump() for row in rows]
    except ValidationError as error:
        raise ConfigurationError(
            f"{path.name} of the recorded evidence has an alert without labels or state."
        ) from error


def _read(path: Path, shape: type[Shape]) -> Shape:
    try:
        return shape.model_validate(_json(path))
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"]) or "its top"
        raise ConfigurationError(f"{path.name} of the recorded evidence is wrong at {where}.") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path.name} of the recorded evidence cannot be read.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path.name} of the recorded evidence is not valid JSON.") from error


class RecordedTransport(httpx.AsyncBaseTransport):
    """Answers `/api/v1/query_range` and `/api/v2/alerts` as the servers do, from a recording."""

    def __init__(self, recording: Recording) -> None:
        self._metrics = recording.metrics or RecordedMetrics()
        self._alerts = recording.alerts or []
        self._answers = {_normal(answer.query): answer.result for answer in self._metrics.answers}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        form = httpx.QueryParams((await request.aread()).decode() or request.url.query.decode())
        if request.url.path == "/api/v1/query_range":
            return self._query_range(form)
        if request.url.path == "/api/v2/alerts":
            return httpx.Response(200, json=self._active(form))
        return httpx.Response(404, json={"status": "error", "error": "recorded evidence has no such endpoint"})

    def _query_range(self, form: httpx.QueryParams) -> httpx.Response:
        try:
            start, end, step = float(form["start"]), float(form["end"]), float(form["step"])
        except (KeyError, ValueError):
            return _refusal(400, "start, end and step must be numbers of seconds")
        if step <= 0 or end < start or (end - start) / step > MAX_STEPS:
            return _refusal(400, "the window or the step is not usable")
        try:
            series = self._select(form.get("query", ""))
        except NoSelector as error:
            return _refusal(422, self._what_there_is(str(error)))
        rows = [(one.metric, _stepped(one.values, start, end, step)) for one in series]
        result = [{"metric": metric, "values": values} for metric, values in rows if values]
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": result}})

    def _select(self, query: str) -> Iterable[RecordedSeries]:
        recorded = self._answers.get(_normal(query))
        if recorded is not None:
            return recorded
        matchers = parse_selector(query)
        return [one for one in self._metrics.series if selects(matchers, one.metric)]

    def _what_there_is(self, reason: str) -> str:
        queries = [answer.query for answer in self._metrics.answers]
        listed = "; ".join(" ".join(query.split()) for query in queries[:LISTED_QUERIES])
        return (
            f'{reason}: recorded evidence answers only selectors such as {{service="name"}} and the recorded queries'
            f" ({len(queries)}{f', among them: {listed}' if listed else ''})"
        )

    def _active(self, form: httpx.QueryParams) -> list[dict[str, Any]]:
        if form.get("silenced") == "false" or form.get("inhibited") == "false":
            return [alert for alert in self._alerts if alert["status"]["state"] != "suppressed"]
        return self._alerts


def _refusal(status: int, sentence: str) -> httpx.Response:
    kind = "bad_data" if status == httpx.codes.BAD_REQUEST else "execution"
    return httpx.Response(status, json={"status": "error", "errorType": kind, "error": sentence})


_AROUND_SIGNS = re.compile(r"\s*([^\w\s])\s*")


def _normal(query: str) -> str:
    """The expression with white space left only where it separates words."""
    return _AROUND_SIGNS.sub(r"\1", " ".join(query.split()))


def _stepped(values: list[tuple[float, str]], start: float, end: float, step: float) -> list[list[Any]]:
    """At each step the newest sample not older than `LOOKBACK_S`, as Prometheus' range queries do."""
    moments = [moment for moment, _ in values]
    rows: list[list[Any]] = []
    for number in range(int((end - start) / step) + 1):
        moment = start + number * step
        at = bisect_right(moments, moment) - 1
        if at >= 0 and moment - moments[at] < LOOKBACK_S:
            rows.append([round(moment, 3), values[at][1]])
    return rows


def client_of(recording: Recording) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=RecordedTransport(recording), trust_env=False)
