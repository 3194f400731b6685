"""The pages of prompts in the admin: what they show, what they refuse, and that nothing typed is lost."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from prompts.actions import do_activate, save_version
from prompts.catalogue import CATALOGUE
from prompts.models import Prompt, PromptActivation, PromptVersion
from tests.factories import UserFactory

BASE = "/admin/prompts/prompt/"


def page(version: PromptVersion, what: str = "") -> str:
    return f"{BASE}{version.prompt_id}/versions/{version.number}/{what}"


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def client(anna: User) -> Client:
    return client_of(anna)


@pytest.fixture
def second(first: PromptVersion, anna: User) -> PromptVersion:
    return save_version(first, first.text + "Be brief.\n", by=anna, reason="shorter answers")


def shown(prompt: Prompt) -> int:
    newest = prompt.newest_activation()
    assert newest is not None
    return newest.id


# ---- looking ----------------------------------------------------------------------------------------------------


def test_the_list_names_each_prompt_with_its_active_version(
    client: Client, second: PromptVersion, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
        text = client.get(BASE).content.decode()
    for one in CATALOGUE:
        assert f"{one.name.replace('_', '-')}-v1" in text
    assert "chat-verifier-v2" not in text


def test_a_prompts_page_shows_versions_log_and_what_cannot_be_activated(
    client: Client, second: PromptVersion, anna: User
) -> None:
    save_version(second, "too little", by=anna, reason="a slip")
    text = client.get(f"{BASE}chat_verifier/change/").content.decode()
    assert text.count("cannot be activated") == 1
    assert "shorter answers" in text
    assert "shipped with this release" in text
    assert page(second, "activate/") in text
    assert "versions/3/activate/" not in text


@pytest.mark.parametrize(
    ("query", "status"), [("", 200), ("?a=1&b=2", 200), ("?a=2&b=2", 200), ("?a=1&b=9", 400), ("?a=x", 400)]
)
def test_two_versions_are_compared_by_address(client: Client, second: PromptVersion, query: str, status: int) -> None:
    answer = client.get(f"{BASE}chat_verifier/compare/{query}")
    assert answer.status_code == status
    if query in {"", "?a=1&b=2"}:
        assert "<ins>Be brief.</ins>" in answer.content.decode()


def test_a_text_is_shown_as_text(client: Client, first: PromptVersion, anna: User) -> None:
    hostile = save_version(first, first.text + "<script>alert(1)</script>\n", by=anna, reason="<b>why</b>")
    for address in (page(hostile), f"{BASE}chat_verifier/compare/", page(hostile, "edit/"), page(hostile, "activate/")):
        text = client.get(address).content.decode()
        assert "<script>alert" not in text
        assert "<b>why" not in text
        assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    "address", ["none/change/", "none/compare/", "chat_verifier/versions/99/", f"chat_verifier/versions/{2**40}/edit/"]
)
def test_what_there_is_not_is_a_404(client: Client, first: PromptVersion, address: str) -> None:
    assert client.get(BASE + address).status_code == 404


def test_a_waiting_shipped_version_is_told_until_it_was_activated(
    client: Client, second: PromptVersion, anna: User
) -> None:
    waits = PromptVersion.objects.create(
        prompt=second.prompt,
        number=3,
        text=second.text,
        sha256="0" * 64,
        origin="SHIPPED",
        created_at=second.created_at,
    )
    do_activate(second, shown=shown(second.prompt), by=anna, reason="mine")
    for address in (BASE, f"{BASE}chat_verifier/change/"):
        assert "waits" in client.get(address).content.decode()
    do_activate(waits, shown=shown(second.prompt), by=anna, reason="theirs")
    for address in (BASE, f"{BASE}chat_verifier/change/"):
        assert "waits" not in client.get(address).content.decode()


def test_the_log_is_listed_filtered_and_never_changed(client: Client, second: PromptVersion, anna: User) -> None:
    do_activate(second, shown=shown(second.prompt), by=anna, reason="try it out")
    base = "/admin/prompts/promptactivation/"
    row = PromptActivation.objects.order_by("-id")[0]
    listed = client.get(f"{base}?prompt__name__exact=chat_verifier").content.decode()
    assert "try it out" in listed
    assert "executor-v1" not in listed
    assert "try it out" in client.get(base, {"q": "try it"}).content.decode()
    assert client.get(f"{base}{row.pk}/change/").status_code == 200
    assert client.post(f"{base}{row.pk}/change/", {"reason": "another"}).status_code == 403
    assert client.post(f"{base}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get(f"{base}?reason__startswith=t").status_code == 400
    history = client.get(f"{BASE}chat_verifier/history/").content.decode()
    assert "chat-verifier-v2 was made active in place of chat-verifier-v1. Why: try it out" in history


# ---- editing ----------------------------------------------------------------------------------------------------


def test_looking_at_an_edit_keeps_nothing(client: Client, first: PromptVersion) -> None:
    changed = first.text.replace("claim_checks", "checks")
    text = client.post(page(first, "edit/"), {"text": changed, "look": "1"}).content.decode()
    assert "<mark>claim_checks</mark>" in text
    assert "It lacks a word that its role needs: claim_checks." in text
    assert first.prompt.versions.count() == 1


def test_an_edit_is_saved_as_a_new_version(client: Client, first: PromptVersion) -> None:
    answer = client.post(
        page(first, "edit/"),
        {"text": first.text + "More.\r\n", "reason": "why not", "newest": 1, "save": "1"},
        follow=True,
    )
    version = first.prompt.versions.get(number=2)
    assert answer.redirect_chain == [(page(version), 302)]
    assert "Saved as chat-verifier-v2. It is not active yet." in answer.content.decode()
    assert version.text == first.text + "More.\n"


@dataclass(frozen=True)
class Refused:
    what: str
    text: str
    reason: str
    status: int
    says: str


REFUSED = [
    Refused("no reason", "a new text", "", 422, "This field is required."),
    Refused("an empty text", "", "why", 422, "The text is empty."),
    Refused("an endless text", "word " * 30_000, "why", 422, "is not kept"),
    Refused("an endless reason", "a new text", "why" * 200, 422, "at most 500"),
    Refused("the same text", "SAME", "why", 409, "has this very text already"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.what)
def test_a_refused_edit_says_why_and_comes_back_whole(client: Client, first: PromptVersion, case: Refused) -> None:
    text = first.text if case.text == "SAME" else case.text
    answer = client.post(page(first, "edit/"), {"text": text, "reason": case.reason, "newest": 1, "save": "1"})
    said = answer.content.decode()
    assert answer.status_code == case.status
    assert case.says in said
    assert case.reason in said
    assert text.strip()[-200:] in said.replace("&quot;", '"')
    assert first.prompt.versions.count() == 1


def test_of_two_edits_neither_is_lost_and_the_second_is_told(client: Client, first: PromptVersion, bert: User) -> None:
    save_version(first, first.text + "Of bert.\n", by=bert, reason="mine")
    sent = {"text": first.text + "Of anna.\n", "reason": "mine too", "newest": 1, "save": "1"}
    told = client.post(page(first, "edit/"), sent, follow=True).content.decode()
    assert "Meanwhile bert saved chat-verifier-v2." in told
    assert "compare/?a=2&b=3" in told.replace("&amp;", "&")
    assert [version.text.splitlines()[-1] for version in first.prompt.versions.order_by("number")][1:] == [
        "Of bert.", "Of anna.",
    ]  # fmt: skip


# ---- activating -------------------------------------------------------------------------------------------------


def test_an_activation_is_shown_asked_for_and_done(client: Client, second: PromptVersion) -> None:
    asked = client.get(page(second, "activate/")).content.decode()
    assert "<ins>Be brief.</ins>" in asked
    assert "Make chat-verifier-v2 active" in asked
    done = client.post(page(second, "activate/"), {"shown": shown(second.prompt), "reason": "go"}, follow=True)
    assert done.redirect_chain == [(f"{BASE}chat_verifier/change/", 302)]
    assert "Active now: chat-verifier-v2." in done.content.decode()
    back = client.get(page(second.based_on, "activate/")).content.decode()  # type: ignore[arg-type]
    assert "Roll back to chat-verifier-v1" in back


def test_without_a_reason_nothing_is_activated(client: Client, second: PromptVersion) -> None:
    answer = client.post(page(second, "activate/"), {"shown": shown(second.prompt), "reason": " "})
    assert answer.status_code == 422
    assert "This field is required." in answer.content.decode()
    assert second.prompt.activations.count() == 1


def test_a_second_admin_sees_what_the_first_did_and_keeps_the_reason(
    client: Client, second: PromptVersion, bert: User
) -> None:
    saw = shown(second.prompt)
    other = save_version(second, second.text + "Be kind.\n", by=bert, reason="kinder")
    do_activate(other, shown=saw, by=bert, reason="kinder answers")
    refused = client.post(page(second, "activate/"), {"shown": saw, "reason": "my own reason"})
    said = refused.content.decode()
    assert refused.status_code == 409
    assert "Nothing was changed." in said
    assert "bert made chat-verifier-v3 active: kinder answers" in said
    assert 'value="my own reason"' in said
    assert "<del>Be kind.</del>" in said
    assert second.prompt.activations.count() == 2
    again = {"shown": shown(second.prompt), "reason": "my own reason"}
    assert client.post(page(second, "activate/"), again).status_code == 302


def test_an_unfit_version_has_no_button_and_is_refused(client: Client, first: PromptVersion, anna: User) -> None:
    draft = save_version(first, "Be brief.", by=anna, reason="a draft")
    asked = client.get(page(draft, "activate/")).content.decode()
    assert "As it stands it cannot be activated." in asked
    assert "Make chat-verifier-v2 active" not in asked
    assert client.post(page(draft, "activate/"), {"shown": shown(first.prompt), "reason": "go"}).status_code == 422
    assert first.prompt.activations.count() == 1


# ---- who may ----------------------------------------------------------------------------------------------------

LOOKING = ("", "chat_verifier/change/", "chat_verifier/compare/", "chat_verifier/versions/1/", "chat_verifier/history/")
EDITING = ("chat_verifier/versions/1/edit/",)
ACTIVATING = ("chat_verifier/versions/1/activate/",)
MAY = [
    ((), set()),
    (("view_prompt",), {*LOOKING}),
    (("change_prompt",), {*LOOKING, *EDITING}),
    (("activate_prompt",), {*LOOKING, *ACTIVATING}),
    (("change_prompt", "activate_prompt"), {*LOOKING, *EDITING, *ACTIVATING}),
]


@pytest.mark.parametrize(("permissions", "allowed"), MAY, ids=lambda value: "+".join(sorted(value))[:40] or "none")
def test_each_page_asks_for_its_permission(
    first: PromptVersion, permissions: tuple[str, ...], allowed: set[str]
) -> None:
    user = UserFactory.create(is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = client_of(user)
    addresses = (*LOOKING, *EDITING, *ACTIVATING)
    assert {address for address in addresses if client.get(BASE + address).status_code == 200} == allowed
    for address in {*EDITING, *ACTIVATING} - allowed:
        assert client.post(BASE + address, {"text": "x", "reason": "y", "save": "1"}).status_code == 403
    assert client.get(f"{BASE}add/").status_code == 403
    assert client.post(f"{BASE}chat_verifier/delete/", {"post": "yes"}).status_code == 403


def test_people_who_are_no_staff_are_sent_to_sign_in(first: PromptVersion) -> None:
    for client in (Client(), client_of(UserFactory.create())):
        for address in (*LOOKING, *EDITING, *ACTIVATING):
            assert client.get(BASE + address).status_code == 302
