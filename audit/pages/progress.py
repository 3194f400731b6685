"""How far a run has got, for pages that show it while it goes: the phases that have passed and the newest event."""

from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from audit.models import TraceEvent
from audit.pages.words import EVENT_WORDS
from runs.harness.events import Phase
from runs.pages.hostile import one_line
from runs.pages.words import Words

STEPS: tuple[tuple[Words, tuple[Phase, ...]], ...] = (
    (_("understand"), (Phase.ROUTING,)),
    (_("search"), (Phase.AGENT, Phase.TOOL)),
    (_("check the citations"), (Phase.EVIDENCE,)),
    (_("check the meaning"), (Phase.SEMANTIC,)),
    (_("answer"), (Phase.RELEASE,)),
)
DONE, NOW, AHEAD = "done", "now", "ahead"


@dataclass(frozen=True, slots=True)
class Step:
    """`state`: done, now or ahead."""

    words: Words
    state: str


@dataclass(frozen=True, slots=True)
class Progress:
    """`sequence_no`: of the newest event; 0 where there is none. `newest` and `summary` tell of it."""

    sequence_no: int
    steps: tuple[Step, ...]
    newest: Words
    summary: str


def progress_of(run_id: str) -> Progress:
    """One query. A repair leads back from a check to the search: what comes after it is ahead again."""
    newest = TraceEvent.objects.filter(run_id=run_id).order_by("-sequence_no")
    rows = list(newest.values_list("sequence_no", "phase", "event_type", "summary")[:20])
    if not rows:
        return Progress(0, _steps(-1), "", "")
    number, _phase, event_type, summary = rows[0]
    # Events of the run itself (a cancel request, a budget's end) belong to no step: the one before them goes on.
    reached = next((place for row in rows if (place := _place(row[1])) >= 0), -1)
    return Progress(number, _steps(max(reached, 0)), EVENT_WORDS.get(event_type, event_type), one_line(summary, 160))


def _place(phase: str) -> int:
    return next((place for place, (_words, phases) in enumerate(STEPS) if phase in phases), -1)


def _steps(reached: int) -> tuple[Step, ...]:
    def state(place: int) -> str:
        return DONE if place < reached else NOW if place == reached else AHEAD

    return tuple(Step(words, state(place)) for place, (words, _phases) in enumerate(STEPS))
