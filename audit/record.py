"""All that is on record about one run, as rows, in a fixed number of queries."""

from dataclasses import dataclass

from audit import chain
from audit.chain import Ledgers, Row
from audit.models import (
    AgentReasoning,
    AgentStep,
    ModelCallRow,
    ReasoningAccess,
    ReasoningAccessHead,
    ToolInvocation,
    TraceEvent,
    TraceHead,
)
from runs.models import DiagnosisRun

STORED_FRAME_FIELDS = (*chain.FRAME_FIELDS, "previous_hash", "hash", "legacy")
STORED_READING_FIELDS = (*chain.READING_FIELDS, "previous_hash", "hash")
RUN_CLOSING_FIELDS = ("trace_event_count", "trace_head_hash")
HEAD_FIELDS = ("run_id", "sequence_no", "hash", "events", "steps", "tool_invocations", "model_calls", "closed")


@dataclass(frozen=True, slots=True)
class Record:
    """`frames` by sequence number; steps by index, then id; invocations by start, then id.

    `run` None: the row is gone. `head` None: nothing was appended yet.
    """

    run_id: str
    run: Row | None
    head: Row | None
    frames: tuple[Row, ...]
    ledgers: Ledgers

    @property
    def is_empty(self) -> bool:
        rows = self.ledgers
        return not (
            self.run or self.head or self.frames or rows.steps or rows.reasoning or rows.calls or rows.invocations
        )


@dataclass(frozen=True, slots=True)
class Readings:
    """Who read the run's restricted texts. `head` None: nobody did."""

    run_id: str
    head: Row | None
    rows: tuple[Row, ...]


def load_readings(run_id: str) -> Readings:
    """Two queries."""
    rows = ReasoningAccess.objects.filter(run_id=run_id).order_by("sequence_no", "id").values(*STORED_READING_FIELDS)
    head = ReasoningAccessHead.objects.filter(run_id=run_id).values("run_id", "sequence_no", "hash").first()
    return Readings(run_id, head, tuple(rows))


def load_record(run_id: str) -> Record:
    """Seven queries, whatever the run holds."""
    of_run = {"run_id": run_id}
    frames = TraceEvent.objects.filter(**of_run).order_by("sequence_no", "id").values(*STORED_FRAME_FIELDS)
    steps = AgentStep.objects.filter(**of_run).order_by("step_index", "id").values(*chain.STEP_FIELDS, "legacy")
    reasoning = AgentReasoning.objects.filter(**of_run).order_by("id").values(*chain.REASONING_FIELDS, "legacy")
    calls = ModelCallRow.objects.filter(**of_run).order_by("id").values(*chain.CALL_FIELDS, "legacy")
    invocations = (
        ToolInvocation.objects.filter(**of_run)
        .order_by("started_at", "id")
        .values("id", *chain.INVOCATION_FIELDS, "legacy")
    )
    return Record(
        run_id=run_id,
        run=DiagnosisRun.objects.filter(id=run_id).values(*chain.RUN_FIELDS, *RUN_CLOSING_FIELDS).first(),
        head=TraceHead.objects.filter(**of_run).values(*HEAD_FIELDS).first(),
        frames=tuple(frames),
        ledgers=Ledgers(tuple(steps), tuple(reasoning), tuple(calls), tuple(invocations)),
    )
