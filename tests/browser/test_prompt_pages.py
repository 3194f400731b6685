"""A prompt is edited, tried, activated, compared and rolled back, while runs go on; and two admins collide."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect

from audit.models import RunPrompt
from prompts.actions import do_activate, save_version
from prompts.models import Prompt, PromptVersion
from runs.models import DiagnosisRun
from runs.rehearsals import rehearse, scene_of_incident
from tests.browser.conftest import Server, Visitor, visiting
from tests.browser.test_accessibility import axe_reports
from tests.browser.working import INCIDENT, NAMED, WAIT_S, Worker, alert_comes_in, ended, steps_of

VERIFIER = "/admin/prompts/prompt/chat_verifier/"


def carried(run_id: str) -> set[str]:
    """The version of the verifier's prompt that the ended run names, in its index and in its own evaluation."""
    run = ended(run_id)
    audit = run.self_evaluation["verifier_evaluation"]["prompt_audit"]
    assert re.fullmatch(r"aiops-prompts-v\d+(\+rehearsal)?", audit["version"])
    named = {each["version"] for each in audit["prompts"] if each["name"] == "chat_verifier"}
    assert all(set(each) == {"name", "version", "resource", "sha256"} for each in audit["prompts"])
    return named | set(RunPrompt.objects.filter(run=run, prompt="chat_verifier").values_list("version", flat=True))


def test_a_prompt_is_edited_tried_activated_compared_and_rolled_back(
    visitor: Visitor, worker: Worker, anna: User
) -> None:
    page = visitor.page
    before = alert_comes_in()
    assert carried(before) == {"chat-verifier-v1"}
    visitor.come_as(anna)

    visitor.open("/admin/prompts/prompt/")
    page.get_by_role("link", name="Verifier", exact=True).click()
    page.locator("#content").get_by_role("link", name="Edit", exact=True).first.click()
    text = page.get_by_label("Text")
    text.fill(text.input_value() + "Be brief.\n")
    page.get_by_role("button", name="Show the difference").click()
    expect(page.locator(".diff-added ins")).to_have_text("Be brief.")
    page.get_by_label("Why").fill("Reasons are too long to read at night")
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_text("Saved as chat-verifier-v2. It is not active yet.")).to_be_visible()

    page.locator("#content").get_by_role("link", name="Dry-run", exact=True).click()
    page.get_by_label("Incident").select_option(INCIDENT)
    page.get_by_role("button", name="Try it on the incident").click()
    expect(page.get_by_role("heading", name="Released statements")).to_be_visible(timeout=30_000)
    expect(page.locator("#dry-run")).to_contain_text("Before: chat-verifier-v1")
    tried = DiagnosisRun.objects.get(rehearsal__prompts={"chat_verifier": 2})
    assert carried(tried.id) == {"chat-verifier-v2"}

    worker.hold.set()
    during = alert_comes_in()
    assert worker.held.wait(WAIT_S)
    page.get_by_role("link", name="Go on to activation").click()
    expect(page.locator(".diff-added ins")).to_have_text("Be brief.")
    page.get_by_label("Why").fill("The dry-run released the same in fewer words")
    page.get_by_role("button", name="Make chat-verifier-v2 active").click()
    expect(page.get_by_text("Active now: chat-verifier-v2.")).to_be_visible()
    worker.hold.clear()
    assert carried(during) == {"chat-verifier-v1"}
    after = alert_comes_in()
    assert carried(after) == {"chat-verifier-v2"}

    visitor.open(f"{VERIFIER}change/")
    figures = page.locator("#usage tbody tr")
    expect(figures).to_have_count(2)
    for place, (label, runs) in enumerate((("chat-verifier-v2", "1"), ("chat-verifier-v1", "2"))):
        expect(figures.nth(place).locator("th")).to_have_text(label)
        expect(figures.nth(place).locator("td").first).to_have_text(runs)
    first = page.locator("tr", has=page.get_by_role("link", name="chat-verifier-v1", exact=True))
    first.get_by_role("link", name="Compare").click()
    expect(page.locator(".diff-removed del")).to_have_text("Be brief.")
    page.go_back()
    first.get_by_role("link", name="Roll back to it").click()
    page.get_by_label("Why").fill("It dropped a reason that was needed")
    page.get_by_role("button", name="Roll back to chat-verifier-v1").click()
    log = page.get_by_role("table", name="Activations, newest first").locator("tbody tr")
    expect(log).to_have_count(3)
    expect(log.nth(0)).to_contain_text("It dropped a reason that was needed")
    assert carried(alert_comes_in()) == {"chat-verifier-v1"}


def test_a_question_is_tried_on_an_incident_too(visitor: Visitor, worker: Worker, anna: User) -> None:
    first = PromptVersion.objects.get(prompt_id="chat_planner")
    save_version(first, first.text + "Be brief.\n", by=anna, reason="a try")
    visitor.come_as(anna)
    visitor.open("/prompts/chat_planner/versions/2/dry-run/")
    visitor.page.get_by_label("Incident").select_option(INCIDENT)
    visitor.page.get_by_label("Question about it").fill("Why does checkout-api answer with errors?")
    visitor.page.get_by_role("button", name="Try it on the incident").click()
    expect(visitor.page.get_by_role("heading", name="Released statements")).to_be_visible(timeout=30_000)
    run = DiagnosisRun.objects.get(rehearsal__prompts={"chat_planner": 2})
    assert run.prompt_set_version == "chat-prompts-v1+rehearsal"
    assert set(RunPrompt.objects.filter(run=run, prompt="chat_planner").values_list("version", flat=True)) == {
        "chat-planner-v2"
    }


def test_a_past_run_is_repeated_without_javascript(plain_visitor: Visitor, worker: Worker, anna: User) -> None:
    past = ended(alert_comes_in())
    first = PromptVersion.objects.get(prompt_id="chat_verifier")
    save_version(first, first.text + "Be brief.\n", by=anna, reason="a try")
    plain_visitor.come_as(anna)
    plain_visitor.open("/prompts/chat_verifier/versions/2/dry-run/")
    page = plain_visitor.page
    page.get_by_label("Run:", exact=True).fill(past.id)
    page.get_by_role("button", name="Try it on the run").click()
    ended(DiagnosisRun.objects.get(rehearsal__of_run=past.id).id)
    page.reload()
    expect(page.get_by_role("link", name=past.id)).to_be_visible()
    expect(page.locator("#dry-run")).to_contain_text("chat-verifier-v2")
    expect(page.get_by_text("It goes on.")).to_have_count(0)


def test_two_admins_collide_and_neither_change_is_lost_silently(
    visitor: Visitor, browser: Browser, worker: Worker, anna: User, bert: User
) -> None:
    first = PromptVersion.objects.get(prompt_id="chat_verifier")
    of_anna = save_version(first, first.text + "Be brief.\n", by=anna, reason="brief")
    of_bert = save_version(first, first.text + "Be kind.\n", by=bert, reason="kind")
    visitor.sign_in(anna)
    with visiting(browser, visitor.base) as other:
        other.sign_in(bert)
        visitor.open(f"{VERIFIER}versions/{of_anna.number}/activate/")
        other.open(f"{VERIFIER}versions/{of_bert.number}/activate/")
        other.page.get_by_label("Why").fill("People complained")
        other.page.get_by_role("button", name="Make chat-verifier-v3 active").click()
        expect(other.page.get_by_text("Active now: chat-verifier-v3.")).to_be_visible()
    page = visitor.page
    page.get_by_label("Why").fill("Too long at night")
    page.get_by_role("button", name="Make chat-verifier-v2 active").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Nothing was changed.")
    expect(alert).to_contain_text("bert made chat-verifier-v3 active: People complained")
    expect(page.get_by_label("Why")).to_have_value("Too long at night")
    visitor.complaints.clear()  # the browser tells of the answer 409
    page.get_by_role("button", name="Make chat-verifier-v2 active").click()
    expect(page.get_by_text("Active now: chat-verifier-v2.")).to_be_visible()
    log = [(row.who, row.version.label) for row in first.prompt.activations.order_by("id")]
    assert log == [("sync_prompts", "chat-verifier-v1"), ("bert", "chat-verifier-v3"), ("anna", "chat-verifier-v2")]


# ---- the docs, step by step -------------------------------------------------------------------------------------


def reader_of(page: Page, open_admin: Callable[[], None], prompt: Prompt) -> list[Callable[[list[str]], None]]:
    """What a reader does at each step, with the names that the step has in bold."""
    content = page.locator("#content")
    wanted = content.locator("tr", has=page.get_by_role("link", name="chat-verifier-v1", exact=True))

    def follow(name: str) -> None:
        page.get_by_role("link", name=name, exact=True).first.click()

    def open_list(names: list[str]) -> None:
        open_admin()
        content.get_by_role("link", name=names[0], exact=True).last.click()
        expect(content).to_contain_text("chat-verifier-v2")

    def open_prompt(names: list[str]) -> None:
        follow(names[0])
        expect(content.get_by_role("heading", name=names[1])).to_be_visible()

    def compare(names: list[str]) -> None:
        wanted.get_by_role("link", name=names[0], exact=True).click()
        expect(content.locator(".diff-removed")).to_have_count(1)

    def to_activation(names: list[str]) -> None:
        follow(names[0])
        wanted.get_by_role("link", name=names[1], exact=True).click()

    def read(_names: list[str]) -> None:
        expect(content).to_contain_text("Runs that go on now keep what they started with.")
        assert prompt.activations.count() == 2

    def write(names: list[str]) -> None:
        page.get_by_label(names[0]).fill("It was worse")
        # Somebody else is faster, once.
        first, shown = prompt.versions.get(number=1), prompt.newest_activation()
        again = save_version(first, first.text + "Be kind.\n", by=User.objects.get(username="bert"), reason="kind")
        do_activate(again, shown=shown.id if shown else None, by=User.objects.get(username="bert"), reason="kind")

    def press(names: list[str]) -> None:
        page.get_by_role("button", name=names[0]).click()

    def decide_again(names: list[str]) -> None:
        expect(page.get_by_role("alert")).to_contain_text(names[0])
        expect(page.get_by_role("alert")).to_contain_text("bert made chat-verifier-v3 active")
        page.get_by_role("button", name="Roll back to chat-verifier-v1").click()

    def read_log(names: list[str]) -> None:
        expect(content.get_by_role("heading", name=names[0])).to_be_visible()
        newest = page.get_by_role("table", name="Activations, newest first").locator("tbody tr").first
        expect(newest).to_contain_text("It was worse")

    def see_a_run(names: list[str]) -> None:
        run = ended(alert_comes_in())
        assert run.prompt_set_version == "aiops-prompts-v4"
        wanted.get_by_role("link", name=names[0], exact=True).click()
        expect(content).to_contain_text(run.id)

    return [open_list, open_prompt, compare, to_activation, read, write, press, decide_again, read_log, see_a_run]


def test_the_docs_on_rolling_a_prompt_back_can_be_followed_step_by_step(
    visitor: Visitor, worker: Worker, anna: User, bert: User
) -> None:
    prompt = Prompt.objects.get(name="chat_verifier")
    first, shown = prompt.versions.get(), prompt.newest_activation()
    second = save_version(first, first.text + "Be brief.\n", by=anna, reason="brief")
    do_activate(second, shown=shown.id if shown else None, by=anna, reason="brief")
    visitor.sign_in(anna)
    steps = steps_of("How to roll a prompt back")
    doing = reader_of(visitor.page, lambda: visitor.open("/admin/"), prompt)
    assert len(steps) == len(doing) == 10
    for step, do in zip(steps, doing, strict=True):
        do(NAMED.findall(step))
    visitor.complaints.clear()  # the browser tells of the answer 409


@pytest.fixture
def every_page(worker: Worker, anna: User) -> list[str]:
    """Addresses of the pages of prompts, with something on each."""
    first = PromptVersion.objects.get(prompt_id="chat_verifier")
    save_version(first, first.text.replace("two sentences", "one sentence"), by=anna, reason="brief")
    save_version(first, "Be brief.", by=anna, reason="a draft")
    beside = rehearse(scene_of_incident(INCIDENT), {"chat_verifier": 1}, by=anna, title="to compare")
    tried = rehearse(scene_of_incident(INCIDENT), {"chat_verifier": 2}, by=anna, title="a try", beside=beside)
    for run_id in (beside, tried):
        ended(run_id)
    return [
        "/admin/prompts/prompt/",
        *(f"{VERIFIER}{path}" for path in ("change/", "compare/", "compare/?a=1&b=2", "versions/2/", "versions/3/")),
        *(f"{VERIFIER}versions/{path}/" for path in ("2/edit", "2/activate", "3/activate")),
        *(f"/prompts/chat_verifier/{path}/" for path in ("usage", "versions/2/runs", "versions/2/dry-run")),
        f"/prompts/dry-runs/{tried}/",
    ]


def test_the_pages_fit_a_phone(narrow_visitor: Visitor, every_page: list[str], anna: User) -> None:
    narrow_visitor.sign_in(anna)
    for address in every_page:
        narrow_visitor.open(address)
        assert narrow_visitor.page.evaluate("document.documentElement.scrollWidth") <= 360, address


def test_axe_finds_nothing(browser: Browser, server: Server, every_page: list[str], anna: User) -> None:
    reports: dict[str, list[str]] = {}
    with visiting(browser, server.base) as visitor:
        visitor.sign_in(anna)
        for address in every_page:
            visitor.open(address)
            reports[address] = axe_reports(visitor.page, "#content", "#content")
    assert {address: found for address, found in reports.items() if found} == {}
