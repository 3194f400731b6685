"""The seams of the kernel: what it awaits and what is handed in.

Nothing here does I/O. A `ChatModel` is a provider, the offline model or a script; a `Tool` is one
evidence source; `Clock` and `IdSource` are handed in so that a run can be reproduced to the byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel

from gatekeeper.types import EvidenceRef, EvidenceStatus, Relevance, SourceKind


class Role(StrEnum):
    """Who is asking. `schema_name` is what a server sees; `family` names the override SUPERBIZ_LLM_<FAMILY>."""

    ROUTER = "router"
    SYSTEM_CHAT = "system_chat"
    CHAT_PLANNER = "chat_planner"
    CHAT_EXECUTOR = "chat_executor"
    CHAT_VERIFIER = "chat_verifier"
    CHAT_COMPOSER = "chat_composer"
    AIOPS_SUPERVISOR = "aiops_supervisor"
    AIOPS_PLANNER = "aiops_planner"
    AIOPS_EXECUTOR = "aiops_executor"

    @property
    def family(self) -> str:
        if self in {Role.ROUTER, Role.SYSTEM_CHAT}:
            return self.name
        return self.name.split("_", 1)[1]


# ---- models ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it: `arguments` is its raw JSON text, not yet validated."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """`content` is the JSON object of the model wire: invocation_id, tool_name, status, evidence_refs, …"""

    call_id: str
    tool_name: str
    content: str


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `output` is the pydantic type whose JSON schema is sent under `schema_name`."""

    role: Role
    schema_name: str
    output: type[BaseModel]
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one attempt. `cost_usd` is None where the price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came back. `text` is the structured answer as JSON text (or prose, where the contract was broken).

    `thinking` is the model's reasoning: restricted, never an answer. `usage` is None where the server
    did not state it.
    """

    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str | None = None


class ChatModel(Protocol):
    """A model behind one request and one reply.

    Raises `runs.errors.ModelUnavailable` (with `transient` and `retry_after`), `ModelRefused` or
    `ModelContractViolated`. Does not retry: retries are the kernel's, and each attempt is on record.
    """

    @property
    def name(self) -> str:
        """For people and the ledger, e.g. `offline` or `openai:gpt-5`."""

    async def complete(self, request: ModelRequest) -> ModelReply: ...


# ---- tools ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the run. `now` is the reference time: the recorded moment for recorded evidence.

    `seen_in_run` and `seen_in_session` hold ids of knowledge documents already given to the model.
    """

    run_id: str
    session_id: str
    now: datetime
    query: str = ""
    seen_in_run: frozenset[str] = frozenset()
    seen_in_session: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a source answered.

    `output` is a JSON object; every `evidence_refs[i].raw_path` is a JSONPath into it, and the text
    at that path is `evidence_refs[i].text`. With status NO_EVIDENCE there is exactly one ref, at
    `$.no_evidence`, whose text states tool, query, window and what was scanned. A failed call is
    never a result with status NO_EVIDENCE: tools raise `ToolRejected` or `ToolFailed`.
    """

    status: EvidenceStatus
    output: dict[str, Any]
    evidence_refs: tuple[EvidenceRef, ...]
    preview: str
    relevance: Relevance | None = None
    retrieval_layer: str | None = None
    l0_match_count: int | None = None
    l1_match_count: int | None = None
    dedup_reason: str | None = None
    documents: tuple["SourceDocument", ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A knowledge document that a result came from."""

    document_id: str
    title: str
    raw_paths: tuple[str, ...] = ()


class Tool(Protocol):
    name: str
    description: str
    arguments: type[BaseModel]
    source_kind: SourceKind

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        """`arguments` is a validated instance of `self.arguments`. Raises `ToolRejected` or `ToolFailed`."""


class Breaker(Protocol):
    """A circuit breaker of one tool, shared by the runs of a process."""

    def allow(self) -> bool: ...

    def succeeded(self) -> None: ...

    def failed(self) -> None: ...


# ---- time, ids ------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware, UTC."""

    def monotonic(self) -> float:
        """Seconds."""

    async def sleep(self, seconds: float) -> None: ...


class IdSource(Protocol):
    def step_id(self) -> str: ...

    def invocation_id(self) -> str: ...

    def call_id(self) -> str: ...

    def jitter(self) -> float:
        """In [0, 1)."""
