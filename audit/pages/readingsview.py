"""Who read the restricted texts of a run, for those who watch over that."""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_lazy as _

from audit.models import ReasoningAccess
from audit.pages.restricted import REASONING, SELF_EVALUATION
from runs.access import Caller
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line
from runs.pages.words import Words

MAY_SEE = "audit.view_reasoningaccess"
SHOWN = 20
WHAT_WORDS: dict[str, Words] = {REASONING: _("reasoning"), SELF_EVALUATION: _("drafts and judges’ reasons")}


@dataclass(frozen=True, slots=True)
class Reading:
    reader: str
    what: Words
    at: datetime


@dataclass(frozen=True, slots=True)
class ReadingsView:
    """`total` of all, `newest` the last few of them."""

    total: int
    newest: tuple[Reading, ...]

    @property
    def more(self) -> bool:
        return self.total > len(self.newest)


def readings_view(caller: Caller, run: DiagnosisRun) -> ReadingsView | None:
    """None: not for this reader. One query; readings are numbered from 1, so the last one's number counts them."""
    if caller.user is None or not caller.user.has_perm(MAY_SEE):
        return None
    rows = ReasoningAccess.objects.filter(run_id=run.id).order_by("-sequence_no")
    found = list(rows.values_list("sequence_no", "reader", "what", "at")[:SHOWN])
    return ReadingsView(
        total=found[0][0] if found else 0,
        newest=tuple(
            Reading(one_line(reader, 150), WHAT_WORDS.get(what, one_line(what, 60)), at)
            for _no, reader, what, at in found
        ),
    )
