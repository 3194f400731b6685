"""`query_metrics`: a PromQL range query against Prometheus' HTTP API (POST /api/v1/query_range)."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.types import EvidenceRef, EvidenceStatus, SourceKind
from runs.errors import ToolFailed, ToolRejected
from runs.harness.ports import ToolContext, ToolResult
from runs.tools.evidence import cut, no_evidence, preview_of
from runs.tools.http import Server
from runs.tools.redaction import clean
from runs.tools.series import (
    Sample,
    Series,
    finite,
    format_number,
    json_number,
    levels_before,
    points,
    ranked,
    summarise,
)
from runs.tools.timewindow import Window, parse_duration, resolve_window

DEFAULT_WINDOW = timedelta(minutes=30)
LONGEST_WINDOW = timedelta(days=31)
MAX_SERIES = 20
MAX_STEPS = 5_000
WANTED_STEPS = 60
NICE_STEPS_S = (15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
MAX_WARNINGS, WARNING_CHARS = 5, 300


class MetricsQuery(BaseModel):
    """Evaluate a PromQL expression over a window."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str = Field(
        min_length=1,
        max_length=4000,
        description=(
            'PromQL. A bare selector such as {service="checkout"} returns every metric with these labels: use it to '
            "discover names, then ask for rates or ratios."
        ),
    )
    start: str | None = Field(
        None, max_length=60, description="Begin of the window: ISO 8601 (UTC), or relative such as -30m. Default: -30m."
    )
    end: str | None = Field(
        None, max_length=60, description="End of the window: ISO 8601 (UTC), relative, or now. Default: now."
    )
    step: str | None = Field(
        None, max_length=20, description="Resolution such as 30s or 1m. Default: about 60 points over the window."
    )


class QueryMetrics:
    """The tool. Asks for the window and for as long before it, so that a change can be told from a habit."""

    name = "query_metrics"
    description = (
        "Query Prometheus with PromQL over a time window. Each series comes with one sentence that states its last "
        "value, how it moved, its extremes and what was usual before the window; those that changed most come first."
    )
    arguments: type[BaseModel] = MetricsQuery
    source_kind = SourceKind.TELEMETRY

    def __init__(self, server: Server) -> None:
        self._server = server

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        query: MetricsQuery = arguments
        window = resolve_window(query.start, query.end, context.now, default=DEFAULT_WINDOW, longest=LONGEST_WINDOW)
        step_s = step_seconds(query.step, window)
        # Whole steps back from the start, so that samples fall on the same moments with or without the time before.
        before_s = step_s * math.floor(window.seconds / step_s)
        answer = await self._server.post_form(
            "/api/v1/query_range",
            [
                ("query", query.query),
                ("start", _seconds(window.start.timestamp() - before_s)),
                ("end", _seconds(window.end.timestamp())),
                ("step", _seconds(step_s)),
            ],
        )
        found = read_matrix(answer, window, step_s, self._server.title)
        return _result(query.query, window, step_s, found, _warnings(answer))


def step_seconds(asked: str | None, window: Window) -> float:
    """The resolution in seconds. Raises `ToolRejected` for one that would give too many points."""
    if asked is None:
        wanted = window.seconds / WANTED_STEPS
        return float(next((step for step in NICE_STEPS_S if step >= wanted), NICE_STEPS_S[-1]))
    step = parse_duration(asked).total_seconds()
    if window.seconds / step > MAX_STEPS:
        raise ToolRejected(
            f"A step of {asked.strip()} over this window gives more than {MAX_STEPS} points; use a longer step.",
            error_code="BAD_STEP",
        )
    return step


def read_matrix(answer: Any, window: Window, step_s: float, title: str) -> list[Series]:
    """The series of a `query_range` answer that have samples in the window. Raises `ToolFailed` for another shape."""
    try:
        if answer["status"] != "success" or answer["data"]["resultType"] != "matrix":
            raise ValueError("not a matrix")
        rows = [_series(row, window, step_s) for row in answer["data"]["result"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ToolFailed(f"{title} answered in a form that is not Prometheus' own.", error_code="BAD_ANSWER") from error
    return [row for row in rows if row.inside]


def _series(row: Mapping[str, Any], window: Window, step_s: float) -> Series:
    metric = {clean(str(key)): clean(str(value)) for key, value in row["metric"].items()}
    samples: list[Sample] = [(float(moment), float(value)) for moment, value in row.get("values", ())]
    begin = window.start.timestamp()
    return Series(
        metric=metric,
        window=window,
        step_s=step_s,
        before=tuple(sample for sample in samples if sample[0] < begin),
        inside=tuple(sample for sample in samples if sample[0] >= begin),
    )


def _result(query: str, window: Window, step_s: float, found: list[Series], warnings: list[str]) -> ToolResult:
    output: dict[str, Any] = {
        "query": clean(query),
        "window": window.as_json(),
        "step_s": json_number(step_s),
        "series": [],
        "series_total": len(found),
    }
    if warnings:
        output["warnings"] = warnings
    if not found:
        asked = f"{query} from {window} (step {format_number(step_s)}s)"
        text = f"query_metrics found no series for {asked}: the answer held 0 series."
        return no_evidence(text, output=output, details={"series_total": 0})
    shown = ranked(found)[:MAX_SERIES]
    usual = levels_before(found)
    output["series"] = [_row(series, usual[series.metric_name]) for series in shown]
    summaries = [row["summary"] for row in output["series"]]
    return ToolResult(
        status=EvidenceStatus.OK,
        output=output,
        evidence_refs=tuple(EvidenceRef(f"$.series[{i}].summary", text) for i, text in enumerate(summaries)),
        preview=preview_of(summaries),
        details={"series_total": len(found), "series_returned": len(shown)},
    )


def _row(series: Series, siblings_before: list[float]) -> dict[str, Any]:
    values = [value for _, value in finite(series.inside)]
    row: dict[str, Any] = {"metric": dict(series.metric), "summary": summarise(series, siblings_before)}
    if values:
        mean = math.fsum(values) / len(values)
        numbers = (values[0], values[-1], min(values), max(values), float(f"{mean:.6g}"))
        row |= dict(zip(("first", "last", "min", "max", "mean"), map(json_number, numbers), strict=True))
    else:
        row |= dict.fromkeys(("first", "last", "min", "max", "mean"))
    return {**row, "points": points(series.inside)}


def _warnings(answer: Any) -> list[str]:
    texts = [*answer.get("warnings", ()), *answer.get("infos", ())]
    return [cut(clean(str(text)), WARNING_CHARS) for text in texts[:MAX_WARNINGS]]


def _seconds(moment: float) -> str:
    return f"{moment:.3f}"
