"""What a person does with the list of runs, in a real browser."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from tests.audit.told_runs import finish, opening, told_run, two_runs
from tests.browser.conftest import Visitor
from tests.factories import RunFactory


def rows(page: Page) -> list[str]:
    return page.locator("#run-rows > tr[id^=row-]").evaluate_all("rows => rows.map((row) => row.id)")


def test_the_list_keeps_open_runs_up_to_date_and_filters_in_the_address(visitor: Visitor, person: User) -> None:
    run = opening()
    waiting = RunFactory.create(query="Why is orders-api slow?", subject={"version": 1})
    page = visitor.page
    visitor.sign_in(person)
    badge = page.locator(f"#row-{run.id} .badge")
    expect(badge).to_have_text("Running")
    finish(run)
    expect(badge).to_have_text("Answered")
    page.get_by_label("Search").fill("orders")
    expect(page.locator(f"#row-{run.id}")).to_have_count(0)
    expect(page.locator(f"#row-{waiting.id}")).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]q=orders"))
    places = page.evaluate("history.length")
    with page.expect_response(lambda answer: "q=orders" in answer.url):
        page.get_by_label("Search").press("Enter")
    page.get_by_label("Search").blur()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("history.length") == places, "back would lead to the same page"
    page.reload()
    expect(page.locator("#run-rows > tr")).to_have_count(1)


@pytest.mark.parametrize("query", ["", "sort=longest"])
def test_older_runs_come_as_the_reader_scrolls(visitor: Visitor, person: User, query: str) -> None:
    at = datetime(2031, 3, 4, tzinfo=UTC)
    for n in range(85):
        RunFactory.create(failed=True, queued_at=at, started_at=at, finished_at=at + timedelta(seconds=n % 4))
    visitor.come_as(person)
    visitor.open(f"/?{query}")
    seen = visitor.page.locator("#run-rows [data-row]")
    expect(seen).to_have_count(40)
    for count in (80, 85):
        # What arrives meanwhile neither shifts nor repeats what is there.
        late = at + timedelta(days=1)
        RunFactory.create(failed=True, queued_at=late, started_at=at, finished_at=late)
        visitor.page.keyboard.press("End")
        expect(seen).to_have_count(count)
    assert len(set(rows(visitor.page))) == 85
    expect(visitor.page.get_by_text("More runs")).to_have_count(0)


def test_two_runs_are_ticked_by_hand_or_by_key_and_compared(visitor: Visitor, person: User) -> None:
    a, b = two_runs()
    page = visitor.page
    visitor.sign_in(person)
    bar = page.locator("#compare")
    expect(bar).to_be_hidden()
    page.get_by_role("checkbox", name="Compare HighErrorRate").first.check()
    expect(bar).to_contain_text("One run is ticked")
    expect(bar.get_by_role("button")).to_be_disabled()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(bar).to_contain_text("Two runs are ticked.")
    bar.get_by_role("button", name="Compare").click()
    page.wait_for_url(f"{visitor.base}/runs/compare/?a={a.id}&b={b.id}")
    expect(page.locator(".compare-sum")).to_contain_text("Differs: Rule set, Prompt chat_verifier.")
    page.get_by_role("link", name="event 5").last.click()
    page.wait_for_url(f"{visitor.base}/runs/{b.id}/?event=5#panel")
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_text("There is no other.")).to_be_visible()
    page.get_by_label("Run B").fill(a.id)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".compare-sum")).to_be_visible()


def test_without_a_script_two_ticked_runs_are_compared(plain_visitor: Visitor, person: User) -> None:
    a, b = two_runs()
    page = plain_visitor.page
    plain_visitor.sign_in(person)
    for box in page.get_by_role("checkbox", name="Compare HighErrorRate").all():
        box.check()
    page.locator("#compare").get_by_role("button", name="Compare").click()
    page.wait_for_url(f"{plain_visitor.base}/runs/compare/?a={a.id}&b={b.id}")
    expect(page.get_by_text("Nobody deployed anything.").last).to_be_visible()


def test_a_comparison_is_no_wider_than_a_narrow_screen(narrow_visitor: Visitor, person: User) -> None:
    a, b = two_runs()
    long = told_run({"input_params": {"query": "y" * 500}})
    narrow_visitor.sign_in(person)
    for other in (b, long):
        narrow_visitor.open(f"/runs/compare/?a={a.id}&b={other.id}")
        assert narrow_visitor.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_new_runs_wait_behind_a_button(visitor: Visitor, person: User) -> None:
    first = RunFactory.create(failed=True)
    page = visitor.page
    visitor.sign_in(person)
    expect(page.locator("#run-rows > tr")).to_have_count(1)
    RunFactory.create_batch(2, failed=True)
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    button = page.get_by_role("link", name="2 new runs")
    expect(button).to_be_visible()
    assert rows(page) == [f"row-{first.id}"]
    button.click()
    expect(page.locator("#run-rows > tr")).to_have_count(3)
    expect(button).to_have_count(0)


def test_filters_columns_and_order_stand_in_a_short_address(visitor: Visitor, person: User) -> None:
    told_run()
    failed = RunFactory.create(failed=True, model="openai:gpt-5")
    page = visitor.page
    visitor.sign_in(person)
    page.get_by_label("State").select_option("FAILED")
    expect(page).to_have_url(f"{visitor.base}/?status=FAILED")
    page.get_by_text("More filters and columns").click()
    page.get_by_label("Model").check()
    expect(page.locator(f"#row-{failed.id}")).to_contain_text("openai:gpt-5")
    page.get_by_label("Labels, key=value").fill("service=checkout-api")
    page.get_by_label("Labels, key=value").press("Enter")
    expect(page.locator(".chip")).to_have_count(2)
    visitor.settle()
    page.reload()
    expect(page.locator(f"#row-{failed.id}")).to_contain_text("openai:gpt-5")
    visitor.settle()
    page.locator(".chip").first.click()
    expect(page.locator("#run-rows > tr")).to_have_count(2)
    visitor.settle()
    page.go_back()
    expect(page.locator("#run-rows > tr")).to_have_count(1)
    expect(page.get_by_label("State")).to_have_value("FAILED")


def test_figures_come_after_the_rows_and_the_chart_is_a_table_too(visitor: Visitor, person: User) -> None:
    told_run()
    visitor.sign_in(person)
    page = visitor.page
    expect(page.locator(".chart svg")).to_be_visible()
    page.get_by_text("The chart as a table").click()
    page.locator(".chart-table").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"since=.*until="))
    expect(page.locator("#run-rows > tr")).to_have_count(1)


def test_needs_attention_says_why_and_is_counted(visitor: Visitor, person: User) -> None:
    told_run()
    RunFactory.create(failed=True)
    visitor.sign_in(person)
    page = visitor.page
    page.get_by_role("link", name="Needs attention 1").click()
    expect(page.locator(".runs-reasons")).to_have_text([re.compile("failed")])
    page.get_by_label("State").select_option("SUCCESS")
    expect(page.get_by_text("No run matches")).to_be_visible()
    expect(page).to_have_url(re.compile("view=attention"))


def test_without_a_script_the_list_filters_pages_and_shows_figures(plain_visitor: Visitor, person: User) -> None:
    RunFactory.create_batch(41, failed=True)
    told_run()
    page = plain_visitor.page
    plain_visitor.sign_in(person)
    page.get_by_label("State").select_option("FAILED")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#run-rows [data-row]")).to_have_count(40)
    page.get_by_role("link", name="More runs").click()
    expect(page.locator("#run-rows [data-row]")).to_have_count(1)
    page.get_by_role("link", name="Back to the beginning of the list").click()
    page.get_by_role("link", name="Count, durations and outcomes over time").click()
    expect(page.locator(".figures")).to_contain_text("41")


def test_the_list_is_not_wider_than_a_narrow_screen(narrow_visitor: Visitor, person: User) -> None:
    about = {"version": 1, "alert": {"alertname": "x" * 300, "severity": "y" * 100, "labels": {"service": "z" * 300}}}
    RunFactory.create(success=True, subject=about, model="m" * 200)
    RunFactory.create(success=True, query="字" * 400, subject={"version": 1})
    narrow_visitor.sign_in(person)
    columns = "cols=trigger,intent,verdict,took,tokens,who,model,id,when"
    for query in ("", "view=attention", columns, f"{columns}&q={'w' * 150}&since=x"):
        narrow_visitor.open(f"/?{query}")
        narrow_visitor.page.wait_for_load_state("networkidle")
        narrow_visitor.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert narrow_visitor.page.evaluate("document.documentElement.scrollWidth") <= 360, query
