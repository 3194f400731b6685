"""Reading the one-sentence summary of a metric series back into numbers.

The sentence is what a model is sure to be shown (the points beside it may be cut), and what a claim can quote. Pure.
"""

import re
from dataclasses import dataclass

_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
_SELECTOR = re.compile(r'^(?P<name>[A-Za-z_:][\w:]*)?(?:\{(?P<labels>(?:[^{}"]|"(?:[^"\\]|\\.)*")*)\})?: ')
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_LAST = re.compile(rf"({_NUMBER}) at \S+ \(last\)")
_FIRST = re.compile(rf"(?:rose from|fell from|the same as) ({_NUMBER})")
_RANGE = re.compile(rf"; min ({_NUMBER}) at \S+, max ({_NUMBER}) at \S+")
_BEFORE = re.compile(rf"; before that (?:min ({_NUMBER}), max ({_NUMBER})|({_NUMBER})) between")
_SIBLINGS = re.compile(
    rf"\(other series of this name before the window: (?:min ({_NUMBER}), max ({_NUMBER})|({_NUMBER}))\)"
)
_GREW = re.compile(rf"; grew by ({_NUMBER}) ")
_GREW_BEFORE = re.compile(rf"; before that it grew by ({_NUMBER}) ")


@dataclass(frozen=True, slots=True)
class Movement:
    """`before` is (lowest, highest) before the window, of the series or else of its siblings; None where unknown.

    `grew` and `grew_before` are of counters: the increase in the window and in an equal span before.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    last: float
    first: float
    low: float
    high: float
    before: tuple[float, float] | None
    grew: float | None
    grew_before: float | None
    born: bool
    gone: bool

    @property
    def counter(self) -> bool:
        return self.grew is not None


def movement(summary: str) -> Movement | None:
    """None where the text is no such summary."""
    selector = _SELECTOR.match(summary)
    last = _LAST.search(summary)
    if selector is None or last is None:
        return None
    value = number(last[1])
    within = _RANGE.search(summary)
    first = _FIRST.search(summary)
    grew, grew_before = _GREW.search(summary), _GREW_BEFORE.search(summary)
    return Movement(
        name=selector["name"] or "",
        labels=tuple(_LABEL.findall(selector["labels"] or "")),
        last=value,
        first=number(first[1]) if first else value,
        low=number(within[1]) if within else value,
        high=number(within[2]) if within else value,
        before=_range(_BEFORE.search(summary)) or _range(_SIBLINGS.search(summary)),
        grew=number(grew[1]) if grew else None,
        grew_before=number(grew_before[1]) if grew_before else None,
        born="; no samples before " in summary,
        gone="; no samples after " in summary,
    )


def number(text: str) -> float:
    return float(text.replace(",", ""))


def _range(found: re.Match[str] | None) -> tuple[float, float] | None:
    if found is None:
        return None
    low, high, only = found.groups()
    return (number(only), number(only)) if only is not None else (number(low), number(high))


def change(moved: Movement, *, telling: bool) -> float:
    """How far the series has left what was usual: 0 for not at all, 1 for once the usual level or spread, at most 10.

    `telling`: a series that only exists when something goes wrong, so that its appearance alone says something.
    """
    if moved.gone:
        return 0.0
    if moved.counter:
        return _growth(moved) if telling else 0.0
    usual = moved.before
    if usual is None:
        # Without a past of its own, the first sample of the window is all that is known of before.
        if moved.born:
            return 2.0 if telling and moved.high > 0 else 0.0
        usual = (moved.first, moved.first)
    low, high = usual
    spread, level = high - low, max(abs(high), abs(low))
    now = max(_beyond(moved.last, low, high), 0.7 * max(_beyond(moved.high, low, high), _beyond(moved.low, low, high)))
    if now <= 0.5 * spread or now < 0.15 * max(level, abs(moved.last)):
        return 0.0
    scale = max(level, spread)
    return min(now / scale, 10.0) if scale else 10.0


def _beyond(value: float, low: float, high: float) -> float:
    return max(value - high, low - value, 0.0)


def _growth(moved: Movement) -> float:
    grew, before = moved.grew or 0.0, moved.grew_before or 0.0
    if grew < 3 or grew <= 2 * before:
        return 0.0
    return min((grew - before) / before, 10.0) if before else 10.0
