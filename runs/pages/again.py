"""How a run's page tells of the run that it asks again, and of those that ask it again."""

from dataclasses import dataclass
from datetime import datetime

from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.pages.words import Tone, Words, badge
from runs.reruns import can_be_asked_again, may_ask_again

SHOWN = 5
# What `badge` reads, and the rest of what is shown.
_READ = ("status", "cancel_requested_at", "nothing_notable", "release_decision", "queued_at")


@dataclass(frozen=True, slots=True)
class OtherRun:
    id: str
    badge: Words
    tone: Tone
    queued_at: datetime


@dataclass(frozen=True, slots=True)
class AgainView:
    """`of_id`: the run that is asked again, `of` None where it is no longer on record. `by`: the newest first."""

    may: bool
    of_id: str
    of: OtherRun | None
    by: tuple[OtherRun, ...]
    more: bool

    @property
    def newest(self) -> str:
        return self.by[0].id if self.by else ""


def again_view(caller: Caller, run: DiagnosisRun, *, asked_again: bool) -> AgainView:
    """One query for each side that there is: the run asked again, and (`asked_again`) those that ask this one again."""
    runs = visible_runs(caller).only(*_READ)
    first = runs.filter(id=run.again_of_id).first() if run.again_of_id else None
    asking = runs.filter(again_of=run.id).order_by("-queued_at", "-id")[: SHOWN + 1] if asked_again else ()
    by = [_other(row) for row in asking]
    return AgainView(
        may=can_be_asked_again(run) and may_ask_again(caller, run),
        of_id=run.again_of_id or "",
        of=_other(first) if first else None,
        by=tuple(by[:SHOWN]),
        more=len(by) > SHOWN,
    )


def _other(run: DiagnosisRun) -> OtherRun:
    words, tone = badge(run)
    return OtherRun(run.id, words, tone, run.queued_at)
