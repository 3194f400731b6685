"""What is said of a run on every page, in plain words, and how loud it is."""

from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from gatekeeper.types import Intent
from runs.models import DiagnosisRun
from runs.models.run import ReleaseDecision, RunStatus, Trigger

Words = str | Promise


class Tone(StrEnum):
    """How loud something is shown. The words say the same: colour is never alone."""

    QUIET = "quiet"
    NORMAL = "normal"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    LIVE = "live"


STATUS_WORDS: dict[str, Words] = {
    RunStatus.QUEUED: _("Waiting"),
    RunStatus.RUNNING: _("Running"),
    RunStatus.SUCCESS: _("Answered"),
    RunStatus.DEGRADED: _("Withheld"),
    RunStatus.FAILED: _("Failed"),
    RunStatus.CANCELLED: _("Cancelled"),
}
STATUS_TONES = {
    RunStatus.QUEUED: Tone.LIVE,
    RunStatus.RUNNING: Tone.LIVE,
    RunStatus.SUCCESS: Tone.GOOD,
    RunStatus.DEGRADED: Tone.WARN,
    RunStatus.FAILED: Tone.BAD,
    RunStatus.CANCELLED: Tone.QUIET,
}

TRIGGER_WORDS: dict[str, Words] = {
    Trigger.ALERT: _("Alert"),
    Trigger.CHAT: _("Chat"),
    Trigger.MANUAL: _("Manual"),
    Trigger.EVAL: _("Evaluation"),
}

INTENT_WORDS: dict[str, Words] = {
    Intent.DIAGNOSIS: _("Diagnosis"),
    Intent.KNOWLEDGE_QUERY: _("Knowledge question"),
    Intent.SYSTEM_CHAT: _("General talk"),
}

VERDICT_WORDS: dict[str, Words] = {
    "PASS": _("Pass"),
    "LOW_CONFID": _("Low confidence"),
    "REJECT": _("Rejected"),
}

_BAD = frozenset({"FAILED", "TIMEOUT", "REJECTED", "REJECT", "WITHHELD", "ERROR"})
_WARN = frozenset({"LOW_CONFID", ReleaseDecision.RELEASED_LOW_CONFIDENCE, "CANCELLED"})
_GOOD = frozenset({"PASS", ReleaseDecision.RELEASED})
_QUIET = frozenset({"STARTED", "DEDUPLICATED"})
LOUD_CODES = _BAD | _WARN


def tone_of_code(code: str | None) -> Tone:
    """How loud a status, verdict or decision is."""
    for codes, tone in ((_BAD, Tone.BAD), (_WARN, Tone.WARN), (_GOOD, Tone.GOOD), (_QUIET, Tone.QUIET)):
        if code in codes:
            return tone
    return Tone.NORMAL


def badge(run: DiagnosisRun) -> tuple[Words, Tone]:
    """The run's state in one or two words."""
    if run.status == RunStatus.RUNNING and run.cancel_requested_at is not None:
        return _("Cancelling"), Tone.WARN
    if run.nothing_notable:
        low = run.release_decision == ReleaseDecision.RELEASED_LOW_CONFIDENCE
        return _("Nothing found, low confidence") if low else _("Nothing found"), Tone.WARN if low else Tone.NORMAL
    if run.release_decision == ReleaseDecision.RELEASED_LOW_CONFIDENCE:
        return _("Answered, low confidence"), Tone.WARN
    return STATUS_WORDS.get(run.status, run.status), STATUS_TONES.get(RunStatus(run.status), Tone.NORMAL)
