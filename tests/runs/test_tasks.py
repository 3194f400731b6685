import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import current_app
from django.db import connection
from pytest_django.fixtures import Settings

from runs import live, tasks
from runs.models import DiagnosisRun
from tests.factories import RunFactory, now
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db(transaction=True)


def waiting_messages() -> int:
    with current_app.connection_for_read() as broker:
        return int(broker.default_channel.client.llen(current_app.conf.task_default_queue))


@pytest.fixture
def silent_broker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A broker that takes connections and says nothing: the slowest way of being dead."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        address = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        settings.REDIS_URL = address
        monkeypatch.setattr(current_app.conf, "broker_write_url", address)
        tasks._mouth.cache_clear()
        live._publisher.cache_clear()
        yield
    tasks._mouth.cache_clear()
    live._publisher.cache_clear()


def test_a_run_handed_over_has_a_message() -> None:
    run_ids = [RunFactory(enqueued_at=now()).id for _ in range(2)]
    assert tasks.enqueue(run_ids) == 2
    assert waiting_messages() == 2


def test_a_dead_broker_loses_nothing(silent_broker: None) -> None:
    run = RunFactory(enqueued_at=now())
    assert tasks.enqueue([run.id]) == 0
    live.publish_cancel(run.id)
    run.refresh_from_db()
    assert (run.status, run.enqueued_at) == ("QUEUED", None)


def test_the_reaper_enqueues_what_waits_and_what_was_lost(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "GRACE_AFTER_START", timedelta(0))
    long_ago = now() - timedelta(seconds=60)
    refused, forgotten, fresh = RunFactory(), RunFactory(enqueued_at=long_ago), RunFactory(enqueued_at=now())
    lost = RunFactory(running=True, heartbeat_at=long_ago)
    tasks.reap()
    assert waiting_messages() == 3
    for run in (refused, forgotten, lost):
        run.refresh_from_db()
        assert run.status == "QUEUED"
        assert run.enqueued_at > long_ago
    assert DiagnosisRun.objects.get(id=fresh.id).enqueued_at == fresh.enqueued_at
    tasks.reap()
    assert waiting_messages() == 3


@pytest.mark.parametrize(("grace", "hung_after_s"), [(timedelta(days=1), 2.0), (timedelta(0), 0.0)])
def test_after_the_database_was_away_silence_proves_nothing_yet(
    told: Told, monkeypatch: pytest.MonkeyPatch, grace: timedelta, hung_after_s: float
) -> None:
    monkeypatch.setattr(tasks, "GRACE_AFTER_START", grace)
    monkeypatch.setattr(tasks, "HUNG_AFTER_S", hung_after_s)
    silent = RunFactory(running=True, heartbeat_at=now() - timedelta(seconds=60))
    waiting = RunFactory()
    tasks.reap()
    assert waiting_messages() == 1
    assert DiagnosisRun.objects.get(id=silent.id).status == "RUNNING"
    assert DiagnosisRun.objects.get(id=waiting.id).enqueued_at is not None


def test_one_reaper_works_at_a_time(told: Told) -> None:
    RunFactory()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [tasks.REAPER_LOCK])
        tasks.reap()
        assert waiting_messages() == 0
    other.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock_all()")
