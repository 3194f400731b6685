"""A run asked again: a new run of the same subject and question, through the intake that the first one came by.

It looks at the systems as they are now, with the prompts, rules and models of now. The two know each other by
`again_of`.
"""

from dataclasses import dataclass
from enum import StrEnum

from django.db import transaction

from runs import alert_actions, chat
from runs.access import Caller, may_continue_session
from runs.models import DiagnosisRun
from runs.models.run import Trigger
from runs.models.token import Scope


class Came(StrEnum):
    """What became of asking: a new run; one that somebody had started since the caller looked; the alert's open one."""

    STARTED = "STARTED"
    SOONER = "SOONER"
    GOING = "GOING"


@dataclass(frozen=True, slots=True)
class AskedAgain:
    run_id: str
    came: Came


def can_be_asked_again(run: DiagnosisRun) -> bool:
    """Ended runs of questions, and of alerts that are still on record. What was only tried out has its own pages."""
    if not run.is_terminal or run.is_rehearsal:
        return False
    if run.trigger == Trigger.CHAT:
        return True
    of_alert = run.alert_id is not None and bool((run.subject or {}).get("alert"))
    return run.trigger in {Trigger.ALERT, Trigger.MANUAL} and of_alert


def may_ask_again(caller: Caller, run: DiagnosisRun) -> bool:
    """Whoever may start such a run: an alert's as "diagnose now", a question's in its session. Needs `run.session`."""
    if run.trigger == Trigger.CHAT:
        return caller.may(Scope.CHAT_WRITE) and may_continue_session(caller, run.session)
    return caller.may(Scope.ALERTS_WRITE)


def ask_again(run: DiagnosisRun, caller: Caller, seen: str = "") -> AskedAgain:
    """Start the run, once for each look. `run` can be asked again, and the caller may.

    `seen`: the newest run that asked this one again when the caller looked, empty where none had. Where there is a
    newer one, somebody was faster, or a button was pressed twice: that one is the answer.
    """
    with transaction.atomic():
        DiagnosisRun.objects.select_for_update(of=("self",)).only("id").get(id=run.id)
        newest = newest_of(run.id)
        if newest and newest != seen:
            return AskedAgain(newest, Came.SOONER)
        if run.trigger == Trigger.CHAT:
            return AskedAgain(chat.ask_again(run, caller).run_id, Came.STARTED)
        asked = alert_actions.diagnose_again(run, caller)
    return AskedAgain(asked.run_id, Came.STARTED if asked.started else Came.GOING)


def newest_of(run_id: str) -> str:
    """The newest run that asks this one again; empty where none does."""
    asked = DiagnosisRun.objects.filter(again_of=run_id).order_by("-queued_at", "-id")
    return asked.values_list("id", flat=True).first() or ""
