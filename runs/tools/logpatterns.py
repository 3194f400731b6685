"""Collecting matched log events in bounded memory, and choosing which of them help most.

Events are grouped by template. When more match than may be returned, each pattern's earliest line comes
first, the more severe and the rarer pattern before the others; then each pattern's second line, and so on.
What was chosen is told in time order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappush, heappushpop

from runs.tools.evidence import cut
from runs.tools.logfiles import Place
from runs.tools.loglines import Level
from runs.tools.redaction import clean
from runs.tools.timewindow import format_clock, format_time

MAX_PATTERNS = 2_000
MAX_KEPT = 4_000
SAMPLE_CHARS = 1_000
_LAST = float("inf")


@dataclass(frozen=True, slots=True)
class Kept:
    """A matched event, decoded and bounded. `order` counts the matches of the call."""

    place: Place
    time: float | None
    level: Level | None
    text: str
    order: int

    @property
    def key(self) -> tuple[float, int]:
        return (self.time if self.time is not None else _LAST, self.order)


@dataclass(slots=True)
class Pattern:
    """`earliest` is a heap of the earliest events, the latest of them on top (hence the negated keys)."""

    level: Level | None
    count: int = 0
    first: float | None = None
    last: float | None = None
    earliest: list[tuple[float, int, Kept]] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int, float]:
        return (-(self.level or 0), self.count, self.first if self.first is not None else _LAST)

    def add(self, kept: Kept, keep: int) -> int:
        """Counts the event, keeps it when it is among the `keep` earliest; returns by how many the kept ones grew."""
        self.count += 1
        moment = kept.time
        if moment is not None:
            self.first = moment if self.first is None else min(self.first, moment)
            self.last = moment if self.last is None else max(self.last, moment)
        entry = (-kept.key[0], -kept.order, kept)
        if len(self.earliest) < keep:
            heappush(self.earliest, entry)
            return 1
        heappushpop(self.earliest, entry)
        return 0

    def trim(self, keep: int) -> None:
        self.earliest = sorted(self.earliest, key=lambda entry: entry[:2])[-keep:]

    def in_time_order(self) -> list[Kept]:
        return [entry[2] for entry in sorted(self.earliest, key=lambda entry: entry[:2], reverse=True)]


class Collection:
    """The matched events of one call: all counted, at most about `MAX_KEPT` of them kept."""

    def __init__(self, limit: int) -> None:
        self.matched = 0
        self._limit = limit
        self._keep = limit
        self._kept = 0
        self._patterns: dict[str, Pattern] = {}

    def add(self, template: str, place: Place, time: float | None, level: Level | None, text: str) -> None:
        """`text` is kept as it is given: bound it before."""
        self.matched += 1
        if template not in self._patterns and len(self._patterns) >= MAX_PATTERNS:
            template = f"{level.name if level else '-'} …"
        pattern = self._patterns.setdefault(template, Pattern(level))
        self._kept += pattern.add(Kept(place, time, level, text, self.matched), self._keep)
        while self._kept > MAX_KEPT and self._keep > 1:
            self._keep = max(1, self._keep // 2)
            for other in self._patterns.values():
                other.trim(self._keep)
            self._kept = sum(len(other.earliest) for other in self._patterns.values())

    def chosen(self) -> list[Kept]:
        """At most `limit` events, in time order."""
        queues = [pattern.in_time_order() for pattern in self.patterns()]
        taken: list[Kept] = []
        for turn in range(max(map(len, queues), default=0)):
            taken += [queue[turn] for queue in queues if turn < len(queue)][: self._limit - len(taken)]
        return sorted(taken, key=lambda kept: kept.key)

    def patterns(self) -> list[Pattern]:
        """The more severe and the rarer first."""
        return sorted(self._patterns.values(), key=lambda pattern: pattern.rank)


def pattern_rows(patterns: Iterable[Pattern]) -> list[dict[str, object]]:
    return [
        {
            "count": pattern.count,
            "first": time_text(pattern.first),
            "last": time_text(pattern.last),
            "level": pattern.level.name if pattern.level else None,
            "text": f"{_how_often(pattern)}: {cut(clean(pattern.in_time_order()[0].text), SAMPLE_CHARS)}",
        }
        for pattern in patterns
    ]


def time_text(moment: float | None) -> str | None:
    return None if moment is None else format_time(datetime.fromtimestamp(moment, UTC))


def _how_often(pattern: Pattern) -> str:
    lines = "1 line" if pattern.count == 1 else f"{pattern.count} lines"
    if pattern.first is None or pattern.last is None:
        return f"{lines} like this, undated"
    first, last = (datetime.fromtimestamp(moment, UTC) for moment in (pattern.first, pattern.last))
    show = format_clock if first.date() == last.date() else format_time
    when = f"at {show(first)}" if show(first) == show(last) else f"between {show(first)} and {show(last)}"
    return f"{lines} like this {when}"
