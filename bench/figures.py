"""What a benchmark line is: a figure with its unit and aim, compared with the committed baseline."""

import json
from dataclasses import dataclass
from pathlib import Path

BASELINE = Path(__file__).with_name("baseline.json")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line. `aim` is a bound in `unit`; `higher_is_better` says on which side. None: no aim, for orientation."""

    name: str
    value: float
    unit: str
    aim: float | None = None
    higher_is_better: bool = False

    @property
    def meets_aim(self) -> bool | None:
        if self.aim is None:
            return None
        return self.value >= self.aim if self.higher_is_better else self.value <= self.aim

    def against(self, baseline: float | None) -> float | None:
        """Ratio to the baseline; above 1 means worse, whichever side is better."""
        if not baseline or not self.value:
            return None
        return baseline / self.value if self.higher_is_better else self.value / baseline


def read_baseline() -> dict[str, float]:
    if not BASELINE.exists():
        return {}
    values: dict[str, float] = json.loads(BASELINE.read_text())
    return values


def write_baseline(figures: list[Figure]) -> None:
    """Keeps lines that were not measured this time."""
    values = read_baseline() | {figure.name: round(figure.value, 4) for figure in figures}
    BASELINE.write_text(json.dumps(dict(sorted(values.items())), indent=2) + "\n")
