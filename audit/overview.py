"""What a run's page says of the whole run without reading the whole run: two queries, however many events it has.

The first reads the run's frames once inside the database and brings back sums; the second reads the head of its chain
and two sums of tokens. Whether every hash holds is another question: `audit.verification` answers it.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from audit.trace import Count, Tokens
from runs import tally
from runs.harness.events import Phase
from runs.models import DiagnosisRun

LONG_WAIT = timedelta(seconds=10)
"""So long without an event, and without one that lasted as long, is told as a wait."""

# A frame is written when what it tells of is over, so its own duration is no wait.
_FRAMES = """
    WITH frame AS MATERIALIZED (
        SELECT sequence_no, phase, created_at, duration_ms, invocation_id, event_type,
               created_at - GREATEST(COALESCE(duration_ms, 0), 0) * interval '1 millisecond'
                   - lag(created_at) OVER (ORDER BY sequence_no) AS gap
        FROM diagnosis_trace_event WHERE run_id = %(run_id)s
    )
    SELECT
        (SELECT jsonb_agg(jsonb_build_array(phase, events, took)) FROM (
            SELECT phase, count(*) AS events, sum(GREATEST(duration_ms, 0)) AS took FROM frame GROUP BY phase) AS p),
        (SELECT jsonb_agg(jsonb_build_array(
            sequence_no, round(extract(epoch FROM gap) * 1000),
            created_at - GREATEST(COALESCE(duration_ms, 0), 0) * interval '1 millisecond') ORDER BY sequence_no)
            FROM frame WHERE gap >= %(long_wait)s::interval),
        (SELECT jsonb_object_agg(invocation_id, sequence_no) FROM frame
            WHERE event_type = 'TOOL_INVOCATION' AND invocation_id = ANY(%(cited)s)),
        min(created_at), max(created_at), COALESCE(max(sequence_no), 0)
    FROM frame
"""
_RECORD = """
    SELECT head.sequence_no, head.hash, head.events, head.steps, head.tool_invocations, head.model_calls, head.closed,
        (SELECT COALESCE(sum(COALESCE(input_tokens, 0)::bigint + COALESCE(output_tokens, 0)), 0)
            FROM model_call_ledger WHERE run_id = %(run_id)s),
        (SELECT COALESCE(sum(token_count), 0) FROM agent_step WHERE run_id = %(run_id)s)
    FROM (SELECT 1) AS one LEFT JOIN diagnosis_trace_head AS head ON head.run_id = %(run_id)s
"""


@dataclass(frozen=True, slots=True)
class PhaseTotal:
    """`took_ms`: the sum over the phase's events, which may overlap."""

    phase: Phase
    events: int
    took_ms: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing happened for `ms` before the event `sequence_no`, until `ended`."""

    sequence_no: int
    ms: int
    ended: datetime


@dataclass(frozen=True, slots=True)
class FramesOverview:
    """`phases`: all seven, in the order of the road. `began`, `ended`: the earliest and the latest event's time."""

    phases: tuple[PhaseTotal, ...]
    waits: tuple[Wait, ...]
    events_of_invocations: Mapping[str, int]
    began: datetime | None
    ended: datetime | None
    last_sequence_no: int

    @property
    def events(self) -> int:
        return sum(phase.events for phase in self.phases)


def frames_overview(run_id: str, cited: Collection[str] = ()) -> FramesOverview:
    """`cited`: invocation ids whose events are wanted. One query, one pass over the run's frames."""
    with connection.cursor() as cursor:
        cursor.execute(_FRAMES, {"run_id": run_id, "long_wait": str(LONG_WAIT), "cited": list(cited)})
        phases, waits, invocations, began, ended, last = cursor.fetchone()
    counted = {phase: (events, took) for phase, events, took in _json(phases) or ()}
    return FramesOverview(
        phases=tuple(_phase_total(phase, counted.get(phase)) for phase in Phase),
        waits=tuple(Wait(number, int(ms), datetime.fromisoformat(end)) for number, ms, end in _json(waits) or ()),
        events_of_invocations=_json(invocations) or {},
        began=began,
        ended=ended,
        last_sequence_no=last,
    )


def _phase_total(phase: Phase, found: tuple[int, int | None] | None) -> PhaseTotal:
    events, took = found or (0, 0)
    return PhaseTotal(phase, events, int(took or 0))


def _json(value: Any) -> Any:
    """Django leaves jsonb of raw statements as text."""
    return json.loads(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class RecordOverview:
    """What is on record, counted as it was written.

    `ends_agree`: the chain's head is closed and is the one that the run's own row ended with; None while the run goes.
    """

    events: Count
    steps: Count
    tool_invocations: Count
    model_calls: Count
    tokens: Tokens
    closed: bool
    ends_agree: bool | None

    @property
    def missing(self) -> bool:
        counts = (self.events, self.steps, self.tool_invocations, self.model_calls)
        return any(each.emitted is not None and each.persisted < each.emitted for each in counts)


def record_overview(run: DiagnosisRun) -> RecordOverview:
    """One query: the head's row, and the sums of tokens over model calls and steps."""
    with connection.cursor() as cursor:
        cursor.execute(_RECORD, {"run_id": run.id})
        number, hash_, events, steps, invocations, calls, closed, of_calls, of_steps = cursor.fetchone()
    emitted = asdict(tally.total(run.emitted))

    def count(name: str, persisted: int | None) -> Count:
        return Count(emitted[name], persisted or 0, persisted or 0)

    return RecordOverview(
        events=count("events", events),
        steps=count("steps", steps),
        tool_invocations=count("tool_invocations", invocations),
        model_calls=count("model_calls", calls),
        tokens=Tokens(ledger=int(of_calls), run=run.input_tokens + run.output_tokens, steps=int(of_steps)),
        closed=bool(closed),
        ends_agree=(
            bool(closed) and (run.trace_event_count, run.trace_head_hash) == (number, hash_)
            if run.is_terminal
            else None
        ),
    )
