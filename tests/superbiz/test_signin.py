"""Signing in: by the one-time link, by password, and how guessing is stopped."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.test import Client
from redis import Redis

from superbiz.signin import ADMIN_NAME, WRONG_LINKS, NoLink, issue_link
from tests.factories import UserFactory
from tests.superbiz.instance import running, with_tables

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


def test_a_link_is_kept_for_a_quarter_of_an_hour_and_then_gone(client: Client) -> None:
    path = link_path()
    with Redis.from_url(settings.REDIS_URL) as valkey:
        (key,) = valkey.keys("*sign-in:*")
        assert 14 * 60 < valkey.ttl(key) <= 15 * 60
        assert client.get(path).status_code == 200
        valkey.pexpireat(key, 1)
    assert (client.get(path).status_code, client.post(path).status_code) == (410, 410)
    assert "_auth_user_id" not in client.session


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


def test_a_link_is_for_whoever_it_was_made_for(client: Client) -> None:
    casey = UserFactory.create(username="casey")
    client.post(urlsplit(issue_link("http://127.0.0.1:8000", "casey")).path)
    assert client.session["_auth_user_id"] == str(casey.pk)
    assert not User.objects.filter(username=ADMIN_NAME).exists()


@pytest.mark.parametrize("name", ["nobody", "", "a\0b", "gone"])
def test_there_is_no_link_for_who_is_not_there(name: str) -> None:
    UserFactory.create(username="gone", is_active=False)
    with pytest.raises(NoLink):
        issue_link("http://127.0.0.1:8000", name)


def test_who_tries_out_links_is_stopped_and_others_are_not(client: Client) -> None:
    path = link_path()
    for number in range(WRONG_LINKS):
        assert client.get(f"/sign-in/guess-{number}/").status_code == 410
    stopped = client.post(path)
    assert stopped.status_code == 429
    assert "sign_in_link" in stopped.content.decode()
    assert "_auth_user_id" not in client.session
    assert client.post(path, REMOTE_ADDR="192.0.2.7").status_code == 302


def test_the_command_prints_a_link_where_superbiz_runs_and_says_so_where_it_does_not(tmp_path: Path) -> None:
    instance = with_tables(tmp_path)
    done = instance.manage("sign_in_link")
    assert (done.returncode, done.stdout) == (2, "")
    assert "SuperBiz is not running" in done.stderr
    with running(instance) as up:
        up.sign_in_link()
        done = instance.manage("sign_in_link")
        assert done.returncode == 0, done.stderr
        link = done.stdout.strip()
        assert link.startswith(f"{instance.url}/sign-in/")
        assert link != up.link
        with httpx.Client(follow_redirects=True) as browser:
            assert "Sign in as admin" in browser.get(link).text
        unknown = instance.manage("sign_in_link", "nobody")
        assert (unknown.returncode, unknown.stdout) == (2, "")
        assert unknown.stderr.strip().endswith("There is no user nobody.")


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


# ---- guessing passwords ---------------------------------------------------------------------------------------

DOORS = ["/sign-in/", "/admin/login/"]
PASSWORD = "correct horse battery"
ELSEWHERE = "192.0.2.7"


@pytest.fixture
def casey() -> User:
    return User.objects.create_user("casey", password=PASSWORD, is_staff=True)


def enter(door: str, password: str, name: str = "casey", address: str = "192.0.2.1", **headers: str) -> int:
    """302: signed in; 200: told that it was wrong; 429: locked out."""
    wish = {"username": name, "password": password, "next": "/"}
    return Client().post(door, wish, REMOTE_ADDR=address, headers=headers).status_code


def lock_out(door: str, **more: str) -> None:
    assert [enter(door, f"guess {number}", **more) for number in range(5)] == [200] * 4 + [429]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("other", DOORS)
def test_after_five_wrong_passwords_no_door_lets_in(casey: User, door: str, other: str) -> None:
    lock_out(door)
    assert enter(other, PASSWORD) == 429


@pytest.mark.parametrize("door", DOORS)
def test_the_page_says_how_long_and_how_to_be_unlocked(casey: User, door: str, client: Client) -> None:
    lock_out(door, address="127.0.0.1")
    page = client.post(door, {"username": "casey", "password": PASSWORD})
    assert page.status_code == 429
    assert "15 minutes" in page.content.decode()
    assert "sign_in_link" in page.content.decode()
    assert "unsafe" not in page["Content-Security-Policy"]


def test_wrong_old_passwords_count_where_a_password_is_changed(casey: User) -> None:
    browser = Client(REMOTE_ADDR="192.0.2.1")
    browser.force_login(casey)

    def change(old: str) -> int:
        new = "another-word-77"
        wish = {"old_password": old, "new_password1": new, "new_password2": new}
        return browser.post("/admin/password_change/", wish).status_code

    assert [change(f"guess {number}") for number in range(5)] == [200] * 4 + [429]
    assert change(PASSWORD) == 429
    assert enter(DOORS[0], PASSWORD) == 429
    call_command("axes_reset_username", "casey")
    assert change(PASSWORD) == 302
    assert enter(DOORS[0], "another-word-77") == 302


def test_who_has_no_password_cannot_guess_one(casey: User) -> None:
    casey.set_unusable_password()
    casey.save()
    browser = Client()
    browser.force_login(casey)
    assert browser.get("/admin/password_change/").status_code == 200
    assert "was entered incorrectly" in browser.post("/admin/password_change/", {"old_password": "x"}).content.decode()


def test_a_stranger_comes_to_the_sign_in_page_first() -> None:
    assert Client().get("/admin/password_change/").status_code == 302


def test_others_come_in_meanwhile_and_casey_from_elsewhere(casey: User) -> None:
    User.objects.create_user("robin", password=PASSWORD)
    lock_out("/sign-in/")
    assert enter("/sign-in/", PASSWORD, name="robin") == 302
    assert enter("/sign-in/", PASSWORD, address=ELSEWHERE) == 302


def test_another_browser_does_not_help(casey: User) -> None:
    answers = [enter("/sign-in/", "guess", **{"User-Agent": f"browser {number}"}) for number in range(5)]
    assert answers == [200] * 4 + [429]


def test_names_that_do_not_exist_are_locked_alike() -> None:
    lock_out("/sign-in/", name="nobody-at-all")


def test_the_lock_opens_after_its_time_and_trying_on_does_not_prolong_it(casey: User) -> None:
    lock_out("/sign-in/")
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=14))
    assert enter("/sign-in/", PASSWORD) == 429
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=2))
    assert enter("/sign-in/", PASSWORD) == 302


def test_a_success_forgets_the_failures(casey: User) -> None:
    for _ in range(3):
        assert [enter("/sign-in/", "guess") for _ in range(3)] == [200] * 3
        assert enter("/sign-in/", PASSWORD) == 302
    assert AccessLog.objects.filter(username="casey").count() == 3


def test_a_link_lets_in_who_is_locked_out(casey: User, client: Client) -> None:
    lock_out("/sign-in/", address="127.0.0.1")
    assert client.post(urlsplit(issue_link("http://127.0.0.1:8000", "casey")).path).status_code == 302


def test_an_administrator_unlocks_on_the_page_or_by_command(casey: User, client: Client) -> None:
    client.force_login(UserFactory.create(is_staff=True, is_superuser=True))
    lock_out("/sign-in/")
    rows = [attempt.pk for attempt in AccessAttempt.objects.all()]
    client.post("/admin/axes/accessattempt/", {"action": "unlock", "_selected_action": rows})
    assert enter("/sign-in/", PASSWORD) == 302
    lock_out("/sign-in/")
    call_command("axes_reset_username", "casey", verbosity=0)
    assert enter("/sign-in/", PASSWORD) == 302


def test_no_password_is_kept_of_a_failure(casey: User) -> None:
    enter("/sign-in/", "my real secret")
    (row,) = AccessAttempt.objects.values()
    assert "my real secret" not in str(row)
