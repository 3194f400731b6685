"""What a chat-completions request says, and the ways in which the double server can react to one."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

SCHEMA_NAMES = frozenset(
    {
        "router_intent",
        "system_chat_reply",
        "chat_plan",
        "aiops_plan",
        "aiops_supervision",
        "executor_evidence_v2",
        "verifier_evaluation",
        "composer_output",
    }
)

# A prompted request names no schema; a field that only one shape has tells it. Both plans look alike.
TELLING_FIELDS = {
    "claim_checks": "verifier_evaluation",
    "limitations": "composer_output",
    "source_invocation_id": "executor_evidence_v2",
    "tool_hint": "aiops_plan",
    "next": "aiops_supervision",
    "reply": "system_chat_reply",
    "intent": "router_intent",
}


@dataclass(frozen=True)
class Question:
    """One parsed request: who asks (`schema`), how the answer is wanted (`mode`), and the conversation."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def mode(self) -> Literal["native", "tool", "prompted"]:
        if self.body.get("response_format", {}).get("type") == "json_schema":
            return "native"
        return "tool" if SCHEMA_NAMES & self._functions.keys() else "prompted"

    @cached_property
    def schema(self) -> str | None:
        """The schema's name; for a prompted request, the one that the schema in the system prompt looks like."""
        if self.mode == "native":
            return str(self.body["response_format"]["json_schema"]["name"])
        if self.mode == "tool":
            return next(name for name in self._functions if name in SCHEMA_NAMES)
        return next((name for field, name in TELLING_FIELDS.items() if f'"{field}": {{' in self.system), None)

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the function tools on offer, the output tool left out."""
        return tuple(name for name in self._functions if name not in SCHEMA_NAMES)

    def parameters(self, tool: str) -> Mapping[str, Any]:
        """The JSON schema's properties of a tool's arguments."""
        return dict(self._functions[tool].get("parameters", {}).get("properties", {}))

    @cached_property
    def system(self) -> str:
        return "\n".join(_text(m) for m in self.messages if m["role"] in {"system", "developer"})

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        return list(self.body["messages"])

    @cached_property
    def inputs(self) -> list[dict[str, Any]]:
        """The user messages' JSON objects; a message that is plain text reads as `{"query": text}`."""
        return [_object(_text(m)) or {"query": _text(m)} for m in self.messages if m["role"] == "user"]

    @cached_property
    def tool_answers(self) -> list[dict[str, Any]]:
        """The tool messages that hold the wire's tool answer, in order."""
        found = [_object(_text(m)) for m in self.messages if m["role"] == "tool"]
        return [answer for answer in found if "invocation_id" in answer]

    @cached_property
    def _functions(self) -> dict[str, Mapping[str, Any]]:
        return {tool["function"]["name"]: tool["function"] for tool in self.body.get("tools") or []}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# ---- reactions ------------------------------------------------------------------------------

DEFAULT_USAGE = (120, 30)


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` as a string is sent as it is, `call_id` None gets a fresh one."""

    name: str
    arguments: Mapping[str, Any] | str
    call_id: str | None = None


@dataclass(frozen=True)
class Answer:
    """A completion. A mapping as `content` is the structured answer, sent as it was asked for; text goes as it is."""

    content: Mapping[str, Any] | str | None = None
    calls: tuple[Call, ...] = ()
    thinking: str | None = None
    usage: tuple[int, int] | None = DEFAULT_USAGE
    finish_reason: str | None = None
    refusal: str | None = None
    choices: int = 1


@dataclass(frozen=True)
class HttpError:
    status: int
    body: str = '{"error": {"message": "no", "type": "invalid_request_error", "code": null}}'
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Status 200 and these bytes, whatever they are."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Hang:
    """The request is read and nothing is ever sent."""


@dataclass(frozen=True)
class Drip:
    """The headers, then one byte each `pause_s` seconds, `size` of them."""

    pause_s: float = 0.02
    size: int = 500


@dataclass(frozen=True)
class Reset:
    """The connection is reset, after the headers and a few bytes of the body if `midway`."""

    midway: bool = False


@dataclass(frozen=True)
class Huge:
    """A body of `size` bytes; `declared` says so in Content-Length, else it comes in chunks."""

    size: int = 50 * 1024 * 1024
    declared: bool = False


Reaction: TypeAlias = Answer | HttpError | Raw | Hang | Drip | Reset | Huge
Behaviour: TypeAlias = Reaction | Mapping[str, Any] | Callable[[Question], "Reaction | Mapping[str, Any]"]


def react(behaviour: Behaviour, question: Question) -> Reaction:
    given = behaviour(question) if callable(behaviour) else behaviour
    return Answer(given) if isinstance(given, Mapping) else given


def completion(answer: Answer, question: Question, call_ids: Iterator[str]) -> dict[str, Any]:
    """The chat completion's JSON."""
    calls, content = list(answer.calls), answer.content
    if isinstance(content, Mapping) and question.mode == "tool" and question.schema:
        calls, content = [*calls, Call(question.schema, content)], None
    message: dict[str, Any] = {"role": "assistant", "content": _sent(content)}
    if calls:
        message["tool_calls"] = [
            {
                "id": next(call_ids) if call.call_id is None else call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": _sent(call.arguments)},
            }
            for call in calls
        ]
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.refusal is not None:
        message["refusal"] = answer.refusal
    finish_reason = answer.finish_reason or ("tool_calls" if calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    result: dict[str, Any] = {
        "id": "chatcmpl-double",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": question.body.get("model", ""),
        "choices": [choice] * answer.choices,
    }
    if answer.usage is not None:
        asked, said = answer.usage
        result["usage"] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return result


def _sent(content: Mapping[str, Any] | str | None) -> str | None:
    return json.dumps(content, ensure_ascii=False) if isinstance(content, Mapping) else content
