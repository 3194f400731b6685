"""What was said of a run's answer, as its page and its conversation show it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_lazy as _

from runs.models import RunFeedback
from runs.models.feedback import Rating
from runs.pages.hostile import one_line, seen
from runs.pages.words import Tone, Words

RATING_WORDS: dict[str, Words] = {Rating.USEFUL: _("useful"), Rating.WRONG: _("wrong")}
RATING_TONES = {Rating.USEFUL: Tone.GOOD, Rating.WRONG: Tone.BAD}
SHOWN = 20
HISTORY_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Opinion:
    """`rating`: useful or wrong. `replaced_at` None: it holds."""

    who: str
    rating: str
    words: Words
    tone: Tone
    note: str
    given_at: datetime
    replaced_at: datetime | None


@dataclass(frozen=True, slots=True)
class FeedbackView:
    """`mine`: what the reader said. `others`: what other people say, the newest first; `more`: and there are more."""

    run_id: str
    mine: Opinion | None
    others: tuple[Opinion, ...]
    more: bool


def feedback_views(run_ids: Iterable[str], person_id: int | None) -> dict[str, FeedbackView]:
    """By run id. One query."""
    ids = list(run_ids)
    rows = list(RunFeedback.objects.filter(run_id__in=ids, replaced_at__isnull=True).order_by("-id"))
    return {run_id: _view(run_id, [row for row in rows if row.run_id == run_id], person_id) for run_id in ids}


def no_feedback(run_id: str) -> FeedbackView:
    """Nobody says anything of the run."""
    return _view(run_id, [], None)


def _view(run_id: str, rows: list[RunFeedback], person_id: int | None) -> FeedbackView:
    mine = next((row for row in rows if row.person_id is not None and row.person_id == person_id), None)
    others = [row for row in rows if row is not mine]
    return FeedbackView(
        run_id, _opinion(mine) if mine else None, tuple(map(_opinion, others[:SHOWN])), len(others) > SHOWN
    )


def history_of(run_id: str) -> tuple[Opinion, ...]:
    """Everything that was ever said of the run, the newest first. One query."""
    return tuple(map(_opinion, RunFeedback.objects.filter(run_id=run_id).order_by("-id")[:HISTORY_SHOWN]))


def _opinion(row: RunFeedback) -> Opinion:
    return Opinion(
        who=one_line(row.person_name, 60),
        rating=row.rating,
        words=RATING_WORDS.get(row.rating, row.rating),
        tone=RATING_TONES.get(Rating(row.rating), Tone.NORMAL),
        note=seen(row.note),
        given_at=row.given_at,
        replaced_at=row.replaced_at,
    )
