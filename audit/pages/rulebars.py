"""How often a rule failed day by day, as bars: where they stand, in the units of the drawing."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.ruleuse import DayUse

WIDTH, HEIGHT = 600, 96
GAP = 3


@dataclass(frozen=True, slots=True)
class Bar:
    """`y` and `height` of what had effect, at the bottom, and of what had none, above it."""

    use: DayUse
    x: float
    enforced_y: float
    enforced_height: float
    shadow_y: float
    shadow_height: float


@dataclass(frozen=True, slots=True)
class Bars:
    width: int
    height: int
    bar_width: float
    most: int
    bars: tuple[Bar, ...]


def bars_of(days: Sequence[DayUse]) -> Bars:
    most = max((day.both for day in days), default=0)
    step = WIDTH / max(1, len(days))
    scale = HEIGHT / most if most else 0.0
    return Bars(
        width=WIDTH,
        height=HEIGHT,
        bar_width=round(step - GAP, 2),
        most=most,
        bars=tuple(
            Bar(
                use=day,
                x=round(place * step, 2),
                enforced_y=round(HEIGHT - day.enforced * scale, 2),
                enforced_height=round(day.enforced * scale, 2),
                shadow_y=round(HEIGHT - day.both * scale, 2),
                shadow_height=round(day.shadow * scale, 2),
            )
            for place, day in enumerate(days)
        ),
    )
