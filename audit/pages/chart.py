"""Series of a metric as small charts: where the lines go, in the units of the drawing. The numbers stand beside it.

Each series has a scale of its own, from its lowest to its highest value: series of one answer are often of quite
different things, and their own movement is what is looked for.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from audit.trace import Invocation
from runs.pages.hostile import one_line, seen

TOOL = "query_metrics"
MOST_SERIES = 20
MOST_POINTS = 200
WIDTH, HEIGHT, MARGIN = 600, 100, 6


@dataclass(frozen=True, slots=True)
class Point:
    """`value`: with all the digits on record."""

    at: datetime
    value: str


@dataclass(frozen=True, slots=True)
class SeriesChart:
    """One series. `lines`: SVG points of each unbroken stretch; `dots`: stretches of a single sample, as (x, y).

    `cited_by`: ids of the published claims that cite its summary.
    """

    name: str
    summary: str
    lines: tuple[str, ...]
    dots: tuple[tuple[str, str], ...]
    low: str
    high: str
    last: str
    points: tuple[Point, ...]
    cited_by: tuple[str, ...]

    @property
    def first_at(self) -> datetime | None:
        return self.points[0].at if self.points else None

    @property
    def last_at(self) -> datetime | None:
        return self.points[-1].at if self.points else None


@dataclass(frozen=True, slots=True)
class Chart:
    """`cited` first: what the answer rests on. `left_out`: series that are not drawn."""

    cited: tuple[SeriesChart, ...]
    others: tuple[SeriesChart, ...]
    left_out: int


def chart_of(invocation: Invocation, cited: Mapping[str, Sequence[str]]) -> Chart | None:
    """None where there is nothing to draw. `cited`: claim ids by the path that they cite."""
    output = invocation.output
    if invocation.tool_name != TOOL or not isinstance(output, dict) or not isinstance(output.get("series"), list):
        return None
    drawn: list[SeriesChart] = []
    for index, row in enumerate(output["series"][: 2 * MOST_SERIES]):
        if isinstance(row, dict):
            drawn.append(_series(row, tuple(cited.get(f"$.series[{index}].summary", ()))))
    drawn = [series for series in drawn if series.points]
    if not drawn:
        return None
    first = tuple(series for series in drawn if series.cited_by)
    others = tuple(series for series in drawn if not series.cited_by)[: max(0, MOST_SERIES - len(first))]
    return Chart(first, others, len(output["series"]) - len(first) - len(others))


def _series(row: Mapping[str, Any], cited_by: tuple[str, ...]) -> SeriesChart:
    samples = list(_samples(row.get("points")))
    numbers = [value for _at, value, _text in samples if value is not None]
    stretches = list(_stretches(samples))
    texts = {value: text for _at, value, text in samples if value is not None}
    return SeriesChart(
        name=_name(row.get("metric")),
        summary=seen(str(row.get("summary", ""))[:2_000]),
        lines=tuple(" ".join(f"{x},{y}" for x, y in stretch) for stretch in stretches if len(stretch) > 1),
        dots=tuple(stretch[0] for stretch in stretches if len(stretch) == 1),
        low=texts[min(numbers)] if numbers else "–",
        high=texts[max(numbers)] if numbers else "–",
        last=samples[-1][2] if samples else "–",
        points=tuple(Point(datetime.fromtimestamp(at, UTC), text) for at, _value, text in samples),
        cited_by=cited_by,
    )


def _name(metric: Any) -> str:
    if not isinstance(metric, dict):
        return ""
    labels = ", ".join(f"{key}={value}" for key, value in sorted(metric.items()) if key != "__name__")
    return one_line(f"{metric.get('__name__', '')} {labels}".strip(), 300)


def _samples(points: Any) -> Iterable[tuple[float, float | None, str]]:
    """Unix seconds, the value (None: no number to draw), and the value as it is on record."""
    for point in points[:MOST_POINTS] if isinstance(points, list) else ():
        if not (isinstance(point, list) and len(point) == 2 and _finite(point[0])):
            continue
        value = float(point[1]) if _finite(point[1]) else None
        yield float(point[0]), value, seen(point[1]) if isinstance(point[1], str) else json.dumps(point[1])


def _finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and abs(value) < 1e300
    except OverflowError:
        return False


def _stretches(samples: Sequence[tuple[float, float | None, str]]) -> Iterable[list[tuple[str, str]]]:
    """Places of the samples in the drawing, broken where there is no number."""
    numbers = [value for _at, value, _text in samples if value is not None]
    if not numbers:
        return
    begin, end, low, high = samples[0][0], samples[-1][0], min(numbers), max(numbers)
    stretch: list[tuple[str, str]] = []
    for at, value, _text in samples:
        if value is None:
            if stretch:
                yield stretch
            stretch = []
            continue
        x = MARGIN + (WIDTH - 2 * MARGIN) * ((at - begin) / (end - begin) if end > begin else 0.5)
        y = MARGIN + (HEIGHT - 2 * MARGIN) * (1 - ((value - low) / (high - low) if high > low else 0.5))
        stretch.append((f"{x:.1f}", f"{y:.1f}"))
    if stretch:
        yield stretch
