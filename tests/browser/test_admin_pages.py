"""Pages of the admin in a real browser: nothing of them is out of reach, on a low window and on a narrow one."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect

from prompts.actions import sync_shipped
from tests.browser.conftest import Server, Visitor, visiting
from tests.factories import TokenFactory

BEYOND = """selector => [...document.querySelectorAll(selector)]
  .filter(each => each.getBoundingClientRect().width && each.getBoundingClientRect().right > innerWidth)
  .map(each => each.className)"""


def cut_off(page: Page, selector: str) -> list[str]:
    """What of it reaches beyond the right edge of the window."""
    found: list[str] = page.evaluate(BEYOND, selector)
    return found


def test_the_sidebar_is_whole_on_a_low_window(browser: Browser, server: Server, anna: User) -> None:
    with visiting(browser, server.base, viewport={"width": 1280, "height": 500}) as visitor:
        visitor.come_as(anna)
        visitor.open("/admin/auth/group/")
        bar = visitor.page.locator("#nav-sidebar")
        assert bar.evaluate("bar => bar.scrollHeight <= bar.clientHeight + 1")
        last = bar.locator("a").last
        last.scroll_into_view_if_needed()
        expect(last).to_be_in_viewport()


@pytest.mark.parametrize("path", ["/admin/prompts/promptactivation/", "/admin/runs/apitoken/"])
def test_nothing_of_a_list_is_cut_off_on_a_narrow_screen(narrow_visitor: Visitor, anna: User, path: str) -> None:
    sync_shipped()
    TokenFactory.create(name="alertmanager", created_by=anna)
    narrow_visitor.come_as(anna)
    narrow_visitor.open(path)
    page = narrow_visitor.page
    expect(page.locator("#result_list td").first).to_be_visible()
    assert cut_off(page, "#result_list th, #result_list td, #result_list a") == []
