import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from audit.pages.markdown import report_markdown
from gatekeeper import rulesets
from gatekeeper.types import Intent, RuleMode, RuleSetting, Severity
from runs import lifecycle, tally
from runs.conclusions import cancelled, failed
from runs.errors import CancelReason, FailureCode
from runs.harness.run import Conclusion, Emitted, Spending
from runs.lifecycle import Pins, RunRequest
from runs.models import DiagnosisRun
from runs.observers import RunRef
from tests.factories import RunFactory, UserFactory, conclusion, now, subject, withheld
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db(transaction=True)
PINS = Pins(
    model="offline",
    prompt_set_version="aiops-prompts-v1",
    rule_set_version=1,
    pinned_prompts={"version": 1, "prompt_set": "aiops-prompts-v1", "prompts": {"executor": 1}},
)


def row(run_id: str) -> DiagnosisRun:
    return DiagnosisRun.objects.get(id=run_id)


def queued(**changes: Any) -> str:
    return RunFactory(**changes).id


def claimed(run_id: str) -> RunRef:
    held = lifecycle.claim(run_id, "worker")
    assert held is not None
    return held.ref


def silent(run_id: str, seconds: int = 60) -> None:
    DiagnosisRun.objects.filter(id=run_id).update(heartbeat_at=now() - timedelta(seconds=seconds))


def test_a_queued_run_is_whole_and_waits(told: Told) -> None:
    lifecycle.open_session("alert-aa", title="HighErrorRate")
    run_id = lifecycle.queue_run(RunRequest(session_id="alert-aa", trigger="ALERT", query="q", subject=subject()))
    stored = row(run_id)
    assert (stored.status, stored.outcome, stored.attempts) == ("QUEUED", None, 0)
    assert lifecycle.waiting_runs() == []
    assert told.events(run_id) == []


def test_a_session_is_opened_once() -> None:
    assert [lifecycle.open_session("s-1"), lifecycle.open_session("s-1")] == [True, False]


def test_one_claim_wins_and_starts_an_attempt(told: Told) -> None:
    run_id = queued()
    held = lifecycle.claim(run_id, "a")
    assert held is not None
    assert lifecycle.claim(run_id, "b") is None
    assert lifecycle.pin(held.ref, PINS)
    stored = row(run_id)
    assert (stored.status, stored.attempts, stored.lease_token) == ("RUNNING", 1, held.ref.lease_token)
    assert (stored.model, stored.prompt_set_version, stored.rule_set_version) == ("offline", "aiops-prompts-v1", 1)
    assert held.run.started_at == stored.started_at


def test_a_claim_of_nothing_is_none() -> None:
    assert lifecycle.claim("run_none", "a") is None


def test_counters_are_the_values_of_the_attempt_that_holds_the_run() -> None:
    run_id = queued()
    held = lifecycle.claim(run_id, "worker")
    assert held is not None
    counted = held.tally.and_spent(Spending(model_calls=1, input_tokens=100, output_tokens=7))
    counted = counted.and_emitted(Emitted(events=2, steps=1))
    assert lifecycle.keep_tally(held.ref, counted)
    assert row(run_id).cost_usd is None
    counted = counted.and_spent(Spending(tool_calls=2, cost_usd=Decimal("0.5"))).and_emitted(Emitted(events=1))
    counted = counted.and_spent(Spending(cost_usd=Decimal("0.25")))
    for _ in range(2):  # an answer that was lost makes it be written again
        assert lifecycle.keep_tally(held.ref, counted)
    stale = RunRef(run_id=run_id, session_id=held.ref.session_id, lease_token="stale")
    assert not lifecycle.keep_tally(stale, counted.and_spent(Spending(model_calls=9)))
    stored = row(run_id)
    assert (stored.model_calls, stored.tool_calls, stored.input_tokens, stored.output_tokens) == (1, 2, 100, 7)
    assert stored.cost_usd == Decimal("0.75")
    assert tally.total(stored.emitted) == Emitted(events=3, steps=1)


def test_each_start_counts_its_own_and_transitions_are_counted_apart(told: Told) -> None:
    run_id = queued()
    first = lifecycle.claim(run_id, "a")
    assert first is not None
    spent = first.tally.and_spent(Spending(model_calls=2, cost_usd=Decimal("0.5")))
    assert lifecycle.keep_tally(first.ref, spent.and_emitted(Emitted(events=4, steps=2, model_calls=2)))
    assert lifecycle.release_for_shutdown(first.ref)
    second = lifecycle.claim(run_id, "b")
    assert second is not None
    assert (second.tally.start, second.run.attempt) == (2, 1)
    lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
    counted = second.tally.and_spent(Spending(model_calls=1, cost_usd=Decimal("0.25"))).and_emitted(Emitted(events=3))
    assert lifecycle.finish(second.ref, cancelled(CancelReason.USER_REQUESTED), counted)
    stored = row(run_id)
    assert (stored.model_calls, stored.cost_usd) == (3, Decimal("0.75"))
    assert tally.of_start(stored.emitted, 1) == Emitted(events=4, steps=2, model_calls=2)
    assert tally.of_start(stored.emitted, 2) == Emitted(events=3)
    assert stored.emitted["others"] == {"events": 3}
    assert told.events(run_id) == ["RUN_RECOVERED", "RUN_CANCEL_REQUESTED", "RUN_FINISHED"]
    assert tally.total(stored.emitted).events == 4 + 3 + 3


def test_a_claim_whose_answer_was_lost_is_made_again() -> None:
    run_id = queued()
    lease = lifecycle.new_lease()
    first, again = lifecycle.claim(run_id, "a", lease), lifecycle.claim(run_id, "a", lease)
    assert first is not None
    assert first == again
    assert (row(run_id).attempts, tally.starts(row(run_id).emitted)) == (1, 1)
    assert lifecycle.claim(run_id, "b", lifecycle.new_lease()) is None


def test_an_end_whose_answer_was_lost_is_recognised_and_told_once(told: Told) -> None:
    run_id = queued()
    held = lifecycle.claim(run_id, "a")
    assert held is not None
    counted = held.tally.and_spent(Spending(model_calls=1)).and_emitted(Emitted(events=5))
    assert [lifecycle.finish(held.ref, conclusion(), counted) for _ in range(2)] == [True, True]
    assert not lifecycle.finish(held.ref, withheld(), counted)
    assert not lifecycle.finish(held.ref, conclusion(), counted.and_emitted(Emitted(events=1)))
    stored = row(run_id)
    assert (stored.status, stored.model_calls, tally.total(stored.emitted).events) == ("SUCCESS", 1, 6)
    assert told.events(run_id) == ["RUN_FINISHED"]


def test_the_end_of_a_later_start_is_not_an_earlier_ones(told: Told) -> None:
    run_id = queued()
    first = lifecycle.claim(run_id, "a")
    assert first is not None
    silent(run_id)
    lifecycle.recover_lost()
    second = lifecycle.claim(run_id, "b")
    assert second is not None
    assert lifecycle.finish(second.ref, conclusion(), second.tally)
    assert not lifecycle.finish(first.ref, conclusion(), first.tally)


def test_the_intent_is_marked_once() -> None:
    run_id = queued()
    ref = claimed(run_id)
    assert lifecycle.mark_intent(ref, Intent.KNOWLEDGE_QUERY)
    assert not lifecycle.mark_intent(ref, Intent.DIAGNOSIS)
    lifecycle.finish(ref, withheld(intent=Intent.DIAGNOSIS))
    assert row(run_id).intent == "KNOWLEDGE_QUERY"


ENDINGS = {
    "released": conclusion(),
    "withheld": withheld(),
    "failed": failed(FailureCode.MODEL_REFUSED),
    "cancelled": cancelled(CancelReason.DEADLINE),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_run_ends_once_with_its_frame(told: Told, ending: Any) -> None:
    run_id = queued()
    ref = claimed(run_id)
    assert lifecycle.finish(ref, ending)
    assert not lifecycle.finish(ref, failed(FailureCode.INTERNAL))
    stored = row(run_id)
    assert (stored.status, stored.outcome) == (ending.status, ending.status)
    assert stored.lease_token is None
    assert stored.finished_at is not None
    assert stored.safe_content["headline"]
    assert tally.total(stored.emitted) == Emitted(events=1)
    assert told.events(run_id) == ["RUN_FINISHED"]


@pytest.mark.parametrize("status", ["failed", "cancelled", "cancelled while it waits"])
def test_an_end_without_an_answer_says_too_that_the_floor_was_lowered(status: str) -> None:
    rulesets.sync()
    shadow = RuleSetting("GK002_INVOCATION_EXISTS", RuleMode.SHADOW, Severity.REJECT)
    rulesets.save_change(1, [shadow], by=UserFactory(is_superuser=True), reason="Trying.")
    run_id = queued()
    ref = claimed(run_id)
    assert lifecycle.pin(ref, dataclasses.replace(PINS, rule_set_version=2))
    if status == "cancelled while it waits":
        assert lifecycle.release_for_shutdown(ref)
        lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
    else:
        assert lifecycle.finish(ref, ENDINGS[status])
    assert "under rule set 2" in row(run_id).safe_content["reason"]
    assert "GK002_INVOCATION_EXISTS" in report_markdown(row(run_id), "/").replace("\\", "")


def test_a_worker_back_from_the_dead_changes_nothing(told: Told) -> None:
    run_id = queued()
    old = claimed(run_id)
    silent(run_id)
    assert lifecycle.recover_lost() == [run_id]
    new = claimed(run_id)
    assert not lifecycle.finish(old, conclusion())
    assert not lifecycle.pin(old, PINS)
    assert not lifecycle.release_for_shutdown(old)
    assert lifecycle.finish(new, withheld())
    assert row(run_id).status == "DEGRADED"
    assert told.events(run_id) == ["RUN_RECOVERED", "RUN_FINISHED"]


# ---- cancelling ----------------------------------------------------------------------------------------------


def test_cancelling_a_run_that_waits_ends_it_at_once(told: Told) -> None:
    run_id = queued()
    answer = lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED, "ada")
    assert (answer.accepted, answer.status) == (True, "CANCELLED")
    assert row(run_id).cancel_reason == "USER_REQUESTED"
    assert lifecycle.claim(run_id, "a") is None
    assert told.events(run_id) == ["RUN_CANCEL_REQUESTED", "RUN_FINISHED"]


def test_cancelling_a_run_that_runs_marks_it_once(told: Told) -> None:
    run_id = queued()
    ref = claimed(run_id)
    assert ref.lease_token is not None
    assert not lifecycle.heartbeat({run_id: ref.lease_token}).cancel_requested
    for repeated in (False, True):
        answer = lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
        assert (answer.accepted, answer.status, answer.repeated) == (True, "RUNNING", repeated)
    assert told.events(run_id) == ["RUN_CANCEL_REQUESTED"]
    assert lifecycle.heartbeat({run_id: ref.lease_token}).cancel_requested == {run_id: CancelReason.USER_REQUESTED}


@pytest.mark.parametrize(
    "reached", [conclusion(), withheld(), failed(FailureCode.INTERNAL)], ids=lambda end: end.status
)
def test_what_is_reached_after_cancelling_was_accepted_is_not_published(told: Told, reached: Conclusion) -> None:
    run_id = queued()
    ref = claimed(run_id)
    assert lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED).accepted
    counted = tally.Tally(1, Spending(model_calls=2), reached.emitted)
    assert lifecycle.finish(ref, reached, counted)
    assert lifecycle.finish(ref, reached, counted), "the answer to the first try may have been lost"
    stored = row(run_id)
    assert (stored.status, stored.cancel_reason, stored.published_result) == ("CANCELLED", "USER_REQUESTED", None)
    assert (stored.safe_content or {})["lookedAt"] == reached.safe_content.looked_at
    assert stored.model_calls == 2
    assert told.events(run_id) == ["RUN_CANCEL_REQUESTED", "RUN_FINISHED"]
    assert lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED).accepted


@pytest.mark.parametrize(("trait", "accepted"), [("failed", False), ("success", False)])
def test_cancelling_a_run_that_ended_tells_how(trait: str, accepted: bool) -> None:
    run = RunFactory(**{trait: True})
    answer = lifecycle.request_cancel(run.id, CancelReason.USER_REQUESTED)
    assert (answer.found, answer.accepted, answer.status) == (True, accepted, run.status)


def test_cancelling_again_after_the_end_is_fine(told: Told) -> None:
    run_id = queued()
    lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
    answer = lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
    assert (answer.accepted, answer.status, answer.repeated) == (True, "CANCELLED", True)
    assert told.events(run_id) == ["RUN_CANCEL_REQUESTED", "RUN_FINISHED"]


def test_cancelling_an_unknown_run_finds_nothing() -> None:
    assert not lifecycle.request_cancel("run_none", CancelReason.USER_REQUESTED).found


# ---- leases ---------------------------------------------------------------------------------------------------


def test_a_heartbeat_keeps_what_is_held_and_names_what_is_lost() -> None:
    kept, stolen, ended = (queued() for _ in range(3))
    leases = {run_id: claimed(run_id).lease_token or "" for run_id in (kept, stolen, ended)}
    silent(kept)
    lifecycle.finish(RunRef(ended, "s", leases[ended]), withheld())
    answer = lifecycle.heartbeat(leases | {stolen: "another"})
    assert answer.lost == {stolen, ended}
    assert (now() - row(kept).heartbeat_at) < timedelta(seconds=5)  # type: ignore[operator]
    assert lifecycle.heartbeat({}).lost == frozenset()


@pytest.mark.parametrize(
    ("trigger", "attempts", "cancel", "status", "events"),
    [
        ("ALERT", 1, None, "QUEUED", ["RUN_RECOVERED"]),
        ("MANUAL", 1, None, "QUEUED", ["RUN_RECOVERED"]),
        ("EVAL", 1, None, "QUEUED", ["RUN_RECOVERED"]),
        ("ALERT", 2, None, "FAILED", ["RUN_FINISHED"]),
        ("CHAT", 1, None, "FAILED", ["RUN_FINISHED"]),
        ("ALERT", 1, "USER_REQUESTED", "CANCELLED", ["RUN_FINISHED"]),
        ("CHAT", 1, "CLIENT_DISCONNECTED", "CANCELLED", ["RUN_FINISHED"]),
    ],
)
def test_a_silent_run_is_recovered_or_ended(
    told: Told, trigger: str, attempts: int, cancel: str | None, status: str, events: list[str]
) -> None:
    marked = {"cancel_requested_at": now(), "cancel_requested_reason": cancel} if cancel else {}
    run_id = queued(running=True, trigger=trigger, attempts=attempts, **marked)
    assert lifecycle.recover_lost() == []
    silent(run_id)
    assert lifecycle.recover_lost() == ([run_id] if status == "QUEUED" else [])
    stored = row(run_id)
    assert stored.status == status
    assert stored.failure_code == ("WORKER_LOST" if status == "FAILED" else None)
    assert stored.cancel_reason == cancel
    assert told.events(run_id) == events


def test_attempts_share_one_budget_and_one_start(told: Told) -> None:
    run_id = queued()
    first = lifecycle.claim(run_id, "a")
    assert first is not None
    spent = Spending(model_calls=3, tool_calls=2, input_tokens=50, output_tokens=5)
    lifecycle.keep_tally(first.ref, first.tally.and_spent(spent))
    silent(run_id)
    lifecycle.recover_lost()
    second = lifecycle.claim(run_id, "b")
    assert second is not None
    assert (second.run.attempt, second.run.started_at) == (2, first.run.started_at)
    assert (second.run.spent.model_calls, second.run.spent.tool_calls) == (3, 2)
    assert second.run.next_step_index > 3


@pytest.mark.parametrize(
    ("trigger", "cancel", "status", "reason"),
    [
        ("ALERT", None, "QUEUED", None),
        ("CHAT", None, "CANCELLED", "SHUTDOWN"),
        ("ALERT", "USER_REQUESTED", "CANCELLED", "USER_REQUESTED"),
    ],
)
def test_a_shutdown_hands_runs_back(trigger: str, cancel: str | None, status: str, reason: str | None) -> None:
    run_id = queued(trigger=trigger)
    ref = claimed(run_id)
    if cancel:
        lifecycle.request_cancel(run_id, CancelReason(cancel))
    assert lifecycle.release_for_shutdown(ref)
    assert not lifecycle.release_for_shutdown(ref)
    stored = row(run_id)
    assert (stored.status, stored.cancel_reason) == (status, reason)
    assert stored.attempts == (0 if status == "QUEUED" else 1)


def test_a_run_without_a_message_is_found_waiting() -> None:
    unsent, announced, lost, refused = (queued() for _ in range(4))
    lifecycle.mark_enqueued([announced, lost, refused])
    lifecycle.mark_enqueued([refused], sent=False)
    DiagnosisRun.objects.filter(id=lost).update(enqueued_at=now() - timedelta(seconds=30))
    assert set(lifecycle.waiting_runs()) == {unsent, lost, refused}
    assert len(lifecycle.waiting_runs(limit=2)) == 2


# ---- the database agrees --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "PAUSED"},
        {"status": "SUCCESS"},
        {"status": "SUCCESS", "outcome": "FAILED"},
        {"finished_at": now()},
        {"failure_code": "INTERNAL"},
        {"cancel_reason": "DEADLINE"},
        {"published_result": {"conclusion": "x"}},
        {"release_decision": "RELEASED"},
        {"lease_token": "x"},
        {"status": "RUNNING"},
        {"status": "RUNNING", "lease_token": "x"},
        {"cancel_requested_at": now()},
        {"verdict": "MAYBE"},
        {"intent": "SMALL_TALK"},
        {"trigger": "CRON"},
        {"status": "FAILED", "outcome": "FAILED", "finished_at": now(), "safe_content": {}, "failure_code": "BAD_LUCK"},
        {"status": "FAILED", "outcome": "FAILED", "finished_at": now(), "failure_code": "INTERNAL"},
        {"status": "FAILED", "outcome": "FAILED", "finished_at": now(), "safe_content": {}},
        {"status": "SUCCESS", "outcome": "SUCCESS", "finished_at": now(), "safe_content": {}, "published_result": {}},
        {"status": "DEGRADED", "outcome": "DEGRADED", "finished_at": now(), "safe_content": {}},
        {"status": "CANCELLED", "outcome": "CANCELLED", "finished_at": now(), "safe_content": {}},
    ],
    ids=lambda changes: "-".join(f"{k}={v}" for k, v in changes.items() if isinstance(v, str)) or next(iter(changes)),
)
def test_the_database_refuses_a_state_that_cannot_be(changes: dict[str, Any]) -> None:
    run_id = queued()
    with pytest.raises(IntegrityError), transaction.atomic():
        DiagnosisRun.objects.filter(id=run_id).update(**changes)


# ---- races ----------------------------------------------------------------------------------------------------


def _together(*moves: Callable[[], object]) -> list[object]:
    """Run the moves at once, each in a thread on a connection of its own; their answers."""
    barrier = threading.Barrier(len(moves))

    def play(move: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return move()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(moves)) as pool:
        return list(pool.map(play, moves))


def test_whoever_races_there_is_one_outcome_and_one_last_frame(told: Told) -> None:
    outcomes = set()
    for _ in range(60):
        run_id = queued(attempts=1)
        ref = claimed(run_id)
        silent(run_id)
        moves = (
            lambda ref=ref: lifecycle.finish(ref, conclusion()),
            lambda ref=ref: lifecycle.finish(ref, withheld()),
            lambda run_id=run_id: lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED),
            lifecycle.recover_lost,
            lambda ref=ref: lifecycle.release_for_shutdown(ref),
        )
        _together(*moves)
        stored = row(run_id)
        if stored.status == "QUEUED":  # handed back: the next attempt ends it
            lifecycle.finish(claimed(run_id), conclusion())
            stored = row(run_id)
        assert told.events(run_id).count("RUN_FINISHED") == 1
        assert told.events(run_id)[-1] == "RUN_FINISHED"
        assert stored.outcome == stored.status
        outcomes.add(stored.status)
    assert len(outcomes) > 1, "the moves never overlapped: this race proves nothing"


def test_many_workers_claim_each_run_once(told: Told) -> None:
    run_ids = [queued() for _ in range(20)]
    answers = _together(*[lambda: [lifecycle.claim(run_id, "w") for run_id in run_ids] for _ in range(4)])
    won = [held for answer in answers for held in answer if held is not None]  # type: ignore[attr-defined]
    assert sorted(held.run.run_id for held in won) == sorted(run_ids)


def test_an_observer_that_breaks_changes_nothing(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column")

    monkeypatch.setattr(told, "write", broken)
    run_id = queued()
    ref = claimed(run_id)
    assert lifecycle.pin(ref, PINS)
    assert lifecycle.finish(ref, conclusion())
    assert row(run_id).status == "SUCCESS"


def test_no_frame_stands_for_what_was_rolled_back(told: Told) -> None:
    run_id = queued()
    with transaction.atomic():
        lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
        transaction.set_rollback(True)
    assert row(run_id).status == "QUEUED"
    assert told.events(run_id) == []
