"""Figures over all runs that are filtered: how many, how long, how many tokens, and their outcomes over time.

Two statements under one time limit: what would take longer is told as such. Rehearsals are left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.db.models import Aggregate, Count, DateTimeField, F, Func, Max, Min, QuerySet, Value
from django.utils.translation import gettext_lazy as _

from audit.pages import attention
from audit.pages.listaddress import Address
from audit.timelimit import time_limit
from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.models.run import RunOutcome
from runs.pages.words import STATUS_WORDS, Words
from runs.selection import chosen

LIMIT_MS = 1_500
BARS = 48
WIDTH, HEIGHT = 960, 80
_STEPS = (
    *(timedelta(minutes=n) for n in (1, 5, 15, 30)),
    *(timedelta(hours=n) for n in (1, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 14, 28, 91, 182, 364)),
)
_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)
"""A Monday: bars of a week begin on Mondays, those of a day at midnight UTC."""
OPEN = "OPEN"
STACK = (RunOutcome.SUCCESS, RunOutcome.DEGRADED, RunOutcome.FAILED, RunOutcome.CANCELLED, OPEN)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 95th percentile of what ended; None where nothing did."""

    p50: int | None
    p95: int | None


@dataclass(frozen=True, slots=True)
class Piece:
    """One outcome within a bar: the rectangle in the chart's own units."""

    outcome: str
    count: int
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True)
class Bar:
    """`counts` in the order of `STACK`. `query`: the list of these runs alone."""

    begins: datetime
    ends: datetime
    counts: tuple[int, ...]
    pieces: tuple[Piece, ...]
    query: str = ""

    @property
    def total(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Chart:
    """`step`: the time that a bar stands for. `tallest`: runs in the fullest bar."""

    bars: tuple[Bar, ...]
    step: timedelta
    tallest: int

    @property
    def legend(self) -> tuple[tuple[str, Words], ...]:
        words: dict[str, Words] = {**STATUS_WORDS, OPEN: _("Open")}
        return tuple((str(name), words[name]) for name in STACK)

    @property
    def begins(self) -> datetime:
        return self.bars[0].begins

    @property
    def ends(self) -> datetime:
        return self.bars[-1].ends

    @property
    def filled(self) -> tuple[Bar, ...]:
        return tuple(bar for bar in self.bars if bar.total)


@dataclass(frozen=True, slots=True)
class Figures:
    """`chart` None: there is no run to draw."""

    count: int
    took_ms: Spread
    tokens: Spread
    chart: Chart | None


class _Percentile(Aggregate):
    function = "percentile_disc"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"


def figures(caller: Caller, address: Address) -> Figures:
    """Raises `TookTooLong`."""
    runs = chosen(visible_runs(caller), address.selection).filter(rehearsal__isnull=True)
    if address.attention:
        runs = attention.ended_badly(runs)
    with time_limit(LIMIT_MS):
        return _figures(runs, address)


def _figures(runs: QuerySet[DiagnosisRun], address: Address) -> Figures:
    shares = {
        f"{column}_{name}": _Percentile(column, share=share)
        for column in ("took_ms", "total_tokens")
        for name, share in (("p50", 0.5), ("p95", 0.95))
    }
    sums = runs.aggregate(count=Count("id"), first=Min("queued_at"), last=Max("queued_at"), **shares)
    return Figures(
        count=sums["count"],
        took_ms=Spread(sums["took_ms_p50"], sums["took_ms_p95"]),
        tokens=Spread(sums["total_tokens_p50"], sums["total_tokens_p95"]),
        chart=_linked(_chart(runs, sums["first"], sums["last"]), address) if sums["count"] else None,
    )


# ---- the chart --------------------------------------------------------------------------------------------------


def step_for(span: timedelta) -> timedelta:
    """The smallest round step that needs at most `BARS` bars."""
    return next((step for step in _STEPS if span / step <= BARS - 1), _STEPS[-1] * (1 + span // (_STEPS[-1] * BARS)))


def floor(moment: datetime, step: timedelta) -> datetime:
    return moment - (moment - _EPOCH) % step


def _linked(chart: Chart, address: Address) -> Chart:
    def query(bar: Bar) -> str:
        return address.query("last", since=bar.begins.isoformat(), until=bar.ends.isoformat())

    return replace(chart, bars=tuple(replace(bar, query=query(bar)) for bar in chart.bars))


def _bin(step: timedelta) -> Func:
    return Func(Value(step), F("queued_at"), Value(_EPOCH), function="date_bin", output_field=DateTimeField())


def _chart(runs: QuerySet[DiagnosisRun], first: datetime, last: datetime) -> Chart:
    step = step_for(last - first)
    found = runs.annotate(bar=_bin(step)).values_list("bar", "outcome").annotate(runs=Count("id")).order_by("bar")
    return draw(found, floor(first, step), last, step)


def draw(found: Iterable[tuple[datetime, str | None, int]], begin: datetime, last: datetime, step: timedelta) -> Chart:
    """`found`: bar's begin, outcome or None for open runs, count. Bars without a run are drawn as gaps."""
    counts: dict[datetime, dict[str, int]] = {}
    for at, outcome, number in found:
        counts.setdefault(at, {})[outcome or OPEN] = number
    begins = []
    while begin <= last:
        begins.append(begin)
        begin += step
    counts = {at: counts[at] for at in begins if at in counts}
    tallest = max((sum(each.values()) for each in counts.values()), default=0)
    width = WIDTH / max(1, len(begins))
    bars = tuple(_bar(at, step, counts.get(at, {}), n * width, width, tallest) for n, at in enumerate(begins))
    return Chart(bars, step, tallest)


def _bar(begins: datetime, step: timedelta, counts: dict[str, int], x: float, width: float, tallest: int) -> Bar:
    pieces, y = [], float(HEIGHT)
    for outcome in STACK:
        number = counts.get(outcome, 0)
        if number:
            height = number / tallest * HEIGHT
            y -= height
            pieces.append(
                Piece(str(outcome), number, *(f"{each:.2f}" for each in (x + width * 0.1, y, width * 0.8, height)))
            )
    return Bar(begins, begins + step, tuple(counts.get(outcome, 0) for outcome in STACK), tuple(pieces))
