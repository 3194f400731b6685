"""A budget that ends: the run still gates, verifies and releases what it has, and says which budget it was."""

from dataclasses import dataclass, replace

import pytest

from runs.errors import ModelUnavailable
from runs.harness.events import EventType
from runs.harness.pipeline import drive
from runs.harness.ports import Role, Usage
from runs.harness.run import Limits, Spent
from runs.llm.scripted import fail, say
from tests.runs.harness.world import (
    COMPOSER,
    EXECUTOR,
    LOOK,
    SUPERVISOR,
    VERIFIER,
    Moves,
    World,
    calls,
    claim,
    draft,
    drafts,
    finish_when_allowed,
    honest,
    limits,
    pool_claim,
    supports_all,
    world,
)

GO_ON: dict[Role, Moves] = {SUPERVISOR: [say(SUPERVISOR, {"next": "EXECUTE", "reason": "more"})]}


@dataclass(frozen=True)
class End:
    budget: str
    limits: Limits
    seconds_a_call: float = 0


ENDS = [
    # Supervisor, executor twice, and no call left for the supervisor's second word.
    End("model_calls", limits(max_model_calls=5)),
    # 120 tokens a call, 90 % of 400 may be used for searching.
    End("tokens", limits(max_tokens=400)),
    # 20 s a call, and 70 % of 85 s may be used for searching.
    End("deadline", limits(deadline_s=85), seconds_a_call=20),
]


def ended(told: World) -> list[str]:
    return [frame.details.model_dump()["budget"] for frame in told.said.of(EventType.BUDGET_EXHAUSTED)]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.budget)
async def test_the_run_judges_and_releases_what_it_has(end: End) -> None:
    short = say(VERIFIER, supports_all, usage=Usage(20, 5))
    told, brain = world(moves=GO_ON | {VERIFIER: [short]}, limits=end.limits, seconds_a_call=end.seconds_a_call)
    conclusion = await told.drive()
    assert ended(told) == [end.budget]
    (frame,) = told.said.of(EventType.BUDGET_EXHAUSTED)
    assert end.budget.replace("_", " ") in frame.summary
    assert conclusion.status == "SUCCESS"
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1", "c2"]
    name = end.budget.replace("_", " ")
    assert f"The search ended early: The run's {name} budget ended." in conclusion.published.limitations
    assert len(brain.asked(VERIFIER)) == len(brain.asked(COMPOSER)) == 1


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.budget)
async def test_a_budget_that_ends_before_a_draft_withholds_and_says_so(end: End) -> None:
    never_drafts = [calls(("query_logs", {"text": f"checkout-api{'' if n == 0 else n}"})) for n in range(9)]
    told, brain = world(never_drafts, moves=GO_ON, limits=end.limits, seconds_a_call=end.seconds_a_call)
    conclusion = await told.drive()
    assert ended(told) == [end.budget]
    assert (conclusion.status, conclusion.release_decision) == ("DEGRADED", "WITHHELD")
    assert end.budget in conclusion.safe_content.reason
    assert brain.asked(VERIFIER) == []


async def test_a_model_is_told_to_conclude_before_its_last_call() -> None:
    told, brain = world(
        [calls(*LOOK), *[calls(("query_logs", {"text": word})) for word in ("ERROR", "WARN", "leak")], drafts(honest)],
        limits=limits(max_model_calls=6),
        moves=GO_ON,
    )
    conclusion = await told.drive()
    assert [bool(request.tools) for request in brain.asked(EXECUTOR)] == [True, True, False]
    assert "the budget is nearly used up" in str(brain.asked(EXECUTOR)[-1].messages[-1])
    assert conclusion.status == "DEGRADED"


async def test_a_repair_without_budget_keeps_what_stood_and_says_so() -> None:
    told, brain = world(
        [calls(*LOOK), drafts(lambda r: draft(pool_claim(r), claim("f1", "It is so.")))],
        limits=limits(max_model_calls=8),
    )
    conclusion = await told.drive()
    assert len(brain.asked(EXECUTOR)) == 2
    assert ended(told) == ["model_calls"]
    assert conclusion.published is not None
    assert conclusion.published.confidence == "LOW"
    assert "There was no budget left to repair citations." in conclusion.published.limitations


async def test_a_verifier_without_budget_leaves_the_claims_low() -> None:
    told, brain = world(limits=limits(max_model_calls=7, reserved_model_calls=0))
    conclusion = await told.drive()
    assert brain.asked(VERIFIER)
    assert brain.asked(COMPOSER) == []
    assert conclusion.published is not None
    assert "The report was put together without the composer: the budget had ended." in conclusion.published.limitations

    told, brain = world(limits=limits(max_model_calls=6, reserved_model_calls=0))
    conclusion = await told.drive()
    assert brain.asked(VERIFIER) == []
    assert conclusion.published is not None
    assert conclusion.published.confidence == "LOW"
    assert "The semantic check of the claims did not run: the budget had ended." in conclusion.published.limitations


async def test_a_budget_is_told_once_whoever_meets_its_end() -> None:
    told, _ = world(limits=limits(max_model_calls=4, reserved_model_calls=0))
    await told.drive()
    assert ended(told) == ["model_calls"]


async def test_earlier_attempts_count() -> None:
    told, _ = world(moves=GO_ON, limits=limits(max_model_calls=24), spent=Spent(model_calls=19))
    conclusion = await told.drive()
    assert ended(told) == ["model_calls"]
    assert conclusion.status == "SUCCESS"


async def test_a_run_that_starts_at_the_end_of_its_budget_still_ends_properly() -> None:
    told, brain = world(limits=limits(max_model_calls=24), spent=Spent(model_calls=24))
    conclusion = await told.drive()
    assert brain.requests == []
    assert (conclusion.status, conclusion.safe_content.looked_at) == ("DEGRADED", [])
    assert told.said.frames[-1].event_type is EventType.RELEASE_DECISION


async def test_the_time_kept_for_judging_is_not_spent_on_waiting_for_a_searching_call() -> None:
    """The model would answer only after the soft mark: its call is given up there, not at the model's time limit."""
    told, _ = world(
        [calls(*LOOK), drafts(honest), drafts(honest, delay_s=2)],
        moves=GO_ON,
        limits=limits(deadline_s=100, soft_deadline_share=0.0005, model_timeout_s=3600),
    )

    class RealTime:
        """Moves the run's clock past the soft mark once the slow call has been given up."""

        def monotonic(self) -> float:
            gave_up = any(call.status == "TIMEOUT" for call in told.said.model_calls)
            told.clock.passed = 1.0 if gave_up else told.clock.passed
            return told.clock.monotonic()

        now, sleep = told.clock.now, told.clock.sleep

    conclusion = await drive(told.run(), replace(told.kit(), clock=RealTime()))
    assert [call.status for call in told.said.model_calls].count("TIMEOUT") == 1
    assert ended(told) == ["deadline"]
    assert conclusion.published is not None


async def test_a_wait_beyond_the_soft_mark_ends_the_search_at_once() -> None:
    busy = ModelUnavailable("Busy.", error_code="RATE_LIMITED", retry_after=30)
    told, _ = world(
        moves={SUPERVISOR: [*[say(SUPERVISOR, finish_when_allowed)] * 2, fail(SUPERVISOR, busy)]},
        limits=limits(deadline_s=100),
        seconds_a_call=8,
    )
    conclusion = await told.drive()
    assert told.clock.slept == []
    assert ended(told) == ["deadline"]
    assert conclusion.status == "SUCCESS"


async def test_tool_calls_beyond_the_runs_number_are_refused_and_the_report_says_so() -> None:
    told, _ = world([calls(*LOOK, ("query_logs", {"text": "leak"})), drafts(honest)], limits=limits(max_tool_calls=2))
    conclusion = await told.drive()
    assert [record.error_code for record in told.said.invocations] == [None, None, "TOOL_BUDGET"]
    assert conclusion.published is not None
    assert "The run's 2 tool calls were used up." in conclusion.published.limitations


async def test_what_the_server_does_not_count_is_unknown_not_zero() -> None:
    told, _ = world([calls(*LOOK, usage=None), drafts(honest, usage=Usage(7, 3))])
    await told.drive()
    mine = [call for call in told.said.model_calls if call.role == "aiops_executor"]
    assert [(call.input_tokens, call.output_tokens, call.cost_usd) for call in mine] == [
        (None, None, None),
        (7, 3, None),
    ]
