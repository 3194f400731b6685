"""One run's working state inside the kernel: budget, step counter, invocations, and the voice to the observers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gatekeeper.types import EvidenceRef, EvidenceStatus, Intent, Invocation, Relevance, SourceKind
from runs.errors import BudgetExhausted
from runs.harness.budget import Budget
from runs.harness.events import (
    SUMMARY_LIMIT,
    BudgetEnded,
    Details,
    Emission,
    EventType,
    Frame,
    InvocationRecord,
    ModelCall,
    Record,
    StepOpened,
)
from runs.harness.ports import SourceDocument
from runs.harness.run import Emitted, Kit, RunInput

UNKNOWN_TOOL = "(unknown tool)"
LABEL_LIMIT = 100
MAX_CALLS_A_STEP = 16
"""Tool calls of one reply beyond these are left out, as if they had not been asked for."""


@dataclass(frozen=True, slots=True)
class KeptInvocation:
    """An invocation as the run remembers it: what the gate needs, and what summaries say."""

    record: InvocationRecord
    documents: tuple[SourceDocument, ...]

    def reached(self, kind: SourceKind) -> bool:
        return self.record.source_kind == kind and self.record.evidence_status != EvidenceStatus.REJECTED

    def for_gate(self) -> Invocation:
        record = self.record
        refs = {
            ref["raw_path"]: EvidenceRef(
                raw_path=ref["raw_path"],
                text=ref["text"],
                shown=ref["shown"],
                relevance=Relevance(ref["relevance"]) if ref["relevance"] else None,
            )
            for ref in record.evidence_refs
        }
        return Invocation(
            invocation_id=record.invocation_id,
            tool_name=record.tool_name,
            status=EvidenceStatus(record.evidence_status),
            source_kind=SourceKind(record.source_kind),
            refs=refs,
        )


@dataclass(slots=True)
class RunContext:
    run: RunInput
    kit: Kit
    budget: Budget
    next_step_index: int
    intent: Intent = Intent.DIAGNOSIS
    invocations: dict[str, KeptInvocation] = field(default_factory=dict)
    emitted: Emitted = field(default_factory=Emitted)
    ended_budgets: list[str] = field(default_factory=list)
    limitations: list[str] = field(default_factory=list)

    # ---- speaking ----

    def emit(
        self,
        event_type: EventType,
        details: Details,
        summary: str,
        *,
        status: str | None = None,
        step_id: str | None = None,
        invocation_id: str | None = None,
        duration_ms: int | None = None,
        content_digest: str | None = None,
        records: Iterable[Record] = (),
        at: datetime | None = None,
    ) -> None:
        frame = Frame(
            event_type=event_type,
            details=details,
            summary=summary[:SUMMARY_LIMIT],
            at=at or self.kit.clock.now(),
            status=status,
            step_id=step_id,
            invocation_id=invocation_id,
            duration_ms=duration_ms,
            content_digest=content_digest,
        )
        self.pass_on(Emission(frame=frame, records=tuple(records)))

    def pass_on(self, emission: Emission) -> None:
        """Counts here, outside any observer, what the ledger is later compared with."""
        so_far = self.emitted
        kinds = [type(record) for record in emission.records]
        self.emitted = Emitted(
            events=so_far.events + (emission.frame is not None),
            steps=so_far.steps + kinds.count(StepOpened),
            tool_invocations=so_far.tool_invocations + kinds.count(InvocationRecord),
            model_calls=so_far.model_calls + kinds.count(ModelCall),
        )
        self.kit.emit(emission)

    def budget_ended(self, error: BudgetExhausted) -> None:
        """Tells once for each budget that it ended."""
        if error.budget in self.ended_budgets:
            return
        self.ended_budgets.append(error.budget)
        limit, used = self.budget.usage_of(error.budget, self.kit.clock.monotonic())
        self.emit(
            EventType.BUDGET_EXHAUSTED,
            BudgetEnded(budget=error.budget, limit=limit, used=used),
            f"{error.budget.replace('_', ' ')} budget ended ({used} of {limit}); the run concludes with what it has",
        )

    def note(self, limitation: str) -> None:
        if limitation not in self.limitations:
            self.limitations.append(limitation)

    def tool_label(self, name: str) -> str:
        """A tool's name for the trace; a name that the model made up is its own text and stays out."""
        return name[:LABEL_LIMIT] if name in self.kit.tools else UNKNOWN_TOOL

    # ---- remembering ----

    def take_step_index(self) -> int:
        index = self.next_step_index
        self.next_step_index += 1
        return index

    def keep(self, invocation: KeptInvocation) -> None:
        self.invocations[invocation.record.invocation_id] = invocation

    def gate_invocations(self) -> dict[str, Invocation]:
        return {id_: kept.for_gate() for id_, kept in self.invocations.items()}

    def tried(self, kind: SourceKind) -> bool:
        """Whether a source of this kind was really asked: a refused call never reached it."""
        return any(kept.reached(kind) for kept in self.invocations.values())

    def evidence_tool_tried(self) -> bool:
        return self.tried(SourceKind.TELEMETRY) or self.tried(SourceKind.KNOWLEDGE)

    def tool_trace_summary(self) -> list[dict[str, object]]:
        return [
            {
                "invocation_id": record.invocation_id,
                "tool_name": record.tool_name,
                "status": record.evidence_status,
                "evidence_count": sum(ref["raw_path"] != "$.no_evidence" for ref in record.evidence_refs),
                "relevance_level": record.relevance_level,
                "duration_ms": record.duration_ms,
            }
            for record in (kept.record for kept in self.invocations.values())
        ]

    def seen_documents(self) -> frozenset[str]:
        return frozenset(doc.document_id for kept in self.invocations.values() for doc in kept.documents)


def begin(run: RunInput, kit: Kit) -> RunContext:
    elapsed = max(0.0, (kit.clock.now() - run.started_at).total_seconds())
    budget = Budget.begin(kit.limits, run.spent, now=kit.clock.monotonic(), elapsed_before=elapsed)
    return RunContext(run=run, kit=kit, budget=budget, next_step_index=run.next_step_index)
