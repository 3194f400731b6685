"""The timeline's rows: true durations on one scale, long waits told and drawn short."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from django.utils.translation import gettext_lazy as _

from audit.overview import LONG_WAIT, FramesOverview
from audit.pages.words import EVENT_WORDS, ROLE_WORDS, tone_of_event
from audit.trace import TimelineEvent
from runs.harness.events import EventType
from runs.pages.hostile import one_line
from runs.pages.words import Tone, Words

# The bar is drawn on a scale of this many units.
SCALE = 1000
THINNEST = 6
# A wait takes at most this share of the scale.
WAIT_SHARE = 0.03
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Scale:
    """A run's time from its earliest to its latest event, with each long wait drawn short.

    `ends`: when each of these waits ended, in order; `left_out`: how much of time is not drawn up to each of them.
    `span`: what is left of the whole.
    """

    began: datetime
    span: timedelta
    ends: tuple[datetime, ...] = ()
    left_out: tuple[timedelta, ...] = ()

    def place(self, moment: datetime) -> timedelta:
        """How far from the beginning, without what was left out before."""
        before = bisect_right(self.ends, moment)
        return moment - self.began - (self.left_out[before - 1] if before else timedelta(0))


def scale_of(overview: FramesOverview) -> Scale | None:
    """None where nothing is on record."""
    if overview.began is None or overview.ended is None:
        return None
    whole = overview.ended - overview.began
    waited = sum(wait.ms for wait in overview.waits) * _MS
    longest = max(whole - waited, LONG_WAIT) * WAIT_SHARE
    drawn_short = sorted((wait.ended, wait.ms * _MS - longest) for wait in overview.waits if wait.ms * _MS > longest)
    left_out = tuple(accumulate(cut for _end, cut in drawn_short))
    span = whole - (left_out[-1] if left_out else timedelta(0))
    return Scale(overview.began, span, tuple(end for end, _cut in drawn_short), left_out)


@dataclass(frozen=True, slots=True)
class Bar:
    """Where in the run it happened and how long it took, in thousandths of the run's span."""

    start: int
    width: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """`after_ms`: from the run's first event to this one, negative where the clock went back. `address`: of its page.

    `bar` None while the run's span is not known. `wait_ms`: nothing happened for so long before it; 0: no long wait.
    `warning`: what is odd about its times.
    """

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
    minor: bool = False
    address: str = ""
    wait_ms: int = 0
    warning: Words = ""


def timeline_row(
    event: TimelineEvent, began: datetime, scale: Scale | None = None, *, wait_ms: int = 0, query: str = ""
) -> TimelineRow:
    """One row. `began`: when the run's first event was; `query`: of the filter under which it is shown."""
    return TimelineRow(
        sequence_no=event.sequence_no,
        phase=event.phase,
        title=EVENT_WORDS.get(event.event_type, event.event_type),
        who=_who(event),
        status=event.status,
        tone=tone_of_event(event.event_type, event.status, event.details),
        summary=one_line(event.summary),
        after_ms=round((event.created_at - began) / _MS),
        duration_ms=event.duration_ms,
        created_at=event.created_at,
        bar=_bar(event, scale),
        terminal=event.is_terminal,
        minor=event.event_type == EventType.AGENT_MODEL_STEP and event.status == "STARTED",
        address=f"?event={event.sequence_no}{'&' if query else ''}{query}",
        wait_ms=wait_ms,
        warning=_("It ended before it began.") if (event.duration_ms or 0) < 0 else "",
    )


def timeline_rows(
    events: Sequence[TimelineEvent], scale: Scale | None, *, waits: Mapping[int, int], query: str = ""
) -> tuple[TimelineRow, ...]:
    """`waits`: milliseconds of the long wait before an event, by its number."""
    if scale is None:
        return ()
    return tuple(
        timeline_row(event, scale.began, scale, wait_ms=waits.get(event.sequence_no, 0), query=query)
        for event in events
    )


def wait_before(event: TimelineEvent, before: datetime | None) -> int:
    """How long nothing had happened before it, in milliseconds, where that was long; else 0.

    `before`: when the event in front of it was. The same as `audit.overview` finds.
    """
    if before is None:
        return 0
    gap = event.created_at - max(event.duration_ms or 0, 0) * _MS - before
    return round(gap / _MS) if gap >= LONG_WAIT else 0


def _who(event: TimelineEvent) -> Words:
    """Which role or tool it is about, where the event is about one."""
    if event.event_type == EventType.AGENT_MODEL_STEP:
        role = event.details.get("role", "")
        return ROLE_WORDS.get(role, one_line(str(role), 40))
    if event.event_type == EventType.TOOL_INVOCATION:
        return one_line(str(event.details.get("tool_name", "")), 60)
    return ""


def _bar(event: TimelineEvent, scale: Scale | None) -> Bar | None:
    """A frame is written when what it tells of is over: its bar ends there."""
    if scale is None or not scale.span or not event.duration_ms or event.duration_ms < 0:
        return None
    end = max(timedelta(0), scale.place(event.created_at))
    start = max(timedelta(0), scale.place(event.created_at - event.duration_ms * _MS))
    width = max(THINNEST, min(SCALE, round((end - start) / scale.span * SCALE)))
    return Bar(min(SCALE - width, round(start / scale.span * SCALE)), width)
