"""Requests as the kernel makes them, for tests of models."""

import json
from typing import Any

from runs.harness.ports import Message, ModelRequest, Role, ToolSpec, UserMessage
from runs.harness.wire import OUTPUTS, SCHEMA_NAMES

QUERY_LOGS = ToolSpec(
    "query_logs",
    "Search log lines.",
    {
        "type": "object",
        "properties": {"text": {"type": "string"}, "level": {"type": "string"}, "service": {"type": "string"}},
        "additionalProperties": False,
    },
)
LOOKUP = ToolSpec(
    "lookup_knowledge",
    "Search runbooks.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)

ALERT_INPUT = {
    "query": "CheckoutErrors is firing",
    "alert": {"alertname": "CheckoutErrors", "labels": {"service": "checkout-api"}, "annotations": {}},
    "now": "2026-03-02T10:10:00Z",
    "window": {"start": "2026-03-02T09:40:00Z", "end": "2026-03-02T10:10:00Z"},
    "plan": None,
}


def ask(role: Role, *messages: Message | dict[str, Any], tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    """A role's request; a dict is a user message's JSON object."""
    conversation = tuple(
        UserMessage(json.dumps(m, ensure_ascii=False)) if isinstance(m, dict) else m
        for m in messages or ({"query": "why does checkout fail?"},)
    )
    return ModelRequest(role, SCHEMA_NAMES[role], OUTPUTS[role], f"You are the {role.value}.", conversation, tools)


def ask_executor(*more: Message | dict[str, Any], tools: tuple[ToolSpec, ...] = (LOOKUP, QUERY_LOGS)) -> ModelRequest:
    return ask(Role.AIOPS_EXECUTOR, ALERT_INPUT, *more, tools=tools)
