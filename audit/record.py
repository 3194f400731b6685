"""All that is on record about runs, as rows, in a fixed number of queries for each batch of runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, models, transaction

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
BATCH = 50


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
    """Who read the run's restricted texts, by sequence number. `head` None: nobody did."""

    run_id: str
    head: Row | None
    rows: tuple[Row, ...]


@contextmanager
def one_moment() -> Iterator[None]:
    """All reading inside sees the database as it was at the first query: no run is seen half recorded.

    Inside a transaction of the caller's, that one's rules hold.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def load_record(run_id: str) -> Record:
    """Seven queries, whatever the run holds."""
    (record,) = load_records([run_id])
    return record


def load_records(run_ids: Sequence[str]) -> Iterator[Record]:
    """The records in the order of the ids. Seven queries for each `BATCH` of runs."""
    for ids in _batches(run_ids):
        runs = DiagnosisRun.objects.filter(id__in=ids).values(*chain.RUN_FIELDS, *RUN_CLOSING_FIELDS)
        run_of = {row["id"]: row for row in runs}
        head_of = {row["run_id"]: row for row in TraceHead.objects.filter(run_id__in=ids).values(*HEAD_FIELDS)}
        frames = _by_run(TraceEvent, ids, ("sequence_no", "id"), STORED_FRAME_FIELDS)
        steps = _by_run(AgentStep, ids, ("step_index", "id"), (*chain.STEP_FIELDS, "legacy"))
        reasoning = _by_run(AgentReasoning, ids, ("id",), (*chain.REASONING_FIELDS, "legacy"))
        calls = _by_run(ModelCallRow, ids, ("id",), (*chain.CALL_FIELDS, "legacy"))
        invocations = _by_run(ToolInvocation, ids, ("started_at", "id"), ("id", *chain.INVOCATION_FIELDS, "legacy"))
        for run_id in ids:
            ledgers = Ledgers(
                *(tuple(of_run.get(run_id, ())) for of_run in (steps, reasoning, calls, invocations)),
            )
            yield Record(run_id, run_of.get(run_id), head_of.get(run_id), tuple(frames.get(run_id, ())), ledgers)


def load_readings(run_ids: Sequence[str]) -> Iterator[Readings]:
    """Who read the restricted texts of each run, in the order of the ids. Two queries for each `BATCH` of runs."""
    for ids in _batches(run_ids):
        rows = _by_run(ReasoningAccess, ids, ("sequence_no", "id"), STORED_READING_FIELDS)
        heads = ReasoningAccessHead.objects.filter(run_id__in=ids).values("run_id", "sequence_no", "hash")
        head_of = {row["run_id"]: row for row in heads}
        for run_id in ids:
            yield Readings(run_id, head_of.get(run_id), tuple(rows.get(run_id, ())))


def _batches(run_ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(run_ids), BATCH):
        yield tuple(run_ids[start : start + BATCH])


def _by_run(
    model: type[models.Model], run_ids: Sequence[str], order: tuple[str, ...], fields: tuple[str, ...]
) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in model._default_manager.filter(run_id__in=run_ids).order_by(*order).values(*fields):
        found.setdefault(row["run_id"], []).append(row)
    return found
