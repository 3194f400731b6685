"""People and groups in the admin: nobody gives what they do not hold."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

MANAGER = ["view_user", "change_user", "add_user", "see_all_sessions"]


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def group(name: str, *codenames: str) -> Group:
    made = Group.objects.create(name=name)
    made.permissions.set(Permission.objects.filter(codename__in=codenames))
    return made


@pytest.fixture
def manager() -> User:
    return UserFactory.create(username="manager", is_staff=True, permissions=MANAGER)


def save(client: Client, person: User, **changes: Any) -> int:
    """Send the form as the page shows it, with changes; the answer's status: 302 saved, 200 told why not."""
    wish = {
        "username": person.username,
        "email": person.email,
        "is_active": "on" if person.is_active else "",
        "is_staff": "on" if person.is_staff else "",
        "is_superuser": "on" if person.is_superuser else "",
        "groups": list(person.groups.values_list("pk", flat=True)),
        "user_permissions": list(person.user_permissions.values_list("pk", flat=True)),
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        "reason": "a new colleague",
        **changes,
    }
    return client.post(f"/admin/auth/user/{person.pk}/change/", wish).status_code


def groups_of(person: User) -> set[str]:
    return set(person.groups.values_list("name", flat=True))


def test_a_group_is_given_only_by_who_holds_all_of_it(manager: User) -> None:
    mild, strong = group("mild", "see_all_sessions"), group("strong", "see_all_sessions", "read_reasoning")
    person, client = UserFactory.create(), client_of(manager)
    page = client.get(f"/admin/auth/user/{person.pk}/change/").content.decode()
    assert ">mild</option>" in page
    assert ">strong</option>" not in page
    assert save(client, person, groups=[strong.pk]) == 200
    assert groups_of(person) == set()
    assert save(client, person, groups=[mild.pk]) == 302
    assert groups_of(person) == {"mild"}
    assert save(client, manager, groups=[strong.pk]) == 200


def test_a_group_that_one_may_not_give_stays_where_it_is() -> None:
    mild, empty = group("mild", "see_all_sessions"), group("empty")
    manager = UserFactory.create(is_staff=True, permissions=["view_user", "change_user", "read_reasoning"])
    manager.groups.add(group("managers", "see_all_sessions"))
    person = UserFactory.create()
    person.groups.add(mild)
    assert save(client_of(manager), person, groups=[empty.pk]) == 302
    assert groups_of(person) == {"empty"}
    manager.groups.clear()
    person.groups.set([mild, empty])
    assert client_of(manager).get(f"/admin/auth/user/{person.pk}/change/").status_code == 200
    assert save(client_of(manager), person, groups=[]) == 403
    assert groups_of(person) == {"mild", "empty"}


def test_neither_superusers_nor_single_permissions_are_made_by_others(manager: User) -> None:
    person, client = UserFactory.create(), client_of(manager)
    reading = Permission.objects.get(codename="read_reasoning")
    assert save(client, person, is_superuser="on", user_permissions=[reading.pk]) == 302
    person.refresh_from_db()
    assert not person.is_superuser
    assert not person.user_permissions.exists()
    assert save(client, manager, is_superuser="on") == 302
    manager.refresh_from_db()
    assert not manager.is_superuser


@pytest.mark.parametrize(
    "traits",
    [
        {"is_superuser": True},
        {"is_superuser": True, "is_active": False},
        {"permissions": ["read_reasoning"]},
        {"permissions": ["read_reasoning"], "is_active": False},
    ],
)
def test_who_holds_more_is_not_touched(manager: User, traits: dict[str, Any]) -> None:
    person, client = UserFactory.create(**traits), client_of(manager)
    assert save(client, person, email="mine@example.com") == 403
    new = {"password1": "correct horse battery", "password2": "correct horse battery", "usable_password": "true"}
    assert client.post(f"/admin/auth/user/{person.pk}/password/", new).status_code == 403
    assert client.get(f"/admin/auth/user/{person.pk}/change/").status_code == 200


def test_a_superuser_gives_everything_with_a_reason_and_the_history_tells_it() -> None:
    chief, person = UserFactory.create(is_staff=True, is_superuser=True), UserFactory.create()
    strong, client = group("strong", "read_reasoning"), client_of(chief)
    assert save(client, person, groups=[strong.pk], is_staff="on", reason="") == 200
    assert groups_of(person) == set()
    assert save(client, person, groups=[strong.pk], is_staff="on") == 302
    entry = LogEntry.objects.get(object_id=person.pk)
    assert entry.user == chief
    assert entry.get_change_message() == "is_staff no → yes; groups none → strong. Reason: a new colleague."
    page = client.get(f"/admin/auth/user/{person.pk}/history/").content.decode()
    assert "groups none → strong" in page


def test_what_is_no_right_needs_no_reason() -> None:
    client, person = client_of(UserFactory.create(is_staff=True, is_superuser=True)), UserFactory.create()
    assert save(client, person, email="casey@example.com", reason="") == 302


def test_a_groups_permissions_change_with_a_reason_and_by_superusers_only() -> None:
    chief = UserFactory.create(is_staff=True, is_superuser=True)
    other = UserFactory.create(is_staff=True, permissions=["change_group", "view_group"])
    made = group("readers", "see_all_sessions")
    wish = {"name": "readers", "permissions": [Permission.objects.get(codename="read_reasoning").pk]}
    address = f"/admin/auth/group/{made.pk}/change/"
    assert client_of(other).post(address, {**wish, "reason": "mine"}).status_code == 403
    assert client_of(chief).post(address, wish).status_code == 200
    assert client_of(chief).post(address, {**wish, "reason": "they read on"}).status_code == 302
    told = LogEntry.objects.get(object_id=made.pk).get_change_message()
    assert told == "permissions runs.see_all_sessions → audit.read_reasoning. Reason: they read on."


def test_people_are_deactivated_and_not_deleted() -> None:
    client, person = client_of(UserFactory.create(is_staff=True, is_superuser=True)), UserFactory.create()
    assert client.post(f"/admin/auth/user/{person.pk}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in client.get("/admin/auth/user/").content.decode()
