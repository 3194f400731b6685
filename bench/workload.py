"""The work that the kernel and the ledger are timed on: an alert run whose model and tools answer at once.

The supervisor has a plan made and one execution done; the executor searches for a number of rounds, drafts one claim
and the rest of the road follows, to a released result. What is left of the run's time is what SuperBiz itself takes.
"""

import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from gatekeeper.types import ANSWER_VERSION, EvidenceRef, EvidenceStatus, SourceKind
from runs.harness.ports import (
    AssistantMessage,
    ModelReply,
    ModelRequest,
    Role,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from runs.harness.run import AlertSubject, Limits, Subject

ROUNDS = 24
STEPS = ROUNDS + 7
"""Model steps of such a run: three times supervisor, planner, the rounds, draft, verifier, composer."""

LIMITS = Limits(
    max_model_calls=1_000, max_tool_calls=1_000, max_same_tool_calls=1_000, max_tokens=10**9, max_model_attempts=1
)
SUBJECT = Subject(
    alert=AlertSubject(
        alertname="CheckoutLatencyHigh",
        severity="critical",
        starts_at=datetime(2031, 3, 4, 5, 0, tzinfo=UTC),
        labels={"alertname": "CheckoutLatencyHigh", "service": "checkout-api"},
        annotations={"summary": "p99 of checkout-api is above 2s"},
        fingerprint="c0ffee00c0ffee00",
    )
)
QUERY = "CheckoutLatencyHigh on checkout-api: p99 of checkout-api is above 2s"
WORDS = ("pool", "timeout", "latency", "deadlock", "retry", "queue", "socket", "cache", "disk", "heap", "thread")
LINES_A_CALL = 10
USAGE = Usage(input_tokens=100, output_tokens=20)


class Search(BaseModel):
    text: str


class InstantTool:
    """Finds lines that no earlier call gave."""

    description = "Searches what this benchmark puts in."
    arguments: type[BaseModel] = Search

    def __init__(self, name: str, source_kind: SourceKind) -> None:
        self.name = name
        self.source_kind = source_kind
        self._numbers = itertools.count(1)

    async def run(self, arguments: Search, context: ToolContext) -> ToolResult:
        number = next(self._numbers)
        lines = [
            f"{context.now:%H:%M:%S} ERROR checkout-api {arguments.text} call={number} line={n}: waited 30000 ms for it"
            for n in range(LINES_A_CALL)
        ]
        return ToolResult(
            status=EvidenceStatus.OK,
            output={"lines": [{"text": line} for line in lines]},
            evidence_refs=tuple(EvidenceRef(f"$.lines[{n}].text", line) for n, line in enumerate(lines)),
            preview=f"{len(lines)} lines",
        )


def tools() -> dict[str, InstantTool]:
    made = (InstantTool("query_logs", SourceKind.TELEMETRY), InstantTool("lookup_knowledge", SourceKind.KNOWLEDGE))
    return {tool.name: tool for tool in made}


class InstantModel:
    """Plays every role without a wait. `calls_a_round`: tool calls of each of the executor's searching answers."""

    name = "instant"

    def __init__(self, rounds: int = ROUNDS, calls_a_round: int = 1) -> None:
        self._rounds = rounds
        self._calls_a_round = calls_a_round

    async def complete(self, request: ModelRequest) -> ModelReply:
        match request.role:
            case Role.AIOPS_SUPERVISOR:
                return _said({"next": _next(_input(request)["allowed"]), "reason": "as far as it goes"})
            case Role.AIOPS_PLANNER:
                return _said({"focus": "the log", "steps": [{"step": "read it", "tool_hint": "query_logs"}]})
            case Role.AIOPS_EXECUTOR:
                return self._executor(request)
            case Role.CHAT_VERIFIER:
                return _said(_all_supported([claim["claim_id"] for claim in _input(request)["claims"]]))
            case Role.CHAT_COMPOSER:
                return _said(_composed(_input(request)["claims"]))
            case role:
                raise RuntimeError(f"An alert run does not ask the role {role}.")

    def _executor(self, request: ModelRequest) -> ModelReply:
        rounds = sum(1 for message in request.messages if isinstance(message, AssistantMessage))
        if rounds >= self._rounds:
            return _said(_draft(request))
        calls = []
        for number in range(rounds * self._calls_a_round, (rounds + 1) * self._calls_a_round):
            name = "lookup_knowledge" if number % 5 == 4 else "query_logs"
            words = f"{WORDS[number % len(WORDS)]} {WORDS[number // len(WORDS) % len(WORDS)]}"
            calls.append(ToolCall(f"call_{number}", name, json.dumps({"text": words})))
        return ModelReply(text=None, tool_calls=tuple(calls), usage=USAGE, finish_reason="tool_calls")


def _next(allowed: list[str]) -> str:
    return next(choice for choice in ("FINISH", "PLAN", "EXECUTE") if choice in allowed)


def _said(answer: Mapping[str, Any]) -> ModelReply:
    return ModelReply(text=json.dumps(answer), usage=USAGE, finish_reason="stop")


def _input(request: ModelRequest) -> dict[str, Any]:
    message = request.messages[0]
    assert isinstance(message, UserMessage)
    told: dict[str, Any] = json.loads(message.text)
    return told


def _draft(request: ModelRequest) -> dict[str, Any]:
    """One claim about the first line of the first answer."""
    answered = next(message for message in request.messages if isinstance(message, ToolMessage))
    answer = json.loads(answered.content)
    ref = answer["evidence_refs"][0]
    citation = {
        "source_invocation_id": answer["invocation_id"],
        "tool_name": answer["tool_name"],
        "raw_path": ref["raw_path"],
        "evidence_excerpt": ref["text"],
    }
    claim = {
        "claim_id": "c1",
        "kind": "observation",
        "claim_text": "checkout-api waited 30000 ms.",
        "critical": True,
        "evidence": [citation],
    }
    return {"answer_version": ANSWER_VERSION, "claims": [claim]}


def _all_supported(ids: list[str]) -> dict[str, Any]:
    return {
        "verdict": "PASS",
        "groundedness_score": 0.9,
        "critical_fact_count": 1,
        "claim_checks": [{"claim_id": each, "supported": True, "reason": "read it"} for each in ids],
        "facts_checked": ids,
        "rationale": "each claim was held against its excerpt",
    }


def _composed(claims: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "conclusion": "",
        "scope": "",
        "statements": [{"text": claim["claim_text"], "claim_ids": [claim["claim_id"]]} for claim in claims],
        "limitations": [],
    }
