"""A run asked again: which can be, by whom, once for each look, with the same subject and question."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from runs import chat, recall, reruns
from runs.access import Caller
from runs.models import Alert, DiagnosisRun
from runs.reruns import AskedAgain, Came
from tests.factories import AlertFactory, RunFactory, SessionFactory, UserFactory, now, subject

pytestmark = pytest.mark.django_db
QUESTION = {"version": 1}
REHEARSAL = {"version": 1, "prompts": {}, "now": now().isoformat(), "incident": None, "of_run": None, "beside": None}


def operator() -> Caller:
    return Caller(user=UserFactory.create(permissions=["submit_alerts"]))


def of_alert(**changes: Any) -> DiagnosisRun:
    """An ended run of an alert, the last one of it."""
    alert = AlertFactory.create(fingerprint="00000000000000aa")
    run = RunFactory.create(**({"success": True, "alert": alert} | changes))
    Alert.objects.filter(id=alert.id).update(last_run=run)
    return run


def of_question(caller: Caller, **changes: Any) -> DiagnosisRun:
    session = SessionFactory.create(owner=caller.user)
    return RunFactory.create(
        **({"success": True, "trigger": "CHAT", "session": session, "query": "Why?", "subject": QUESTION} | changes)
    )


def asked(run: DiagnosisRun, caller: Caller, seen: str = "") -> tuple[DiagnosisRun, Came]:
    answer = reruns.ask_again(run, caller, seen)
    return DiagnosisRun.objects.get(id=answer.run_id), answer.came


def test_an_alert_is_diagnosed_again_with_its_subject_as_it_was() -> None:
    run, caller = of_alert(), operator()
    Alert.objects.update(severity="info", labels={"changed": "since"})
    new, came = asked(run, caller)
    assert came is Came.STARTED
    assert (new.status, new.trigger, new.again_of, new.requested_by) == ("QUEUED", "MANUAL", run, caller.user)
    assert (new.subject, new.query) == (subject().model_dump(mode="json"), run.query)
    assert (new.alert, new.session_id) == (run.alert, "alert-00000000000000aa")
    assert Alert.objects.get().last_run == new


def test_a_question_is_asked_again_in_its_session() -> None:
    caller = Caller(user=UserFactory.create())
    run = of_question(caller)
    new, came = asked(run, caller)
    assert came is Came.STARTED
    assert (new.trigger, new.session_id, new.query, new.again_of) == ("CHAT", run.session_id, "Why?", run)


def test_a_question_asked_again_knows_only_what_the_first_knew() -> None:
    caller = Caller(user=UserFactory.create())
    session = SessionFactory.create(owner=caller.user)
    at = now()
    for minutes, query in ((9, "before"), (5, "and yesterday?"), (3, "after")):
        of_question(caller, session=session, query=query, queued_at=at - timedelta(minutes=minutes))
    first = DiagnosisRun.objects.get(query="and yesterday?")
    again, _ = asked(first, caller)
    DiagnosisRun.objects.filter(id=again.id).update(
        status="CANCELLED", outcome="CANCELLED", cancel_reason="DEADLINE", safe_content={}, finished_at=now()
    )
    once_more, _ = asked(DiagnosisRun.objects.get(id=again.id), caller)
    for run in (again, once_more):
        assert [turn.query for turn in recall.memory_of(run).turns] == ["before"]
    chat.clear(caller, session.id)
    assert recall.memory_of(once_more).turns == ()


def test_pressing_twice_starts_one_run_also_when_that_has_ended_meanwhile() -> None:
    run, caller = of_alert(), operator()
    new, _ = asked(run, caller)
    assert asked(run, caller) == (new, Came.SOONER)
    DiagnosisRun.objects.filter(id=new.id).update(
        status="FAILED", outcome="FAILED", failure_code="INTERNAL", safe_content={}, finished_at=now()
    )
    assert asked(run, caller)[1] is Came.SOONER
    third, came = asked(run, caller, seen=new.id)
    assert (came, third.again_of) == (Came.STARTED, run)
    assert DiagnosisRun.objects.count() == 3


def test_while_the_alert_is_being_diagnosed_that_run_is_the_answer() -> None:
    run = of_alert()
    going = RunFactory.create(running=True, alert=run.alert)
    Alert.objects.update(last_run=going)
    assert asked(run, operator()) == (going, Came.GOING)


@pytest.mark.django_db(transaction=True)
def test_many_who_press_at_once_start_one_run() -> None:
    run, caller = of_alert(), operator()

    def press(_number: int) -> AskedAgain:
        try:
            return reruns.ask_again(run, caller)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(press, range(4)))
    assert len({answer.run_id for answer in answers}) == 1
    assert sorted(answer.came for answer in answers) == ["SOONER", "SOONER", "SOONER", "STARTED"]
    assert run.asked_again.count() == 1


@dataclass(frozen=True)
class Case:
    name: str
    run: dict[str, Any]
    can: bool


CASES = [
    Case("answered alert", {}, True),
    Case("failed alert", {"success": False, "failed": True}, True),
    Case("asked for by hand", {"trigger": "MANUAL"}, True),
    Case("question", {"trigger": "CHAT", "alert": None, "subject": QUESTION}, True),
    Case("running", {"success": False, "running": True}, False),
    Case("waiting", {"success": False}, False),
    Case("evaluation", {"trigger": "EVAL"}, False),
    Case("rehearsal", {"trigger": "EVAL", "alert": None, "rehearsal": REHEARSAL}, False),
    Case("alert that is not on record", {"alert": None}, False),
    Case("no alert in it", {"subject": QUESTION}, False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_can_be_asked_again(case: Case) -> None:
    run = RunFactory.create(**({"success": True, "alert": AlertFactory.create()} | case.run))
    assert reruns.can_be_asked_again(run) is case.can


def test_who_may_ask_again_is_who_may_start_such_a_run() -> None:
    owner, other = Caller(user=UserFactory.create()), Caller(user=UserFactory.create())
    sees_all = Caller(user=UserFactory.create(permissions=["see_all_sessions", "submit_alerts"]))
    question, alert = of_question(owner), of_alert()
    assert [reruns.may_ask_again(each, question) for each in (owner, other, sees_all)] == [True, False, False]
    assert [reruns.may_ask_again(each, alert) for each in (owner, operator(), sees_all)] == [False, True, True]


@pytest.mark.parametrize("changes", [{"trigger": "ALERT"}, {"trigger": "EVAL"}])
def test_the_database_refuses_a_run_again_that_nobody_asked_for(changes: dict[str, Any]) -> None:
    run = of_alert()
    with pytest.raises(IntegrityError, match="run_again_is_asked_by_somebody"), transaction.atomic():
        RunFactory.create(again_of=run, **changes)


def test_the_database_refuses_a_run_that_asks_itself_again() -> None:
    run = RunFactory.create(trigger="MANUAL")
    with pytest.raises(IntegrityError, match="run_again_is_asked_by_somebody"), transaction.atomic():
        DiagnosisRun.objects.filter(id=run.id).update(again_of=run)
