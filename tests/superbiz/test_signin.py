"""The one-time sign-in link."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test import Client

from superbiz.signin import ADMIN_NAME, issue_link

pytestmark = pytest.mark.django_db


def link_path() -> str:
    return urlsplit(issue_link("http://127.0.0.1:8000")).path


def test_the_admin_is_made_once_and_has_no_password() -> None:
    link_path()
    link_path()
    admin = User.objects.get(username=ADMIN_NAME)
    assert admin.is_superuser
    assert admin.is_staff
    assert not admin.has_usable_password()


def test_an_admin_with_a_password_keeps_it() -> None:
    User.objects.create_superuser(ADMIN_NAME, password="correct horse battery")
    link_path()
    assert User.objects.get(username=ADMIN_NAME).check_password("correct horse battery")


def test_only_the_button_signs_in(client: Client) -> None:
    path = link_path()
    for _ in range(3):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "_auth_user_id" not in client.session
        assert "no-store" in answer.headers["Cache-Control"]
    answer = client.post(path)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert client.session["_auth_user_id"] == str(User.objects.get().pk)


def test_a_used_link_is_gone_for_looking_and_for_pressing(client: Client) -> None:
    path = link_path()
    client.post(path)
    assert Client().get(path).status_code == 410
    other = Client()
    assert other.post(path).status_code == 410
    assert "_auth_user_id" not in other.session


@pytest.mark.parametrize("token", ["x", "a" * 43, "é"])
def test_an_unknown_link_is_gone(client: Client, token: str) -> None:
    assert client.get(f"/sign-in/{token}/").status_code == 410


def test_a_link_of_someone_who_was_deactivated_is_gone(client: Client) -> None:
    path = link_path()
    User.objects.update(is_active=False)
    assert client.post(path).status_code == 410


def test_the_token_itself_is_not_stored() -> None:
    token = link_path().strip("/").split("/")[-1]
    assert cache.get(f"sign-in:{token}") is None


@pytest.mark.django_db(transaction=True)
def test_of_many_who_press_at_once_one_is_signed_in() -> None:
    path = link_path()

    def press(_number: int) -> int:
        try:
            return Client().post(path).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(press, range(8)))
    assert codes == [302] + [410] * 7


def test_forgery_is_refused() -> None:
    assert Client(enforce_csrf_checks=True).post(link_path()).status_code == 403


def test_password_sign_in_and_sign_out(client: Client) -> None:
    User.objects.create_user("casey", password="correct horse battery")
    assert client.post("/sign-in/", {"username": "casey", "password": "wrong"}).status_code == 200
    assert "_auth_user_id" not in client.session
    answer = client.post("/sign-in/", {"username": "casey", "password": "correct horse battery"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").status_code == 302
    assert "_auth_user_id" not in client.session
