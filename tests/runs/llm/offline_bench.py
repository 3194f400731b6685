"""Holding a whole conversation with the offline model over recorded evidence, through real tools and the real gate."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gatekeeper.gate import judge
from gatekeeper.types import (
    Case,
    Citation,
    Claim,
    ClaimKind,
    Draft,
    EvidenceRef,
    EvidenceStatus,
    GateResult,
    Intent,
    Invocation,
    RuleMode,
    RuleSet,
    RuleSetting,
    Severity,
)
from runs.errors import ToolFailed
from runs.harness.inputs import context_of
from runs.harness.ports import (
    AssistantMessage,
    Message,
    ModelReply,
    ModelRequest,
    Role,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from runs.harness.toolanswers import answer_text
from runs.harness.wire import OUTPUTS, SCHEMA_NAMES, ComposerOutput, ExecutorEvidence, VerifierEvaluation
from runs.knowledge.chunking import read_markdown
from runs.knowledge.index import KnowledgeIndex
from runs.llm.offline import OfflineModel
from runs.tools.registry import Sources, ToolRegistry, build_registry

ROOT = Path(__file__).parents[3]
INCIDENTS = ROOT / "eval" / "incidents"
SHOWN_CHARS = 24_000
CODES = (
    "GK001_ANSWER_VERSION", "GK002_INVOCATION_EXISTS", "GK003_TOOL_MATCHES", "GK004_PATH_EXISTS",
    "GK005_EXCERPT_SUPPORTED", "GK006_NEGATIVE_EVIDENCE", "GK007_NUMBERS_SUPPORTED", "GK008_INVOCATION_SUCCEEDED",
    "GK009_CURRENT_STATE",
)  # fmt: skip
RULES = RuleSet(1, "test", tuple(RuleSetting(code, RuleMode.ENFORCED, Severity.REJECT) for code in CODES))
MODEL = OfflineModel()


def request(role: Role, messages: list[Message], tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest(role, SCHEMA_NAMES[role], OUTPUTS[role], "", tuple(messages), tools)


async def ask(role: Role, payload: dict[str, Any], tools: tuple[ToolSpec, ...] = ()) -> ModelReply:
    return await MODEL.complete(request(role, [UserMessage(json.dumps(payload))], tools))


def runbooks() -> KnowledgeIndex:
    folder = ROOT / "runs" / "knowledge" / "runbooks"
    return KnowledgeIndex([read_markdown(path.stem, path.read_text()) for path in sorted(folder.glob("*.md"))])


@dataclass
class Bench:
    """One incident's tools and everything that was said over them."""

    slug: str
    query: str = ""
    messages: list[Message] = field(default_factory=list)
    invocations: dict[str, Invocation] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    fail: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        folder = INCIDENTS / self.slug
        self.alert: dict[str, Any] = json.loads((folder / "alert.json").read_text())["alerts"][0]
        self.truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
        recorded = json.loads((folder / "evidence" / "meta.json").read_text())["recorded_at"]
        self.now = datetime.fromisoformat(recorded)
        self.tools: ToolRegistry = build_registry(Sources(recorded_evidence=folder / "evidence"), runbooks())
        self.query = self.query or f"{self.alert['labels']['alertname']}: {self.alert['annotations']['summary']}"

    def brief(self, *, chat: bool = False) -> dict[str, Any]:
        began = self.now if chat else datetime.fromisoformat(self.alert["startsAt"])
        told = {key: self.alert[key] for key in ("status", "startsAt", "labels", "annotations", "generatorURL")}
        told |= {"alertname": self.alert["labels"]["alertname"], "severity": self.alert["labels"]["severity"]}
        window = {"start": (began - timedelta(minutes=30)).isoformat(), "end": self.now.isoformat()}
        alert = None if chat else told
        return {"query": self.query, "alert": alert, "now": self.now.isoformat(), "window": window, "plan": None}

    async def execute(self, *, chat: bool = False, tools: tuple[str, ...] | None = None) -> ExecutorEvidence:
        """The executor's conversation, from the task to its draft."""
        role = Role.CHAT_EXECUTOR if chat else Role.AIOPS_EXECUTOR
        self.messages.append(UserMessage(json.dumps(self.brief(chat=chat))))
        specs = self.tools.specs(tools)
        for _ in range(6):
            reply = await MODEL.complete(request(role, self.messages, specs))
            if not reply.tool_calls:
                self.messages.append(AssistantMessage(reply.text))
                return ExecutorEvidence.model_validate_json(reply.text or "")
            self.messages.append(AssistantMessage(reply.text, reply.tool_calls))
            for call in reply.tool_calls:
                self.messages.append(await self._call(call))
        raise AssertionError("the executor never concluded")

    async def _call(self, call: ToolCall) -> ToolMessage:
        self.calls.append(call)
        tool = self.tools.tools[call.name]
        invocation_id = f"inv_{len(self.calls):06d}"
        context = ToolContext("run", "session", self.now, self.query)
        status = EvidenceStatus.FAILED
        output: dict[str, Any] | None = None
        refs: tuple[EvidenceRef, ...] = ()
        try:
            if call.name in self.fail:
                raise ToolFailed("The source did not answer.", error_code="TIMEOUT")
            result = await tool.run(tool.arguments.model_validate_json(call.arguments), context)
            status, refs, output = result.status, result.evidence_refs, result.output
        except ToolFailed:
            assert call.name in self.fail
        text, shown, _ = answer_text(invocation_id, call.name, status.value, output, refs, None, SHOWN_CHARS)
        seen = {ref.raw_path: ref for ref in refs if ref.raw_path in shown}
        self.invocations[invocation_id] = Invocation(invocation_id, call.name, status, tool.source_kind, seen)
        self.trace.append({"invocation_id": invocation_id, "tool_name": call.name, "status": status.value,
                           "evidence_count": len(refs)})  # fmt: skip
        return ToolMessage(call.call_id, call.name, text)

    def gate(self, draft: ExecutorEvidence, intent: Intent = Intent.DIAGNOSIS) -> GateResult:
        claims = tuple(
            Claim(c.claim_id, ClaimKind(c.kind), c.claim_text, c.critical,
                  tuple(Citation(**e.model_dump()) for e in c.evidence))
            for c in draft.claims
        )  # fmt: skip
        given = (json.dumps(self.alert), self.query)
        return judge(Case(Draft(draft.answer_version, claims), self.invocations, given, intent), RULES)

    def deliberation(self, draft: ExecutorEvidence) -> dict[str, Any]:
        """What verifier and composer are told."""
        claims = [claim.model_dump(mode="json") for claim in draft.claims]
        for claim in claims:
            for item in claim["evidence"]:
                ref = self.invocations[item["source_invocation_id"]].refs[item["raw_path"]]
                item["context"] = context_of(ref.text, item["evidence_excerpt"])
        return {"query": self.query, "claims": claims, "tool_trace_summary": self.trace}

    async def verify(self, draft: ExecutorEvidence) -> VerifierEvaluation:
        reply = await ask(Role.CHAT_VERIFIER, self.deliberation(draft))
        return VerifierEvaluation.model_validate_json(reply.text or "")

    async def compose(self, draft: ExecutorEvidence) -> ComposerOutput:
        reply = await ask(Role.CHAT_COMPOSER, self.deliberation(draft))
        return ComposerOutput.model_validate_json(reply.text or "")
