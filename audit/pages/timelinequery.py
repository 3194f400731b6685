"""Which events of a run are wanted, and pages of them by sequence number, read forwards or backwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

from django.db.models import Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from audit.models import TraceEvent
from audit.pages.words import LOUD_EVENTS, LOUD_OUTCOMES
from audit.trace import TIMELINE_FIELDS, TimelineEvent, timeline_event
from runs.harness.events import EventType, Phase
from runs.pages.words import LOUD_CODES

PAGE = 100
# What comes when more is asked for: fewer and larger pages, so that a long run is soon read through.
MORE_PAGE = 500
LONGEST_TEXT = 200
# So many events stand before one that the address names, so that it is seen where it belongs.
LEAD = 10


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """Empty: every event. `text`: in its summary, codes, ids or details. `loud`: errors, rejections, warnings."""

    phases: tuple[Phase, ...] = ()
    text: str = ""
    loud: bool = False

    @property
    def given(self) -> bool:
        return bool(self.phases or self.text or self.loud)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """For an address."""
        pairs = [("phase", phase.value) for phase in self.phases]
        if self.text:
            pairs.append(("q", self.text))
        if self.loud:
            pairs.append(("loud", "1"))
        return pairs

    @property
    def query(self) -> str:
        return urlencode(self.pairs)


class Edge(StrEnum):
    """Where a page of the timeline begins or ends."""

    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """`earlier` and `later`: there are more wanted events on that side."""

    events: tuple[TimelineEvent, ...]
    earlier: bool
    later: bool


def wanted(run_id: str, chosen: TimelineFilter) -> QuerySet[TraceEvent]:
    """The run's events that pass the filter, in no order."""
    events = TraceEvent.objects.filter(run_id=run_id)
    if chosen.phases:
        events = events.filter(phase__in=[phase.value for phase in chosen.phases])
    if chosen.loud:
        events = _loud(events)
    if chosen.text:
        events = events.annotate(details_text=Cast("details", TextField()))
        places = ("summary", "event_type", "status", "step_id", "invocation_id", "details_text")
        found = Q()
        for place in places:
            found |= Q(**{f"{place}__icontains": chosen.text})
        events = events.filter(found)
    return events


def _loud(events: QuerySet[TraceEvent]) -> QuerySet[TraceEvent]:
    """The same as `audit.pages.words.tone_of_event` calls bad or a warning."""
    keys = ("outcome", "replaced_because", "violation", "contract_violations")
    events = events.annotate(**{f"said_{key}": KeyTextTransform(key, "details") for key in keys})
    at_the_end = Q(event_type=EventType.RUN_FINISHED)
    contradicted = (
        (Q(said_replaced_because__isnull=False) & ~Q(said_replaced_because=""))
        | (Q(said_violation__isnull=False) & ~Q(said_violation=""))
        | (Q(said_contract_violations__isnull=False) & ~Q(said_contract_violations="[]"))
    )
    return events.filter(
        (at_the_end & Q(said_outcome__in=LOUD_OUTCOMES))
        | Q(event_type__in=LOUD_EVENTS)
        | (~at_the_end & (Q(status__in=LOUD_CODES) | contradicted))
    )


def passes(run_id: str, sequence_no: int, chosen: TimelineFilter) -> bool:
    """Whether one event is wanted. One query, or none where there is no filter."""
    return not chosen.given or wanted(run_id, chosen).filter(sequence_no=sequence_no).exists()


def page_after(run_id: str, chosen: TimelineFilter, after: int, limit: int = PAGE) -> TimelinePage:
    """Wanted events after a number, and whether there are any up to it. Two queries at most."""
    found = _read(wanted(run_id, chosen).filter(sequence_no__gt=after).order_by("sequence_no"), limit + 1)
    earlier = after > 0 and wanted(run_id, chosen).filter(sequence_no__lte=after).exists()
    return TimelinePage(tuple(found[:limit]), earlier=earlier, later=len(found) > limit)


def page_before(run_id: str, chosen: TimelineFilter, before: int | None, limit: int = PAGE) -> TimelinePage:
    """Wanted events before a number (None: the last ones), and whether there are any from it on."""
    events = wanted(run_id, chosen)
    until = events if before is None else events.filter(sequence_no__lt=before)
    found = _read(until.order_by("-sequence_no"), limit + 1)
    later = before is not None and events.filter(sequence_no__gte=before).exists()
    return TimelinePage(tuple(reversed(found[:limit])), earlier=len(found) > limit, later=later)


def _read(events: QuerySet[TraceEvent], limit: int) -> list[TimelineEvent]:
    return [timeline_event(row) for row in events.values(*TIMELINE_FIELDS)[:limit]]


def read_filter(given: Mapping[str, list[str]]) -> TimelineFilter:
    """From an address: what is not known there is no filter."""
    phases = {phase.value: phase for phase in Phase}
    text = (given.get("q") or [""])[-1].replace("\0", "").strip()[:LONGEST_TEXT]
    return TimelineFilter(
        phases=tuple(phases[each] for each in dict.fromkeys(given.get("phase", ())) if each in phases),
        text=text,
        loud=(given.get("loud") or [""])[-1] == "1",
    )
