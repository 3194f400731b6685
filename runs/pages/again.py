"""How a run's page tells of the run that it asks again, and of those that ask it again."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Q, When

from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.pages.words import Tone, Words, badge
from runs.reruns import can_be_asked_again, may_ask_again

SHOWN = 5
# What `badge` reads, and the rest of what is shown.
_READ = ("status", "cancel_requested_at", "nothing_notable", "release_decision", "queued_at", "again_of")


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


def again_view(caller: Caller, run: DiagnosisRun) -> AgainView:
    """One query."""
    first = Q(id=run.again_of_id or "")
    rows = visible_runs(caller).filter(first | Q(again_of=run.id)).only(*_READ)
    rows = rows.order_by(Case(When(first, then=0), default=1), "-queued_at", "-id")
    found = [(row.again_of_id, _other(row)) for row in rows[: SHOWN + 2]]
    by = [other for again_of, other in found if again_of == run.id]
    return AgainView(
        may=can_be_asked_again(run) and may_ask_again(caller, run),
        of_id=run.again_of_id or "",
        of=next((other for _, other in found if other.id == run.again_of_id), None),
        by=tuple(by[:SHOWN]),
        more=len(by) > SHOWN,
    )


def _other(run: DiagnosisRun) -> OtherRun:
    words, tone = badge(run)
    return OtherRun(run.id, words, tone, run.queued_at)
