"""Model calls of a run: retries on the clock, each attempt on record, and which failures end a run."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from runs.errors import ModelContractViolated, ModelError, ModelRefused, ModelUnavailable
from runs.harness.events import EventType
from runs.harness.ports import Role, Usage
from runs.llm.scripted import ScriptedModel, Step, fail, say
from tests.runs.harness.world import (
    COMPOSER,
    EXECUTOR,
    LOOK,
    PLANNER,
    SUPERVISOR,
    VERIFIER,
    Moves,
    World,
    calls,
    drafts,
    finish_when_allowed,
    honest,
    limits,
    says_the_claims,
    supports_all,
    world,
)


def busy(**more: Any) -> ModelUnavailable:
    return ModelUnavailable("The language model is busy.", error_code="RATE_LIMITED", **more)


def verified_after(*failures: Exception) -> dict[Role, Moves]:
    return {VERIFIER: [*(fail(VERIFIER, error) for error in failures), say(VERIFIER, supports_all)]}


def of_role(told: World, role: Role) -> list[tuple[int, str, str | None]]:
    return [(c.attempt, c.status, c.error_code) for c in told.said.model_calls if c.role == role.value]


async def test_a_passing_failure_is_tried_again_with_growing_waits_and_every_attempt_is_on_record() -> None:
    told, _ = world(moves=verified_after(busy(), busy(), busy()))
    conclusion = await told.drive()
    assert of_role(told, VERIFIER) == [
        (1, "ERROR", "RATE_LIMITED"),
        (2, "ERROR", "RATE_LIMITED"),
        (3, "ERROR", "RATE_LIMITED"),
        (4, "OK", None),
    ]
    for wait, base in zip(told.clock.slept, (0.5, 1.0, 2.0), strict=True):
        assert base <= wait < base * 1.5
    assert conclusion.verdict == "PASS"
    step = told.said.of(EventType.AGENT_MODEL_STEP)[-3]
    assert (step.status, step.details.model_dump()["attempts"]) == ("COMPLETED", 4)
    assert len({call.step_id for call in told.said.model_calls if call.role == VERIFIER.value}) == 1
    assert sum(spending.model_calls for spending in told.said.spent) == len(told.said.model_calls)


@pytest.mark.parametrize("seconds", [0.0, 3.0, 45.0])
async def test_a_server_that_says_when_is_waited_for(seconds: float) -> None:
    told, _ = world(moves=verified_after(busy(retry_after=seconds)))
    conclusion = await told.drive()
    (wait,) = told.clock.slept
    assert seconds <= wait <= seconds * 1.5
    assert conclusion.verdict == "PASS"


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    told, _ = world(moves=verified_after(busy(retry_after=3_600)))
    with pytest.raises(ModelUnavailable):
        await told.drive()
    assert told.clock.slept == []


async def test_it_is_given_up_after_the_last_attempt() -> None:
    told, _ = world(moves={PLANNER: [fail(PLANNER, busy())]}, limits=limits(max_model_attempts=3))
    with pytest.raises(ModelUnavailable):
        await told.drive()
    assert len(of_role(told, PLANNER)) == 3
    assert told.said.closed_steps[-1].status == "FAILED"
    assert told.said.of(EventType.AGENT_MODEL_STEP)[-1].details.model_dump()["error_code"] == "RATE_LIMITED"


AT_ONCE: Sequence[ModelError] = (
    ModelRefused("The key is not accepted.", error_code="UNAUTHORIZED"),
    ModelUnavailable("No such model.", error_code="NOT_FOUND", transient=False),
)


@pytest.mark.parametrize("error", AT_ONCE, ids=lambda error: error.error_code)
@pytest.mark.parametrize("role", [SUPERVISOR, PLANNER, EXECUTOR, VERIFIER])
async def test_a_lasting_failure_is_raised_at_once(role: Role, error: ModelError) -> None:
    told, _ = world(moves={role: [fail(role, error)]})
    with pytest.raises(type(error)):
        await told.drive()
    assert of_role(told, role) == [(1, "ERROR", error.error_code)]
    assert told.clock.slept == []
    assert told.said.closed_steps[-1].status == "FAILED"


async def test_retries_stop_where_the_budget_does() -> None:
    told, _ = world(
        moves={SUPERVISOR: [*[say(SUPERVISOR, finish_when_allowed)] * 2, fail(SUPERVISOR, busy())]},
        limits=limits(max_model_calls=8),
    )
    conclusion = await told.drive()
    assert len(of_role(told, SUPERVISOR)) == 3
    assert told.said.of(EventType.BUDGET_EXHAUSTED)
    failed = [frame for frame in told.said.of(EventType.AGENT_MODEL_STEP) if frame.status == "FAILED"]
    assert [frame.details.model_dump()["error_code"] for frame in failed] == ["BUDGET_EXHAUSTED"]
    assert conclusion.status == "SUCCESS"


async def test_a_call_without_an_answer_in_time_is_a_passing_failure() -> None:
    told, _ = world(
        moves={VERIFIER: [say(VERIFIER, supports_all, delay_s=2), say(VERIFIER, supports_all)]},
        limits=limits(model_timeout_s=0.01),
    )
    conclusion = await told.drive()
    assert of_role(told, VERIFIER) == [(1, "TIMEOUT", "TIMEOUT"), (2, "OK", None)]
    assert conclusion.verdict == "PASS"


COMPOSER_FAILURES: list[tuple[str, Step, str]] = [
    ("unavailable", fail(COMPOSER, busy()), "its model did not answer"),
    ("refused", fail(COMPOSER, ModelRefused("No.", error_code="CONTENT_FILTER")), "its model did not answer"),
    ("prose", say(COMPOSER, "The pool is empty."), "its answer was unusable"),
    ("nothing", say(COMPOSER, ""), "its answer was unusable"),
    ("wrong", fail(COMPOSER, ModelContractViolated("?", error_code="TRUNCATED")), "its answer was unusable"),
]


@pytest.mark.parametrize(("name", "step", "why"), COMPOSER_FAILURES, ids=[name for name, _, _ in COMPOSER_FAILURES])
async def test_without_a_composer_the_claims_speak_for_themselves(name: str, step: Step, why: str) -> None:
    told, _ = world(moves={COMPOSER: [step]})
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [s.text for s in conclusion.published.statements] == [
        "checkout-api got no connection from HikariPool-1.",
        "The runbook advises to look for connections that are held for long.",
    ]
    assert conclusion.published.conclusion.startswith("checkout-api got no connection")
    assert f"The report was put together without the composer: {why}." in conclusion.published.limitations


async def test_an_unavailable_verifier_fails_the_run_and_nothing_is_released() -> None:
    told, _ = world(moves={VERIFIER: [fail(VERIFIER, busy())]})
    with pytest.raises(ModelUnavailable):
        await told.drive()
    assert told.said.of(EventType.RELEASE_DECISION) == []


@pytest.mark.parametrize(
    "answer", ["All fine.", "", '{"verdict": "PASS"}', '{"verdict": "PASS", "claim_checks": "c1"}']
)
async def test_an_unusable_verdict_leaves_the_claims_low(answer: str) -> None:
    told, _ = world(moves={VERIFIER: [say(VERIFIER, answer)]})
    conclusion = await told.drive()
    assert conclusion.verdict == "LOW_CONFID"
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1", "c2"]
    frame = told.said.of(EventType.SEMANTIC_GUARD_DECISION)[0]
    assert frame.details.model_dump()["contract_violations"] == ("UNUSABLE_ANSWER",)


async def test_an_error_of_the_program_is_not_hidden_and_closes_its_step() -> None:
    told, _ = world(moves={EXECUTOR: [Step(EXECUTOR, RuntimeError("a bug"))]})
    with pytest.raises(RuntimeError):
        await told.drive()
    assert told.said.closed_steps[-1].status == "FAILED"
    assert of_role(told, EXECUTOR) == [(1, "ERROR", "RuntimeError")]


async def test_cost_is_kept_where_it_is_known() -> None:
    priced = Usage(10, 5, Decimal("0.0021"))
    told, _ = world([calls(*LOOK, usage=priced), drafts(honest)])
    await told.drive()
    assert [c.cost_usd for c in told.said.model_calls if c.role == EXECUTOR.value] == [Decimal("0.0021"), None]
    assert [s.cost_usd for s in told.said.spent if s.cost_usd is not None] == [Decimal("0.0021")]


async def test_the_script_fails_a_run_that_asks_for_something_else() -> None:
    model = ScriptedModel(say(EXECUTOR, {}))
    with pytest.raises(AssertionError, match="not from aiops_executor"):
        await World(model).drive()


async def test_an_answer_that_was_cut_off_costs_what_the_server_says() -> None:
    cut = ModelContractViolated("The answer was cut off.", error_code="TRUNCATED")
    cut.usage = Usage(900, 4_096, Decimal("0.05"))
    told, _ = world(moves={PLANNER: [fail(PLANNER, cut)]})
    await told.drive()
    (call,) = [call for call in told.said.model_calls if call.role == PLANNER.value]
    assert (call.status, call.error_code) == ("ERROR", "TRUNCATED")
    assert (call.input_tokens, call.output_tokens, call.cost_usd) == (900, 4_096, Decimal("0.05"))
    assert Decimal("0.05") in {spending.cost_usd for spending in told.said.spent}


ABSURD = [
    Usage(-500, 5),
    Usage(5, -1),
    Usage(3_000_000_000, 5),
    Usage(1, 100_000_001),
    Usage(10**30, 10**30, Decimal(10**24)),
    Usage(1.5, 2),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("usage", ABSURD, ids=str)
async def test_tokens_that_no_call_takes_count_as_not_stated(usage: Usage) -> None:
    told, _ = world([calls(*LOOK, usage=usage), drafts(honest)])
    conclusion = await told.drive()
    assert conclusion.status == "SUCCESS"
    call = next(call for call in told.said.model_calls if call.role == EXECUTOR.value)
    assert (call.input_tokens, call.output_tokens, call.cost_usd) == (None, None, None)
    assert usage.input_tokens not in {spending.input_tokens for spending in told.said.spent}
    assert all(spending.cost_usd is None for spending in told.said.spent)


async def test_as_many_tokens_as_a_call_can_take_are_believed() -> None:
    told, _ = world(moves={COMPOSER: [say(COMPOSER, says_the_claims, usage=Usage(100_000_000, 0))]})
    await told.drive()
    assert [c.input_tokens for c in told.said.model_calls if c.role == COMPOSER.value] == [100_000_000]
