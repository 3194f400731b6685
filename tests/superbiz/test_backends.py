from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, Group, Permission, User

from superbiz.backends import OneQueryBackend
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def permission(name: str) -> Permission:
    label, codename = name.split(".")
    return Permission.objects.get(content_type__app_label=label, codename=codename)


def own() -> User:
    user: User = UserFactory()
    user.user_permissions.add(permission("audit.read_reasoning"))
    return user


def by_groups() -> User:
    user: User = UserFactory()
    for number, name in enumerate(("runs.submit_alerts", "gatekeeper.view_rule", "prompts.view_prompt")):
        group = Group.objects.create(name=f"group {number}")
        group.permissions.add(permission(name), permission("audit.view_agentstep"))
        user.groups.add(group)
    return user


def by_both() -> User:
    user = by_groups()
    user.user_permissions.add(permission("audit.read_reasoning"), permission("runs.submit_alerts"))
    return user


def gone() -> User:
    user = by_both()
    user.is_active = False
    return user


PEOPLE: list[Callable[[], Any]] = [
    UserFactory,
    own,
    by_groups,
    by_both,
    gone,
    lambda: UserFactory(is_superuser=True),
    AnonymousUser,
]


@pytest.mark.parametrize("make", PEOPLE)
def test_permissions_are_those_that_django_finds(make: Callable[[], Any], django_assert_max_num_queries: Any) -> None:
    person = make()
    known = person if isinstance(person, AnonymousUser) else User.objects.get(pk=person.pk)
    known.is_active = person.is_active
    expected = ModelBackend().get_all_permissions(known)
    with django_assert_max_num_queries(2 if person.is_superuser else 1):
        assert OneQueryBackend().get_all_permissions(person) == expected
        assert OneQueryBackend().get_all_permissions(person) == expected
    assert bool(expected) == (make in {own, by_groups, by_both} or person.is_superuser)
