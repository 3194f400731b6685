"""The timeline's rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from audit.pages.words import EVENT_WORDS, ROLE_WORDS, tone_of_event
from audit.trace import TimelineEvent
from runs.harness.events import EventType
from runs.pages.hostile import one_line
from runs.pages.words import Tone, Words

# The bar is drawn on a scale of this many units.
SCALE = 1000
THINNEST = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """Where in the run it happened and how long it took, in thousandths of the run's span."""

    start: int
    width: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """`after_ms`: from the run's first event to this one. `bar` None while the run's span is not known."""

    sequence_no: int
    phase: str
    title: Words
    who: Words
    status: str | None
    tone: Tone
    summary: str
    after_ms: int
    duration_ms: int | None
    created_at: datetime
    bar: Bar | None
    terminal: bool


def timeline_row(event: TimelineEvent, began: datetime, span: timedelta | None = None) -> TimelineRow:
    """One row. `began`: when the run's first event was; `span`: from there to its last one."""
    return TimelineRow(
        sequence_no=event.sequence_no,
        phase=event.phase,
        title=EVENT_WORDS.get(event.event_type, event.event_type),
        who=_who(event),
        status=event.status,
        tone=tone_of_event(event.event_type, event.status, event.details),
        summary=one_line(event.summary),
        after_ms=max(0, round((event.created_at - began) / timedelta(milliseconds=1))),
        duration_ms=event.duration_ms,
        created_at=event.created_at,
        bar=_bar(event, began, span),
        terminal=event.is_terminal,
    )


def timeline_rows(events: Sequence[TimelineEvent]) -> tuple[TimelineRow, ...]:
    if not events:
        return ()
    began = min(event.created_at for event in events)
    span = max(event.created_at for event in events) - began
    return tuple(timeline_row(event, began, span) for event in events)


def _who(event: TimelineEvent) -> Words:
    """Which role or tool it is about, where the event is about one."""
    if event.event_type == EventType.AGENT_MODEL_STEP:
        role = event.details.get("role", "")
        return ROLE_WORDS.get(role, one_line(str(role), 40))
    if event.event_type == EventType.TOOL_INVOCATION:
        return one_line(str(event.details.get("tool_name", "")), 60)
    return ""


def _bar(event: TimelineEvent, began: datetime, span: timedelta | None) -> Bar | None:
    """A frame is written when what it tells of is over: its bar ends there."""
    if not span or not event.duration_ms:
        return None
    took = timedelta(milliseconds=event.duration_ms)
    start = max(timedelta(0), event.created_at - took - began)
    width = max(THINNEST, min(SCALE, round(took / span * SCALE)))
    return Bar(min(SCALE - width, round(start / span * SCALE)), width)
