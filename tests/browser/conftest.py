"""A real browser (Debian's chromium) against the real ASGI application on the test database.

The server runs in a thread of this process, so that it uses the database, cache and settings of the test.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.asgi import get_asgi_application
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from gatekeeper import rulesets
from prompts.actions import sync_shipped
from tests.browser.working import Worker
from tests.factories import UserFactory

CHROMIUM = Path("/usr/bin/chromium")
PASSWORD = "a good password"
WAIT_MS = 10_000


@dataclass(frozen=True)
class Server:
    """`base`: its address, without a slash at the end."""

    base: str


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            get_asgi_application(), log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), name="test-web", daemon=True)
        thread.start()
        try:
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            server.should_exit = True
            thread.join(timeout=10)
            assert not thread.is_alive()


@pytest.fixture
def server(transactional_db: Any) -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while Playwright is open, its loop runs in this thread, and tests that are async could not."""
    assert CHROMIUM.exists(), f"{CHROMIUM} is missing: apt-get install chromium"
    with pytest.MonkeyPatch.context() as patch:
        # Playwright's loop stays open in this thread between its calls; Django takes that for async code.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            yield browser
            browser.close()


@dataclass(frozen=True)
class Visitor:
    """A browser window and what it complained about."""

    page: Page
    base: str
    complaints: list[str]
    scripts: bool = True

    def sign_in(self, user: User) -> None:
        self.page.goto(f"{self.base}/sign-in/")
        self.page.get_by_label("Username").fill(user.username)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.base}/")
        self.settle()

    def come_as(self, user: User) -> None:
        """Signed in already, with a session as signing in makes it."""
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        self.page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": self.base}])

    def settle(self) -> None:
        """Until the list's figures are there: leaving before would cut their request off, which htmx calls an error."""
        if self.scripts:
            expect(self.page.locator(".figures-waiting")).to_have_count(0)

    def open(self, path: str) -> None:
        self.page.goto(f"{self.base}{path}")


# htmx says so of a request that it gave up itself for a newer one; whatever fails is told under another name as well.
GIVEN_UP = ("htmx:afterRequest", "htmx:sendAbort")


def _is_complaint(message: ConsoleMessage) -> bool:
    return message.type == "error" and not message.text.startswith(GIVEN_UP)


@contextlib.contextmanager
def visiting(browser: Browser, base: str, **settings: Any) -> Iterator[Visitor]:
    """A window of its own. It must not have complained: a blocked script or style is an error of the page."""
    context: BrowserContext = browser.new_context(**settings)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
    try:
        yield Visitor(page, base, complaints, scripts=settings.get("java_script_enabled", True))
    finally:
        context.close()


@pytest.fixture
def visitor(browser: Browser, server: Server) -> Iterator[Visitor]:
    with visiting(browser, server.base) as visitor:
        yield visitor
        assert visitor.complaints == []


@pytest.fixture
def plain_visitor(browser: Browser, server: Server) -> Iterator[Visitor]:
    """Without JavaScript."""
    with visiting(browser, server.base, java_script_enabled=False) as visitor:
        yield visitor


@pytest.fixture
def narrow_visitor(browser: Browser, server: Server) -> Iterator[Visitor]:
    with visiting(browser, server.base, viewport={"width": 360, "height": 740}) as visitor:
        yield visitor
        assert visitor.complaints == []


@pytest.fixture
def reader(server: Server) -> User:
    """May read reasoning."""
    user = UserFactory.create(username="reader")
    user.user_permissions.add(Permission.objects.get(codename="read_reasoning"))
    return user


@pytest.fixture
def person(server: Server) -> User:
    return UserFactory.create(username="person", permissions=["cancel_any_run"])


@pytest.fixture
def operator(server: Server) -> User:
    return UserFactory.create(username="operator", permissions=["cancel_any_run", "submit_alerts"])


@pytest.fixture
def worker(server: Server) -> Iterator[Worker]:
    sync_shipped()
    rulesets.sync()
    with Worker().serving() as worker:
        yield worker


@pytest.fixture
def anna(server: Server) -> User:
    return UserFactory.create(username="anna", is_staff=True, is_superuser=True)


@pytest.fixture
def bert(server: Server) -> User:
    return UserFactory.create(username="bert", is_staff=True, is_superuser=True)
