"""What one time series did, as numbers and as one plain sentence.

The sentence is what a claim can quote: numbers stand in it as they are. `ranked` orders series by how
much they changed inside the window relative to before it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from runs.tools.timewindow import Window, format_clock, format_time

MAX_POINTS = 60
SAME_NAME_IN_A_TURN = 2
_COUNTER_ENDINGS = ("_total", "_count", "_sum", "_bucket")
Sample = tuple[float, float]
"""Unix seconds, value."""


@dataclass(frozen=True, slots=True)
class Series:
    """Samples in time order. `before`: those of the span of equal length that ends where the window begins."""

    metric: Mapping[str, str]
    window: Window
    step_s: float
    before: tuple[Sample, ...]
    inside: tuple[Sample, ...]

    @property
    def name(self) -> str:
        labels = ",".join(f'{key}="{value}"' for key, value in sorted(self.metric.items()) if key != "__name__")
        name = self.metric_name
        return f"{name}{{{labels}}}" if labels or not name else name

    @property
    def metric_name(self) -> str:
        return self.metric.get("__name__", "")

    @property
    def counter(self) -> bool:
        return self.metric_name.endswith(_COUNTER_ENDINGS)


def format_number(value: float) -> str:
    """Plain digits: no exponent, integers without a fraction, at most four decimals (four significant below 1)."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value):
        return str(int(value))
    size = abs(value)
    decimals = 4 if size >= 1 else min(20, 3 - math.floor(math.log10(size)))
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def json_number(value: float) -> int | float | str | None:
    """For JSON, which has no NaN (null) and no infinity (a string)."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return format_number(value)
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def finite(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if math.isfinite(sample[1])]


def points(samples: Sequence[Sample]) -> list[list[int | float | str | None]]:
    """At most `MAX_POINTS` samples, evenly taken, the last one always among them."""
    stride = math.ceil(len(samples) / MAX_POINTS) or 1
    taken = samples[::-1][::stride][::-1]
    return [[json_number(moment), json_number(value)] for moment, value in taken]


def summarise(series: Series, siblings_before: Sequence[float] = ()) -> str:
    """One sentence: the last value, how it got there, the extremes, and what was usual before the window.

    `siblings_before`: what the other series of the same name were before, told for a series born in the window.
    """
    known = finite(series.inside)
    if not known:
        return f"{series.name}: no number in the window, {_strangers(series.inside)}"
    clock = _clock(series.window)
    first, last = known[0], known[-1]
    low = min(known, key=lambda sample: sample[1])
    high = max(known, key=lambda sample: sample[1])
    since = f"since {clock(first[0])}"
    text = f"{series.name}: {format_number(last[1])} at {clock(last[0])} (last)"
    if low[1] == high[1]:
        text += f", unchanged {since}"
    else:
        left = _left_from(series, known)
        text += f", {_movement(left[1], last[1])} {format_number(left[1])} at {clock(left[0])}"
        text += f"; min {format_number(low[1])} at {clock(low[0])}, max {format_number(high[1])} at {clock(high[0])}"
        text += f" {since}"
    if series.counter:
        text += f"; grew by {format_number(_growth(known))} {since}"
    text += _earlier(series, clock, siblings_before) + _gone(series, clock)
    strangers = _strangers(series.inside)
    return f"{text}; {strangers}" if strangers else text


def _left_from(series: Series, known: Sequence[Sample]) -> Sample:
    """Where the way to the last value began: the last sample that was still as usual, else the first of the window.

    Usual is what was seen before the window; for a counter, and without such samples, the window's first value.
    """
    earlier = [] if series.counter else [value for _, value in finite(series.before)]
    usual = earlier or [known[0][1]]
    values = [value for _, value in known]
    margin = 0.05 * (max(values) - min(values))
    low, high = min(usual) - margin, max(usual) + margin
    if low <= known[-1][1] <= high:
        return known[0]
    return next((sample for sample in reversed(known) if low <= sample[1] <= high), known[0])


def _movement(first: float, last: float) -> str:
    return "rose from" if last > first else "fell from" if last < first else "the same as"


def _earlier(series: Series, clock: "_ClockFormat", siblings_before: Sequence[float]) -> str:
    known = finite(series.before)
    if not known:
        return _born(series, clock, siblings_before)
    span = f"between {clock(known[0][0])} and {clock(known[-1][0])}"
    if series.counter:
        return f"; before that it grew by {format_number(_growth(known))} {span}"
    return f"; before that {_range([value for _, value in known])} {span}"


def _born(series: Series, clock: "_ClockFormat", siblings_before: Sequence[float]) -> str:
    first = series.inside[0][0]
    if first - series.window.start.timestamp() <= 2 * series.step_s:
        return ""
    text = f"; no samples before {clock(first)}"
    if siblings_before and not series.counter:
        text += f" (other series of this name before the window: {_range(siblings_before)})"
    return text


def _gone(series: Series, clock: "_ClockFormat") -> str:
    last = series.inside[-1][0]
    return f"; no samples after {clock(last)}" if series.window.end.timestamp() - last > 2 * series.step_s else ""


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return format_number(low) if low == high else f"min {format_number(low)}, max {format_number(high)}"


def _strangers(samples: Sequence[Sample]) -> str:
    """How many samples are no numbers to calculate with."""
    odd = [format_number(value) for _, value in samples if not math.isfinite(value)]
    return f"{len(odd)} of {len(samples)} samples are {' or '.join(sorted(set(odd)))}" if odd else ""


def _growth(samples: Sequence[Sample]) -> float:
    """The increase of a counter; a fall is a restart at zero, as in Prometheus' `increase` without extrapolation."""
    return sum(after - before if after >= before else after for (_, before), (_, after) in pairwise(samples))


def levels_before(found: Sequence[Series]) -> dict[str, list[float]]:
    """By metric name: the values before the window (for counters the rates a second) of all its series."""
    usual: dict[str, list[float]] = {}
    for series in found:
        usual.setdefault(series.metric_name, []).extend(_levels(series.before, series.counter))
    return usual


def ranked(found: Sequence[Series]) -> list[Series]:
    """The most telling first, with at most two of a metric name before other names had their turn.

    A series born inside the window (a new pod) is held against what was usual for its name before.
    """
    usual = levels_before(found)
    scored = sorted(((interest(series, usual[series.metric_name]), series) for series in found), key=_most_first)
    turns: dict[str, int] = {}
    placed: list[tuple[int, int, Series]] = []
    for place, (_, series) in enumerate(scored):
        turn = turns[series.metric_name] = turns.get(series.metric_name, 0) + 1
        placed.append(((turn - 1) // SAME_NAME_IN_A_TURN, place, series))
    return [series for _, _, series in sorted(placed, key=lambda entry: entry[:2])]


def interest(series: Series, siblings_before: Sequence[float] = ()) -> float:
    """How unusual the window is: the distance from what was usual before, in units of what was usual."""
    before, inside = _levels(series.before, series.counter), _levels(series.inside, series.counter)
    if not inside:
        return -1.0
    if series.metric_name.endswith("_bucket"):
        return 0.0
    usual = before or siblings_before or inside[: max(1, len(inside) // 4)]
    middle = statistics.fmean(usual)
    scale = statistics.pstdev(usual) + 0.05 * abs(middle) + 1e-9
    farthest = max(abs(value - middle) for value in inside)
    moved = abs(statistics.fmean(inside) - middle)
    return math.log1p(moved / scale) + math.log1p(farthest / scale)


def _most_first(entry: tuple[float, Series]) -> tuple[float, str]:
    return (-entry[0], entry[1].name)


def _levels(samples: Sequence[Sample], counter: bool) -> list[float]:
    known = finite(samples)
    if not counter:
        return [value for _, value in known]
    return [
        (after - before if after >= before else after) / (later - earlier)
        for (earlier, before), (later, after) in pairwise(known)
        if later > earlier
    ]


class _ClockFormat:
    """Times of day, with the date where the span needs one."""

    def __init__(self, dated: bool) -> None:
        self._dated = dated

    def __call__(self, moment: float) -> str:
        instant = datetime.fromtimestamp(moment, UTC)
        return format_time(instant.replace(microsecond=0)) if self._dated else format_clock(instant)


def _clock(window: Window) -> _ClockFormat:
    begin = window.start - (window.end - window.start)
    return _ClockFormat(begin.date() != window.end.date())
