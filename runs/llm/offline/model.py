"""`OfflineModel`: one rule-based reader for each role, behind the protocol that every model has."""

from typing import Final

from pydantic import BaseModel

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
from runs.harness.wire import RouterIntent, SystemChatReply
from runs.llm.offline import composer, planner, router, verifier
from runs.llm.offline.brief import deliberation, objects, payloads, situation
from runs.llm.offline.executor import execute

CHARS_PER_TOKEN: Final = 4
"""Tokens are estimated as characters / 4, the usual rule of thumb for English text; nothing is billed."""


class OfflineModel:
    """Same request, same reply. It sees what any model sees, and does not need the system text."""

    name = "offline"

    async def complete(self, request: ModelRequest) -> ModelReply:
        answered = _answer(request)
        calls = answered if isinstance(answered, tuple) else ()
        text = None if isinstance(answered, tuple) else answered.model_dump_json()
        return ModelReply(
            text=text,
            tool_calls=calls,
            usage=_usage(request, text, calls),
            finish_reason="tool_calls" if calls else "stop",
            model=self.name,
        )


def _answer(request: ModelRequest) -> BaseModel | tuple[ToolCall, ...]:
    if request.role in {Role.AIOPS_EXECUTOR, Role.CHAT_EXECUTOR}:
        turn = execute(request)
        return turn.calls if turn.draft is None else turn.draft
    told = payloads(request.messages)
    payload = told[-1] if told else {}
    query = str(payload.get("query") or "")
    match request.role:
        case Role.ROUTER:
            return RouterIntent(intent=router.route(query, objects(payload.get("history"))))
        case Role.SYSTEM_CHAT:
            return SystemChatReply(reply=router.system_reply(query))
        case Role.AIOPS_SUPERVISOR:
            return planner.supervise(payload)
        case Role.AIOPS_PLANNER | Role.CHAT_PLANNER:
            return planner.plan(situation(payload), [str(tool.get("name")) for tool in objects(payload.get("tools"))])
        case Role.CHAT_VERIFIER:
            return verifier.evaluate(deliberation(payload))
        case _:
            return composer.compose(deliberation(payload))


def _usage(request: ModelRequest, text: str | None, calls: tuple[ToolCall, ...]) -> Usage:
    read = len(request.system) + sum(_length(message) for message in request.messages)
    written = len(text or "") + sum(len(call.name) + len(call.arguments) for call in calls)
    return Usage(_tokens(read), _tokens(written))


def _length(message: UserMessage | AssistantMessage | ToolMessage) -> int:
    if isinstance(message, ToolMessage):
        return len(message.content)
    called = sum(len(c.arguments) for c in message.tool_calls) if isinstance(message, AssistantMessage) else 0
    return len(message.text or "") + called


def _tokens(characters: int) -> int:
    return -(-characters // CHARS_PER_TOKEN)
