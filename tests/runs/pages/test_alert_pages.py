"""The inbox, the page of one alert, and what is done there."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from runs import alert_actions, intake
from runs.access import Caller
from runs.alertpayload import read_notice
from runs.models import Alert, AlertSilence, DiagnosisRun
from tests.factories import AlertFactory, RunFactory, SessionFactory, UserFactory, now, published

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(UserFactory(username="casey", permissions=["submit_alerts"]))
    return client


@pytest.fixture
def onlooker() -> Client:
    """May look and not act."""
    client = Client()
    client.force_login(UserFactory(username="robin"))
    return client


def text_of(answer: Any) -> str:
    assert answer.status_code == 200
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode().split("<main")[-1])))


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200
    found = re.findall(r'<a href="/alerts/\d+/" data-row>([^<]*)</a>', answer.content.decode())
    return [unescape(name) for name in found]


def page_of(alert: Alert) -> str:
    return f"/alerts/{alert.id}/"


# ---- the inbox ------------------------------------------------------------------------------------------------


def test_a_row_says_what_an_on_call_engineer_asks_first(browser: Client) -> None:
    run = RunFactory(success=True)
    alert = AlertFactory(
        alert_name="PoolExhausted",
        labels={"alertname": "PoolExhausted", "severity": "critical", "service": "checkout-api", "team": "shop"},
        annotations={"summary": "No connection is left."},
        occurrences=3,
        last_run=run,
    )
    told = text_of(browser.get("/alerts/"))
    for words in (
        *("Firing", "critical", "PoolExhausted", "service checkout-api", "No connection is left.", "3 times"),
        *("Answered", published().conclusion),
    ):
        assert words in told
    assert "shop" not in told
    assert f'href="/runs/{run.id}/"' in browser.get("/alerts/").content.decode()
    assert page_of(alert) in browser.get("/alerts/").content.decode()


def test_a_run_that_released_nothing_says_why_and_shows_no_draft(browser: Client) -> None:
    run = RunFactory(failed=True, self_evaluation={"executor_structured_output": "SECRET draft"})
    AlertFactory(last_run=run)
    told = text_of(browser.get("/alerts/"))
    assert "The run failed. It did." in told
    assert "SECRET" not in told


def test_the_last_to_be_heard_of_comes_first(browser: Client) -> None:
    for age, name in ((2, "Old"), (0, "New"), (1, "Middle")):
        AlertFactory(alert_name=name, first_received_at=now() - age * HOUR)
    assert names(browser.get("/alerts/")) == ["New", "Middle", "Old"]


@pytest.fixture
def several() -> None:
    AlertFactory(alert_name="Critical", severity="Page", last_run=RunFactory(success=True), labels={"pod": "shop-7"})
    AlertFactory(alert_name="Warning", severity="warning", last_run=RunFactory(failed=True))
    AlertFactory(alert_name="Odd", severity="urgent?", last_run=RunFactory(running=True))
    over = AlertFactory(alert_name="Over", severity="", status="RESOLVED", annotations={"summary": "100% complete ± 5"})
    alert_actions.silence(over.id, Caller(user=UserFactory()), lasts=HOUR, reason="Known.")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"Critical", "Warning", "Odd", "Over"}),
        ("state=firing", {"Critical", "Warning", "Odd"}),
        ("state=resolved", {"Over"}),
        ("state=silenced", {"Over"}),
        ("severity=critical", {"Critical"}),
        ("severity=warning", {"Warning"}),
        ("severity=other", {"Odd", "Over"}),
        ("run=open", {"Odd"}),
        ("run=answered", {"Critical"}),
        ("run=failed", {"Warning"}),
        ("run=none", {"Over"}),
        ("q=shop-7", {"Critical"}),
        ("q=WARN", {"Warning"}),
        ("q=100%25+complete+%C2%B1", {"Over"}),
        ("q=%25", {"Over"}),
        ("q=nothing+has+this", set()),
        ("state=firing&severity=other&run=open", {"Odd"}),
        ("state=bogus&severity=x&run=y", {"Critical", "Warning", "Odd", "Over"}),
    ],
)
def test_filters_are_in_the_address(browser: Client, several: None, query: str, found: set[str]) -> None:
    assert set(names(browser.get(f"/alerts/?{query}"))) == found


def test_older_alerts_come_by_pages_without_gap_or_repeat(browser: Client) -> None:
    at = now()
    for n in range(95):
        AlertFactory(alert_name=f"A{n}", first_received_at=at - timedelta(seconds=n // 4))
    seen: list[str] = []
    address = "/alerts/"
    while address:
        answer = browser.get(address)
        seen += names(answer)
        older = re.search(r'<a href="(/alerts/\?[^"]*before=[^"]+)" hx-get', answer.content.decode())
        address = unescape(older[1]) if older else ""
    assert len(seen) == len(set(seen)) == 95


@pytest.mark.parametrize("before", ["x", "é", "MjAyNg", "A" * 500])
def test_a_place_that_is_none_is_refused(browser: Client, before: str) -> None:
    assert browser.get("/alerts/", {"before": before}).status_code == 400


def test_the_number_of_queries_does_not_grow_with_the_rows(
    browser: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(30):
        AlertFactory(last_run=RunFactory(success=True))
    with django_assert_max_num_queries(9):
        browser.get("/alerts/")


def test_an_empty_inbox_says_what_to_do(browser: Client) -> None:
    told = text_of(browser.get("/alerts/"))
    assert "http://testserver/api/alerts/grafana" in told
    assert "create_token" in told


def test_parts_are_what_htmx_asks_for(browser: Client) -> None:
    alert = AlertFactory(last_run=RunFactory(running=True))
    htmx = {"HX-Request": "true", "HX-Target": "alert-list"}
    assert b"<html" not in browser.get("/alerts/", headers=htmx).content
    watched = browser.get("/alerts/watched/", {"id": [str(alert.id), "x", "9" * 30, "\u0663"]}).content.decode()
    assert f'id="alert-{alert.id}" hx-swap-oob="true"' in watched
    assert f"id={alert.id}" in watched
    DiagnosisRun.objects.update(status="CANCELLED", outcome="CANCELLED", lease_token=None, finished_at=now(),
                                cancel_reason="DEADLINE", safe_content={})  # fmt: skip
    watched = browser.get("/alerts/watched/", {"id": str(alert.id)}).content.decode()
    assert "Cancelled" in watched
    assert "hx-trigger" not in watched
    part = browser.get(page_of(alert), headers={"HX-Request": "true", "HX-Target": "alert-runs"}).content
    assert b"<html" not in part


def test_runs_of_other_people_s_sessions_are_not_shown(browser: Client) -> None:
    run = RunFactory(success=True, session=SessionFactory(owner=UserFactory()))
    alert = AlertFactory(last_run=run)
    for path in ("/alerts/", page_of(alert)):
        assert run.id not in browser.get(path).content.decode()
        assert published().conclusion not in browser.get(path).content.decode()


@pytest.mark.parametrize("path", ["/alerts/", "/alerts/1/", "/alerts/watched/"])
def test_nobody_is_asked_to_sign_in(path: str) -> None:
    assert Client().get(path).status_code == 302


# ---- the page of one ------------------------------------------------------------------------------------------


def test_the_page_shows_what_came_and_what_became_of_it(browser: Client) -> None:
    first = AlertFactory(fingerprint="aa", status="RESOLVED", first_received_at=now() - 9 * HOUR)
    alert = AlertFactory(
        fingerprint="aa",
        labels={"alertname": "HighErrorRate", "runbook": "https://wiki.example/x", "bad": "javascript:alert(1)"},
        annotations={"description": "half of all"},
        generator_url="https://prometheus.example/graph?g0.expr=up",
        group_key='{}:{alertname="HighErrorRate"}',
    )
    old, new = RunFactory(success=True, alert=first), RunFactory(running=True, alert=alert)
    Alert.objects.filter(id=alert.id).update(last_run=new)
    body = browser.get(page_of(alert)).content.decode()
    told = text_of(browser.get(page_of(alert)))
    for words in ("half of all", '{}:{alertname="HighErrorRate"}', "Running", "Answered", "Alertmanager"):
        assert words in told
    for address in (
        *(f"/runs/{old.id}/", f"/runs/{new.id}/", page_of(first), "https://wiki.example/x"),
        "https://prometheus.example/graph?g0.expr=up",
    ):
        assert f'href="{address}"' in body
    assert 'href="javascript' not in body


@pytest.mark.parametrize(
    "address", ["?orgId=1", "", "javascript:alert(1)", "file:///etc/passwd", "//evil.example", "http://u:p@x.example/"]
)
def test_only_a_plain_web_address_opens_at_its_source(browser: Client, address: str) -> None:
    alert = AlertFactory(generator_url=address)
    assert "Open at its source" not in text_of(browser.get(page_of(alert)))


@pytest.mark.parametrize("path", ["/alerts/1/", f"/alerts/{2**63}/", "/alerts/99999999999999999999999/"])
def test_an_alert_that_is_not_there_is_not_found(browser: Client, path: str) -> None:
    assert browser.get(path).status_code == 404


# ---- actions --------------------------------------------------------------------------------------------------


def test_diagnose_now_leads_to_the_run(browser: Client) -> None:
    alert = AlertFactory()
    answer = browser.post(f"{page_of(alert)}diagnose/")
    run = DiagnosisRun.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/runs/{run.id}/")
    assert run.requested_by is not None
    again = browser.post(f"{page_of(alert)}diagnose/", follow=True)
    assert "being diagnosed already" in text_of(again)
    assert DiagnosisRun.objects.count() == 1


def test_a_silence_is_made_shown_and_ended(browser: Client) -> None:
    alert = AlertFactory()
    where = f"{page_of(alert)}silence/"
    told = text_of(browser.post(where, {"lasts": "4h", "reason": "<b>Known</b>, we roll back."}, follow=True))
    assert "Silenced:" in told
    assert "casey: <b>Known</b>, we roll back." in told
    held = AlertSilence.objects.get()
    assert held.until - held.created_at == 4 * HOUR
    assert "silenced" in text_of(browser.get("/alerts/"))
    told = text_of(browser.post(f"{where}end/", follow=True))
    assert "Silenced:" not in told
    assert "ended by casey" in told
    assert "ended before" in text_of(browser.post(f"{where}end/", follow=True))


@pytest.mark.parametrize(
    "sent", [{}, {"lasts": "4h"}, {"lasts": "4h", "reason": "  "}, {"lasts": "9y", "reason": "x"},
             {"lasts": "1h", "reason": "x" * 301},
             {"lasts": "1h", "reason": "\u200b"}, {"lasts": "1h", "reason": "known \u202eesle"}],
)  # fmt: skip
def test_a_bad_silence_says_so_and_changes_nothing(browser: Client, sent: dict[str, str]) -> None:
    alert = AlertFactory()
    assert "Nothing was changed" in text_of(browser.post(f"{page_of(alert)}silence/", sent, follow=True))
    assert not AlertSilence.objects.exists()


@pytest.mark.parametrize("action", ["diagnose/", "silence/", "silence/end/"])
def test_who_may_not_act_sees_no_buttons_and_is_refused(onlooker: Client, action: str) -> None:
    alert = AlertFactory()
    for path in ("/alerts/", page_of(alert)):
        assert "Diagnose now" not in onlooker.get(path).content.decode()
    assert onlooker.post(f"{page_of(alert)}{action}").status_code == 403
    assert onlooker.get(f"{page_of(alert)}{action}").status_code == 405
    assert not DiagnosisRun.objects.exists()


def test_actions_need_the_form_s_token() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory(permissions=["submit_alerts"]))
    assert client.post(f"{page_of(AlertFactory())}diagnose/").status_code == 403


# ---- alerts as they come in real life -------------------------------------------------------------------------

ODD: list[dict[str, Any]] = [
    {},
    {"labels": {}, "annotations": {}},
    {"labels": None, "annotations": None, "status": None, "startsAt": None, "generatorURL": None, "values": None},
    {"labels": {"alertname": None, "instance": None, "job": None, "severity": None}, "fingerprint": None},
    {"labels": {"alertname": "NUL \0 here"}, "annotations": {"summary": "a\0b"}},
    {"labels": {"alertname": "<script>alert(1)</script>", "service": "<img src=x onerror=alert(1)>"}},
    {"labels": {"alertname": "± %E9%93%B6 100% complete"}, "annotations": {"summary": "银行 %E9%93%B6 100% complete"}},
    {"labels": {"alertname": "{{ $labels.alertname }}"}, "annotations": {"summary": "{{ $value | humanize }} {% x %}"}},
    {"labels": {"alertname": "TestAlert", "instance": "Grafana"}, "generatorURL": "?orgId=1"},
    {"labels": {"alertname": "Later"}, "startsAt": "2999-01-01T00:00:00-04:00"},
    {"labels": {"alertname": "\u202eevil\u0007"}, "annotations": {"summary": "line\nline\r\n\tline"}},
    {"labels": {"alertname": "Long", "x": "y" * 5000}, "annotations": {"summary": "word" * 1000}},
]  # fmt: skip


@pytest.mark.parametrize("alert", ODD, ids=lambda alert: str(sorted(alert))[:60] + str(alert)[-20:])
def test_an_odd_alert_can_be_looked_at(browser: Client, alert: dict[str, Any]) -> None:
    received = intake.receive(read_notice({"alerts": [alert]}), intake.Sender(), lambda _ids: None)
    row = Alert.objects.get()
    for path in ("/alerts/", page_of(row), "/", f"/runs/{received.runs[0].run_id}/"):
        answer = browser.get(path)
        told = text_of(answer)
        body = answer.content.decode()
        assert not re.search(r"\b(None|undefined|NaN|null)\b", told), path
        assert "<script>alert" not in body
        assert "<img src=x" not in body
        assert "\0" not in body
        assert "\u202e" not in body


def test_signs_are_kept_exactly(browser: Client) -> None:
    alert = ODD[6]
    intake.receive(read_notice({"alerts": [alert]}), intake.Sender(), lambda _ids: None)
    told = text_of(browser.get("/alerts/"))
    assert "± %E9%93%B6 100% complete" in told
    assert "银行 %E9%93%B6 100% complete" in told
