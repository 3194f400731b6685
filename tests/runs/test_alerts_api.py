"""Grafana's webhook, and diagnoses asked for by hand."""

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from pytest_django.fixtures import Settings

from runs.models import Alert, DiagnosisRun
from superbiz.env import BASE_DIR
from tests.factories import TokenFactory, now
from tests.runs.tools.http_server import Answer, Running, Seen, serve

pytestmark = pytest.mark.django_db(transaction=True)
GRAFANA = "/api/alerts/grafana"
AI_OPS = "/api/ai_ops"


@pytest.fixture
def client() -> Client:
    TokenFactory(secret="machine", scopes=["alerts:write"])
    return Client(headers={"Authorization": "Bearer machine"})


def post(client: Client, path: str, body: Any = None) -> Any:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return client.post(path, raw, content_type="application/json")


# ---- Grafana --------------------------------------------------------------------------------------------------

GRAFANA_ALERT = {
    "status": "firing",
    "labels": {"alertname": "CPU hoch ± 5 %", "grafana_folder": "Ops", "severity": "warning"},
    "annotations": {"summary": "CPU over 90%"},
    "startsAt": "2026-11-12T10:04:00-04:00",
    "endsAt": "0001-01-01T00:00:00Z",
    "values": {"B": 97.25},
    "valueString": "[ var='B' labels={instance=web-1} value=97.25 ]",
    "generatorURL": "https://grafana.example/alerting/grafana/x/view?orgId=1",
    "fingerprint": "c6eadffa33fcdf37",
    "silenceURL": "https://grafana.example/alerting/silence/new",
    "dashboardURL": "https://grafana.example/d/1",
    "panelURL": "",
    "imageURL": "",
}
GRAFANA_BODY = {
    "receiver": "SuperBiz",
    "status": "firing",
    "orgId": 1,
    "alerts": [GRAFANA_ALERT],
    "groupLabels": {"alertname": "CPU hoch ± 5 %"},
    "commonLabels": {"grafana_folder": "Ops"},
    "commonAnnotations": {},
    "externalURL": "https://grafana.example/",
    "version": "1",
    "groupKey": '{}:{alertname="CPU"}',
    "truncatedAlerts": 0,
    "title": "[FIRING:1]",
    "state": "alerting",
    "message": "**Firing**",
}


def test_grafana_s_body_is_taken_in_with_what_it_measured(client: Client) -> None:
    answer = post(client, GRAFANA, GRAFANA_BODY)
    assert answer.status_code == 202
    assert set(answer.json()) == {"accepted", "deduplicated", "resolved", "ignored", "runs"}
    row = Alert.objects.get()
    assert (row.source, row.alert_name, row.severity) == ("GRAFANA", "CPU hoch ± 5 %", "warning")
    assert row.annotations == {
        "summary": "CPU over 90%",
        "valueString": "[ var='B' labels={instance=web-1} value=97.25 ]",
        "dashboardURL": "https://grafana.example/d/1",
    }
    assert row.starts_at is not None
    assert row.starts_at.isoformat() == "2026-11-12T14:04:00+00:00"


def test_grafana_s_test_alert_runs(client: Client) -> None:
    alert = {
        "status": "firing",
        "labels": {"alertname": "TestAlert", "instance": "Grafana"},
        "annotations": {"summary": "Notification test"},
        "startsAt": "2026-11-12T10:04:00.123456789Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "?orgId=1",
        "fingerprint": "57c6d9296de2ad39",
        "values": None,
        "valueString": "[ metric='foo' labels={instance=bar} value=10 ]",
    }
    answer = post(client, GRAFANA, {"receiver": "", "status": "firing", "alerts": [alert], "orgId": 1})
    assert len(answer.json()["runs"]) == 1
    assert Alert.objects.get().generator_url == "?orgId=1"


@pytest.mark.parametrize("path", [GRAFANA, AI_OPS])
@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b'{"alerts": [{"labels": "x"}]}', 422), (b"[" * 50_000, 400), (b" " * (1024 * 1024 + 1), 413)],
    ids=["cut", "labels", "nested", "large"],
)
def test_a_bad_body_is_refused(client: Client, path: str, body: bytes, status: int) -> None:
    answer = post(client, path, body)
    assert answer.status_code == status
    assert set(answer.json()) == {"code", "message"}


@pytest.mark.parametrize("path", [GRAFANA, AI_OPS])
def test_the_scope_is_needed(path: str) -> None:
    TokenFactory(secret="reader", scopes=["runs:read"])
    assert post(Client(), path, {}).status_code == 401
    assert post(Client(headers={"Authorization": "Bearer wrong"}), path, {}).status_code == 401
    assert post(Client(headers={"Authorization": "Bearer reader"}), path, {}).status_code == 403


# ---- by hand --------------------------------------------------------------------------------------------------


def alert(name: str, severity: str = "warning", **changes: Any) -> dict[str, Any]:
    return {"labels": {"alertname": name, "severity": severity}, "fingerprint": f"fp-{name}", **changes}


def test_an_alert_in_the_body_starts_one_run_each_time(client: Client) -> None:
    told = [post(client, AI_OPS, {"alert": alert("A")}).json() for _ in range(2)]
    runs = list(DiagnosisRun.objects.order_by("queued_at", "id"))
    assert [answer["runId"] for answer in told] == [run.id for run in runs]
    assert [run.trigger for run in runs] == ["MANUAL", "MANUAL"]
    assert told[0]["runs"] == [
        {name: told[0][name] for name in ("runId", "sessionId", "alertName", "url")},
    ]
    assert told[0]["url"] == f"http://testserver/runs/{runs[0].id}/"
    assert (Alert.objects.get().source, Alert.objects.get().occurrences) == ("API", 2)


def test_of_several_the_most_severe_is_the_subject(client: Client) -> None:
    body = {"alerts": [alert("Small", "info"), alert("Large", "critical"), alert("Middle", "warning")]}
    answer = post(client, AI_OPS, body)
    assert (answer.status_code, answer.json()["alertName"]) == (202, "Large")
    subject = DiagnosisRun.objects.get().subject
    assert [other["alertname"] for other in subject["others"]] == ["Middle", "Small"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"alert": alert("Watchdog")}, "ignored"),
        ({"alert": alert("A", status="resolved")}, "firing"),
    ],
)
def test_what_starts_no_run_is_said(client: Client, body: Any, message: str) -> None:
    answer = post(client, AI_OPS, body)
    assert (answer.status_code, answer.json()["runId"], answer.json()["runs"]) == (200, None, [])
    assert message in answer.json()["message"]


@pytest.mark.parametrize(
    "body", [[], "x", {"labels": {}}, {"alert": []}, {"alerts": []}, {"alerts": {}}, {"alert": {}, "alerts": [{}]}]
)
def test_what_names_no_alert_is_refused(client: Client, body: Any) -> None:
    assert post(client, AI_OPS, body).status_code == 422


def test_who_asks_by_hand_is_told_which_alert_is_unreadable(client: Client) -> None:
    answer = post(client, AI_OPS, {"alerts": [alert("PoolExhausted"), 3]})
    assert (answer.status_code, answer.json()["code"]) == (422, "BAD_BODY")
    assert "alert 2" in answer.json()["message"]
    assert not DiagnosisRun.objects.exists()


def set_env(settings: Settings, **changes: Any) -> None:
    settings.SUPERBIZ = django_settings.SUPERBIZ.model_copy(update=changes)


def active(name: str, severity: str, state: str = "active", **more: Any) -> dict[str, Any]:
    return {**alert(name, severity), "annotations": {}, "status": {"state": state}, **more}


def answering(*rows: Any) -> Any:
    return serve(lambda _seen: Answer(json.dumps(rows).encode()))


@pytest.mark.parametrize("body", [None, b" \n", b"{}"])
def test_without_a_body_the_most_severe_active_alert_is_diagnosed(
    client: Client, settings: Settings, body: Any
) -> None:
    rows = [
        active("Watchdog", "none"),
        active("Slow", "warning"),
        active("Down", "critical", startsAt="2026-11-12T10:04:00Z", generatorURL="http://prometheus:9090/graph"),
        active("Quiet", "critical", state="suppressed"),
    ]
    with answering(*rows) as server:
        set_env(settings, alertmanager_url=server.url, prometheus_url="http://127.0.0.1:9")
        answer = post(client, AI_OPS, body)
    assert (answer.status_code, answer.json()["alertName"], answer.json()["ignored"]) == (202, "Down", 1)
    row = Alert.objects.get(alert_name="Down")
    assert (row.fingerprint, row.generator_url) == ("fp-Down", "http://prometheus:9090/graph")
    assert set(Alert.objects.values_list("alert_name", flat=True)) == {"Slow", "Down"}
    assert DiagnosisRun.objects.count() == 1


def test_prometheus_is_asked_where_no_alertmanager_is_set(client: Client, settings: Settings) -> None:
    rows = [
        {"labels": {"alertname": "Soon", "severity": "critical"}, "annotations": {}, "state": "pending"},
        {"labels": {"alertname": "Now"}, "annotations": {}, "state": "firing", "activeAt": "2026-11-12T10:04:00.1Z"},
    ]

    def answer(seen: Seen) -> Answer:
        assert seen.path == "/api/v1/alerts"
        return Answer(json.dumps({"status": "success", "data": {"alerts": rows}}).encode())

    with serve(answer) as server:
        set_env(settings, prometheus_url=server.url)
        assert post(client, AI_OPS).json()["alertName"] == "Now"
    row = Alert.objects.get()
    assert row.starts_at is not None
    assert now() - row.starts_at < timedelta(days=365 * 20)


def test_recorded_evidence_has_its_own_active_alerts(client: Client, settings: Settings) -> None:
    folder: Path = BASE_DIR / "eval" / "incidents" / "pool-exhausted" / "evidence"
    set_env(settings, recorded_evidence=folder, alertmanager_url="http://127.0.0.1:9")
    answer = post(client, AI_OPS)
    assert answer.status_code == 202
    named = {row["labels"]["alertname"] for row in json.loads((folder / "alerts.json").read_text())}
    assert answer.json()["alertName"] in named


def test_where_nothing_is_active_that_is_the_answer(client: Client, settings: Settings) -> None:
    with answering() as server:
        set_env(settings, alertmanager_url=server.url)
        answer = post(client, AI_OPS)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)
    assert answer.json()["message"] == "No alert is active now: there is nothing to diagnose."


def test_without_a_source_that_is_said(client: Client) -> None:
    answer = post(client, AI_OPS)
    assert (answer.status_code, answer.json()["code"]) == (503, "NO_ALERT_SOURCE")
    assert "ALERTMANAGER_URL" in answer.json()["message"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (Answer(status=500), 503),
        (Answer(status=401), 502),
        (Answer(status=404), 502),
        (Answer(b"<html>"), 502),
        (Answer(b'{"data": 3}'), 502),
        (Answer(b'[{"labels": {}}]'), 502),
        (Answer(b'[{"labels": [1], "status": {"state": "active"}}]'), 502),
        (Answer(b"[3]"), 502),
    ],
)
def test_a_source_that_fails_is_told(client: Client, settings: Settings, given: Answer, status: int) -> None:
    with serve(lambda _seen: given) as server:
        check_failure(client, settings, server, status)


def check_failure(client: Client, settings: Settings, server: Running, status: int) -> None:
    set_env(settings, alertmanager_url=server.url.replace("http://", "http://ops:hunter2@"))
    answer = post(client, AI_OPS)
    assert (answer.status_code, answer.json()["code"]) == (status, "ALERT_SOURCE_FAILED")
    assert "Alertmanager" in answer.json()["message"]
    assert "hunter2" not in answer.content.decode()
    assert not DiagnosisRun.objects.exists()


def test_a_source_that_hangs_or_is_away_is_told(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.active_alerts.TIMEOUT_S", 0.2)
    never = threading.Event()
    with serve(lambda _seen: Answer(wait=never)) as server:
        check_failure(client, settings, server, 503)
        never.set()
    check_failure(client, settings, server, 503)
