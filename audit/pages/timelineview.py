"""One page of a run's timeline as it is shown: which events, under which filter, and the ways to more of them."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _

from audit.overview import FramesOverview, PhaseTotal
from audit.pages.timeline import TimelineRow, scale_of, timeline_rows
from audit.pages.timelinequery import (
    LEAD,
    PAGE,
    Edge,
    TimelineFilter,
    TimelinePage,
    page_after,
    page_before,
)
from runs.harness.events import Phase
from runs.pages.words import Words

PHASE_WORDS: dict[Phase, Words] = {
    Phase.RUN: _("Run"),
    Phase.ROUTING: _("Routing"),
    Phase.AGENT: _("Agents"),
    Phase.TOOL: _("Tools"),
    Phase.EVIDENCE: _("Evidence"),
    Phase.SEMANTIC: _("Semantic"),
    Phase.RELEASE: _("Release"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the timeline the reader is: after or before an event's number; neither: where it is best begun."""

    edge: Edge | None = None
    number: int = 0
    event: int | None = None


@dataclass(frozen=True, slots=True)
class PhaseChoice:
    """One of the seven phases in the filter."""

    total: PhaseTotal
    words: Words
    chosen: bool


@dataclass(frozen=True, slots=True)
class TimelineView:
    """`earlier`, `later`: addresses of what comes before and after, empty where there is nothing.

    `tail`: the run's last event is among these, so that new ones may be put below. `last`: number after which new
    ones come.
    """

    rows: tuple[TimelineRow, ...]
    phases: tuple[PhaseChoice, ...]
    chosen: TimelineFilter
    earlier: str
    later: str
    tail: bool
    last: int
    events: int
    selected: int | None

    @property
    def query(self) -> str:
        return self.chosen.query


def timeline_view(
    run_id: str, overview: FramesOverview, chosen: TimelineFilter, place: Place, *, going: bool, limit: int = PAGE
) -> TimelineView:
    """`going`: the run has not ended, so its newest events are what is looked for. Four queries at most."""
    page = _page(run_id, chosen, place, limit, going=going)
    first = page.events[0].sequence_no if page.events else 0
    last = page.events[-1].sequence_no if page.events else 0
    # A wait stands before the event that ended it; between events of a filter there may be others.
    waits = {} if chosen.given else {wait.sequence_no: wait.ms for wait in overview.waits}
    return TimelineView(
        rows=timeline_rows(page.events, scale_of(overview), waits=waits, query=chosen.query),
        phases=tuple(
            PhaseChoice(each, PHASE_WORDS[each.phase], each.phase in chosen.phases) for each in overview.phases
        ),
        chosen=chosen,
        earlier=_address(chosen, Edge.BEFORE, first) if page.earlier else "",
        later=_address(chosen, Edge.AFTER, last) if page.later else "",
        tail=not page.later,
        last=overview.last_sequence_no,
        events=overview.events,
        selected=place.event,
    )


def _page(run_id: str, chosen: TimelineFilter, place: Place, limit: int, *, going: bool) -> TimelinePage:
    if place.edge is Edge.AFTER:
        return page_after(run_id, chosen, place.number, limit)
    if place.edge is Edge.BEFORE:
        return page_before(run_id, chosen, place.number, limit)
    if place.event is not None:
        return _page_with(run_id, chosen, place.event)
    return page_before(run_id, chosen, None) if going else page_after(run_id, chosen, 0)


def _page_with(run_id: str, chosen: TimelineFilter, number: int) -> TimelinePage:
    """The first page where the event is among the first, else one that begins a little before it."""
    if number <= PAGE:
        return page_after(run_id, chosen, 0)
    return page_after(run_id, chosen, number - 1 - LEAD)


def _address(chosen: TimelineFilter, edge: Edge, number: int) -> str:
    return "?" + urlencode([*chosen.pairs, (edge.value, str(number))])
