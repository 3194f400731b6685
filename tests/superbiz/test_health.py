import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from runs import live
from tests.factories import TokenFactory, UserFactory

pytestmark = pytest.mark.django_db


def test_healthz_answers_alone() -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}


def test_readiness_names_what_is_missing() -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["missing"] == ["worker"]
    live.announce_worker("here:1")
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")


def test_readiness_tells_which_tools_are_left_alone_and_stays_ready() -> None:
    live.announce_worker("here:1", ["query_metrics"])
    live.announce_worker("here:2", ["query_alerts", "query_metrics"])
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["toolsLeftAlone"]) == (200, ["query_alerts", "query_metrics"])
    live.announce_worker("here:1")
    live.withdraw_worker("here:2")
    assert Client().get("/readyz").json()["toolsLeftAlone"] == []


def test_a_silent_worker_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    live.announce_worker("here:1")
    monkeypatch.setattr(live, "WORKER_SILENT_AFTER_S", -1.0)
    assert Client().get("/readyz").json()["missing"] == ["worker"]


def test_a_dead_broker_is_told_not_thrown(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    live._publisher.cache_clear()
    try:
        answer = Client().get("/readyz")
    finally:
        live._publisher.cache_clear()
    assert answer.status_code == 503
    assert answer.json()["parts"] == {"database": True, "broker": False, "worker": False}


METRICS = "/metrics"


def test_metrics_are_for_loopback_and_for_readers_of_runs() -> None:
    assert b"superbiz_observer_errors" in Client().get(METRICS).content
    outside = Client(REMOTE_ADDR="192.0.2.7")
    assert outside.get(METRICS).status_code == 401
    assert Client(headers={"X-Forwarded-For": "192.0.2.7"}).get(METRICS).status_code == 401
    TokenFactory(secret="scraper", scopes=["runs:read"])
    TokenFactory(secret="sender", scopes=["alerts:write"])
    assert outside.get(METRICS, headers={"Authorization": "Bearer scraper"}).status_code == 200
    assert outside.get(METRICS, headers={"Authorization": "Bearer sender"}).status_code == 403
    outside.force_login(UserFactory())
    assert outside.get(METRICS).status_code == 200
