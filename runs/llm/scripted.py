"""A model that follows a script and fails on anything else: for tests of what stands around a model.

model = ScriptedModel(
    say(Role.ROUTER, {"intent": "DIAGNOSIS"}),
    call_tools(Role.CHAT_EXECUTOR, ("query_logs", {"text": "timeout"})),
    say(Role.CHAT_EXECUTOR, lambda request: {"answer_version": …, "claims": […]}),
    fail(Role.CHAT_VERIFIER, ModelUnavailable("…", error_code="TIMEOUT")),
)
…
model.assert_consumed()
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from runs.harness.ports import (
    AssistantMessage,
    ModelReply,
    ModelRequest,
    Role,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

Answer: TypeAlias = Mapping[str, Any] | str
"""The structured answer as an object, or the text to send as it is."""

Predicate: TypeAlias = Callable[[ModelRequest], bool]

DEFAULT_USAGE = Usage(input_tokens=100, output_tokens=20)


class ScriptError(AssertionError):
    """The code under test asked for something else than the script has."""


@dataclass(frozen=True, slots=True)
class Step:
    """One expected request and what comes back.

    `outcome` is a reply, an exception to raise, or a function of the request that gives either. `delay_s` is
    waited first. `when` is checked besides the role, and a request that it refuses fails the test.
    """

    role: Role
    outcome: ModelReply | Exception | Callable[[ModelRequest], ModelReply | Exception]
    when: Predicate | None = None
    delay_s: float = 0.0


class ScriptedModel:
    """A `ChatModel` that gives the steps' replies in order. `requests` keeps what was asked."""

    def __init__(self, *steps: Step, name: str = "scripted") -> None:
        self._steps = steps
        self._name = name
        self.requests: list[ModelRequest] = []
        self.cancelled = 0
        self._unexpected: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """The next step's reply. Raises its exception, or `ScriptError` where the request is not the one expected."""
        position = len(self.requests)
        self.requests.append(request)
        step = self._expected(position, request)
        try:
            await asyncio.sleep(step.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        outcome = step.outcome(request) if callable(step.outcome) else step.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def assert_consumed(self) -> None:
        """Raises `ScriptError` where a step is left over or a request came that the script did not expect.

        The second is repeated here because the code under test may have caught the first raise.
        """
        if self._unexpected:
            raise ScriptError(self._unexpected[0])
        if left := [step.role.value for step in self._steps[len(self.requests) :]]:
            raise ScriptError(f"{len(left)} of {len(self._steps)} steps were not asked for: {', '.join(left)}.")

    def _expected(self, position: int, request: ModelRequest) -> Step:
        number = position + 1
        if position >= len(self._steps):
            raise self._surprise(f"Request {number} by {request.role.value} came after the script's end.")
        step = self._steps[position]
        if step.role is not request.role:
            raise self._surprise(f"Request {number} came from {request.role.value}, not from {step.role.value}.")
        if step.when is not None and not step.when(request):
            raise self._surprise(f"Request {number} by {request.role.value} is not what its step asks for.")
        return step

    def _surprise(self, sentence: str) -> ScriptError:
        self._unexpected.append(sentence)
        return ScriptError(sentence)


def say(
    role: Role,
    answer: Answer | Callable[[ModelRequest], Answer],
    *,
    thinking: str | None = None,
    usage: Usage | None = DEFAULT_USAGE,
    finish_reason: str = "stop",
    when: Predicate | None = None,
    delay_s: float = 0.0,
) -> Step:
    """The role is answered with an object (as JSON text) or with a text as it is; either may be computed."""
    base = ModelReply(text=None, thinking=thinking, usage=usage, finish_reason=finish_reason, model="scripted")

    def reply(request: ModelRequest) -> ModelReply:
        given = answer(request) if callable(answer) else answer
        return replace(base, text=given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))

    return Step(role, reply, when, delay_s)


def call_tools(
    role: Role,
    *calls: tuple[str, Mapping[str, Any] | str],
    text: str | None = None,
    thinking: str | None = None,
    usage: Usage | None = DEFAULT_USAGE,
    when: Predicate | None = None,
    delay_s: float = 0.0,
) -> Step:
    """The role is answered with parallel tool calls; arguments given as a string are sent as they are.

    Call ids are `call_N_M`: the Mth call of a reply to a conversation with N messages.
    """

    def reply(request: ModelRequest) -> ModelReply:
        made = tuple(
            ToolCall(f"call_{len(request.messages)}_{number}", name, _json(arguments))
            for number, (name, arguments) in enumerate(calls, 1)
        )
        return ModelReply(text, made, thinking=thinking, usage=usage, finish_reason="tool_call", model="scripted")

    return Step(role, reply, when, delay_s)


def fail(role: Role, error: Exception, *, when: Predicate | None = None, delay_s: float = 0.0) -> Step:
    """The role's request raises."""
    return Step(role, error, when, delay_s)


# ---- reading a request, for computed answers --------------------------------------------------


def tool_answers(request: ModelRequest) -> list[dict[str, Any]]:
    """The tool answers (wire `ToolAnswer`) the request holds, in order."""
    return [json.loads(message.content) for message in request.messages if isinstance(message, ToolMessage)]


def user_input(request: ModelRequest, position: int = 0) -> dict[str, Any]:
    """A user message's JSON object: the first by default, `-1` for the last."""
    return dict(json.loads([m.text for m in request.messages if isinstance(m, UserMessage)][position]))


def said_before(request: ModelRequest) -> list[str]:
    """The model's own earlier texts in this conversation."""
    return [m.text for m in request.messages if isinstance(m, AssistantMessage) and m.text]


def cite(answer: Mapping[str, Any], ref: int = 0, *, excerpt: str | None = None) -> dict[str, str]:
    """An honest citation of a tool answer's evidence ref; `excerpt` defaults to the ref's whole text."""
    found = answer["evidence_refs"][ref]
    return {
        "source_invocation_id": answer["invocation_id"],
        "tool_name": answer["tool_name"],
        "raw_path": found["raw_path"],
        "evidence_excerpt": found["text"] if excerpt is None else excerpt,
    }


def _json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
