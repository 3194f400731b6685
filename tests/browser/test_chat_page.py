"""What a person does with the chat page, in a real browser, against a worker that runs what waits."""

import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from runs import library
from runs.knowledge.chunking import Document
from runs.models import DiagnosisRun
from tests.browser.conftest import Visitor
from tests.browser.working import Worker
from tests.factories import UserFactory

QUESTION = "What should I check first when there is: Pool exhausted?"


@pytest.fixture
def casey(worker: Worker) -> User:
    text = "# Pool exhausted\n\nFirst check the pool: compare active connections with the pool's maximum size.\n"
    library.store(Document("pool-exhausted", "Pool exhausted", text, aliases=("pool exhausted",)), source="test")
    return UserFactory.create(username="casey")


def ask(page: Page, words: str) -> None:
    page.get_by_label(re.compile("question")).fill(words)
    page.get_by_role("button", name="Ask", exact=True).click()


def turn(page: Page, words: str) -> "object":
    return page.get_by_role("article", name=re.compile(re.escape(words)))


def test_a_question_is_asked_watched_answered_and_its_proof_opened(
    visitor: Visitor, worker: Worker, casey: User
) -> None:
    worker.hold.set()
    visitor.sign_in(casey)
    page = visitor.page
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Chat").click()
    ask(page, QUESTION)
    expect(page).to_have_url(re.compile(r"/chat/chat-\w+/#turn-run_\w+"))
    article = page.get_by_role("article")
    expect(article.get_by_text("Running", exact=True)).to_be_visible()
    worker.hold.clear()
    expect(article.locator(".turn-conclusion")).to_be_visible()
    expect(article.get_by_text("Answered")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="The answer is there.")).to_have_count(1)
    article.get_by_role("link", name=re.compile("Why")).first.click()
    run = DiagnosisRun.objects.get()
    expect(page).to_have_url(re.compile(rf"/runs/{run.id}/#proof-1"))
    expect(page.locator("#proof-1 .source").first).to_be_visible()
