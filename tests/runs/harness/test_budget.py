"""What a run may still spend: who may make one more call, and what is kept back for whom."""

from dataclasses import dataclass

import pytest

from runs.errors import BudgetExhausted
from runs.harness.budget import CONCLUDING_ROLES, Budget
from runs.harness.ports import Role
from runs.harness.run import Limits, Spent

LIMITS = Limits(max_model_calls=10, max_tokens=1_000, deadline_s=100, reserved_model_calls=2)
SEARCHING = Role.AIOPS_EXECUTOR
CONCLUDING = Role.CHAT_VERIFIER


@dataclass(frozen=True)
class Case:
    name: str
    role: Role
    model_calls: int = 0
    tokens: int = 0
    concluding_tokens: int = 0
    elapsed: float = 0
    ends: str | None = None


CASES = [
    Case("fresh, searching", SEARCHING),
    Case("fresh, concluding", CONCLUDING),
    Case("last searching call", SEARCHING, model_calls=7),
    Case("no searching call left", SEARCHING, model_calls=8, ends="model_calls"),
    Case("the reserve of calls", CONCLUDING, model_calls=9),
    Case("no call left at all", CONCLUDING, model_calls=10, ends="model_calls"),
    Case("tokens below the reserve", SEARCHING, tokens=899),
    Case("tokens into the reserve", SEARCHING, tokens=900, ends="tokens"),
    Case("the reserve of tokens", CONCLUDING, tokens=999),
    Case("search went far over its tokens", CONCLUDING, tokens=5_000),
    Case("the reserve was used too", CONCLUDING, tokens=1_000, concluding_tokens=100, ends="tokens"),
    Case("more than the reserve, but within the whole", CONCLUDING, tokens=800, concluding_tokens=300),
    Case("before the soft mark", SEARCHING, elapsed=69.9),
    Case("at the soft mark", SEARCHING, elapsed=70, ends="deadline"),
    Case("concluding after the soft mark", CONCLUDING, elapsed=99.9),
    Case("at the deadline", CONCLUDING, elapsed=100, ends="deadline"),
    Case("calls are told first", SEARCHING, model_calls=8, tokens=900, elapsed=70, ends="model_calls"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_who_may_make_one_more_call(case: Case) -> None:
    budget = Budget(
        LIMITS,
        started=50,
        model_calls=case.model_calls,
        input_tokens=case.tokens,
        concluding_tokens=case.concluding_tokens,
    )
    ended = None
    try:
        budget.check_model_call(case.role, now=50 + case.elapsed)
    except BudgetExhausted as error:
        ended = error.budget
    assert ended == case.ends


def test_only_verifier_and_composer_draw_on_the_reserve() -> None:
    assert {Role.CHAT_VERIFIER, Role.CHAT_COMPOSER} == CONCLUDING_ROLES


def test_earlier_attempts_are_spent_already() -> None:
    spent = Spent(model_calls=3, tool_calls=4, input_tokens=50, output_tokens=6)
    budget = Budget.begin(LIMITS, spent, now=10, elapsed_before=30)
    assert (budget.model_calls, budget.tool_calls, budget.tokens) == (3, 4, 56)
    assert budget.elapsed(now=15) == 35
    assert budget.searching_calls_left() == 5


def test_tokens_are_counted_for_who_used_them() -> None:
    budget = Budget(LIMITS, started=0)
    budget.count(SEARCHING, 10, 1)
    budget.count(CONCLUDING, 20, 2)
    assert (budget.tokens, budget.input_tokens, budget.output_tokens, budget.concluding_tokens) == (33, 30, 3, 22)


@pytest.mark.parametrize(
    ("model_calls", "tokens", "elapsed", "concludes"),
    [
        (0, 0, 0, False),
        (6, 799, 59, False),
        (7, 0, 0, True),
        (0, 800, 0, True),
        (0, 0, 59.5, True),
        (99, 0, 0, True),
    ],
)
def test_a_search_concludes_while_one_more_call_is_sure(
    model_calls: int, tokens: int, elapsed: float, concludes: bool
) -> None:
    budget = Budget(LIMITS, started=0, model_calls=model_calls, output_tokens=tokens)
    assert budget.must_conclude(now=elapsed) is concludes
    if concludes and model_calls < 8:
        budget.check_model_call(SEARCHING, now=elapsed)


@pytest.mark.parametrize(("role", "left"), [(SEARCHING, 30.0), (CONCLUDING, 60.0)])
def test_time_is_left_until_the_mark_that_holds_for_the_role(role: Role, left: float) -> None:
    assert Budget(LIMITS, started=0).seconds_left(role, now=40) == pytest.approx(left)


@pytest.mark.parametrize(
    ("budget", "usage"), [("model_calls", (10, 9)), ("tokens", (1_000, 950)), ("deadline", (100, 70))]
)
def test_usage_is_told_in_the_budgets_own_unit(budget: str, usage: tuple[int, int]) -> None:
    spent = Budget(LIMITS, started=0, model_calls=9, input_tokens=900, output_tokens=50)
    assert spent.usage_of(budget, now=70.4) == usage
