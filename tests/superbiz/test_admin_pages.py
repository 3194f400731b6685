"""What every page of the admin shares with the others: navigation, banners, times, lists on narrow screens."""

import re
from datetime import UTC, datetime

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import formats, translation
from pytest_django.fixtures import Settings

from runs.models import ApiToken
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

ADMIN = ("/admin/", "/admin/auth/user/", "/admin/runs/apitoken/add/", "/admin/gatekeeper/rule/", "/rules/usage/")
OFFLINE = "No language model is configured"
MOMENT = datetime(2031, 3, 4, 7, 0, tzinfo=UTC)
WRITTEN = "2031-03-04 07:00:00 UTC"


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(UserFactory.create(username="root", is_staff=True, is_superuser=True))
    return client


@pytest.mark.parametrize("path", ADMIN)
def test_the_admin_leads_to_the_same_places_as_every_page(client: Client, path: str) -> None:
    def places(text: str) -> list[str]:
        main = re.search(r'<nav[^>]*aria-label="Main">(.*?)</nav>', text, re.DOTALL)
        assert main is not None
        return re.findall(r'href="([^"]*)"', main[1])

    text = client.get(path).content.decode()
    everywhere = ["/", "/alerts/", "/chat/", "/knowledge/", "/admin/"]
    assert places(text) == places(client.get("/").content.decode()) == everywhere
    assert '<a href="/admin/" aria-current="true">' in text


@pytest.mark.parametrize("path", ADMIN)
@pytest.mark.parametrize("model", ["offline", "openai:gpt-5"])
def test_the_admin_says_where_no_language_model_is_configured(
    client: Client, settings: Settings, path: str, model: str
) -> None:
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"llm": model})
    assert (OFFLINE in client.get(path).content.decode()) is (model == "offline")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_time_is_written_year_first_to_the_second_and_with_its_zone(language: str) -> None:
    with translation.override(language):
        assert formats.localize(MOMENT) == WRITTEN
        assert formats.date_format(MOMENT, "SHORT_DATETIME_FORMAT") == WRITTEN
        assert formats.localize(MOMENT.date()) == "2031-03-04"


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_histories_and_tokens_write_times_in_that_form(client: Client, language: str) -> None:
    made = client.post(
        "/admin/runs/apitoken/add/",
        {"name": "pager", "scopes": ["runs:read"], "reason": "On call", "generation": 1},
    )
    assert made.status_code == 200
    token = ApiToken.objects.get()
    LogEntry.objects.update(action_time=MOMENT)
    ApiToken.objects.update(created_at=MOMENT)
    for path in (f"{token.pk}/history/", f"{token.pk}/change/", ""):
        text = client.get(f"/admin/runs/apitoken/{path}", headers={"Accept-Language": language}).content.decode()
        assert WRITTEN in text, path


def test_a_value_in_a_list_carries_the_name_of_its_column(client: Client) -> None:
    text = client.get("/admin/auth/user/").content.decode()
    assert re.search(r'<th data-label="Username" class="field-username">', text)
    assert re.search(r'<td data-label="Active" class="field-is_active">', text)
