"""Whole runs against a server that behaves as real ones do: what each leaves in the trace, and how the run ends."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from runs.errors import ModelError, ModelRefused, ModelUnavailable
from runs.harness.events import EventType
from runs.harness.ports import Role
from runs.harness.run import Limits
from tests.runs.harness.world import Collected, World
from tests.runs.llm.conftest import OpenModel
from tests.servers.openai_compatible import (
    Answer,
    Brain,
    Call,
    Drip,
    Hang,
    HttpError,
    Huge,
    OpenAICompatibleServer,
    Question,
    Raw,
    Reset,
)

EXECUTOR = "executor_evidence_v2"
BUSY = HttpError(429, headers={"Retry-After": "2"})
QUICK = Limits(model_timeout_s=0.4, max_model_attempts=2)


def asks(*calls: Call) -> Answer:
    return Answer(calls=calls)


def looks(question: Question) -> Answer:
    """An honest model: it looks until it was given something, then sums up."""
    found = any(answer["status"] == "OK" for answer in question.tool_answers)
    if question.schema == EXECUTOR and question.tools and not found:
        return asks(Call("query_logs", {"text": "checkout-api"}), Call("lookup_knowledge", {"text": "pool"}))
    answer = Brain()(question)
    assert isinstance(answer, Answer)
    return answer


def wrapped(question: Question) -> Answer:
    """The same model, with its answers in prose around a fence."""
    answer = looks(question)
    if answer.calls or not isinstance(answer.content, Mapping):
        return answer
    return Answer(f"Here is what I found:\n```json\n{json.dumps(answer.content)}\n```\nI hope this helps.")


def without_usage(question: Question) -> Answer:
    answer = looks(question)
    return Answer(answer.content, answer.calls, answer.thinking, usage=None)


@dataclass(frozen=True)
class Case:
    """`script`: the executor's next answers; after them the honest brain goes on. `ends`: a status, or an error."""

    name: str
    script: tuple[Any, ...] = ()
    always: Any = None
    ends: str | type[ModelError] = "SUCCESS"
    attempts: tuple[tuple[str, str | None], ...] = ()
    refused: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    options: Mapping[str, Any] = field(default_factory=dict)
    refuse_tools_with_schema: bool = False


OK = ("OK", None)
CASES = [
    Case("tool calls alone", (asks(Call("query_logs", {"text": "HikariPool"})),)),
    Case(
        "tool calls in parallel",
        (asks(Call("query_logs", {"text": "HikariPool"}), Call("lookup_knowledge", {"text": "pool"})),),
    ),
    Case("answers through an output tool", options={"output_mode": "tool"}),
    Case("answers asked for in the prompt", options={"output_mode": "prompted"}),
    Case("tools and a schema refused together", refuse_tools_with_schema=True),
    Case(
        "reasoning beside the answer",
        (Answer(calls=(Call("query_logs", {"text": "leak"}),), thinking="a private thought"),),
    ),
    Case("prose around fenced JSON", always=wrapped),
    Case("usage is missing", always=without_usage),
    Case("credentials refused", (HttpError(401),), ends=ModelRefused, attempts=(("ERROR", "UNAUTHORIZED"),)),
    Case("busy, then fine", (BUSY,), attempts=(("ERROR", "RATE_LIMITED"), OK)),
    Case("an error, then fine", (HttpError(500),), attempts=(("ERROR", "SERVER_ERROR"), OK)),
    Case("the connection reset, then fine", (Reset(),), attempts=(("ERROR", "CONNECTION"), OK)),
    Case("the connection reset in mid-answer", (Reset(midway=True),), attempts=(("ERROR", "CONNECTION"), OK)),
    Case(
        "nothing is ever sent",
        (Hang(), Hang()),
        ends=ModelUnavailable,
        attempts=(("TIMEOUT", "TIMEOUT"), ("TIMEOUT", "TIMEOUT")),
        limits=QUICK,
    ),
    Case(
        "a slow drip",
        (Drip(pause_s=0.05, size=400),) * 2,
        ends=ModelUnavailable,
        attempts=(("TIMEOUT", "TIMEOUT"), ("TIMEOUT", "TIMEOUT")),
        limits=QUICK,
    ),
    Case("a body of 50 MB", (Huge(),), attempts=(("ERROR", "RESPONSE_TOO_LARGE"),)),
    Case("no content and no call", (Answer(None),), attempts=(("ERROR", "EMPTY"),)),
    Case(
        "no choices",
        (Answer({"answer_version": EXECUTOR, "claims": []}, choices=0),),
        attempts=(("ERROR", "MALFORMED"),),
    ),
    Case("no JSON at all", (Raw(b"<html>busy</html>"),), attempts=(("ERROR", "MALFORMED"),)),
    Case("cut off at the length limit", (Answer("{", finish_reason="length"),), attempts=(("ERROR", "TRUNCATED"),)),
    Case("arguments that are no JSON", (asks(Call("query_logs", '{"text": ')),), refused=("INVALID_ARGUMENTS",)),
    Case("a required argument missing", (asks(Call("query_logs", {"limit": 5})),), refused=("INVALID_ARGUMENTS",)),
    Case("a wrong type that can be read", (asks(Call("query_logs", {"text": "HikariPool", "limit": "5"})),)),
    Case(
        "a wrong type that cannot",
        (asks(Call("query_logs", {"text": "HikariPool", "limit": "many"})),),
        refused=("INVALID_ARGUMENTS",),
    ),
    Case("a tool that there is not", (asks(Call("query_everything", {})),), refused=("UNKNOWN_TOOL",)),
    Case("a mangled tool name", (asks(Call("functions.query_logs:0", {"text": "leak"})),), refused=("UNKNOWN_TOOL",)),
    Case(
        "one call id three times",
        (asks(*(Call("query_logs", {"text": word}, call_id="call_1") for word in ("HikariPool", "POST", "leak"))),),
    ),
    Case("prose for an answer", (Answer("I think it is the database."),)),
]


def executor_attempts(said: Collected) -> list[tuple[str, str | None]]:
    return [(c.status, c.error_code) for c in said.model_calls if c.role == Role.AIOPS_EXECUTOR.value]


@pytest.fixture
def told(server: OpenAICompatibleServer, open_model: OpenModel) -> Callable[[Case], World]:
    def prepare(case: Case) -> World:
        server.brain = looks
        server.refuse_tools_with_schema = case.refuse_tools_with_schema
        server.script(EXECUTOR, *case.script)
        if case.always is not None:
            server.always(case.always)
        return World(open_model(**case.options), limits=case.limits)

    return prepare


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_run_meets_it_with_a_trace_and_an_outcome(case: Case, told: Callable[[Case], World]) -> None:
    run = told(case)
    if isinstance(case.ends, str):
        conclusion = await run.drive()
        assert conclusion.status == case.ends
    else:
        with pytest.raises(case.ends):
            await run.drive()
    attempts = executor_attempts(run.said)
    assert tuple(attempts[: len(case.attempts)]) == case.attempts
    assert set(attempts[len(case.attempts) :]) <= {OK}
    codes = [record.error_code for record in run.said.invocations if record.error_code]
    assert tuple(codes) == case.refused
    assert {record.step_id for record in run.said.invocations} <= {step.step_id for step in run.said.closed_steps}
    check_trace(run.said, case)


def check_trace(said: Collected, case: Case) -> None:
    """The frames tell the same: each step's attempts and how it ended, each refused call with its code, one ending."""
    steps = [frame.details.model_dump() | {"status": frame.status} for frame in said.of(EventType.AGENT_MODEL_STEP)]
    ended = [step for step in steps if step["status"] != "STARTED"]
    assert sum(step["attempts"] for step in ended) == len(said.model_calls)
    failed = [step["error_code"] for step in ended if step["status"] == "FAILED"]
    assert failed == ([] if isinstance(case.ends, str) else [case.attempts[-1][1]])
    told = [frame.details.model_dump()["error_code"] for frame in said.of(EventType.TOOL_INVOCATION)]
    assert tuple(code for code in told if code) == case.refused
    decisions = [frame.status for frame in said.of(EventType.RELEASE_DECISION)]
    assert len(decisions) == isinstance(case.ends, str)
    assert set(decisions) <= {"RELEASED", "RELEASED_LOW_CONFIDENCE"}


async def test_parallel_calls_belong_to_one_step(told: Callable[[Case], World]) -> None:
    run = told(CASES[1])
    await run.drive()
    assert len({record.step_id for record in run.said.invocations}) == 1
    assert [record.tool_name for record in run.said.invocations] == ["query_logs", "lookup_knowledge"]


async def test_thoughts_are_kept_apart_and_never_said(told: Callable[[Case], World]) -> None:
    run = told(next(case for case in CASES if case.name == "reasoning beside the answer"))
    conclusion = await run.drive()
    assert [entry.thought for entry in run.said.reasoning if entry.thought].count("a private thought") == 1
    assert conclusion.published is not None
    assert "a private thought" not in conclusion.published.model_dump_json()
    assert "a private thought" not in "".join(
        frame.summary + frame.details.model_dump_json() for frame in run.said.frames
    )


async def test_tokens_that_nobody_stated_are_unknown(told: Callable[[Case], World]) -> None:
    run = told(next(case for case in CASES if case.name == "usage is missing"))
    await run.drive()
    assert {(call.input_tokens, call.cost_usd) for call in run.said.model_calls} == {(None, None)}


async def test_one_id_for_three_calls_still_gives_three_answers(
    told: Callable[[Case], World], server: OpenAICompatibleServer
) -> None:
    run = told(next(case for case in CASES if case.name == "one call id three times"))
    await run.drive()
    assert len(run.said.invocations) == 3
    last = server.asked_by(EXECUTOR)[-1]
    assert len({message["tool_call_id"] for message in last.messages if message["role"] == "tool"}) == 3


async def test_an_executor_that_only_hangs_leaves_its_call_closed(
    told: Callable[[Case], World], server: OpenAICompatibleServer
) -> None:
    run = told(next(case for case in CASES if case.name == "nothing is ever sent"))
    with pytest.raises(ModelUnavailable):
        await run.drive()
    await asyncio.to_thread(server.wait_until, lambda seen: len(seen.disconnects) == 2)
