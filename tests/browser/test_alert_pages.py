"""What a person does with the inbox of alerts, in a real browser."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from runs.models import Alert, AlertSilence, DiagnosisRun
from tests.audit.told_runs import finish, opening
from tests.browser.conftest import Server, Visitor
from tests.factories import AlertFactory, RunFactory, UserFactory, now


@pytest.fixture
def operator(server: Server) -> User:
    return UserFactory.create(username="operator", permissions=["submit_alerts"])


def an_alert(**changes: object) -> Alert:
    alert: Alert = AlertFactory.create(
        **{"labels": {"alertname": "HighErrorRate", "service": "checkout-api"}, **changes},
    )
    return alert


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_diagnose_now_leads_from_the_inbox_to_the_new_run(visitor: Visitor, operator: User) -> None:
    an_alert(last_run=RunFactory.create(failed=True))
    visitor.sign_in(operator)
    page = visitor.page
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Alerts").click()
    expect(page.get_by_text("Failed", exact=True)).to_be_visible()
    page.get_by_role("button", name=re.compile("^Diagnose now ?: HighErrorRate")).click()
    expect(page).to_have_url(re.compile(r"/runs/run_\w+/"))
    expect(page.get_by_text("A new run of this alert was started.")).to_be_visible()
    page.get_by_role("link", name="all its runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("HighErrorRate")
    expect(page.locator(".history .badge")).to_have_text(["Waiting"])


def test_a_silence_is_made_and_ended_by_keyboard(visitor: Visitor, operator: User) -> None:
    alert = an_alert()
    visitor.come_as(operator)
    visitor.open(f"/alerts/{alert.id}/")
    page = visitor.page
    page.locator(".silence > summary").focus()
    page.keyboard.press("Enter")
    page.get_by_label("For").select_option("4 hours")
    page.get_by_label("Why").fill("Known, we roll back.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("operator: Known, we roll back.").first).to_be_visible()
    assert AlertSilence.objects.get().until > now() + timedelta(hours=3)
    page.get_by_role("button", name="End the silence").click()
    expect(page.get_by_text("ended by operator")).to_be_visible()
    expect(page.get_by_text("Silenced:")).to_have_count(0)


def test_badges_of_open_runs_follow_them(visitor: Visitor, operator: User) -> None:
    run = opening()
    alert = an_alert(last_run=run)
    visitor.come_as(operator)
    visitor.open("/alerts/")
    badge = visitor.page.locator(f"#alert-{alert.id} .alerts-run .badge")
    expect(badge).to_have_text("Running")
    finish(run)
    expect(badge).to_have_text("Answered")
    expect(visitor.page.locator("#watcher")).to_have_count(0)


def test_the_page_of_an_alert_follows_its_runs(visitor: Visitor, operator: User) -> None:
    run = opening()
    alert = an_alert(last_run=run)
    visitor.come_as(operator)
    visitor.open(f"/alerts/{alert.id}/")
    badge = visitor.page.locator(".history .badge")
    expect(badge).to_have_text("Running")
    finish(run)
    expect(badge).to_have_text("Answered")


def test_the_inbox_is_filtered_in_the_address_and_grows_as_one_scrolls(visitor: Visitor, operator: User) -> None:
    for n in range(60):
        an_alert(alert_name=f"A{n}", severity="critical" if n % 2 else "info")
    visitor.come_as(operator)
    visitor.open("/alerts/")
    page = visitor.page
    rows = page.locator("#alert-rows [data-row]")
    expect(rows).to_have_count(40)
    page.keyboard.press("End")
    expect(rows).to_have_count(60)
    page.get_by_label("Severity").select_option("critical")
    expect(rows).to_have_count(30)
    expect(page).to_have_url(re.compile(r"severity=critical"))
    page.get_by_label("Search").fill("A59")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_text(["A59"])


def test_on_a_phone_the_inbox_and_an_alert_fit(narrow_visitor: Visitor, operator: User) -> None:
    alert = an_alert(
        alert_name="VeryLongName" * 15,
        annotations={"summary": "no-space-in-this-word" * 20},
        generator_url="https://prometheus.example/graph?g0.expr=" + "x" * 500,
        last_run=RunFactory.create(success=True),
    )
    narrow_visitor.sign_in(operator)
    for path in ("/alerts/", f"/alerts/{alert.id}/"):
        narrow_visitor.open(path)
        assert fits(narrow_visitor.page), path
        expect(narrow_visitor.page.get_by_role("button", name="Diagnose now").first).to_be_visible()


def test_without_scripts_everything_works(plain_visitor: Visitor, operator: User) -> None:
    for n in range(41):
        an_alert(alert_name=f"A{n}")
    plain_visitor.sign_in(operator)
    page = plain_visitor.page
    plain_visitor.open("/alerts/")
    page.get_by_label("Search").fill("A4")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#alert-rows [data-row]")).to_have_count(2)
    plain_visitor.open("/alerts/")
    page.get_by_role("link", name="More alerts").click()
    expect(page.locator("#alert-rows [data-row]")).to_have_count(1)
    page.get_by_role("button", name="Diagnose now").click()
    assert DiagnosisRun.objects.count() == 1
