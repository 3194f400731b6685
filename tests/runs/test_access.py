from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.middleware.csrf import get_token
from django.test import Client, RequestFactory

from runs.access import (
    ApiError,
    Caller,
    authenticate,
    caller_of,
    may_cancel,
    may_see_session,
    require,
    token_digest,
    visible_run,
    visible_runs,
)
from runs.models import ApiToken
from runs.models.token import Scope
from runs.orm import run_in_orm
from tests.factories import RunFactory, SessionFactory, TokenFactory, UserFactory, now

pytestmark = pytest.mark.django_db
REQUESTS = RequestFactory()


def request(method: str = "get", user: Any = None, **headers: str) -> Any:
    made = getattr(REQUESTS, method)("/api/runs", headers=headers)
    made.user = user or AnonymousUser()
    return made


def scopes(caller: Caller) -> set[str]:
    return {scope for scope in Scope.values if caller.may(scope)}


def test_people_have_scopes_by_their_permissions() -> None:
    person, staff, chief = UserFactory(), UserFactory(is_staff=True), UserFactory(is_superuser=True)
    sender, reader = UserFactory(permissions=["submit_alerts"]), UserFactory(permissions=["read_reasoning"])
    everyday = {"runs:read", "chat:write", "runs:cancel"}
    assert scopes(Caller(user=person)) == everyday
    assert scopes(Caller(user=staff)) == everyday
    assert scopes(Caller(user=sender)) == everyday | {"alerts:write"}
    assert scopes(Caller(user=chief)) == everyday | {"alerts:write", "reasoning:read"}
    assert scopes(Caller(user=reader)) == everyday | {"reasoning:read"}


def test_a_token_has_the_scopes_it_was_given() -> None:
    TokenFactory(secret="s3cret", scopes=["alerts:write"], name="alertmanager")
    caller = caller_of(request(Authorization="Bearer s3cret"))
    assert caller is not None
    assert scopes(caller) == {"alerts:write"}
    assert (caller.name, caller.user_id) == ("token:alertmanager", None)


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic YTpi", "s3cret", "Bearer gone"])
def test_a_bad_token_is_refused_even_beside_a_session(header: str) -> None:
    TokenFactory(secret="s3cret")
    TokenFactory(secret="gone", revoked_at=now())
    with pytest.raises(ApiError) as refused:
        caller_of(request(user=UserFactory(), Authorization=header))
    assert refused.value.status == 401


def test_the_use_of_a_token_is_noted_once_a_minute() -> None:
    token = TokenFactory(secret="s3cret")
    caller_of(request(Authorization="Bearer s3cret"))
    token.refresh_from_db()
    first = token.last_used_at
    caller_of(request(Authorization="Bearer s3cret"))
    token.refresh_from_db()
    assert token.last_used_at == first
    token.last_used_at = first - timedelta(minutes=2)
    token.save()
    caller_of(request(Authorization="Bearer s3cret"))
    token.refresh_from_db()
    assert token.last_used_at >= first


def test_nobody_is_none_and_an_inactive_person_is_nobody() -> None:
    assert caller_of(request()) is None
    assert caller_of(request(user=UserFactory(is_active=False))) is None


def test_a_session_needs_the_csrf_token_to_change_anything() -> None:
    user = UserFactory()
    assert caller_of(request(user=user)) == Caller(user=user)
    with pytest.raises(ApiError) as refused:
        caller_of(request("post", user=user))
    assert (refused.value.status, refused.value.code) == (403, "CSRF_FAILED")
    good = request("post", user=user)
    secret = get_token(good)
    good.COOKIES["superbiz_csrf"] = good.META["CSRF_COOKIE"]
    good.META["HTTP_X_CSRFTOKEN"] = secret
    assert caller_of(good) == Caller(user=user)


def test_the_csrf_check_holds_for_real_requests() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory())
    answer = client.post("/api/runs/run_x/cancel")
    assert (answer.status_code, answer.json()["code"]) == (403, "CSRF_FAILED")


def test_requiring_tells_unknown_from_forbidden() -> None:
    with pytest.raises(ApiError) as unknown:
        require(None, Scope.RUNS_READ)
    with pytest.raises(ApiError) as forbidden:
        require(Caller(user=UserFactory()), Scope.ALERTS_WRITE)
    assert (unknown.value.status, forbidden.value.status) == (401, 403)


def test_other_peoples_sessions_are_theirs() -> None:
    ada, bob, staff = UserFactory(), UserFactory(), UserFactory(is_staff=True)
    operator = UserFactory(permissions=["see_all_sessions"])
    hers, shared = RunFactory(session=SessionFactory(owner=ada)), RunFactory()
    token = Caller(token=TokenFactory())
    for caller, seen in [
        (Caller(user=ada), {hers.id, shared.id}),
        (Caller(user=bob), {shared.id}),
        (Caller(user=staff), {shared.id}),
        (Caller(user=operator), {hers.id, shared.id}),
        (token, {hers.id, shared.id}),
    ]:
        assert set(visible_runs(caller).values_list("id", flat=True)) == seen
        assert may_see_session(caller, hers.session) == (hers.id in seen)
    with pytest.raises(ApiError) as hidden:
        visible_run(Caller(user=bob), hers.id)
    assert hidden.value.status == 404


def test_people_cancel_their_own_runs_and_operators_any() -> None:
    ada, bob, operator = UserFactory(), UserFactory(), UserFactory(permissions=["cancel_any_run"])
    hers, shared = RunFactory(session=SessionFactory(owner=ada)), RunFactory()
    reader, canceller = TokenFactory(secret="r"), TokenFactory(secret="c", scopes=["runs:cancel"])
    for caller, cancels in [
        (Caller(user=ada), {hers.id}),
        (Caller(user=bob), set()),
        (Caller(user=operator), {hers.id, shared.id}),
        (Caller(token=reader), set()),
        (Caller(token=canceller), {hers.id, shared.id}),
    ]:
        assert {run.id for run in (hers, shared) if may_cancel(caller, run)} == cancels, caller.name


def test_after_a_rotation_the_old_secret_answers_until_its_time() -> None:
    token = TokenFactory(secret="new", previous_digest=token_digest("old"), previous_ends_at=now() + timedelta(hours=1))
    found = caller_of(request(Authorization="Bearer old"))
    assert found is not None
    assert found.token == token
    token.refresh_from_db()
    assert (token.last_used_at is None, token.previous_used_at is None) == (True, False)
    ApiToken.objects.update(previous_ends_at=now())
    with pytest.raises(ApiError):
        caller_of(request(Authorization="Bearer old"))
    assert caller_of(request(Authorization="Bearer new")) is not None


@pytest.mark.django_db(transaction=True)
async def test_async_views_find_the_caller_too() -> None:
    await run_in_orm(TokenFactory, secret="s3cret")
    caller = await authenticate(request(Authorization="Bearer s3cret"))
    assert caller is not None
    assert caller.may(Scope.RUNS_READ)
