"""API tokens as people make, change, rotate and revoke them."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from runs.access import token_digest
from runs.models import ApiToken
from runs.models.token import Scope
from runs.tokens import TokenRefused, change_scopes, create_token, end_old_secret, grantable, revoke, rotate
from tests.factories import TokenFactory, UserFactory, now

pytestmark = pytest.mark.django_db

MAKER = ["view_apitoken", "add_apitoken", "change_apitoken"]
OPERATOR = [*MAKER, "see_all_sessions", "cancel_any_run", "submit_alerts"]
BASE = "/admin/runs/apitoken/"
HOUR = timedelta(hours=1)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator() -> User:
    return UserFactory.create(is_staff=True, permissions=OPERATOR)


@pytest.fixture
def client(operator: User) -> Client:
    return client_of(operator)


def secret_in(answer: HttpResponse) -> str:
    found = re.search(r'id="secret"[^>]* value="(sbz_[\w-]+)"', answer.content.decode())
    assert found, answer.content.decode()
    return found[1]


def calls_with(secret: str) -> int:
    return Client().get("/api/runs", headers={"Authorization": f"Bearer {secret}"}).status_code


def history_of(token: ApiToken) -> list[str]:
    return [entry.get_change_message() for entry in LogEntry.objects.filter(object_id=token.pk).order_by("id")]


def given(**changes: Any) -> dict[str, Any]:
    return {"generation": 1, "reason": "the dashboard needs it", **changes}


# ---- who may grant what ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    holds: list[str]
    grants: set[str]


@pytest.mark.parametrize(
    "case",
    [
        Case([], set()),
        Case(["submit_alerts"], {"alerts:write"}),
        Case(["read_reasoning"], set()),
        Case(["see_all_sessions"], {"runs:read", "chat:write"}),
        Case(["cancel_any_run"], set()),
        Case(["see_all_sessions", "cancel_any_run"], {"runs:read", "chat:write", "runs:cancel"}),
        Case(["see_all_sessions", "read_reasoning"], {"runs:read", "chat:write", "reasoning:read"}),
        Case(OPERATOR, {"alerts:write", "chat:write", "runs:read", "runs:cancel"}),
    ],
    ids=lambda case: ",".join(case.holds) or "nothing",
)
def test_nobody_grants_what_they_do_not_hold_for_everyones_runs(case: Case) -> None:
    person = UserFactory.create(permissions=case.holds)
    assert set(grantable(person)) == case.grants
    for scope in Scope.values:
        if scope in case.grants:
            create_token(f"{scope} token", [scope], person)
        else:
            with pytest.raises(TokenRefused, match="may not grant"):
                create_token(f"{scope} token", [scope], person)


def test_a_superuser_grants_all_and_an_inactive_one_nothing() -> None:
    assert grantable(UserFactory.create(is_superuser=True)) == Scope.values
    assert grantable(UserFactory.create(is_superuser=True, is_active=False)) == []


def test_who_may_not_grant_a_scope_cannot_learn_a_secret_that_has_it(operator: User) -> None:
    token = TokenFactory(scopes=["runs:read", "reasoning:read"])
    with pytest.raises(TokenRefused, match="reasoning:read"):
        rotate(token.pk, generation=1, by=operator)
    with pytest.raises(TokenRefused, match="reasoning:read"):
        change_scopes(TokenFactory(secret="b").pk, ["runs:read", "reasoning:read"], generation=1, by=operator)
    assert change_scopes(token.pk, ["runs:read"], generation=1, by=operator)[0] is None
    learned, _ = rotate(token.pk, generation=2, by=operator, grace=HOUR)
    assert calls_with(learned) == 200
    root = UserFactory.create(is_superuser=True)
    fresh, _ = change_scopes(token.pk, ["runs:read", "reasoning:read"], generation=3, by=root)
    assert fresh is not None
    assert (calls_with(learned), calls_with(fresh)) == (401, 200)


def test_a_change_is_made_on_the_token_that_its_author_saw(operator: User) -> None:
    token = TokenFactory()
    rotate(token.pk, generation=1, by=operator, grace=HOUR)
    for late in (
        lambda: rotate(token.pk, generation=1, by=operator),
        lambda: change_scopes(token.pk, ["runs:read", "chat:write"], generation=1, by=operator),
        lambda: end_old_secret(token.pk, generation=1),
    ):
        with pytest.raises(TokenRefused, match="meanwhile"):
            late()


def test_a_token_can_be_revoked_whatever_others_did_to_it_meanwhile(client: Client) -> None:
    token = TokenFactory(secret="old")
    secret = secret_in(client.post(f"{BASE}{token.pk}/rotate/", given(grace="1d")))
    client.post(f"{BASE}{token.pk}/revoke/", given(generation=1))
    assert (calls_with("old"), calls_with(secret)) == (401, 401)


def test_a_revoked_token_stays_revoked(operator: User) -> None:
    token = TokenFactory()
    revoke(token.pk)
    for late in (
        lambda: rotate(token.pk, generation=2, by=operator),
        lambda: change_scopes(token.pk, ["chat:write"], generation=2, by=operator),
        lambda: revoke(token.pk),
    ):
        with pytest.raises(TokenRefused, match="revoked"):
            late()


# ---- the pages ------------------------------------------------------------------------------------------------


def test_a_token_is_made_and_its_secret_shown_once(client: Client, operator: User) -> None:
    wish = given(name="dashboard", scopes=["runs:read"])
    answer = client.post(f"{BASE}add/", wish)
    secret = secret_in(answer)
    assert "no-store" in answer["Cache-Control"]
    assert calls_with(secret) == 200
    token = ApiToken.objects.get()
    assert (token.created_by, token.scopes, token.digest) == (operator, ["runs:read"], token_digest(secret))
    again = client.post(f"{BASE}add/", wish)
    assert "There is a token named dashboard already." in again.content.decode()
    for address in (BASE, f"{BASE}{token.pk}/change/", f"{BASE}{token.pk}/history/"):
        page = client.get(address).content.decode()
        assert secret not in page
        assert token.digest not in page
    assert history_of(token) == ["Scopes: none → runs:read. Reason: the dashboard needs it"]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (given(name="", scopes=["runs:read"]), "This field is required"),
        (given(name="x", scopes=[]), "This field is required"),
        (given(name="x", scopes=["runs:read"], reason=""), "This field is required"),
        (given(name="x", scopes=["reasoning:read"]), "is not one of the available choices"),
        (given(name="x\0", scopes=["runs:read"]), "Null characters are not allowed"),
        (given(name="x\u202e", scopes=["runs:read"]), "printable characters"),
        (given(name="x" * 101, scopes=["runs:read"]), "at most 100 characters"),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_is_told_and_keeps_what_was_typed(
    client: Client, wish: dict[str, Any], told: str
) -> None:
    page = client.post(f"{BASE}add/", wish).content.decode()
    assert told in page
    assert 'value="the dashboard needs it"' in page or not wish["reason"]
    assert ApiToken.objects.count() == 0


def test_scopes_are_offered_only_where_they_may_be_given(client: Client) -> None:
    page = client.get(f"{BASE}add/").content.decode()
    assert 'value="runs:read"' in page
    assert 'value="reasoning:read"' not in page


def test_scopes_change_and_the_history_tells_before_and_after(client: Client) -> None:
    token = TokenFactory(secret="s3cret", scopes=["alerts:write"])
    address = f"{BASE}{token.pk}/scopes/"
    assert 'value="alerts:write" ' in client.get(address).content.decode()
    secret = secret_in(client.post(address, given(scopes=["runs:read", "alerts:write"])))
    assert (calls_with("s3cret"), calls_with(secret)) == (401, 200)
    client.post(address, given(generation=2, scopes=["alerts:write"]))
    assert calls_with(secret) == 403
    assert history_of(token) == [
        "Scopes: alerts:write → alerts:write, runs:read; secret 2. Reason: the dashboard needs it",
        "Scopes: alerts:write, runs:read → alerts:write. Reason: the dashboard needs it",
    ]
    late = client.post(address, given(generation=2, scopes=["runs:read"]))
    assert "The token was changed meanwhile" in late.content.decode()


def test_a_rotated_token_has_a_new_secret_and_the_old_one_dies_at_once(client: Client) -> None:
    token = TokenFactory(secret="old")
    secret = secret_in(client.post(f"{BASE}{token.pk}/rotate/", given(grace="0")))
    assert (calls_with("old"), calls_with(secret)) == (401, 200)
    assert history_of(token) == [
        "Rotate: secret 1 → secret 2; the old secret has ended. Reason: the dashboard needs it"
    ]
    again = client.post(f"{BASE}{token.pk}/rotate/", given(grace="0"))
    assert "meanwhile" in again.content.decode()
    assert calls_with(secret) == 200


def test_an_old_secret_lives_on_for_its_grace_and_can_be_ended(client: Client) -> None:
    token = TokenFactory(secret="old")
    secret = secret_in(client.post(f"{BASE}{token.pk}/rotate/", given(grace="1d")))
    assert (calls_with("old"), calls_with(secret)) == (200, 200)
    token.refresh_from_db()
    assert token.previous_ends_at is not None
    assert timedelta(hours=23) < token.previous_ends_at - now() <= timedelta(days=1)
    assert "works; so does its old secret" in client.get(f"{BASE}?state=rotating").content.decode()
    client.post(f"{BASE}{token.pk}/end-old-secret/", given(generation=2))
    assert (calls_with("old"), calls_with(secret)) == (401, 200)


def test_a_reason_can_be_seen(client: Client) -> None:
    token = TokenFactory(secret="s3cret")
    answer = client.post(f"{BASE}{token.pk}/revoke/", given(reason="why \u202eyhw"))
    assert "cannot be seen: U+202E" in answer.content.decode()
    assert calls_with("s3cret") == 200


def test_a_revoked_token_is_refused_and_stays_on_record(client: Client) -> None:
    token = TokenFactory(secret="s3cret")
    client.post(f"{BASE}{token.pk}/revoke/", given())
    assert calls_with("s3cret") == 401
    assert history_of(token) == ["Revoke: answers → revoked. Reason: the dashboard needs it"]
    page = client.get(f"{BASE}{token.pk}/change/").content.decode()
    assert "../rotate/" not in page
    assert client.post(f"{BASE}{token.pk}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("step", ["scopes", "rotate", "end-old-secret", "revoke"])
def test_nothing_changes_by_looking(client: Client, step: str) -> None:
    token = TokenFactory(secret="s3cret", previous_digest="0" * 64, previous_ends_at=now() + HOUR)
    before = ApiToken.objects.values().get(pk=token.pk)
    assert client.get(f"{BASE}{token.pk}/{step}/").status_code == 200
    assert client.post(f"{BASE}{token.pk}/{step}/", {"generation": 1}).status_code == 200
    assert ApiToken.objects.values().get(pk=token.pk) == before


def test_forgery_is_refused(operator: User) -> None:
    token = TokenFactory()
    forger = Client(enforce_csrf_checks=True)
    forger.force_login(operator)
    for address in (f"{BASE}add/", f"{BASE}{token.pk}/rotate/", f"{BASE}{token.pk}/revoke/"):
        assert forger.post(address, given()).status_code == 403


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=answers", {"fresh", "reader"}),
        ("state=revoked", {"gone"}),
        ("state=unused", {"fresh", "gone"}),
        ("scope=runs:read", {"reader"}),
        ("scope=nonsense", {"fresh", "reader", "gone"}),
        ("q=read", {"reader"}),
    ],
)
def test_the_list_is_filtered_and_searched(client: Client, query: str, found: set[str]) -> None:
    TokenFactory(secret="a", name="fresh", scopes=["alerts:write"])
    TokenFactory(secret="b", name="reader", scopes=["runs:read"], last_used_at=now())
    TokenFactory(secret="c", name="gone", scopes=["chat:write"], revoked_at=now())
    page = client.get(f"{BASE}?{query}").content.decode()
    assert {name for name in ("fresh", "reader", "gone") if f">{name}</a>" in page} == found


def test_no_digest_can_be_guessed_at(client: Client) -> None:
    TokenFactory()
    assert client.get(f"{BASE}?digest__startswith=a").status_code == 400
