"""Questions by script: how each is routed, what its path does, what leaves, and what a turn knows of those before."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from gatekeeper.types import Intent, Verdict
from runs.errors import ModelRefused
from runs.harness.events import EventType as E
from runs.harness.memory import NOTHING_REMEMBERED, Memory, Previous, Turn
from runs.harness.ports import ModelRequest, Role
from runs.harness.routing import fallback
from runs.harness.run import Conclusion, Subject
from runs.llm.scripted import ScriptedModel, Step, call_tools, fail, say, user_input
from tests.runs.harness.world import (
    COMPOSER,
    LOOK,
    PLAN,
    VERIFIER,
    World,
    draft,
    guidance_claim,
    hanging,
    honest,
    knowledge,
    limits,
    logs,
    says_the_claims,
    supports_all,
)

ROUTER, SYSTEM_CHAT, PLANNER, EXECUTOR = Role.ROUTER, Role.SYSTEM_CHAT, Role.CHAT_PLANNER, Role.CHAT_EXECUTOR
JUDGED = (say(VERIFIER, supports_all), say(COMPOSER, says_the_claims))
REMEMBERED = Memory(
    turns=(Turn("KNOWLEDGE_QUERY", "what is a pool?"), Turn("DIAGNOSIS", "why is checkout-api slow?")),
    previous=Previous("DIAGNOSIS", "why is checkout-api slow?", "The pool of 10 is used up.", "NORMAL", ("10 of 10.",)),
)


def routed(intent: str) -> Step:
    return say(ROUTER, {"intent": intent})


def diagnosis(*before: Step) -> tuple[Step, ...]:
    return (*before, say(PLANNER, PLAN), call_tools(EXECUTOR, *LOOK), say(EXECUTOR, honest), *JUDGED)


async def asked(*steps: Step, **more: Any) -> tuple[World, Conclusion, ScriptedModel]:
    """A question driven over exactly these model calls."""
    model = ScriptedModel(*steps)
    world = World(model, subject=Subject(), **more)
    conclusion = await world.drive()
    model.assert_consumed()
    return world, conclusion, model


# ---- routing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    said: Any
    violation: str
    query: str = "Why is checkout-api slow?"
    decided: Intent = Intent.DIAGNOSIS
    path: tuple[Step, ...] = field(default_factory=diagnosis)


TALK = (say(SYSTEM_CHAT, {"reply": "Hello."}),)
VIOLATIONS = {
    "a field more": Case({"intent": "DIAGNOSIS", "confidence": 0.9}, "? (extra_forbidden)"),
    "an unknown value": Case({"intent": "DIAGNOSE"}, "intent (enum)"),
    "prose": Case("This is a diagnosis question.", "no JSON object"),
    "nothing": Case("", "empty"),
    "prose, and a greeting was asked": Case("It is small talk.", "no JSON", "Hello!", Intent.SYSTEM_CHAT, TALK),
}


@pytest.mark.parametrize("case", VIOLATIONS.values(), ids=VIOLATIONS.keys())
async def test_a_router_outside_its_contract_is_recorded_and_rules_decide(case: Case) -> None:
    world, conclusion, model = await asked(say(ROUTER, case.said), *case.path, query=case.query)
    (decision,) = world.said.of(E.ROUTING_DECISION)
    assert (decision.status, decision.details.source) == (case.decided, "FALLBACK")  # type: ignore[attr-defined]
    assert case.violation in decision.details.violation  # type: ignore[attr-defined]
    assert conclusion.intent is case.decided
    assert [request.role for request in model.requests].count(ROUTER) == 1


async def test_the_intent_is_marked_once_and_before_the_path() -> None:
    world, _, model = await asked(*diagnosis(routed("DIAGNOSIS")))
    assert world.marked == [Intent.DIAGNOSIS]
    types = [frame.event_type for frame in world.said.frames]
    assert types.index(E.ROUTING_DECISION) == 3  # after the start and the router's own step
    assert user_input(model.requests[0]) == {"query": "Why is checkout-api slow?", "history": []}


FALLBACKS = {
    "你好": Intent.SYSTEM_CHAT,
    "Thank you!": Intent.SYSTEM_CHAT,
    "How do I restart the gateway?": Intent.KNOWLEDGE_QUERY,
    "磁盘满了的处理步骤": Intent.KNOWLEDGE_QUERY,
    "checkout-api is slow": Intent.DIAGNOSIS,
    "and yesterday?": Intent.DIAGNOSIS,
    "something else entirely": Intent.DIAGNOSIS,
}


@pytest.mark.parametrize(("query", "intent"), FALLBACKS.items())
def test_the_rules_are_plain(query: str, intent: Intent) -> None:
    assert fallback(query, NOTHING_REMEMBERED) is intent


def test_a_follow_up_keeps_the_intent_of_the_turn_it_follows() -> None:
    asked_documents = Memory((Turn("DIAGNOSIS", "why?"), Turn("KNOWLEDGE_QUERY", "what is lag?")))
    assert fallback("and which of these is worst?", asked_documents) is Intent.KNOWLEDGE_QUERY


async def test_a_router_that_cannot_be_reached_ends_the_run() -> None:
    model = ScriptedModel(fail(ROUTER, ModelRefused("no", error_code="UNAUTHORIZED")))
    world = World(model, subject=Subject())
    with pytest.raises(ModelRefused):
        await world.drive()
    assert world.marked == []


# ---- the three paths ------------------------------------------------------------------------------------------


async def test_a_diagnosis_takes_the_whole_road() -> None:
    world, conclusion, model = await asked(*diagnosis(routed("DIAGNOSIS")))
    step = [(E.AGENT_MODEL_STEP, "STARTED"), (E.AGENT_MODEL_STEP, "COMPLETED")]
    assert [(frame.event_type, frame.status) for frame in world.said.frames] == [
        (E.RUN_STARTED, None),
        *step,
        (E.ROUTING_DECISION, "DIAGNOSIS"),
        *step,
        *step,
        (E.TOOL_INVOCATION, "OK"),
        (E.TOOL_INVOCATION, "OK"),
        *step,
        (E.EVIDENCE_GUARD_INITIAL, "PASS"),
        *step,
        (E.SEMANTIC_GUARD_DECISION, "PASS"),
        *step,
        (E.RELEASE_DECISION, "RELEASED"),
    ]
    assert (conclusion.status, conclusion.verdict, conclusion.intent) == ("SUCCESS", Verdict.PASS, Intent.DIAGNOSIS)
    assert {tool.name for tool in model.requests[2].tools} == {"query_logs", "lookup_knowledge"}


def advises(request: ModelRequest) -> dict[str, Any]:
    return draft(guidance_claim(request))


async def test_a_knowledge_question_is_answered_from_documents_alone() -> None:
    log = logs()
    world, conclusion, model = await asked(
        routed("KNOWLEDGE_QUERY"),
        call_tools(EXECUTOR, ("lookup_knowledge", {"text": "pool"}), ("query_logs", {"text": "checkout-api"})),
        say(EXECUTOR, advises),
        *JUDGED,
        tools=(log, knowledge()),
    )
    assert {tool.name for tool in model.requests[1].tools} == {"lookup_knowledge"}
    assert log.calls == [], "a tool that was not offered ran"
    assert [record.error_code for record in world.said.invocations] == [None, "UNKNOWN_TOOL"]
    assert (conclusion.status, conclusion.intent) == ("SUCCESS", Intent.KNOWLEDGE_QUERY)
    assert conclusion.published is not None
    assert [claim.kind for claim in conclusion.published.claims] == ["guidance"]
    assert not any("SUPERBIZ_LOG_DIR" in text for text in conclusion.published.limitations)


async def test_talk_is_one_call_without_tools_or_claims_and_says_that_it_is_talk() -> None:
    world, conclusion, model = await asked(
        routed("SYSTEM_CHAT"), say(SYSTEM_CHAT, {"reply": "Hello. Ask me about a service."}), query="hello"
    )
    assert model.requests[1].tools == ()
    published = conclusion.published
    assert published is not None
    assert published.conclusion == "Hello. Ask me about a service."
    assert (published.statements, published.claims, published.source_documents) == ([], [], [])
    assert "no evidence stands behind it" in published.scope
    assert (conclusion.verdict, conclusion.release_decision) == (None, "RELEASED")
    assert world.said.of(E.EVIDENCE_GUARD_INITIAL, E.SEMANTIC_GUARD_DECISION, E.TOOL_INVOCATION) == []
    assert world.said.frames[-1].event_type is E.RELEASE_DECISION


STATED = {
    "a number": ("I help. checkout-api failed 503 times.", "I help."),
    "a code nobody asked about": ("Hello there. Error ORA-00060 is a deadlock.", "Hello there."),
    "a number that the person wrote": ("You asked about 42 errors. Name a service.", None),
}


@pytest.mark.parametrize(("reply", "left"), STATED.values(), ids=STATED.keys())
async def test_talk_states_no_facts(reply: str, left: str | None) -> None:
    _, conclusion, _ = await asked(
        routed("SYSTEM_CHAT"), say(SYSTEM_CHAT, {"reply": reply}), query="thanks for the 42 errors"
    )
    assert conclusion.published is not None
    assert conclusion.published.conclusion == (left or reply)


@pytest.mark.parametrize("reply", [{"reply": "503 errors on db-7."}, "plain prose", {"answer": "hi"}])
async def test_talk_that_cannot_be_said_is_withheld(reply: Any) -> None:
    _, conclusion, _ = await asked(routed("SYSTEM_CHAT"), say(SYSTEM_CHAT, reply), query="hello")
    assert (conclusion.status, conclusion.release_decision, conclusion.published) == ("DEGRADED", "WITHHELD", None)
    assert "503" not in conclusion.safe_content.reason


async def test_a_plan_that_cannot_be_read_is_no_plan() -> None:
    _, conclusion, model = await asked(routed("DIAGNOSIS"), say(PLANNER, "First I would look."), *diagnosis()[1:])
    assert conclusion.status == "SUCCESS"
    assert user_input(model.requests[2])["plan"] is None


# ---- budgets --------------------------------------------------------------------------------------------------


async def test_a_budget_that_ends_before_anything_is_found_ends_the_run_by_itself() -> None:
    world, conclusion, _ = await asked(routed("DIAGNOSIS"), limits=limits(max_model_calls=3))
    assert [frame.details.budget for frame in world.said.of(E.BUDGET_EXHAUSTED)] == ["model_calls"]  # type: ignore[attr-defined]
    assert (conclusion.status, conclusion.release_decision) == ("DEGRADED", "WITHHELD")
    assert "model_calls budget ended" in conclusion.safe_content.reason


async def test_a_budget_that_ends_after_the_first_look_releases_what_stands() -> None:
    world, conclusion, _ = await asked(*diagnosis(routed("DIAGNOSIS"))[:4], *JUDGED, limits=limits(max_model_calls=6))
    assert conclusion.status == "SUCCESS"
    assert len(world.said.of(E.RELEASE_DECISION)) == 1


async def test_no_budget_for_the_router_leaves_the_decision_to_the_rules() -> None:
    world, conclusion, _ = await asked(limits=limits(max_model_calls=2), query="hello")
    (decision,) = world.said.of(E.ROUTING_DECISION)
    assert (decision.status, decision.details.violation) == ("SYSTEM_CHAT", "the budget had ended")  # type: ignore[attr-defined]
    assert (conclusion.status, conclusion.release_decision) == ("DEGRADED", "WITHHELD")


# ---- memory ---------------------------------------------------------------------------------------------------


async def test_router_and_talk_know_the_turns_but_no_answer() -> None:
    _, _, model = await asked(
        routed("SYSTEM_CHAT"), say(SYSTEM_CHAT, {"reply": "Hello."}), query="thanks", memory=REMEMBERED
    )
    for request in model.requests:
        assert user_input(request) == {
            "query": "thanks",
            "history": [
                {"intent": "KNOWLEDGE_QUERY", "query": "what is a pool?"},
                {"intent": "DIAGNOSIS", "query": "why is checkout-api slow?"},
            ],
        }


async def test_planner_and_executor_know_the_last_answer_too_and_the_judges_do_not() -> None:
    _, _, model = await asked(*diagnosis(routed("DIAGNOSIS")), query="and yesterday?", memory=REMEMBERED)
    for request in model.requests[1:4]:
        told = user_input(request, 0)
        assert told["previous"]["conclusion"] == "The pool of 10 is used up."
        assert [turn["intent"] for turn in told["history"]] == ["KNOWLEDGE_QUERY", "DIAGNOSIS"]
    for request in model.requests[4:]:
        assert {"history", "previous"}.isdisjoint(user_input(request))


async def test_a_memory_is_no_evidence() -> None:
    def repeats(request: ModelRequest) -> dict[str, Any]:
        told = honest(request)
        told["claims"][0]["claim_text"] = "The pool of 10 is used up."
        return told

    _, conclusion, _ = await asked(
        routed("DIAGNOSIS"),
        say(PLANNER, PLAN),
        call_tools(EXECUTOR, *LOOK),
        say(EXECUTOR, repeats),
        say(EXECUTOR, repeats),
        *JUDGED,
        query="and now?",
        memory=REMEMBERED,
    )
    assert conclusion.published is not None
    assert "c1" not in [claim.claim_id for claim in conclusion.published.claims]


async def test_an_alert_is_told_nothing_of_its_session() -> None:
    model = ScriptedModel(fail(Role.AIOPS_SUPERVISOR, ModelRefused("no", error_code="UNAUTHORIZED")))
    world = World(model, memory=REMEMBERED)
    with pytest.raises(ModelRefused):
        await world.drive()
    assert {"history", "previous"}.isdisjoint(user_input(model.requests[0]))
    assert world.marked == [Intent.DIAGNOSIS]


# ---- cancelling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hang", ["model", "tool"])
async def test_cancelling_reaches_the_call_in_flight(hang: str) -> None:
    tool = hanging()
    slow = say(EXECUTOR, honest, delay_s=60)
    steps = [routed("DIAGNOSIS"), say(PLANNER, PLAN), slow if hang == "model" else call_tools(EXECUTOR, LOOK[0])]
    model = ScriptedModel(*steps)
    world = World(model, (tool, knowledge()), subject=Subject())
    work = asyncio.create_task(world.drive())
    for _ in range(200):
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (model.cancelled, tool.cancelled) == ((1, 0) if hang == "model" else (0, 1))
