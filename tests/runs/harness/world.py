"""A run's surroundings in memory: a clock that jumps, ids that repeat, tools over lists, models that follow moves."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import ANSWER_VERSION, EvidenceRef, EvidenceStatus, Intent, Relevance, SourceKind
from runs.harness.events import Emission, EventType, Frame, InvocationRecord, ModelCall, Reasoning, StepClosed
from runs.harness.memory import NOTHING_REMEMBERED, Memory
from runs.harness.pipeline import drive
from runs.harness.ports import (
    Breaker,
    ChatModel,
    ModelReply,
    ModelRequest,
    Role,
    SourceDocument,
    Tool,
    ToolContext,
    ToolResult,
)
from runs.harness.run import (
    AlertSubject,
    Conclusion,
    Kit,
    Limits,
    Prompt,
    RunInput,
    Settled,
    Spending,
    Spent,
    Subject,
)
from runs.ids import SeededIds
from runs.llm.scripted import Step, call_tools, cite, say, tool_answers, user_input

NOW = datetime(2026, 11, 17, 10, 50, tzinfo=UTC)
SUPERVISOR, PLANNER, EXECUTOR = Role.AIOPS_SUPERVISOR, Role.AIOPS_PLANNER, Role.AIOPS_EXECUTOR
VERIFIER, COMPOSER = Role.CHAT_VERIFIER, Role.CHAT_COMPOSER

LINES = (
    "10:42:17 ERROR checkout-api HikariPool-1 - Connection is not available, request timed out after 30000ms",
    "10:42:19 ERROR checkout-api POST /orders 500 in 30012ms",
    "10:43:02 WARN checkout-api leak detected: connection held for 61000ms",
)
RUNBOOK = "When the pool has no connections left, look for connections that are held for long and restart the holder."
ALERT = AlertSubject(
    alertname="CheckoutLatencyHigh",
    severity="critical",
    starts_at=NOW - timedelta(minutes=8),
    labels={"service": "checkout-api", "alertname": "CheckoutLatencyHigh"},
    annotations={"summary": "p99 of checkout-api is above 2s"},
)
ORDINARY = Limits()
ABOUT_THE_ALERT = Subject(alert=ALERT)
ALL_WRITTEN = Settled(complete=True)
NOTHING_SPENT = Spent()


class VirtualClock:
    """Time passes only by `sleep` and `advance`."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return 1_000.0 + self.passed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.passed += seconds


# ---- tools ----------------------------------------------------------------------------------


class Search(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    limit: int = Field(default=50, ge=1, le=1000)


Behaviour = Callable[[Search, ToolContext], Awaitable[ToolResult]]


@dataclass
class MemoryTool:
    """`calls` keeps the arguments of every call that reached the tool."""

    name: str
    source_kind: SourceKind
    behave: Behaviour
    description: str = "Searches what this test put in."
    arguments: type[BaseModel] = Search
    calls: list[Search] = field(default_factory=list)
    contexts: list[ToolContext] = field(default_factory=list)
    cancelled: int = 0

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        self.calls.append(arguments)
        self.contexts.append(context)
        try:
            return await self.behave(arguments, context)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def found(texts: Sequence[str], **more: Any) -> ToolResult:
    """One ref for each text."""
    return ToolResult(
        status=EvidenceStatus.OK,
        output={"lines": [{"text": text} for text in texts]},
        evidence_refs=tuple(EvidenceRef(f"$.lines[{n}].text", text) for n, text in enumerate(texts)),
        preview=f"{len(texts)} lines",
        **more,
    )


def nothing(text: str) -> ToolResult:
    return ToolResult(
        status=EvidenceStatus.NO_EVIDENCE,
        output={"no_evidence": text},
        evidence_refs=(EvidenceRef("$.no_evidence", text),),
        preview=text,
    )


def logs(lines: Sequence[str] = LINES, name: str = "query_logs") -> MemoryTool:
    """Lines that contain the text, at most `limit`."""

    async def search(arguments: Search, context: ToolContext) -> ToolResult:
        hits = [line for line in lines if arguments.text in line][: arguments.limit]
        said = f"{name} text={arguments.text!r}: scanned {len(lines)} lines up to {context.now:%H:%M}, found none."
        return found(hits) if hits else nothing(said)

    return MemoryTool(name, SourceKind.TELEMETRY, search)


def knowledge(text: str = RUNBOOK, relevance: Relevance = Relevance.PRECISE) -> MemoryTool:
    async def look_up(arguments: Search, context: ToolContext) -> ToolResult:
        return ToolResult(
            status=EvidenceStatus.OK,
            output={"hits": [{"text": text}]},
            evidence_refs=(EvidenceRef("$.hits[0].text", text, relevance=relevance),),
            preview=text[:80],
            relevance=relevance,
            retrieval_layer="L1",
            documents=(SourceDocument("doc-pool", "Connection pool exhausted", ("$.hits[0].text",)),),
        )

    return MemoryTool("lookup_knowledge", SourceKind.KNOWLEDGE, look_up)


def raising(name: str, *errors: Exception, then: ToolResult | None = None) -> MemoryTool:
    """Raises the errors in turn, the last one again and again, or answers `then` after them."""
    left = list(errors)

    async def fail(arguments: Search, context: ToolContext) -> ToolResult:
        if then is not None and not left:
            return then
        raise left.pop(0) if len(left) > 1 or then is not None else left[0]

    return MemoryTool(name, SourceKind.TELEMETRY, fail)


def hanging(name: str = "query_logs") -> MemoryTool:
    async def hang(arguments: Search, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")

    return MemoryTool(name, SourceKind.TELEMETRY, hang)


# ---- models ---------------------------------------------------------------------------------

Moves = Sequence[Step]


class Brain:
    """A `ChatModel` that plays each role by its own moves and repeats a role's last move for ever."""

    def __init__(self, moves: Mapping[Role, Moves], clock: VirtualClock | None = None, seconds: float = 0) -> None:
        self._moves = dict(DEFAULT_MOVES) | dict(moves)
        self._clock, self._seconds = clock, seconds
        self.requests: list[ModelRequest] = []

    name = "brain"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Each answer takes `seconds` of the virtual clock."""
        moves = self._moves[request.role]
        step = moves[min(len(self.asked(request.role)), len(moves) - 1)]
        self.requests.append(request)
        await asyncio.sleep(step.delay_s)
        if self._clock is not None:
            self._clock.advance(self._seconds)
        outcome = step.outcome(request) if callable(step.outcome) else step.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def asked(self, role: Role) -> list[ModelRequest]:
        return [request for request in self.requests if request.role is role]


def finish_when_allowed(request: ModelRequest) -> dict[str, Any]:
    allowed = user_input(request)["allowed"]
    return {"next": next(c for c in ("FINISH", "PLAN", "EXECUTE") if c in allowed), "reason": "as far as it goes"}


def supports_all(request: ModelRequest) -> dict[str, Any]:
    return evaluation({claim["claim_id"]: True for claim in user_input(request)["claims"]})


def says_the_claims(request: ModelRequest) -> dict[str, Any]:
    claims = user_input(request)["claims"]
    return composed(
        [(claim["claim_text"], [claim["claim_id"]]) for claim in claims], conclusion="HikariPool-1 gave no connection."
    )


def evaluation(checks: Mapping[str, bool], **changes: Any) -> dict[str, Any]:
    return {
        "verdict": "PASS",
        "groundedness_score": 0.9,
        "critical_fact_count": 1,
        "claim_checks": [{"claim_id": id_, "supported": ok, "reason": "read it"} for id_, ok in checks.items()],
        "facts_checked": list(checks),
        "rationale": "each claim was held against its excerpt",
    } | changes


def composed(
    statements: Iterable[tuple[str, list[str]]], conclusion: str = "", scope: str = "", limitations: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "conclusion": conclusion,
        "scope": scope,
        "statements": [{"text": text, "claim_ids": ids} for text, ids in statements],
        "limitations": list(limitations),
    }


PLAN = {"focus": "why checkout-api is slow", "steps": [{"step": "read its log", "tool_hint": "query_logs"}]}


def claim(
    claim_id: str, text: str, *evidence: Mapping[str, str], kind: str = "observation", **more: Any
) -> dict[str, Any]:
    base = {"claim_id": claim_id, "kind": kind, "claim_text": text, "critical": True, "evidence": list(evidence)}
    return base | more


def draft(*claims: Mapping[str, Any], version: str = ANSWER_VERSION) -> dict[str, Any]:
    return {"answer_version": version, "claims": list(claims)}


def answer_of(request: ModelRequest, tool: str, position: int = 0) -> dict[str, Any]:
    """The tool's answers that can be cited, if any can; else all of them."""
    answers = [answer for answer in tool_answers(request) if answer["tool_name"] == tool]
    return ([answer for answer in answers if answer["evidence_refs"]] or answers)[position]


def honest(request: ModelRequest) -> dict[str, Any]:
    """What the log and the runbook say."""
    return draft(pool_claim(request), guidance_claim(request))


def pool_claim(request: ModelRequest, **changes: str) -> dict[str, Any]:
    citation = cite(answer_of(request, "query_logs")) | changes
    return claim("c1", "checkout-api got no connection from HikariPool-1.", citation)


def guidance_claim(request: ModelRequest) -> dict[str, Any]:
    text = "The runbook advises to look for connections that are held for long."
    return claim("c2", text, cite(answer_of(request, "lookup_knowledge")), kind="guidance", critical=False)


def calls(*asked: tuple[str, Any], **more: Any) -> Step:
    return call_tools(EXECUTOR, *asked, **more)


def drafts(answer: Any, **more: Any) -> Step:
    return say(EXECUTOR, answer, **more)


LOOK: tuple[tuple[str, Any], ...] = (("query_logs", {"text": "checkout-api"}), ("lookup_knowledge", {"text": "pool"}))

DEFAULT_MOVES: dict[Role, Moves] = {
    SUPERVISOR: [say(SUPERVISOR, finish_when_allowed)],
    PLANNER: [say(PLANNER, PLAN)],
    EXECUTOR: [calls(*LOOK), drafts(honest)],
    VERIFIER: [say(VERIFIER, supports_all)],
    COMPOSER: [say(COMPOSER, says_the_claims)],
}


# ---- a run ----------------------------------------------------------------------------------


@dataclass
class Collected:
    """Everything a run emitted and spent."""

    emissions: list[Emission] = field(default_factory=list)
    spent: list[Spending] = field(default_factory=list)

    @property
    def frames(self) -> list[Frame]:
        return [emission.frame for emission in self.emissions if emission.frame is not None]

    def of(self, *types: EventType) -> list[Frame]:
        return [frame for frame in self.frames if frame.event_type in types]

    def records(self, kind: type[Any]) -> list[Any]:
        return [record for emission in self.emissions for record in emission.records if isinstance(record, kind)]

    @property
    def invocations(self) -> list[InvocationRecord]:
        return self.records(InvocationRecord)

    @property
    def model_calls(self) -> list[ModelCall]:
        return self.records(ModelCall)

    @property
    def closed_steps(self) -> list[StepClosed]:
        return self.records(StepClosed)

    @property
    def reasoning(self) -> list[Reasoning]:
        return self.records(Reasoning)

    def text(self) -> str:
        """All that the frames say, for a search."""
        said = [[frame.summary, frame.status, frame.details.model_dump(mode="json")] for frame in self.frames]
        return json.dumps(said, ensure_ascii=False)


def prompts() -> dict[Role, Prompt]:
    return {
        role: Prompt(role.value, f"{role.value}-v1", f"prompts/{role.value}.md", f"{n:064x}", f"You are {role.value}.")
        for n, role in enumerate(Role)
    }


@dataclass
class World:
    """One run and what it is handed. `drive` runs it."""

    model: ChatModel
    tools: Sequence[Tool] = ()
    limits: Limits = ORDINARY
    clock: VirtualClock = field(default_factory=VirtualClock)
    subject: Subject = ABOUT_THE_ALERT
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    settled: Settled | Callable[["World"], Settled] = ALL_WRITTEN
    spent: Spent = NOTHING_SPENT
    query: str = "Why is checkout-api slow?"
    memory: Memory = NOTHING_REMEMBERED
    marked: list[Intent] = field(default_factory=list)
    seed: int = 7
    said: Collected = field(default_factory=Collected)

    def kit(self) -> Kit:
        return Kit(
            models=dict.fromkeys(Role, self.model),
            tools={tool.name: tool for tool in self.tools or (logs(), knowledge())},
            prompts=prompts(),
            prompt_set_version="aiops-prompts-v1",
            rule_set=shipped_rule_set(),
            limits=self.limits,
            clock=self.clock,
            ids=SeededIds(self.seed),
            emit=self.said.emissions.append,
            spend=self.said.spent.append,
            settle=self._settle,
            mark_intent=self._mark,
            breakers=self.breakers,
        )

    async def _mark(self, intent: Intent) -> None:
        self.marked.append(intent)

    async def _settle(self) -> Settled:
        return self.settled(self) if callable(self.settled) else self.settled

    def run(self) -> RunInput:
        return RunInput(
            run_id="run_0000000000000001",
            session_id="alert-1",
            trigger="ALERT" if self.subject.alert else "CHAT",
            query=self.query,
            subject=self.subject,
            attempt=1,
            started_at=NOW,
            spent=self.spent,
            memory=self.memory,
        )

    async def drive(self) -> Conclusion:
        return await drive(self.run(), self.kit())


def world(
    executor: Moves | None = None,
    *,
    tools: Sequence[Tool] = (),
    limits: Limits | None = None,
    moves: Mapping[Role, Moves] | None = None,
    seconds_a_call: float = 0,
    **more: Any,
) -> tuple[World, Brain]:
    """A world with a brain; `executor` are the executor's moves, `limits` change the defaults."""
    clock = VirtualClock()
    given = dict(moves or {}) | ({EXECUTOR: executor} if executor else {})
    brain = Brain(given, clock, seconds_a_call)
    return World(brain, tools, limits or Limits(), clock, **more), brain


def limits(**changes: Any) -> Limits:
    return replace(Limits(), **changes)
