"""Who is owed a notice, what it says, and what becomes of it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from pytest_django.fixtures import Settings

from runs import ids, lifecycle, notices, postman
from runs.access import Caller
from runs.errors import CancelReason
from runs.models import DiagnosisRun, RunNotice
from runs.notices import Target
from runs.noticetext import message_of
from tests.factories import RunFactory, SessionFactory, UserFactory, conclusion, now, published, subject, withheld
from tests.runs.tools.http_server import Answer, Running, Seen, serve
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db(transaction=True)
DEAD = "json://127.0.0.1:9/hook"


def tell(settings: Settings, *urls: str, **changes: Any) -> tuple[Target, ...]:
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"notify_urls": urls, **changes})
    return notices.targets()


def claimed(**changes: Any) -> lifecycle.Claimed:
    run = RunFactory(**changes)
    held = lifecycle.claim(run.id, "worker")
    assert held is not None
    return held


def end_one(**changes: Any) -> str:
    held = claimed(**changes)
    assert lifecycle.finish(held.ref, conclusion())
    return held.ref.run_id


def states() -> list[tuple[str, str]]:
    return list(RunNotice.objects.order_by("id").values_list("occasion", "state"))


@contextmanager
def hook(*statuses: int) -> Iterator[Running]:
    """A service that answers these, then 200."""
    left = list(statuses)
    with serve(lambda _seen: Answer(status=left.pop(0) if left else 200)) as running:
        yield running


def address(service: Running) -> str:
    return service.url.replace("http://", "json://") + "/hook"


def bodies(service: Running) -> list[dict[str, Any]]:
    return [json.loads(seen.body) for seen in service.seen]


def deliver(*targets: Target) -> None:
    """Send all that is due."""

    async def whole() -> None:
        with ThreadPoolExecutor() as threads:
            for target in targets:
                while await postman.deliver_next(target, threads):
                    pass

    asyncio.run(whole())


def make_due() -> None:
    RunNotice.objects.update(due_at=F("created_at"))


def age(by_s: float, **where: Any) -> None:
    moment = now() - timedelta(seconds=by_s)
    RunNotice.objects.filter(**where).update(created_at=moment, due_at=moment, changed_at=moment)


# ---- who is owed one ------------------------------------------------------------------------------------------


def test_nobody_is_told_where_nobody_asked(told: Told) -> None:
    end_one()
    assert states() == []


def test_the_end_of_an_alert_s_run_is_told_to_every_address_once(settings: Settings, told: Told) -> None:
    tell(settings, DEAD, "json://127.0.0.1:10", DEAD)
    end_one()
    assert states() == [("FINISHED", "PENDING")] * 2


def test_the_start_is_told_where_that_was_asked_for_and_not_again_by_a_second_attempt(
    settings: Settings, told: Told
) -> None:
    tell(settings, DEAD, notify_started=True)
    held = claimed()
    assert lifecycle.release_for_shutdown(held.ref)
    again = lifecycle.claim(held.ref.run_id, "another worker")
    assert again is not None
    lifecycle.finish(again.ref, conclusion())
    lifecycle.finish(again.ref, conclusion())
    assert states() == [("STARTED", "PENDING"), ("FINISHED", "PENDING")]


@pytest.mark.parametrize(
    ("changes", "told_of"),
    [
        ({"trigger": "ALERT"}, True),
        ({"trigger": "MANUAL"}, True),
        ({"trigger": "EVAL"}, False),
        ({"trigger": "CHAT", "subject": {"alert": None, "others": []}}, False),
        ({"trigger": "MANUAL", "subject": {"alert": None, "others": []}}, False),
    ],
)
def test_only_runs_of_alerts_are_told(settings: Settings, told: Told, changes: dict[str, Any], told_of: bool) -> None:
    tell(settings, DEAD)
    end_one(**changes)
    assert bool(states()) is told_of


def test_a_person_s_own_session_stays_theirs(settings: Settings, told: Told) -> None:
    tell(settings, DEAD)
    end_one(session=SessionFactory(owner=UserFactory()))
    assert states() == []


def test_every_kind_of_end_is_told(settings: Settings, told: Told) -> None:
    tell(settings, DEAD)
    lifecycle.finish(claimed().ref, withheld())
    lifecycle.request_cancel(RunFactory().id, CancelReason.USER_REQUESTED, Caller(user=UserFactory()).name)
    held = claimed()
    DiagnosisRun.objects.filter(id=held.ref.run_id).update(attempts=2, heartbeat_at=now() - timedelta(minutes=1))
    assert lifecycle.recover_lost() == []
    assert set(RunNotice.objects.values_list("run__status", flat=True)) == {"DEGRADED", "CANCELLED", "FAILED"}


# ---- sending --------------------------------------------------------------------------------------------------


def test_a_notice_arrives_once_with_conclusion_verdict_and_link(settings: Settings, told: Told) -> None:
    with hook() as service:
        (target,) = tell(settings, address(service), public_url="https://superbiz.example")
        run_id = end_one()
        deliver(target)
        deliver(target)
        (body,) = bodies(service)
    assert body["title"] == "Answered: HighErrorRate on checkout-api"
    assert body["type"] == "success"
    assert body["message"].splitlines() == [
        "The connection pool of checkout-api is exhausted.",
        "Missing: Metrics could not be read.",
        "Verdict: Pass · Severity: critical",
        f"https://superbiz.example/runs/{run_id}/",
    ]
    assert states() == [("FINISHED", "SENT")]


def test_a_service_that_refuses_is_asked_again_later(settings: Settings, told: Told) -> None:
    with hook(500, 503) as service:
        (target,) = tell(settings, address(service))
        end_one()
        deliver(target)
        row = RunNotice.objects.get()
        assert (row.state, row.attempts, len(service.seen)) == ("PENDING", 1, 1)
        assert row.due_at > now()
        assert row.last_error
        for _ in range(3):
            make_due()
            deliver(target)
        assert len(service.seen) == 3
    assert (states(), RunNotice.objects.get().last_error) == ([("FINISHED", "SENT")], "")


def test_a_service_that_never_takes_it_is_given_up_and_the_reason_kept(settings: Settings, told: Told) -> None:
    (target,) = tell(settings, "json://user:hunter2secret@127.0.0.1:9/hook")
    end_one()
    for _ in range(notices.MAX_ATTEMPTS + 2):
        make_due()
        deliver(target)
    row = RunNotice.objects.get()
    assert (row.state, row.attempts, row.service) == ("FAILED", notices.MAX_ATTEMPTS, "json #1")
    assert row.last_error
    assert "hunter2secret" not in row.last_error


def test_a_dead_address_holds_up_no_other(settings: Settings, told: Told) -> None:
    never, sent = threading.Event(), threading.Event()

    def take(_seen: Seen) -> Answer:
        sent.set()
        return Answer()

    async def until_sent(targets: tuple[Target, ...]) -> bool:
        delivering = asyncio.create_task(postman.deliver_all(targets))
        arrived = await asyncio.to_thread(sent.wait, 30)
        never.set()
        delivering.cancel()
        await asyncio.wait({delivering})
        return arrived

    with serve(lambda _seen: Answer(wait=never)) as dead, serve(take) as service:
        targets = tell(settings, address(dead), address(service))
        end_one()
        assert asyncio.run(until_sent(targets))
    assert states() == [("FINISHED", "SENT")] * 2


def test_workers_side_by_side_send_each_notice_once(settings: Settings, told: Told) -> None:
    with hook() as service:
        (target,) = tell(settings, address(service))
        for _ in range(12):
            end_one()

        async def one_worker(threads: ThreadPoolExecutor) -> None:
            while await postman.deliver_next(target, threads):
                pass

        async def four() -> None:
            with ThreadPoolExecutor() as threads:
                await asyncio.gather(*(one_worker(threads) for _ in range(4)))

        asyncio.run(four())
        links = [body["message"].splitlines()[-1] for body in bodies(service)]
    assert len(links) == len(set(links)) == 12


# ---- workers that are lost ------------------------------------------------------------------------------------


def test_a_claim_that_died_before_the_call_is_sent_by_another_worker(settings: Settings, told: Told) -> None:
    with hook() as service:
        (target,) = tell(settings, address(service))
        end_one()
        lost = notices.claim(target.key)
        assert lost is not None
        deliver(target)
        assert service.seen == []
        age(notices.CLAIM_LOST_AFTER_S + 1)
        deliver(target)
        assert len(service.seen) == 1
        assert notices.begin(lost) is None
    assert states() == [("FINISHED", "SENT")]


def test_a_call_that_was_cut_off_is_told_and_not_made_again(settings: Settings, told: Told) -> None:
    with hook() as service:
        (target,) = tell(settings, address(service))
        end_one()
        lost = notices.claim(target.key)
        assert lost is not None
        assert notices.begin(lost) is not None
        assert notices.tidy() == 0
        age(notices.CALL_LOST_AFTER_S + 1)
        assert notices.tidy() == 1
        deliver(target)
        assert service.seen == []
        notices.sent(lost)
    assert states() == [("FINISHED", "UNCERTAIN")]
    assert "may have arrived" in RunNotice.objects.get().last_error


def test_a_notice_that_loses_worker_after_worker_is_given_up(settings: Settings, told: Told) -> None:
    (target,) = tell(settings, DEAD)
    end_one()
    for _ in range(notices.MAX_ATTEMPTS):
        assert notices.claim(target.key) is not None
        age(notices.CLAIM_LOST_AFTER_S + 1)
    deliver(target)
    assert states() == [("FINISHED", "FAILED")]


@pytest.mark.parametrize(
    ("age_s", "known", "state"),
    [
        (notices.FORGOTTEN_AFTER_S - 60, False, "PENDING"),
        (notices.FORGOTTEN_AFTER_S + 60, False, "FAILED"),
        (notices.FORGOTTEN_AFTER_S + 60, True, "PENDING"),
        (notices.STALE_AFTER_S + 60, True, "FAILED"),
    ],
)
def test_what_cannot_be_sent_any_more_is_settled(
    settings: Settings, told: Told, age_s: float, known: bool, state: str
) -> None:
    tell(settings, DEAD)
    end_one()
    age(age_s)
    if not known:
        tell(settings)
    notices.tidy()
    assert states() == [("FINISHED", state)]


# ---- what it says ---------------------------------------------------------------------------------------------


def test_a_withheld_run_tells_its_safe_content_and_no_draft() -> None:
    safe = {"headline": "Nothing could be released.", "reason": "No claim survived.", "lookedAt": ["query_logs"]}
    run = RunFactory.create(
        success=True, status="DEGRADED", outcome="DEGRADED", release_decision="WITHHELD", verdict="REJECT",
        published_result=None, safe_content=safe, self_evaluation={"executor_structured_output": "a secret draft"},
    )  # fmt: skip
    message = message_of(run, "FINISHED", "https://x/")
    assert message.title == "Withheld: HighErrorRate on checkout-api"
    assert message.body.splitlines()[:2] == ["Nothing could be released.", "No claim survived."]
    assert message.kind == "warning"
    assert "draft" not in message.body


def test_low_confidence_is_said() -> None:
    result = published().model_dump(mode="json", by_alias=True) | {"confidence": "LOW"}
    run = RunFactory.create(
        success=True, release_decision="RELEASED_LOW_CONFIDENCE", verdict="LOW_CONFID", published_result=result
    )
    message = message_of(run, "FINISHED", "https://x/")
    assert message.title.startswith("Answered, low confidence: ")
    assert "Verdict: Low confidence · Confidence: low" in message.body


@pytest.mark.parametrize("text", ["@everyone look", "<!channel> look", "<@U123> look", "<at user_id='all'>x</at>"])
def test_an_alert_s_text_calls_nobody(text: str) -> None:
    about = subject().model_dump(mode="json")
    about["alert"]["alertname"] = text
    run = RunFactory.build(session=None, id=ids.run_id(), subject=about)
    message = message_of(run, "STARTED", "https://x/")
    assert text not in message.title
    assert message.body.splitlines()[-1] == "https://x/"
