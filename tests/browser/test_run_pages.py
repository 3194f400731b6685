"""What a person does with the pages, in a real browser."""

from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect

from audit.models import ReasoningAccess
from audit.readings import record_access
from runs.access import Caller
from tests.audit import emissions
from tests.audit.recording import append_now
from tests.audit.told_runs import EXCERPT, FRAMES, STEP_EVENT, TOOL_EVENT, finish, opening, told_run
from tests.browser.conftest import Server, Visitor, visiting
from tests.browser.wire import wire_to
from tests.browser.working import Worker, alert_comes_in, ended
from tests.factories import AlertFactory, RunFactory, SessionFactory, published


def test_from_sign_in_to_the_answer_its_proof_and_the_reasoning_behind_it(visitor: Visitor, reader: User) -> None:
    run = told_run()
    page = visitor.page
    visitor.sign_in(reader)
    page.get_by_role("link", name="HighErrorRate").click()
    page.wait_for_url(f"{visitor.base}/runs/{run.id}/")
    expect(page.get_by_text("The connection pool of checkout-api is exhausted.")).to_be_visible()

    statement = page.locator("#statement-1")
    statement.get_by_text("Why?").click()
    expect(statement.locator("mark")).to_have_text(EXCERPT)
    expect(statement).to_contain_text("the claim follows from its evidence")
    statement.get_by_text("every rule holds").click()
    expect(statement.get_by_text("GK005_EXCERPT_SUPPORTED")).to_be_visible()

    statement.get_by_role("link", name="inv_aaaaaa").click()
    panel = page.locator("#panel")
    expect(panel.locator("#ref-0 mark")).to_have_text(EXCERPT)
    assert page.url.endswith(f"?event={TOOL_EVENT}")
    expect(page.locator(f"#event-{TOOL_EVENT} > a")).to_have_attribute("aria-current", "true")

    page.locator(f"#event-{STEP_EVENT} > a").click()
    expect(panel.get_by_text("aiops-executor-v1")).to_be_visible()
    expect(panel).not_to_contain_text("SECRET")
    assert not ReasoningAccess.objects.exists()
    panel.get_by_role("link", name="Read reasoning").click()
    expect(panel.get_by_text("SECRET thought")).to_be_visible()
    assert ReasoningAccess.objects.get().reader == "reader"

    page.go_back()
    expect(panel.locator("#ref-0 mark")).to_have_text(EXCERPT)
    expect(page.locator("body")).not_to_contain_text("SECRET")


def test_who_lacks_the_permission_sees_no_control_and_no_restricted_text(visitor: Visitor, person: User) -> None:
    run = told_run()
    visitor.come_as(person)
    visitor.open(f"/runs/{run.id}/?event={STEP_EVENT}")
    expect(visitor.page.locator("#panel")).to_contain_text("Executor")
    expect(visitor.page.get_by_text("Read reasoning")).to_have_count(0)
    answer = visitor.page.request.get(f"{visitor.base}/runs/{run.id}/events/{STEP_EVENT}/restricted/")
    assert answer.status == 403
    assert "SECRET" not in answer.text()


def test_a_running_run_grows_on_the_page_and_its_answer_comes_without_a_reload(visitor: Visitor, person: User) -> None:
    run = opening()
    page = visitor.page
    visitor.come_as(person)
    visitor.open(f"/runs/{run.id}/?event=3")
    page.evaluate("window.notReloaded = true")
    expect(page.locator("#timeline > li")).to_have_count(3)
    focused = page.locator("#event-2 > a")
    focused.focus()
    append_now(run, [emissions.guarded()])
    expect(page.locator("#timeline > li")).to_have_count(4)
    expect(focused).to_be_focused()
    page.locator("#event-4 > a").click()
    expect(page.locator("#panel [data-panel='4'] [data-panel-title]")).to_be_focused()
    page.locator("#event-4 > a").focus()
    finish(run)
    expect(page.get_by_text("The connection pool of checkout-api is exhausted.")).to_be_visible()
    expect(page.locator(".run-title .badge")).to_have_text("Answered")
    expect(page.locator("#timeline > li")).to_have_count(5)
    expect(page.locator("#event-4 > a")).to_be_focused()
    expect(page.locator("#panel [data-panel='4']")).to_be_visible()
    expect(page.locator("#live")).to_have_count(0)
    assert page.evaluate("window.notReloaded") is True


def test_the_address_of_an_event_is_copied_and_opens_it(visitor: Visitor, person: User) -> None:
    run = told_run()
    page = visitor.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.come_as(person)
    visitor.open(f"/runs/{run.id}/?q=query_logs")
    page.locator(f"#event-{TOOL_EVENT} > a").click()
    page.locator("#panel").get_by_role("link", name="Link").click()
    expect(page.locator("#panel").get_by_role("link", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{visitor.base}/runs/{run.id}/?event={TOOL_EVENT}#panel"
    page.goto(copied)
    expect(page.locator(f"#panel [data-panel='{TOOL_EVENT}']")).to_be_visible()
    expect(page.locator("#timeline > li")).to_have_count(FRAMES)


def test_an_auditor_sees_who_read_without_a_script_too(plain_visitor: Visitor, anna: User, reader: User) -> None:
    run = told_run()
    record_access(Caller(user=reader), run.id, "reasoning")
    plain_visitor.come_as(anna)
    plain_visitor.open(f"/runs/{run.id}/")
    plain_visitor.page.get_by_text("Restricted texts were read 1 time").click()
    expect(plain_visitor.page.locator("#readings li")).to_contain_text("reader reasoning")
    plain_visitor.page.get_by_role("link", name="All readings of this run").click()
    expect(plain_visitor.page.locator("#result_list")).to_contain_text("reader")


def test_a_run_is_cancelled_only_after_a_second_yes(visitor: Visitor, person: User) -> None:
    run = opening()
    visitor.come_as(person)
    visitor.open(f"/runs/{run.id}/")
    visitor.page.get_by_text("Cancel run").click()
    visitor.page.get_by_role("button", name="Yes, cancel this run").click()
    expect(visitor.page.get_by_text("Cancellation requested:")).to_be_visible()
    run.refresh_from_db()
    assert run.cancel_requested_reason == "USER_REQUESTED"


def test_a_run_is_asked_again_once_by_a_double_click(visitor: Visitor, operator: User) -> None:
    run = told_run(alert=AlertFactory.create())
    page = visitor.page
    visitor.come_as(operator)
    visitor.open(f"/runs/{run.id}/")
    page.get_by_role("button", name="Run again").dblclick()
    page.wait_for_url(lambda url: run.id not in url)
    new = run.asked_again.get()
    expect(page.locator(".again-links")).to_contain_text(f"Run again of {run.id}")
    page.locator(".again-links").get_by_role("link").first.click()
    page.wait_for_url(f"{visitor.base}/runs/{run.id}/")
    expect(page.locator(".again-links")).to_contain_text(f"Run again as {new.id} Waiting")


def test_a_run_again_grows_to_its_end_and_is_compared_with_the_first(
    visitor: Visitor, worker: Worker, operator: User
) -> None:
    first = ended(alert_comes_in(alert=AlertFactory.create()))
    page = visitor.page
    visitor.come_as(operator)
    visitor.open(f"/runs/{first.id}/")
    worker.hold.set()
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#live")).to_be_visible()
    expect(page.get_by_role("button", name="Run again")).to_have_count(0)
    worker.hold.clear()
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    page.get_by_role("link", name="compare the two").click()
    expect(page.locator(".compare-sum")).to_contain_text("Ended the same, with the same model, prompts and rules.")
    expect(page.locator(".comparison")).to_contain_text(first.id)


def test_without_a_script_a_run_is_asked_again_and_cancelled(plain_visitor: Visitor, operator: User) -> None:
    run = told_run(alert=AlertFactory.create())
    page = plain_visitor.page
    plain_visitor.come_as(operator)
    plain_visitor.open(f"/runs/{run.id}/")
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("The same was asked again: this is the new run.")).to_be_visible()
    page.get_by_text("Cancel run").click()
    page.get_by_role("button", name="Yes, cancel this run").click()
    expect(page.get_by_text("The run was cancelled before it had started.")).to_be_visible()
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("The same was asked again: this is the new run.")).to_be_visible()


def test_the_keyboard_reaches_everything(visitor: Visitor, person: User) -> None:
    run = told_run()
    page = visitor.page
    visitor.sign_in(person)
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("j")
    expect(page.get_by_label("Search")).to_have_value("j")
    page.get_by_label("Search").fill("")
    page.keyboard.press("Escape")
    expect(page.locator(f"#row-{run.id}")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{visitor.base}/runs/{run.id}/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.locator("#event-2 > a")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#panel [data-panel-title]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel [data-panel]")).to_have_count(0)
    expect(page.locator("#event-2 > a")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("#event-2 > a")).to_be_focused()


def test_without_a_script_every_step_of_the_way_is_a_page(plain_visitor: Visitor, reader: User) -> None:
    run = told_run()
    page = plain_visitor.page
    plain_visitor.sign_in(reader)
    page.get_by_role("link", name="HighErrorRate").click()
    page.locator("#statement-1").get_by_text("Why?").click()
    page.locator("#statement-1").get_by_role("link", name="inv_aaaaaa").click()
    assert page.url == f"{plain_visitor.base}/runs/{run.id}/?event={TOOL_EVENT}#ref-0"
    expect(page.locator("#ref-0 mark")).to_have_text(EXCERPT)
    page.locator(f"#event-{STEP_EVENT} > a").click()
    page.get_by_role("link", name="Read reasoning").click()
    expect(page.get_by_text("SECRET thought")).to_be_visible()
    page.get_by_role("link", name=f"event {STEP_EVENT}").click()
    page.get_by_role("link", name="Close").click()
    expect(page.locator("#timeline > li")).to_have_count(FRAMES)


def test_no_page_is_wider_than_a_narrow_screen(narrow_visitor: Visitor, reader: User) -> None:
    run = told_run({"output": {"wide": "x" * 3000}, "input_params": {"query": "y" * 500}})
    narrow_visitor.sign_in(reader)
    page = narrow_visitor.page
    for path in ("/", f"/runs/{run.id}/", *(f"/runs/{run.id}/?event={n}" for n in range(1, FRAMES + 1))):
        narrow_visitor.open(path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_words_without_an_end_widen_no_page(narrow_visitor: Visitor, reader: User) -> None:
    told = published().model_dump(mode="json", by_alias=True)
    told |= {"conclusion": "c" * 2000, "scope": "s" * 1000, "limitations": ["l" * 500] * 10}
    told["sourceDocuments"] = [{"documentId": "d" * 200, "title": "t" * 300}]
    told["statements"][0]["text"] = "w" * 2000
    told["claims"][0] |= {"claimId": "i" * 100, "claimText": "k" * 2000}
    told["statements"][0]["claimIds"] = ["i" * 100]
    told["claims"][0]["evidence"][0] |= {
        "toolName": "m" * 100,
        "rawPath": "$." + "p" * 200,
        "evidenceExcerpt": "e" * 999,
    }
    session = SessionFactory.create(owner=reader, title="T" * 200)
    asked = {"query": "q" * 2000, "subject": {"version": 1}, "trigger": "CHAT", "session": session}
    first, second = (RunFactory.create(success=True, published_result=told, **asked) for _ in range(2))
    narrow_visitor.sign_in(reader)
    page = narrow_visitor.page
    compared = f"/runs/compare/?a={first.id}"
    for path in ("/", f"/runs/{first.id}/", f"{compared}&b={second.id}", compared, f"/chat/{session.id}/", "/chat/"):
        narrow_visitor.open(path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_hostile_evidence_runs_nothing_in_the_browser(visitor: Visitor, person: User) -> None:
    text = f"<img src=x onerror=window.hit=1><script>window.hit=1</script> {EXCERPT}"
    ref = {"raw_path": "$.lines[0].text", "text": text, "shown": True, "relevance": None}
    run = told_run({"evidence_refs": (ref,), "output": {"lines": [{"text": text}]}, "output_preview": text})
    visitor.come_as(person)
    visitor.open(f"/runs/{run.id}/")
    visitor.page.locator(f"#event-{TOOL_EVENT} > a").click()
    expect(visitor.page.locator("#ref-0 mark")).to_have_text(EXCERPT)
    expect(visitor.page.locator("#ref-0")).to_contain_text("<script>window.hit=1</script>")
    assert visitor.page.evaluate("window.hit") is None


def test_a_connection_that_drops_leaves_no_gap_and_no_repeat_and_live_rows_are_the_pages_own(
    browser: Browser, server: Server, person: User
) -> None:
    run = opening()
    with wire_to(server.base) as wire, visiting(browser, wire.base) as visitor:
        page = visitor.page
        opened: list[str] = []
        page.on("request", lambda request: opened.append(request.url) if "/live/" in request.url else None)
        visitor.come_as(person)
        visitor.open(f"/runs/{run.id}/")
        rows = page.locator("#timeline > li")
        expect(rows).to_have_count(3)
        append_now(run, [emissions.guarded()])
        expect(rows).to_have_count(4)
        wire.cut()
        append_now(run, [emissions.guarded(), emissions.guarded()])
        while not wire.refused:
            page.wait_for_timeout(20)
        expect(rows).to_have_count(4)
        wire.mend()
        expect(rows).to_have_count(6)
        assert rows.evaluate_all("rows => rows.map(row => row.id)") == [f"event-{number}" for number in range(1, 7)]
        live = rows.evaluate_all("rows => rows.map(row => row.outerHTML)")
        page.reload()
        expect(rows).to_have_count(6)
        assert rows.evaluate_all("rows => rows.map(row => row.outerHTML)") == live
        finish(run)
        expect(page.locator("#live")).to_have_count(0)
        ended = len(opened)
        page.wait_for_timeout(1_000)
        assert len(opened) == ended
