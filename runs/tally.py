"""The counters of a run, written so that no retry counts twice.

The attempt that holds the lease is the only writer of what it spends and emits. It writes absolute values: what
earlier starts had spent, known from its claim, plus its own. A write whose answer was lost is simply made again.

Column `diagnosis_run.emitted`: counts of what was emitted, `{"1": {…}, "2": {…}, "others": {…}}`, each of the shape of
`Emitted`. A number is a start of the run (one after a shutdown is a start too, though of the same attempt), written by
that start alone. `others` counts the frames of transitions (cancel request, recovery, end): it grows in the guarded
UPDATE that makes the transition, and that succeeds once.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

from django.db.models import F, Func, JSONField

from runs.harness.run import Emitted, Spending

OTHERS = "others"
NAMES = tuple(asdict(Emitted()))


@dataclass(frozen=True, slots=True)
class Tally:
    """The counters as one start of a run knows them. `spent`: over all starts; `emitted`: by this one."""

    start: int
    spent: Spending = field(default_factory=Spending)
    emitted: Emitted = field(default_factory=Emitted)

    def and_spent(self, more: Spending) -> "Tally":
        return replace(self, spent=spending_sum(self.spent, more))

    def and_emitted(self, more: Emitted) -> "Tally":
        return replace(self, emitted=emitted_sum(self.emitted, more))


def emitted_sum(left: Emitted, right: Emitted) -> Emitted:
    return Emitted(*(a + b for a, b in zip(astuple(left), astuple(right), strict=True)))


def spending_sum(left: Spending, right: Spending) -> Spending:
    """Cost stays None until one is known."""
    costs = [cost for cost in (left.cost_usd, right.cost_usd) if cost is not None]
    return Spending(
        model_calls=left.model_calls + right.model_calls,
        tool_calls=left.tool_calls + right.tool_calls,
        input_tokens=left.input_tokens + right.input_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        cost_usd=sum(costs) if costs else None,
    )


# ---- the column `emitted` -------------------------------------------------------------------------------------


def total(column: Mapping[str, Mapping[str, int]]) -> Emitted:
    """All that was emitted of a run, whoever did."""
    return Emitted(**{name: sum(counts.get(name, 0) for counts in column.values()) for name in NAMES})


def of_start(column: Mapping[str, Mapping[str, int]], start: int) -> Emitted:
    return Emitted(**column.get(str(start), {}))


def starts(column: Mapping[str, Any]) -> int:
    """How often the run was started."""
    return max((int(key) for key in column if key != OTHERS), default=0)


_NEXT_START = (
    "%(expressions)s || jsonb_build_object("
    "(1 + (SELECT count(*) FROM jsonb_object_keys(%(expressions)s) AS key WHERE key <> 'others'))::text, '{}'::jsonb)"
)
_MORE_BY_OTHERS = (
    "%(expressions)s || jsonb_build_object('others', COALESCE(%(expressions)s -> 'others', '{}'::jsonb)"
    " || jsonb_build_object('events', COALESCE((%(expressions)s #>> '{others,events}')::bigint, 0) + %(frames)s))"
)
_OF_START = "%(expressions)s || jsonb_build_object('%(start)s', '%(counts)s'::jsonb)"


def next_start() -> Func:
    """An expression for the column: one more start, which has emitted nothing yet."""
    return Func(F("emitted"), template=_NEXT_START, output_field=JSONField())


def emitted_column(tally: Tally | None, frames_by_others: int = 0) -> Func | F:
    """An expression for the column: this start's counts, and so many frames more of transitions."""
    column: Func | F = F("emitted")
    if frames_by_others:
        column = Func(column, template=_MORE_BY_OTHERS, frames=frames_by_others, output_field=JSONField())
    if tally is not None:
        counts = json.dumps(asdict(tally.emitted))
        column = Func(column, template=_OF_START, start=tally.start, counts=counts, output_field=JSONField())
    return column


def columns(tally: Tally) -> dict[str, Any]:
    """The columns that a start writes, by name."""
    return {**asdict(tally.spent), "emitted": emitted_column(tally)}
