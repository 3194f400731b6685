"""The scripted model gives what the script says and fails loudly on all else."""

import asyncio
import json

import pytest

from runs.errors import ModelUnavailable
from runs.harness.ports import AssistantMessage, ModelReply, Role, ToolMessage, Usage
from runs.llm.scripted import (
    ScriptedModel,
    ScriptError,
    Step,
    call_tools,
    cite,
    fail,
    said_before,
    say,
    tool_answers,
    user_input,
)
from tests.runs.llm.requests import ask, ask_executor

ANSWER = {
    "invocation_id": "inv_k7q2mf",
    "tool_name": "query_logs",
    "status": "OK",
    "evidence_refs": [{"raw_path": "$.lines[0].text", "text": "ERROR pool exhausted"}],
    "output": {},
    "truncated": False,
    "error": None,
}


async def test_steps_are_answered_in_order() -> None:
    model = ScriptedModel(
        say(Role.ROUTER, {"intent": "DIAGNOSIS"}, thinking="hm"),
        call_tools(Role.AIOPS_EXECUTOR, ("query_logs", {"text": "x"}), ("query_alerts", "{broken")),
        say(Role.AIOPS_EXECUTOR, "prose", usage=None),
        Step(Role.CHAT_VERIFIER, ModelReply("{}", usage=Usage(1, 2))),
    )
    routed = await model.complete(ask(Role.ROUTER))
    assert (json.loads(routed.text or ""), routed.thinking) == ({"intent": "DIAGNOSIS"}, "hm")
    calls = (await model.complete(ask_executor())).tool_calls
    assert [(c.call_id, c.name, c.arguments) for c in calls] == [
        ("call_1_1", "query_logs", '{"text": "x"}'),
        ("call_1_2", "query_alerts", "{broken"),
    ]
    said = await model.complete(ask_executor())
    assert (said.text, said.usage) == ("prose", None)
    assert (await model.complete(ask(Role.CHAT_VERIFIER))).usage == Usage(1, 2)
    model.assert_consumed()


async def test_an_answer_may_be_computed_from_the_request() -> None:
    model = ScriptedModel(say(Role.AIOPS_EXECUTOR, lambda request: {"evidence": [cite(tool_answers(request)[0])]}))
    reply = await model.complete(ask_executor(ToolMessage("a", "query_logs", json.dumps(ANSWER))))
    assert json.loads(reply.text or "") == {
        "evidence": [
            {
                "source_invocation_id": "inv_k7q2mf",
                "tool_name": "query_logs",
                "raw_path": "$.lines[0].text",
                "evidence_excerpt": "ERROR pool exhausted",
            }
        ]
    }


def test_a_request_can_be_read() -> None:
    request = ask_executor(AssistantMessage("first draft"), {"repair": {"failed": []}})
    assert user_input(request)["query"] == "CheckoutErrors is firing"
    assert user_input(request, -1) == {"repair": {"failed": []}}
    assert said_before(request) == ["first draft"]


async def test_a_step_may_fail() -> None:
    model = ScriptedModel(fail(Role.ROUTER, ModelUnavailable("busy", error_code="RATE_LIMITED")))
    with pytest.raises(ModelUnavailable, match="busy"):
        await model.complete(ask(Role.ROUTER))
    model.assert_consumed()


async def test_another_role_is_unexpected() -> None:
    model = ScriptedModel(say(Role.ROUTER, {}))
    with pytest.raises(ScriptError, match="came from chat_planner, not from router"):
        await model.complete(ask(Role.CHAT_PLANNER))


async def test_a_request_that_the_step_does_not_want_is_unexpected() -> None:
    model = ScriptedModel(say(Role.AIOPS_EXECUTOR, {}, when=lambda request: not request.tools))
    with pytest.raises(ScriptError, match="not what its step asks for"):
        await model.complete(ask_executor())


async def test_a_request_after_the_end_is_unexpected() -> None:
    with pytest.raises(ScriptError, match="after the script's end"):
        await ScriptedModel().complete(ask(Role.ROUTER))


async def test_a_step_left_over_is_told() -> None:
    model = ScriptedModel(say(Role.ROUTER, {}), say(Role.CHAT_PLANNER, {}))
    await model.complete(ask(Role.ROUTER))
    with pytest.raises(ScriptError, match="1 of 2 steps were not asked for: chat_planner"):
        model.assert_consumed()


async def test_a_surprise_that_was_swallowed_is_told_at_the_end() -> None:
    model = ScriptedModel(say(Role.ROUTER, {}))
    await asyncio.gather(model.complete(ask(Role.CHAT_PLANNER)), return_exceptions=True)
    with pytest.raises(ScriptError, match="came from chat_planner"):
        model.assert_consumed()


async def test_a_delayed_step_can_be_cancelled() -> None:
    model = ScriptedModel(say(Role.ROUTER, {}, delay_s=60))
    call = asyncio.create_task(model.complete(ask(Role.ROUTER)))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert model.cancelled == 1
