import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from runs import intake
from runs.alertpayload import read_notice
from runs.intake import Received, Sender
from runs.models import Alert, ChatSession, DiagnosisRun
from tests.factories import now
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def alert(name: str = "HighErrorRate", **changes: Any) -> dict[str, Any]:
    severity = changes.pop("severity", "critical")
    fingerprint = changes.pop("fingerprint", f"fp-{name}")
    return {"labels": {"alertname": name, "severity": severity}, "fingerprint": fingerprint, **changes}


def send(*alerts: dict[str, Any], window: timedelta = HOUR, **sender: Any) -> Received:
    return intake.receive(
        read_notice({"groupKey": "g", "alerts": list(alerts)}), Sender(window=window, **sender), handed
    )


def handed(run_ids: Any) -> None:
    assert run_ids


def counts(received: Received) -> tuple[int, int, int, int, int]:
    return received.accepted, received.deduplicated, received.resolved, received.ignored, len(received.runs)


def age_runs(by: timedelta) -> None:
    DiagnosisRun.objects.update(queued_at=now() - by)


ENDS = {
    "DEGRADED": {"release_decision": "WITHHELD"},
    "FAILED": {"failure_code": "MODEL_UNAVAILABLE"},
    "CANCELLED": {"cancel_reason": "USER_REQUESTED"},
}


def end_runs(status: str) -> None:
    DiagnosisRun.objects.update(status=status, outcome=status, finished_at=now(), safe_content={}, **ENDS[status])


def test_a_new_alert_starts_a_run_of_its_own_session() -> None:
    received = send(alert(fingerprint="aa", annotations={"summary": "it burns"}))
    assert counts(received) == (1, 0, 0, 0, 1)
    run = DiagnosisRun.objects.get()
    row = Alert.objects.get()
    assert received.runs[0].run_id == run.id
    assert (run.session_id, run.trigger, run.status, run.alert) == ("alert-aa", "ALERT", "QUEUED", row)
    assert run.query == "HighErrorRate: it burns"
    assert run.subject["alert"]["alertname"] == "HighErrorRate"
    assert (row.status, row.occurrences, row.last_run_id) == ("FIRING", 1, run.id)


def test_a_repeat_inside_the_window_joins() -> None:
    send(alert())
    assert counts(send(alert())) == (0, 1, 0, 0, 0)
    assert Alert.objects.get().occurrences == 2


def test_a_repeat_after_the_window_runs_again_on_the_same_row() -> None:
    first = send(alert())
    end_runs("DEGRADED")
    age_runs(2 * HOUR)
    second = send(alert())
    assert counts(second) == (1, 0, 0, 0, 1)
    assert second.runs[0].run_id != first.runs[0].run_id
    assert second.runs[0].session_id == first.runs[0].session_id
    row = Alert.objects.get()
    assert (row.occurrences, row.last_run_id) == (2, second.runs[0].run_id)


def test_a_run_that_is_still_open_is_joined_however_old() -> None:
    send(alert())
    age_runs(2 * HOUR)
    assert counts(send(alert())) == (0, 1, 0, 0, 0)


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED"])
def test_a_failed_or_cancelled_run_does_not_count(status: str) -> None:
    send(alert())
    end_runs(status)
    assert counts(send(alert())) == (1, 0, 0, 0, 1)
    assert Alert.objects.get().occurrences == 2


def test_an_end_closes_the_row_and_starts_nothing() -> None:
    send(alert())
    ended = send(alert(status="resolved", endsAt="2026-11-12T10:00:00Z"))
    assert counts(ended) == (0, 0, 1, 0, 0)
    row = Alert.objects.get()
    assert row.status == "RESOLVED"
    assert row.ends_at is not None
    assert row.ends_at.isoformat() == "2026-11-12T10:00:00+00:00"


def test_an_end_of_an_unknown_alert_leaves_no_row() -> None:
    assert counts(send(alert(status="resolved"))) == (0, 0, 1, 0, 0)
    assert not Alert.objects.exists()


def test_a_flapping_alert_is_one_episode() -> None:
    send(alert())
    send(alert(status="resolved"))
    assert counts(send(alert())) == (0, 1, 0, 0, 0)
    row = Alert.objects.get()
    assert (row.status, row.occurrences, row.ends_at) == ("FIRING", 2, None)


def test_an_alert_that_comes_back_later_is_a_new_episode() -> None:
    send(alert())
    send(alert(status="resolved"))
    end_runs("DEGRADED")
    age_runs(2 * HOUR)
    assert counts(send(alert())) == (1, 0, 0, 0, 1)
    assert sorted(Alert.objects.values_list("status", "occurrences")) == [("FIRING", 1), ("RESOLVED", 1)]


def test_a_group_starts_one_run_about_its_most_severe_new_alert() -> None:
    send(alert("Known", severity="critical"))
    received = send(
        alert("Known", severity="critical"),
        alert("B", severity="warning"),
        alert("D", severity="high", startsAt="2026-01-02T00:00:00Z"),
        alert("C", severity="error", startsAt="2026-01-01T00:00:00Z"),
        alert("Gone", status="resolved"),
        alert("Watchdog"),
    )
    assert counts(received) == (3, 1, 1, 1, 1)
    assert received.runs[0].alert_name == "C"
    run = DiagnosisRun.objects.get(id=received.runs[0].run_id)
    assert [other["alertname"] for other in run.subject["others"]] == ["D", "B", "Known"]
    assert set(Alert.objects.filter(last_run=run).values_list("alert_name", flat=True)) == {"B", "C", "D"}


def test_twins_in_one_body_are_one_alert() -> None:
    assert counts(send(alert(), alert())) == (1, 1, 0, 0, 1)


@pytest.mark.parametrize("name", ["Watchdog", "DeadMansSwitch"])
def test_heartbeats_are_ignored(name: str) -> None:
    assert counts(send(alert(name))) == (0, 0, 0, 1, 0)
    assert not Alert.objects.exists()


def test_ignored_names_may_be_patterns(settings: Settings) -> None:
    settings.ALERT_IGNORE_NAMES = ("Heartbeat*", "Up [prod]")
    names = ("Heartbeat-eu", "Up [prod]", "Up p", "heartbeat")
    assert [intake.is_ignored(name) for name in names] == [True, True, False, False]


def test_without_a_window_every_notice_runs() -> None:
    send(alert(), window=timedelta(0))
    assert counts(send(alert(), window=timedelta(0))) == (1, 0, 0, 0, 1)
    assert ChatSession.objects.count() == 1


def test_an_empty_body_changes_nothing() -> None:
    assert counts(send()) == (0, 0, 0, 0, 0)


def test_a_large_group_costs_no_more_queries_than_a_small_one(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_max_num_queries(9):
        send(*(alert(f"A{n}") for n in range(100)))


@pytest.mark.django_db(transaction=True)
def test_notices_at_the_same_time_start_one_run(told: Told) -> None:
    barrier = threading.Barrier(6)

    def post(_: int) -> int:
        barrier.wait()
        try:
            return len(send(alert("A"), alert("B")).runs) + len(send(alert("B"), alert("A")).runs)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(post, range(6))) == 1
    assert DiagnosisRun.objects.count() == 1
    assert set(Alert.objects.values_list("occurrences", flat=True)) == {12}
