"""What a supervisor may choose, and what happens to a choice it may not make."""

from dataclasses import dataclass

import pytest

from runs.harness import context
from runs.harness.context import RunContext
from runs.harness.convergence import Stop
from runs.harness.executor import Executor
from runs.harness.supervision import Progress, allowed_choices, bound
from runs.harness.toolbox import Toolbox
from runs.harness.wire import Plan
from tests.runs.harness.test_aiopsrules import invocation
from tests.runs.harness.world import EXECUTOR, limits, world

PLANNED = Plan(focus="", steps=[])
ENOUGH = 5


def fresh(*, tried: bool = False) -> RunContext:
    told, _ = world(limits=limits(max_rounds=3))
    ctx = context.begin(told.run(), told.kit())
    if tried:
        ctx.keep(invocation("inv_log"))
    return ctx


@dataclass(frozen=True)
class Case:
    name: str
    progress: Progress
    tried: bool
    rounds_left: int
    allowed: list[str]


CASES = [
    Case("at the start", Progress(), False, ENOUGH, ["PLAN", "EXECUTE"]),
    Case("with a plan", Progress(plan=PLANNED, plans=1, last="PLAN"), False, ENOUGH, ["EXECUTE"]),
    Case("after a broken plan", Progress(plans=1, last="PLAN"), False, ENOUGH, ["EXECUTE"]),
    Case(
        "after a first look",
        Progress(plan=PLANNED, plans=1, executions=1, last="EXECUTE"),
        True,
        ENOUGH,
        ["FINISH", "EXECUTE", "PLAN"],
    ),
    Case("a look without a tool", Progress(executions=1, last="EXECUTE"), False, ENOUGH, ["PLAN", "EXECUTE"]),
    Case(
        "no third plan",
        Progress(plan=PLANNED, plans=2, executions=1, last="EXECUTE"),
        True,
        ENOUGH,
        ["FINISH", "EXECUTE"],
    ),
    Case("no plan without a round to carry it out", Progress(), False, 1, ["EXECUTE"]),
    Case("looks used up", Progress(plan=PLANNED, plans=1, executions=3, last="EXECUTE"), True, ENOUGH, ["FINISH"]),
    Case("looks used up without a tool", Progress(plans=2, executions=3, last="EXECUTE"), False, ENOUGH, ["EXECUTE"]),
    Case("last round", Progress(executions=1, last="EXECUTE"), True, 0, ["FINISH"]),
    Case("last round without a tool", Progress(executions=1, last="EXECUTE"), False, 0, ["EXECUTE"]),
    Case("tool tried but no draft yet", Progress(plan=PLANNED, plans=1, last="PLAN"), True, ENOUGH, ["EXECUTE"]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_may_be_chosen(case: Case) -> None:
    assert allowed_choices(fresh(tried=case.tried), case.progress, case.rounds_left) == case.allowed


def executor(*, stopped: bool = False) -> Executor:
    ctx = fresh()
    made = Executor(ctx, EXECUTOR, Toolbox.of(ctx), ())
    made.stopped = Stop("CYCLE", 2) if stopped else None
    return made


BOUND = [
    ("allowed", "EXECUTE", ["PLAN", "EXECUTE"], False, "EXECUTE", None),
    ("finish too soon", "FINISH", ["PLAN", "EXECUTE"], False, "PLAN", "no evidence tool was tried yet"),
    ("plan again", "PLAN", ["EXECUTE"], False, "EXECUTE", "not open in this round"),
    ("rounds used up", "EXECUTE", ["FINISH"], False, "FINISH", "the rounds are used up"),
    ("broken answer", None, ["PLAN", "EXECUTE"], False, "PLAN", "the answer was outside its contract"),
    ("broken answer late", None, ["FINISH", "EXECUTE"], False, "FINISH", "the answer was outside its contract"),
    ("stopped", "EXECUTE", ["FINISH", "EXECUTE"], True, "FINISH", "the search had stopped converging"),
    ("stopped and finished", "FINISH", ["FINISH", "EXECUTE"], True, "FINISH", None),
    ("stopped before any tool", "EXECUTE", ["EXECUTE"], True, "EXECUTE", None),
]


@pytest.mark.parametrize(
    ("name", "proposed", "allowed", "stopped", "decided", "because"), BOUND, ids=[name for name, *_ in BOUND]
)
def test_a_choice_is_bounded_and_the_reason_told(
    name: str, proposed: str | None, allowed: list[str], stopped: bool, decided: str, because: str | None
) -> None:
    assert bound(proposed, allowed, executor(stopped=stopped)) == (decided, because)


@pytest.mark.parametrize(
    ("stops", "violation", "deaf"),
    [(0, None, False), (0, "prose", False), (1, None, False), (1, "prose", True), (2, None, True)],
)
def test_an_executor_that_does_not_listen_is_offered_no_more_tools(
    stops: int, violation: str | None, deaf: bool
) -> None:
    made = executor()
    made.stops, made.violation = stops, violation
    assert made.deaf is deaf
