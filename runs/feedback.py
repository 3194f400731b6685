"""Rating a run's answer. Who may see a run may rate it; each person has one rating of it, and may change it."""

from datetime import UTC, datetime

from django.db import transaction

from runs.models import DiagnosisRun, RunFeedback
from runs.models.feedback import Rating
from runs.tools.redaction import clean

MAX_NOTE = 1000


class NoteTooLong(ValueError):
    """Nothing was stored."""


def rate(run: DiagnosisRun, *, person_id: int, person_name: str, rating: Rating, note: str) -> bool:
    """Put the person's rating in place of the one before. Returns whether anything changed. Raises `NoteTooLong`.

    `note`: what cannot be stored in it is replaced and secrets are masked, as in a question.
    """
    if len(note) > MAX_NOTE:
        raise NoteTooLong
    told = clean(note.replace("\0", "\ufffd")).strip()[:MAX_NOTE]
    with transaction.atomic():
        held = _held(run, person_id)
        if held is not None and (held.rating, held.note) == (rating, told):
            return False
        now = datetime.now(UTC)
        _replace(held, now)
        RunFeedback.objects.create(
            run=run, person_id=person_id, person_name=person_name[:150], rating=rating, note=told, given_at=now
        )
    return True


def withdraw(run: DiagnosisRun, *, person_id: int) -> bool:
    """Returns whether there was a rating to take back."""
    with transaction.atomic():
        held = _held(run, person_id)
        _replace(held, datetime.now(UTC))
    return held is not None


def _held(run: DiagnosisRun, person_id: int) -> RunFeedback | None:
    # Behind the run's lock: of two ratings at once by the same person, the second takes the place of the first.
    DiagnosisRun.objects.select_for_update(no_key=True).only("id").get(id=run.id)
    return RunFeedback.objects.filter(run=run, person_id=person_id, replaced_at__isnull=True).first()


def _replace(held: RunFeedback | None, now: datetime) -> None:
    if held is not None:
        RunFeedback.objects.filter(id=held.id).update(replaced_at=max(now, held.given_at))
