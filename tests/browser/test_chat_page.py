"""What a person does with the chat page, in a real browser, against a worker that runs what waits."""

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from playwright.sync_api import Browser, Locator, Page, Route, expect

from runs import library
from runs.knowledge.chunking import Document
from runs.models import ChatSession, DiagnosisRun, RunFeedback
from runs.models.run import RunStatus
from tests.audit import emissions
from tests.audit.recording import append_now
from tests.audit.told_runs import finish, opening, step_of, told_run
from tests.browser.conftest import Server, Visitor, visiting
from tests.browser.working import Worker, ended
from tests.factories import AlertFactory, RunFactory, SessionFactory, UserFactory

QUESTION = "How do I handle “Pool exhausted”?"


@pytest.fixture
def casey(server: Server) -> User:
    return UserFactory.create(username="casey")


@pytest.fixture
def runbook(worker: Worker) -> None:
    text = "# Pool exhausted\n\nFirst check the pool: compare active connections with the pool's maximum size.\n"
    library.store(
        Document("pool-exhausted", "Pool exhausted", text, aliases=("pool exhausted", "连接池")), source="test"
    )


def session_of(person: User, title: str = "Why is checkout slow?") -> ChatSession:
    session: ChatSession = SessionFactory.create(owner=person, title=title)
    return session


def question(page: Page) -> Locator:
    return page.locator("#question")


def ask(page: Page, words: str) -> None:
    question(page).fill(words)
    page.get_by_role("button", name="Ask", exact=True).click()


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def drafts(page: Page) -> list[str]:
    kept: list[str] = page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('superbiz-draft:'))")
    return kept


# ---- asking, watching, reading --------------------------------------------------------------------------------


def test_a_question_is_asked_watched_answered_and_its_proof_opened(
    visitor: Visitor, worker: Worker, casey: User, runbook: None
) -> None:
    worker.hold.set()
    visitor.sign_in(casey)
    page = visitor.page
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Chat").click()
    ask(page, QUESTION)
    expect(page).to_have_url(re.compile(r"/chat/chat-\w+/#turn-run_\w+"))
    article = page.get_by_role("article")
    expect(article.get_by_role("button", name=re.compile("^Cancel"))).to_be_visible()
    worker.hold.clear()
    expect(article.locator(".turn-conclusion")).to_be_visible()
    expect(article.get_by_text("Answered")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="The answer is there.")).to_have_count(1)
    article.get_by_role("link", name=re.compile("Why")).first.click()
    run = DiagnosisRun.objects.get()
    expect(page).to_have_url(re.compile(rf"/runs/{run.id}/#proof-1"))
    expect(page.locator("#proof-1 .source").first).to_be_visible()


def test_the_phases_pass_before_the_readers_eyes(visitor: Visitor, casey: User) -> None:
    run = opening(session=session_of(casey), trigger="CHAT")
    visitor.come_as(casey)
    visitor.open(f"/chat/{run.session_id}/")
    page = visitor.page
    now = page.locator('[aria-current="step"]')
    expect(now).to_have_text("search")
    question(page).fill("And")
    append_now(run, [emissions.closed(step_of(run)), emissions.released()])
    expect(now).to_have_text("answer")
    expect(page.locator(".turn-step-done")).to_have_count(4)
    finish(run)
    expect(page.locator(".turn-conclusion")).to_have_text("The connection pool of checkout-api is exhausted.")
    # What was being typed meanwhile is where it was.
    expect(question(page)).to_be_focused()
    expect(question(page)).to_have_value("And")


def test_a_reload_in_the_middle_loses_nothing(visitor: Visitor, worker: Worker, casey: User, runbook: None) -> None:
    worker.hold.set()
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    ask(page, QUESTION)
    expect(page).to_have_url(re.compile(r"/chat/chat-"))
    assert worker.held.wait(20)
    page.reload()
    expect(page.get_by_role("article").get_by_text("Running", exact=True)).to_be_visible()
    worker.hold.clear()
    expect(page.locator(".turn-conclusion")).to_be_visible()
    ask(page, "How do I handle “Pool exhausted” tomorrow?")
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.locator(".turn-answer")).to_have_count(2)
    assert set(DiagnosisRun.objects.values_list("status", flat=True)) <= {RunStatus.SUCCESS, RunStatus.DEGRADED}
    assert ChatSession.objects.count() == 1


def test_an_answer_lost_on_its_way_asks_nothing_twice_and_other_windows_turns_come_along(
    visitor: Visitor, casey: User
) -> None:
    session = session_of(casey)
    RunFactory.create(session=session, trigger="CHAT", failed=True)
    visitor.sign_in(casey)
    page = visitor.page
    visitor.open(f"/chat/{session.id}/")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort("connectionreset")

    page.route("**/api/chat", lose, times=1)
    ask(page, "Why is checkout slow?")
    expect(page.get_by_text("It could not be sent.")).to_be_visible()
    RunFactory.create(session=session, trigger="CHAT", failed=True, query="Asked in another window")
    for turns in (3, 4):
        ask(page, "Why is checkout slow?")
        expect(page.locator(".turn")).to_have_count(turns)
        expect(question(page)).to_have_value("")
    assert DiagnosisRun.objects.count() == 4
    visitor.complaints.clear()  # the browser says of the broken connection that it was


def test_a_connection_that_breaks_loses_nothing(visitor: Visitor, casey: User) -> None:
    run = opening(session=session_of(casey), trigger="CHAT")
    visitor.sign_in(casey)
    page = visitor.page
    broken: list[str] = []

    def break_off(route: Route) -> None:
        broken.append(route.request.url)
        route.abort("connectionreset")

    page.route("**/events?*", break_off)
    visitor.open(f"/chat/{run.session_id}/")
    expect(page.locator('[aria-current="step"]')).to_have_text("search")
    append_now(run, [emissions.closed(step_of(run)), emissions.released()])
    finish(run)
    assert broken, "the stream was never asked for"
    page.unroute("**/events?*")
    expect(page.locator(".turn-conclusion")).to_be_visible(timeout=20_000)
    visitor.complaints.clear()  # the browser says of the broken connections that they were


def test_what_a_turn_says_live_is_what_it_says_after_a_reload(visitor: Visitor, casey: User) -> None:
    run = opening(session=session_of(casey), trigger="CHAT")
    visitor.come_as(casey)
    visitor.open(f"/chat/{run.session_id}/")
    page = visitor.page
    finish(run)
    expect(page.locator(".turn-conclusion")).to_be_visible()
    # A script puts its times into the reader's zone as soon as it is there.
    expect(page.locator("article time:not([data-local], [data-ago])")).to_have_count(0)
    live = page.get_by_role("article").inner_text()
    page.reload()
    assert page.get_by_role("article").inner_text() == live


def test_a_turn_is_cancelled_in_the_middle_and_asked_again(
    visitor: Visitor, worker: Worker, casey: User, runbook: None
) -> None:
    worker.hold.set()
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    ask(page, QUESTION)
    assert worker.held.wait(20)
    page.get_by_role("button", name=re.compile("^Cancel")).click()
    expect(page.get_by_role("status").filter(has_text="It is being cancelled")).to_be_visible()
    expect(page.get_by_text("Cancelled", exact=True)).to_be_visible()
    expect(page.get_by_text("The run was cancelled on request.")).to_be_visible()
    assert DiagnosisRun.objects.get().cancel_reason == "USER_REQUESTED"
    worker.hold.clear()
    page.get_by_role("button", name=re.compile("^Ask again")).click()
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.locator(".turn-conclusion")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Ask again"))).to_have_count(0)


# ---- typing ---------------------------------------------------------------------------------------------------


def test_by_keyboard_alone(visitor: Visitor, worker: Worker, casey: User, runbook: None) -> None:
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    expect(question(page)).to_be_focused()
    page.keyboard.type("How do I handle")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("“Pool exhausted”?")
    expect(question(page)).to_have_value("How do I handle\n“Pool exhausted”?")
    page.keyboard.press("Enter")
    why = page.get_by_role("link", name=re.compile("Why")).first
    expect(why).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if why.evaluate("(each) => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/run_\w+/#proof-1"))


def test_a_keyboard_goes_on_from_the_turn_that_it_cancelled(visitor: Visitor, casey: User) -> None:
    session = session_of(casey)
    RunFactory.create(session=session, trigger="CHAT", query="Why?")
    visitor.come_as(casey)
    visitor.open(f"/chat/{session.id}/")
    page = visitor.page
    page.get_by_role("button", name=re.compile("^Cancel")).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="It was cancelled before it began.")).to_be_visible()
    expect(page.get_by_role("article")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Run and record")).to_be_focused()


def test_enter_that_ends_a_composition_sends_nothing(visitor: Visitor, casey: User) -> None:
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    question(page).fill("连接池")
    press = (
        "(field, how) => field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', cancelable: true, ...how}))"
    )
    for how in ({"isComposing": True}, {"keyCode": 229}):
        assert question(page).evaluate(press, how) is True, "it was taken from the input method"
    assert not DiagnosisRun.objects.exists()
    assert question(page).evaluate(press, {}) is False
    expect(page).to_have_url(re.compile(r"/chat/chat-"))


def test_chinese_is_asked_found_and_read(browser: Browser, server: Server, casey: User, runbook: None) -> None:
    with visiting(browser, server.base, locale="zh-CN") as visitor:
        page = visitor.page
        page.goto(f"{visitor.base}/sign-in/")
        page.locator("[name=username]").fill("casey")
        page.locator("[name=password]").fill("a good password")
        page.locator("[type=submit]").click()
        page.wait_for_url(f"{visitor.base}/")
        visitor.settle()
        visitor.open("/chat/")
        expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
        question(page).fill("连接池耗尽了怎么处理？")
        question(page).press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("连接池耗尽了怎么处理？")
        expect(page.locator(".turn-answer")).to_be_visible()
        visitor.open("/chat/?q=%E8%BF%9E%E6%8E%A5%E6%B1%A0")
        expect(page.locator("#chats [data-row]")).to_have_text(["连接池耗尽了怎么处理？"])
        assert visitor.complaints == []


def test_2001_characters_are_refused_and_kept(visitor: Visitor, casey: User) -> None:
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    question(page).fill("🔥" * 2001)
    expect(page.locator("#question-count")).to_have_text("2,001 / 2,000")
    question(page).press("Enter")
    expect(page.get_by_role("alert").filter(has_text="The question is too long.")).to_be_visible()
    expect(question(page)).to_have_value("🔥" * 2001)
    assert not DiagnosisRun.objects.exists()
    question(page).press("Backspace")
    expect(page.locator("#question-count")).to_have_text("2,000 / 2,000")
    expect(page.locator("#question-refusal")).to_be_empty()
    question(page).press("Enter")
    expect(page).to_have_url(re.compile(r"/chat/chat-"))
    assert DiagnosisRun.objects.get().query == "🔥" * 2000


def test_a_draft_outlives_a_reload_and_not_its_sending_or_signing_out(visitor: Visitor, casey: User) -> None:
    mine = session_of(casey)
    RunFactory.create(session=mine, trigger="CHAT", failed=True)
    visitor.sign_in(casey)
    page = visitor.page
    visitor.open("/chat/")
    question(page).fill("half a question")
    visitor.open(f"/chat/{mine.id}/")
    expect(question(page)).to_have_value("")
    question(page).fill("half of another")
    page.reload()
    expect(question(page)).to_have_value("half of another")
    question(page).press("Enter")
    expect(page.get_by_role("article")).to_have_count(2)
    expect(question(page)).to_have_value("")
    visitor.open("/chat/")
    expect(question(page)).to_have_value("half a question")
    assert len(drafts(page)) == 1
    aside = page.context.new_page()
    aside.goto(page.url)
    # As "back" shows a page that the browser has put aside.
    shown_again = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"
    aside.evaluate(shown_again)
    expect(question(aside)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(re.compile("/sign-in/"))
    aside.evaluate(shown_again)
    aside.wait_for_url(re.compile("/sign-in/"))
    aside.close()
    assert drafts(page) == []


def test_signing_out_in_the_admin_leaves_no_draft(visitor: Visitor, anna: User) -> None:
    visitor.sign_in(anna)
    page = visitor.page
    visitor.open("/chat/")
    question(page).fill("half a question")
    visitor.open("/admin/")
    assert len(drafts(page)) == 1
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(re.compile("/sign-in/"))
    assert drafts(page) == []


def test_a_page_from_before_another_sign_in_says_so_and_keeps_the_words(visitor: Visitor, casey: User) -> None:
    visitor.sign_in(casey)
    page = visitor.page
    visitor.open("/chat/")
    other = page.context.new_page()
    other.goto(f"{visitor.base}/")
    Session.objects.all().delete()
    other.goto(f"{visitor.base}/sign-in/")
    other.get_by_label("Username").fill("casey")
    other.get_by_label("Password").fill("a good password")
    other.get_by_role("button", name="Sign in").click()
    other.wait_for_url(f"{visitor.base}/")
    question(page).fill("Why?")
    question(page).press("Enter")
    expect(page.get_by_role("alert").filter(has_text="This page is out of date")).to_be_visible()
    page.reload()
    expect(question(page)).to_have_value("Why?")
    question(page).press("Enter")
    expect(page).to_have_url(re.compile(r"/chat/chat-"))
    visitor.complaints.clear()  # the browser says of the 403 that it was one


def test_a_draft_is_nobody_elses(visitor: Visitor, casey: User) -> None:
    UserFactory.create(username="robin")
    visitor.sign_in(casey)
    page = visitor.page
    visitor.open("/chat/")
    question(page).fill("casey's secret plan")
    # The session ends by itself: nobody has signed out.
    Session.objects.all().delete()
    question(page).press("Enter")
    expect(page.get_by_role("alert").filter(has_text="You are signed out.")).to_be_visible()
    visitor.complaints.clear()  # the browser says of the 401 that it was one
    visitor.sign_in(User.objects.get(username="robin"))
    visitor.open("/chat/")
    expect(question(page)).to_have_value("")
    assert drafts(page) == []


def test_who_was_signed_out_in_the_middle_finds_the_words_again(visitor: Visitor, casey: User) -> None:
    visitor.sign_in(casey)
    page = visitor.page
    visitor.open("/chat/")
    question(page).fill("what I was about to ask")
    Session.objects.all().delete()
    visitor.come_as(casey)
    visitor.open("/chat/")
    expect(question(page)).to_have_value("what I was about to ask")


def test_a_suggestion_is_put_where_one_types_and_not_sent(visitor: Visitor, casey: User) -> None:
    AlertFactory.create(alert_name="HighErrorRate", labels={"service": "checkout-api"})
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    page.get_by_role("link", name="Why is HighErrorRate firing on checkout-api?").click()
    expect(question(page)).to_have_value("Why is HighErrorRate firing on checkout-api?")
    expect(question(page)).to_be_focused()
    assert not DiagnosisRun.objects.exists()


# ---- old conversations, and whose they are --------------------------------------------------------------------


def test_an_old_conversation_is_searched_reopened_and_cleared(visitor: Visitor, casey: User) -> None:
    for n in range(25):
        session = session_of(casey, f"Question {n}")
        RunFactory.create(session=session, trigger="CHAT", failed=True, query=f"Question {n}")
    visitor.come_as(casey)
    visitor.open("/chat/")
    page = visitor.page
    rows = page.locator("#chats [data-row]")
    expect(rows).to_have_count(20)
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    expect(rows).to_have_count(25)
    page.get_by_label("Search").fill("question 17")
    expect(rows).to_have_text(["Question 17"])
    expect(page).to_have_url(re.compile(r"\?q=question"))
    rows.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Question 17")
    page.get_by_text("Clear its memory").click()
    page.get_by_role("button", name="Yes, clear it").click()
    expect(page.get_by_role("status").filter(has_text="Cleared")).to_be_visible()
    expect(page.locator(".turn-cleared")).to_be_visible()


def test_somebody_elses_conversation_is_not_found(visitor: Visitor, casey: User) -> None:
    run = told_run(session=session_of(UserFactory.create(username="robin"), "A secret"), trigger="CHAT")
    visitor.come_as(casey)
    visitor.open(f"/chat/{run.session_id}/")
    page = visitor.page
    expect(page.get_by_text("A secret")).to_have_count(0)
    expect(page.locator("#composer")).to_have_count(0)
    assert page.request.get(f"{visitor.base}/chat/{run.session_id}/").status == 404
    visitor.complaints.clear()  # the browser says of the 404 that it was one


# ---- feedback -------------------------------------------------------------------------------------------------


def test_an_answer_is_rated_and_found_by_its_rating(visitor: Visitor, casey: User) -> None:
    run = told_run(session=session_of(casey), trigger="CHAT")
    visitor.come_as(casey)
    visitor.open(f"/chat/{run.session_id}/")
    page = visitor.page
    page.get_by_text("A note with it").click()
    page.get_by_label("What was right or wrong").fill("It was the disk.")
    wrong = page.get_by_role("button", name="Wrong")
    wrong.click()
    expect(page.get_by_text("Saved. Thank you.")).to_be_visible()
    expect(wrong).to_have_attribute("aria-pressed", "true")
    expect(wrong).to_be_focused()
    visitor.open("/?feedback=wrong")
    page.locator("#run-rows [data-row]").click()
    expect(page.get_by_role("button", name="Wrong")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Useful").click()
    expect(page.get_by_role("button", name="Useful")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Earlier ratings").click()
    expect(page.locator("ol.feedback-others > li")).to_have_text([re.compile("useful"), re.compile("wrong")])
    assert RunFeedback.objects.filter(run=run).count() == 2


# ---- narrow, and without scripts ------------------------------------------------------------------------------


def test_on_a_phone_everything_fits(narrow_visitor: Visitor, casey: User) -> None:
    long = "no-space-in-this-word" * 20
    session = session_of(casey, long[:200])
    told_run(session=session, trigger="CHAT", query=long)
    RunFactory.create(session=session, trigger="CHAT", failed=True, query=long)
    opening(session=session, trigger="CHAT", query="Why?")
    AlertFactory.create(alert_name="VeryLongName" * 15)
    narrow_visitor.sign_in(casey)
    page = narrow_visitor.page
    for path in ("/chat/", f"/chat/{session.id}/"):
        narrow_visitor.open(path)
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert fits(page), path
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Cancel"))).to_be_visible()


def test_without_scripts_it_is_a_plain_form(plain_visitor: Visitor, worker: Worker, casey: User, runbook: None) -> None:
    worker.hold.set()
    plain_visitor.sign_in(casey)
    page = plain_visitor.page
    plain_visitor.open("/chat/")
    ask(page, "x" * 2001)
    expect(page.get_by_text("The question is too long.")).to_be_visible()
    expect(question(page)).to_have_value("x" * 2001)
    ask(page, QUESTION)
    expect(page).to_have_url(re.compile(r"/chat/chat-\w+/#turn-run_\w+"))
    assert worker.held.wait(20)
    page.get_by_role("button", name=re.compile("^Cancel")).click()
    expect(page.get_by_text("It is being cancelled").first).to_be_visible()
    wait_for_end()
    worker.hold.clear()
    page.get_by_role("link", name="See how it stands now").click()
    expect(page.get_by_text("The run was cancelled on request.")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Ask again")).click()
    wait_for_end()
    page.reload()
    expect(page.locator(".turn-conclusion")).to_be_visible()
    page.get_by_role("button", name="Useful").last.click()
    expect(page.get_by_role("button", name="Useful").last).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name=re.compile("Why")).first.click()
    expect(page.locator("#proof-1 .source").first).to_be_visible()


def wait_for_end() -> None:
    for run in DiagnosisRun.objects.all():
        ended(run.id)
