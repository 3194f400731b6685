"""Searching that leads nowhere is stopped by code, and what was found is still used."""

from dataclasses import dataclass
from typing import Any

import pytest

from runs.harness.events import EventType
from runs.harness.ports import ModelReply, ModelRequest
from runs.llm.scripted import Step, call_tools, say, tool_answers, user_input
from tests.runs.harness.world import (
    EXECUTOR,
    LOOK,
    PLANNER,
    SUPERVISOR,
    calls,
    claim,
    draft,
    drafts,
    honest,
    knowledge,
    limits,
    logs,
    pool_claim,
    world,
)

A = ("query_logs", {"text": "checkout-api"})
B = ("lookup_knowledge", {"text": "pool"})


def only_with_tools(*rounds: tuple[str, Any]) -> list[Step]:
    """Goes through the rounds again and again while tools are offered; then gives the draft."""

    def move(request: ModelRequest) -> ModelReply:
        if not request.tools:
            outcome = drafts(lambda r: draft(pool_claim(r) | {"claim_text": "checkout-api wrote to its log."})).outcome
        else:
            done = len(tool_answers(request))
            outcome = calls(rounds[done % len(rounds)]).outcome
        assert callable(outcome)
        reply = outcome(request)
        assert isinstance(reply, ModelReply)
        return reply

    return [Step(EXECUTOR, move)]


@dataclass(frozen=True)
class Loop:
    name: str
    rounds: tuple[tuple[str, Any], ...]
    reason: str
    most_calls: int


LOOPS = [
    Loop("the same call for ever", (A,), "CYCLE", 3),
    Loop("A, B, A, B", (A, B), "NO_NEW_EVIDENCE", 5),
    Loop(
        "a drifting limit over the same lines",
        tuple(("query_logs", {"text": "checkout-api", "limit": n}) for n in range(100, 130)),
        "NO_NEW_EVIDENCE",
        4,
    ),
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
async def test_a_loop_is_stopped_told_and_still_useful(loop: Loop) -> None:
    told, brain = world(only_with_tools(*loop.rounds))
    conclusion = await told.drive()
    (stop,) = told.said.of(EventType.CONVERGENCE_STOP)
    assert stop.status == loop.reason
    assert len(brain.asked(EXECUTOR)) <= loop.most_calls
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1"]
    why = stop.summary.removeprefix("search stopped: ")
    assert f"The search was stopped early: {why}." in conclusion.published.limitations


async def test_limits_that_drift_are_stopped_though_each_call_brings_a_line_more() -> None:
    many = [f"line {n} of checkout-api" for n in range(500)]
    drifting = tuple(("query_logs", {"text": "checkout-api", "limit": n}) for n in range(100, 130))

    told, brain = world(only_with_tools(*drifting), tools=[logs(many), knowledge()])
    conclusion = await told.drive()
    assert conclusion.published is not None
    (stop,) = told.said.of(EventType.CONVERGENCE_STOP)
    assert stop.status == "DRIFTING_ARGUMENTS"
    assert any("only its numbers changing" in each for each in conclusion.published.limitations)
    assert stop.details.model_dump()["tool_name"] == "query_logs"
    assert sum(bool(request.tools) for request in brain.asked(EXECUTOR)) <= 5


FOREVER = [
    ("a tool that answers", ("query_logs", {"text": "checkout-api"})),
    ("a tool that finds nothing", ("query_logs", {"text": "absent"})),
    ("knowledge", ("lookup_knowledge", {"text": "pool"})),
    ("wrong arguments", ("query_logs", {"limit": "many"})),
    ("no JSON", ("query_logs", "limit=5")),
    ("an unknown tool", ("shell", {"command": "ls"})),
]


@pytest.mark.parametrize(("what", "call"), FOREVER, ids=[what for what, _ in FOREVER])
async def test_the_same_call_for_ever_ends_within_six_calls_of_the_executor(what: str, call: tuple[str, Any]) -> None:
    told, brain = world([calls(call)])
    conclusion = await told.drive()
    assert len(brain.asked(EXECUTOR)) <= 6
    assert told.said.of(EventType.CONVERGENCE_STOP)
    assert conclusion.status == "DEGRADED"
    assert len(told.said.invocations) == 2
    reason = conclusion.safe_content.reason
    assert "no claim was made about the evidence on record. The search was stopped early: " in reason
    assert "Look at the tools below directly" in reason
    assert conclusion.safe_content.looked_at


async def test_two_equal_calls_in_every_round_are_one_call() -> None:
    log = logs()
    told, _ = world([calls(A, A)], tools=[log, knowledge()])
    await told.drive()
    assert len(log.calls) == 1


async def test_the_order_to_conclude_takes_the_tools_away_and_says_why() -> None:
    told, brain = world(only_with_tools(A))
    await told.drive()
    concluding = next(request for request in brain.asked(EXECUTOR) if not request.tools)
    assert user_input(concluding, -1)["reason"] == "the same calls came round again"
    assert user_input(concluding, -1)["conclude_now"] is True


async def test_a_repair_round_remembers_the_calls_made_before() -> None:
    """The same call in the repair round is a cycle at once, not a first call again."""

    def move(request: ModelRequest) -> ModelReply:
        if request.tools:
            outcome = calls(A).outcome
        else:
            outcome = drafts(lambda r: draft(pool_claim(r), claim("f1", "And so it is."))).outcome
        assert callable(outcome)
        reply = outcome(request)
        assert isinstance(reply, ModelReply)
        return reply

    told, brain = world([Step(EXECUTOR, move)])
    await told.drive()
    assert [bool(request.tools) for request in brain.asked(EXECUTOR)] == [True, True, False, True, False]
    assert [frame.status for frame in told.said.of(EventType.CONVERGENCE_STOP)] == ["CYCLE", "CYCLE"]


async def test_after_a_stop_the_supervisor_cannot_go_on() -> None:
    told, _ = world(
        only_with_tools(A), moves={SUPERVISOR: [say(SUPERVISOR, {"next": "EXECUTE", "reason": "more, more"})]}
    )
    await told.drive()
    last = told.said.of(EventType.SUPERVISION_DECISION)[-1].details.model_dump()
    assert (last["proposed"], last["decided"]) == ("EXECUTE", "FINISH")
    assert last["replaced_because"] == "the search had stopped converging"


async def test_a_model_that_slips_before_it_finds_its_way_is_not_stopped() -> None:
    told, _ = world([calls(("query_logs", {"limit": 5})), calls(*LOOK), drafts(honest)])
    conclusion = await told.drive()
    assert told.said.of(EventType.CONVERGENCE_STOP) == []
    assert conclusion.verdict == "PASS"


async def test_more_calls_in_one_reply_than_a_step_may_make_are_left_out() -> None:
    log = logs()
    told, _ = world(
        [calls(*[("query_logs", {"text": f"word{n}"}) for n in range(1_000)]), drafts(draft())],
        tools=[log, knowledge()],
    )
    await told.drive()
    assert len(told.said.invocations) == 16
    assert all(len(step.tool_plan) <= 16 for step in told.said.closed_steps)


# ---- the supervisor -----------------------------------------------------------------------


def decisions(told: Any) -> list[tuple[str, str, str | None]]:
    details = [frame.details.model_dump() for frame in told.said.of(EventType.SUPERVISION_DECISION)]
    return [(d["proposed"], d["decided"], d["replaced_because"]) for d in details]


async def test_finish_before_any_tool_was_tried_is_replaced_and_recorded() -> None:
    told, _ = world(moves={SUPERVISOR: [say(SUPERVISOR, {"next": "FINISH", "reason": "I know it already"})]})
    conclusion = await told.drive()
    assert decisions(told) == [
        ("FINISH", "PLAN", "no evidence tool was tried yet"),
        ("FINISH", "EXECUTE", "no evidence tool was tried yet"),
        ("FINISH", "FINISH", None),
    ]
    assert "I know it already" not in told.said.text()
    assert conclusion.verdict == "PASS"


async def test_endless_planning_is_bounded() -> None:
    told, brain = world(moves={SUPERVISOR: [say(SUPERVISOR, {"next": "PLAN", "reason": "plan"})]})
    await told.drive()
    assert len(brain.asked(PLANNER)) <= 2
    assert [decided for _, decided, _ in decisions(told)] == ["PLAN", "EXECUTE", "PLAN", "FINISH"]


async def test_endless_execution_is_bounded() -> None:
    told, brain = world(
        [calls(*LOOK), drafts(honest)],
        moves={SUPERVISOR: [say(SUPERVISOR, {"next": "EXECUTE", "reason": "again"})]},
        limits=limits(max_rounds=3),
    )
    conclusion = await told.drive()
    assert [decided for _, decided, _ in decisions(told)] == ["EXECUTE"] * 3 + ["FINISH"]
    assert decisions(told)[-1][2] == "the rounds are used up"
    assert conclusion.verdict == "PASS"
    assert len(brain.asked(EXECUTOR)) == 4


@pytest.mark.parametrize(
    "answer",
    ["PLAN", "", {"next": "plan", "reason": ""}, {"next": "REBOOT", "reason": "x"}, {"next": "PLAN"}, "{}"],
    ids=str,
)
async def test_a_broken_answer_of_the_supervisor_is_replaced(answer: Any) -> None:
    told, _ = world(moves={SUPERVISOR: [say(SUPERVISOR, answer)]})
    conclusion = await told.drive()
    assert decisions(told) == [
        ("NONE", decided, "the answer was outside its contract") for decided in ("PLAN", "EXECUTE", "FINISH")
    ]
    assert conclusion.verdict == "PASS"


async def test_tool_calls_of_a_supervisor_are_no_answer() -> None:
    told, _ = world(moves={SUPERVISOR: [call_tools(SUPERVISOR, ("query_logs", {"text": "x"}))]})
    conclusion = await told.drive()
    assert conclusion.verdict == "PASS"
    assert len(told.said.invocations) == 2


async def test_a_broken_plan_is_no_plan() -> None:
    told, brain = world(moves={PLANNER: [say(PLANNER, "first look, then think")]})
    conclusion = await told.drive()
    assert user_input(brain.asked(EXECUTOR)[0])["plan"] is None
    assert conclusion.verdict == "PASS"


async def test_an_executor_that_never_looks_is_sent_again_but_not_for_ever() -> None:
    told, brain = world([drafts(draft())])
    conclusion = await told.drive()
    assert conclusion.status == "DEGRADED"
    assert len(brain.asked(EXECUTOR)) <= 7
    assert told.said.invocations == []


async def test_a_refused_call_is_not_a_tool_that_was_tried() -> None:
    told, _ = world([calls(("query_logs", {})), drafts(draft()), calls(*LOOK), drafts(honest)])
    conclusion = await told.drive()
    assert ("FINISH", "FINISH", None) not in decisions(told)[:3]
    assert conclusion.verdict == "PASS"
