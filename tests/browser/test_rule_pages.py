"""A rule is tried in shadow after a preview, a run is judged so, the old set is restored; and two admins collide."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect
from pytest_django.fixtures import Settings

from audit import impact
from audit.models import RulePreview, RunRule
from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.rules import GK005, GK007
from gatekeeper.types import RuleMode
from runs.incidents import incident
from tests.browser.conftest import Server, Visitor, visiting
from tests.browser.test_accessibility import axe_reports
from tests.browser.working import INCIDENT, NAMED, Worker, alert_comes_in, ended, steps_of

LONGER_THAN_ANY = "5000"


@pytest.fixture(autouse=True)
def _recorded_evidence(settings: Settings) -> None:
    """What the tools of these runs see."""
    evidence = incident(INCIDENT).evidence
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"recorded_evidence": evidence})


def number() -> int:
    return rulesets.newest_row().number


def mode_of(code: str) -> RuleMode:
    setting = rulesets.state_of(rulesets.newest_row()).setting(code)
    assert setting is not None
    return setting.mode


def propose(page: Page, *, mode: str, why: str) -> None:
    page.get_by_label("Mode").select_option(mode)
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name="Show what would change").click()


def test_a_rule_is_tried_in_shadow_after_a_preview_and_the_old_set_is_restored(
    visitor: Visitor, worker: Worker, anna: User
) -> None:
    page, first = visitor.page, number()
    before = ended(alert_comes_in())
    assert before.rule_set_version == first
    visitor.come_as(anna)

    visitor.open("/admin/gatekeeper/rule/")
    page.get_by_role("link", name="The excerpt stands in the evidence").click()
    page.get_by_label("Parameter min_chars").fill(LONGER_THAN_ANY)
    propose(page, mode="ENFORCED", why="Do short excerpts mislead?")
    expect(page.locator(".steer-changes ins")).to_have_text(LONGER_THAN_ANY)
    page.get_by_role("button", name="Try it on the last 100 runs").click()
    expect(page.get_by_text("1 of 1 runs would come out otherwise.")).to_be_visible()
    expect(page.get_by_role("table", name="Runs that would come out otherwise")).to_contain_text("GK005")
    expect(page.locator(f'#content a[href="/runs/{before.id}/"]')).to_be_visible()
    assert number() == first

    visitor.open(f"/admin/gatekeeper/rule/{GK005}/change/")
    page.get_by_label("Parameter min_chars").fill(LONGER_THAN_ANY)
    propose(page, mode="SHADOW", why="Too much would be withheld: in shadow first")
    expect(page.get_by_text("This lowers the floor of safety.")).to_be_visible()
    page.get_by_role("button", name="Try it on the last 100 runs").click()
    expect(page.locator("#rule-preview")).to_contain_text("runs would come out otherwise.")
    page.get_by_role("link", name="Back to the proposed change").click()
    page.get_by_role("button", name="Save as a new rule set").click()
    expect(page.get_by_text(f"Rule set {first + 1} is in force")).to_be_visible()

    during = ended(alert_comes_in())
    assert (during.rule_set_version, during.release_decision) == (first + 1, before.release_decision)
    kept = RunRule.objects.get(run=during)
    assert (kept.rule, kept.mode, kept.rule_set_version) == (GK005, "SHADOW", first + 1)
    assert f"rule set {first + 1}" in str(during.published_result["limitations"])
    visitor.open(f"/runs/{during.id}/")
    expect(page.get_by_role("alert")).to_contain_text("The floor of safety was lowered.")
    page.get_by_role("link", name="See the set").click()
    page.get_by_role("link", name=GK005).or_(page.get_by_role("link", name="The excerpt stands in")).first.click()
    expect(page.locator("#rule-usage")).to_contain_text("in 1 it failed in shadow")
    page.locator("#rule-usage").get_by_role("link", name="All its runs").click()
    expect(page.locator(f'#content a[href="/runs/{during.id}/"]')).to_be_visible()

    visitor.open(f"/admin/gatekeeper/ruleset/number/{first}/")
    page.get_by_role("button", name=f"Restore rule set {first}").click()
    page.get_by_label("Why").fill("The trial is over")
    page.get_by_role("button", name="Save as a new rule set").click()
    expect(page.get_by_text(f"Rule set {first + 2} is in force")).to_be_visible()
    after = ended(alert_comes_in())
    assert (after.rule_set_version, mode_of(GK005)) == (first + 2, RuleMode.ENFORCED)
    visitor.open(f"/runs/{after.id}/")
    expect(page.get_by_text("The floor of safety was lowered.")).to_have_count(0)


def test_two_admins_collide_and_neither_change_is_lost_silently(
    visitor: Visitor, browser: Browser, worker: Worker, anna: User, bert: User
) -> None:
    page, first = visitor.page, number()
    visitor.sign_in(anna)
    with visiting(browser, visitor.base) as other:
        other.sign_in(bert)
        for each, code, mode, why in (
            (visitor, GK007, "SHADOW", "It fires on versions"),
            (other, "GK009_CURRENT_STATE", "OFF", "Runbooks are all we have"),
        ):
            each.open(f"/admin/gatekeeper/rule/{code}/change/")
            propose(each.page, mode=mode, why=why)
        other.page.get_by_role("button", name="Save as a new rule set").click()
        expect(other.page.get_by_text(f"Rule set {first + 1} is in force")).to_be_visible()
    page.get_by_label("Why").fill("It fires on versions, every day")
    page.get_by_role("button", name="Save as a new rule set").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed.")
    expect(page.locator(".steer-notice-warn")).to_contain_text("by bert: Runbooks are all we have")
    expect(page.get_by_label("Why")).to_have_value("It fires on versions, every day")
    visitor.complaints.clear()  # the browser tells of the answer 409
    page.get_by_role("button", name="Save as a new rule set").click()
    expect(page.get_by_text(f"Rule set {first + 2} is in force")).to_be_visible()
    assert (mode_of(GK007), mode_of("GK009_CURRENT_STATE")) == (RuleMode.SHADOW, RuleMode.OFF)


def test_a_preview_works_without_javascript(plain_visitor: Visitor, worker: Worker, anna: User) -> None:
    ended(alert_comes_in())
    plain_visitor.sign_in(anna)
    page = plain_visitor.page
    plain_visitor.open(f"/admin/gatekeeper/rule/{GK005}/change/")
    page.get_by_label("Parameter min_chars").fill(LONGER_THAN_ANY)
    propose(page, mode="ENFORCED", why="Do short excerpts mislead?")
    page.get_by_role("link", name="Try it on past runs").click()
    page.get_by_role("button", name="Try it on the last 100 runs").click()
    expect(page.get_by_text("1 of 1 runs would come out otherwise.")).to_be_visible()


# ---- the docs, step by step -------------------------------------------------------------------------------------


def reader_of(
    page: Page, open_admin: Callable[[], None], collide: Callable[[], None], first: int
) -> list[Callable[[list[str]], None]]:
    """What a reader does at each step, with the names that the step has in bold."""
    content = page.locator("#content")

    def open_list(names: list[str]) -> None:
        open_admin()
        content.get_by_role("link", name=names[0], exact=True).last.click()
        expect(content).to_contain_text(f"Rule set {first}")

    def open_rule(names: list[str]) -> None:
        page.get_by_role("link", name=names[0], exact=True).first.click()
        expect(content.get_by_role("heading", name=names[1])).to_be_visible()

    def set_mode(names: list[str]) -> None:
        page.get_by_label(names[0]).select_option("shadow")

    def show(names: list[str]) -> None:
        page.get_by_label(names[0]).fill("How often does it fire on versions?")
        page.get_by_role("button", name=names[1]).click()
        expect(page.locator(".steer-changes ins")).to_have_text("shadow")
        assert number() == first

    def try_it(names: list[str]) -> None:
        page.get_by_role("button", name=names[0]).click()
        expect(content).to_contain_text(names[1])

    def save(names: list[str]) -> None:
        page.get_by_role("link", name=names[0]).click()
        collide()
        page.get_by_role("button", name=names[1]).click()

    def decide_again(names: list[str]) -> None:
        expect(page.get_by_role("alert")).to_contain_text(names[0])
        expect(content).to_contain_text("by bert: Runbooks are all we have")
        page.get_by_role("button", name="Save as a new rule set").click()
        expect(page.get_by_text(f"Rule set {first + 2} is in force")).to_be_visible()

    def see_a_run(names: list[str]) -> None:
        run = ended(alert_comes_in())
        page.goto(page.url.split("/admin/")[0] + f"/runs/{run.id}/")
        page.get_by_role("link", name=str(first + 2), exact=True).click()
        expect(content.get_by_role("heading", name=f"Rule set {first + 2}")).to_be_visible()
        page.get_by_role("link", name="Numbers, codes and identifiers").first.click()
        expect(content.get_by_role("heading", name=names[0])).to_be_visible()
        expect(page.locator("#rule-usage")).to_contain_text("in shadow")

    def open_old_set(names: list[str]) -> None:
        open_admin()
        content.get_by_role("link", name=names[0], exact=True).last.click()
        content.get_by_role("link", name=f"Rule set {first}", exact=True).click()

    def restore(names: list[str]) -> None:
        page.get_by_role("button", name=names[0].replace("1", str(first))).click()
        page.get_by_label("Why").fill("The trial is over")
        page.get_by_role("button", name=names[1]).click()
        expect(page.get_by_text(f"Rule set {first + 3} is in force")).to_be_visible()
        assert rulesets.current().digest == rulesets.load(first).digest

    return [open_list, open_rule, set_mode, show, try_it, save, decide_again, see_a_run, open_old_set, restore]


def test_the_docs_on_trying_a_rule_can_be_followed_step_by_step(
    visitor: Visitor, worker: Worker, anna: User, bert: User
) -> None:
    first = number()
    ended(alert_comes_in())

    def collide() -> None:
        off = Changes(rules={"GK009_CURRENT_STATE": RuleChange(mode=RuleMode.OFF)})
        proposal = rulesets.propose(first, off, by=bert, reason="Runbooks are all we have")
        rulesets.save_proposal(proposal, first, by=bert, reason="Runbooks are all we have")

    visitor.sign_in(anna)
    steps = steps_of("How to try a rule safely")
    doing = reader_of(visitor.page, lambda: visitor.open("/admin/"), collide, first)
    assert len(steps) == len(doing) == 10
    for step, do in zip(steps, doing, strict=True):
        do(NAMED.findall(step))
    visitor.complaints.clear()  # the browser tells of the answer 409


# ---- how the pages look -----------------------------------------------------------------------------------------


@pytest.fixture
def every_page(worker: Worker, anna: User) -> list[str]:
    """Addresses of the pages of rules, with something on each: a lowered floor, a collision, previews of all kinds."""
    ended(alert_comes_in())
    first = number()
    stricter = Changes(rules={GK005: RuleChange(params={"min_chars": 5_000})})
    kept = rulesets.propose(first, stricter, by=anna, reason="Do short excerpts mislead?")
    words = Changes(rules={GK005: RuleChange(mode=RuleMode.SHADOW), GK007: RuleChange(description="Ours. " * 60)})
    rulesets.save_proposal(rulesets.propose(first, words, by=anna, reason="A trial"), first, by=anna, reason="A trial")
    run = ended(alert_comes_in())
    done, going = (impact.start(kept, size, anna) for size in (100, 1000))
    while (row := RulePreview.objects.get(pk=done.pk)).status != "DONE":
        assert row.status != "FAILED"
    RulePreview.objects.filter(pk=going.pk).update(status="RUNNING", finished_at=None, total=900, done=300)
    base = "/admin/gatekeeper"
    return [
        f"{base}/rule/",
        f"{base}/rule/{GK005}/change/",
        f"{base}/rule/{GK007}/history/",
        f"{base}/ruleproposal/",
        f"{base}/ruleproposal/{kept.pk}/change/",
        f"{base}/ruleset/",
        f"{base}/ruleset/number/{first}/",
        f"{base}/ruleset/number/{first + 1}/",
        f"{base}/ruleset/compare/?a={first}&b={first + 1}",
        f"/rules/{GK005}/usage/",
        f"/rules/{GK005}/runs/",
        f"/rule-sets/{first}/runs/",
        f"/rule-proposals/{kept.pk}/previews/",
        f"/rule-previews/{done.pk}/",
        f"/rule-previews/{going.pk}/",
        f"/runs/{run.id}/",
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
            inside = "#content" if "/runs/run_" not in address else "main"
            reports[address] = axe_reports(visitor.page, "#content", inside)
    assert {address: found for address, found in reports.items() if found} == {}
