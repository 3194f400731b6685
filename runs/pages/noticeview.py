"""What became of a run's notices, for its page."""

from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from runs.models import RunNotice
from runs.pages.words import Tone, Words

_STATES: dict[str, tuple[Words, Tone]] = {
    RunNotice.State.SENT: (_("sent"), Tone.GOOD),
    RunNotice.State.FAILED: (_("failed"), Tone.BAD),
    RunNotice.State.UNCERTAIN: (_("uncertain"), Tone.WARN),
}
_ON_ITS_WAY: tuple[Words, Tone] = (_("on its way"), Tone.QUIET)


@dataclass(frozen=True, slots=True)
class NoticeView:
    """`service` is the masked address. `reason`: why the last try did not arrive."""

    service: str
    words: Words
    tone: Tone
    reason: str


def notices_of(run_id: str) -> tuple[NoticeView, ...]:
    """One query."""
    rows = RunNotice.objects.filter(run_id=run_id).order_by("id")
    return tuple(NoticeView(row.service, *_STATES.get(row.state, _ON_ITS_WAY), row.last_error) for row in rows)
