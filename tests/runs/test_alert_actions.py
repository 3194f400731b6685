"""Diagnose now, silence, end the silence."""

from datetime import timedelta
from typing import Any

import pytest

from runs import alert_actions, intake
from runs.access import Caller
from runs.alert_actions import Asked
from runs.alertpayload import read_notice
from runs.intake import Received, Sender
from runs.models import Alert, AlertSilence, DiagnosisRun
from tests.factories import UserFactory, now

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def caller() -> Caller:
    return Caller(user=UserFactory(username="casey"))


def send(*names: str, status: str = "firing", **sender: Any) -> Received:
    alerts = [{"labels": {"alertname": name, "severity": "critical"}, "fingerprint": f"fp-{name}"} for name in names]
    body = {"groupKey": "g", "status": status, "alerts": alerts}
    return intake.receive(read_notice(body), Sender(**({"window": HOUR} | sender)), lambda _ids: None)


def end_runs(**changes: Any) -> None:
    ended: dict[str, Any] = {"status": "DEGRADED", "outcome": "DEGRADED", "release_decision": "WITHHELD"}
    DiagnosisRun.objects.update(**ended | {"finished_at": now(), "safe_content": {}} | changes)


def row(name: str = "A") -> Alert:
    return Alert.objects.get(alert_name=name)


# ---- diagnose now ---------------------------------------------------------------------------------------------


def test_diagnose_now_starts_a_run_inside_the_window(caller: Caller) -> None:
    send("A", "B")
    end_runs()
    asked = alert_actions.diagnose_now(row("B").id, caller)
    run = DiagnosisRun.objects.get(id=asked.run_id)
    assert asked.started
    assert (run.trigger, run.session_id, run.alert, run.requested_by) == ("MANUAL", "alert-fp-B", row("B"), caller.user)
    assert row("B").last_run == run
    assert run.subject["alert"]["alertname"] == "B"
    assert [other["alertname"] for other in run.subject["others"]] == ["A"]
    assert send("B").runs == ()


def test_while_a_run_goes_it_is_the_answer(caller: Caller) -> None:
    run_id = send("A").runs[0].run_id
    assert alert_actions.diagnose_now(row().id, caller) == Asked(run_id, started=False)
    assert DiagnosisRun.objects.count() == 1


def test_an_alert_that_ended_can_be_diagnosed(caller: Caller) -> None:
    send("A")
    end_runs()
    send("A", status="resolved")
    asked = alert_actions.diagnose_now(row().id, caller)
    assert DiagnosisRun.objects.get(id=asked.run_id).subject["alert"]["status"] == "resolved"


def test_an_alert_that_is_not_there_cannot(caller: Caller) -> None:
    with pytest.raises(Alert.DoesNotExist):
        alert_actions.diagnose_now(1, caller)


# ---- silences -------------------------------------------------------------------------------------------------


def silence(caller: Caller, lasts: timedelta = HOUR, reason: str = "Known, a fix is on its way.") -> AlertSilence:
    return alert_actions.silence(row().id, caller, lasts=lasts, reason=reason)


def end_of_window() -> None:
    DiagnosisRun.objects.update(queued_at=now() - 2 * HOUR)


def test_a_silenced_alert_is_counted_and_starts_no_run(caller: Caller) -> None:
    send("A")
    end_runs()
    silence(caller)
    end_of_window()
    received = send("A")
    assert (received.deduplicated, received.runs, row().occurrences) == (1, (), 2)


def test_a_run_that_failed_is_not_repeated_in_a_silence(caller: Caller) -> None:
    send("A")
    end_runs(status="FAILED", outcome="FAILED", release_decision=None, failure_code="INTERNAL")
    silence(caller)
    assert send("A").runs == ()


def test_a_new_episode_of_a_silenced_alert_is_kept_without_a_run(caller: Caller) -> None:
    send("A")
    end_runs()
    silence(caller)
    send("A", status="resolved")
    end_of_window()
    received = send("A")
    assert (received.accepted, received.runs) == (1, ())
    assert Alert.objects.get(status="FIRING").last_run is None


def test_in_a_group_the_others_still_start_a_run(caller: Caller) -> None:
    send("A")
    end_runs()
    silence(caller)
    end_of_window()
    assert [run.alert_name for run in send("A", "B").runs] == ["B"]


def test_who_asks_by_hand_is_not_held_up(caller: Caller) -> None:
    send("A")
    end_runs()
    silence(caller)
    assert send("A", trigger="MANUAL", window=timedelta(0)).runs
    end_runs()
    assert alert_actions.diagnose_now(row().id, caller).started


@pytest.mark.parametrize("how", ["by hand", "by time"])
def test_after_the_silence_the_next_repeat_starts_a_run(caller: Caller, how: str) -> None:
    send("A")
    end_runs()
    held = silence(caller)
    end_of_window()
    if how == "by hand":
        assert alert_actions.end_silence(row().id, caller)
        held.refresh_from_db()
        assert (held.ended_by_name, held.ended_at is not None) == ("casey", True)
    else:
        AlertSilence.objects.update(created_at=now() - 2 * HOUR, until=now() - HOUR)
    assert not alert_actions.end_silence(row().id, caller)
    assert len(send("A").runs) == 1


def test_a_new_silence_takes_the_place_of_the_old_one(caller: Caller) -> None:
    send("A")
    first, second = silence(caller), silence(caller, 4 * HOUR, "Still known.")
    first.refresh_from_db()
    assert (first.ended_by_name, second.ended_at) == ("casey", None)
    assert alert_actions.holding(now()).get() == second
    assert second.until - second.created_at == 4 * HOUR


def test_one_that_ran_out_was_ended_by_nobody(caller: Caller) -> None:
    send("A")
    old = silence(caller)
    AlertSilence.objects.update(created_at=now() - 2 * HOUR, until=now() - HOUR)
    silence(caller)
    old.refresh_from_db()
    assert (old.ended_at, old.ended_by_name) == (old.until, "")


@pytest.mark.parametrize(
    ("lasts", "reason"),
    [(HOUR, " \n"), (HOUR, "x" * 301), (timedelta(0), "why"), (timedelta(days=31), "why")],
)
def test_a_silence_needs_a_reason_and_an_end(caller: Caller, lasts: timedelta, reason: str) -> None:
    send("A")
    with pytest.raises(ValueError, match="silence"):
        silence(caller, lasts, reason)
    assert not AlertSilence.objects.exists()
