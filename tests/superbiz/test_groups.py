"""The groups that come with the migrations."""

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command

from superbiz.groups import AUDITORS, GROUPS, OPERATORS, REASONING_READERS, grant
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

FIRST = import_module("superbiz.migrations.0001_groups")


def permissions_of(name: str) -> set[str]:
    found = Permission.objects.filter(group__name=name)
    return {f"{app}.{code}" for app, code in found.values_list("content_type__app_label", "codename")}


def test_no_group_but_the_readers_of_reasoning_reads_reasoning() -> None:
    FIRST.make_groups(apps, None)
    assert {name for name in GROUPS if "audit.read_reasoning" in permissions_of(name)} == {REASONING_READERS}


def test_auditors_change_nothing() -> None:
    FIRST.make_groups(apps, None)
    assert {code.split(".")[1].split("_")[0] for code in permissions_of(AUDITORS)} == {"view", "see"}


def test_every_permission_that_a_group_has_is_one_of_a_model() -> None:
    FIRST.make_groups(apps, None)
    known = {
        f"{config.label}.{codename}"
        for config in apps.get_app_configs()
        for model in config.get_models()
        for codename in [
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(codename for codename, _name in model._meta.permissions),
        ]
    }
    assert {code for name in GROUPS for code in permissions_of(name)} - known == set()


def test_groups_are_made_before_django_has_made_any_permission_and_again_without_doubles() -> None:
    Group.objects.all().delete()
    Permission.objects.all().delete()
    FIRST.make_groups(apps, None)
    before = {name: permissions_of(name) for name in GROUPS}
    FIRST.make_groups(apps, None)
    for config in apps.get_app_configs():
        create_permissions(config, verbosity=0)
    assert {name: permissions_of(name) for name in GROUPS} == before
    assert Permission.objects.filter(codename="read_reasoning").count() == 1


def test_what_an_administrator_changed_in_a_group_survives_migrating() -> None:
    FIRST.make_groups(apps, None)
    operators = Group.objects.get(name=OPERATORS)
    operators.permissions.remove(Permission.objects.get(codename="cancel_any_run"))
    operators.permissions.add(Permission.objects.get(codename="read_reasoning"))
    Group.objects.get(name=AUDITORS).delete()
    before = permissions_of(OPERATORS)
    call_command("migrate", verbosity=0)
    assert permissions_of(OPERATORS) == before
    assert not Group.objects.filter(name=AUDITORS).exists()


def test_who_was_staff_becomes_an_operator() -> None:
    FIRST.make_groups(apps, None)
    staff, plain = UserFactory.create(is_staff=True), UserFactory.create()
    FIRST.keep_what_staff_could_do(apps, None)
    assert [person.groups.filter(name=OPERATORS).exists() for person in (staff, plain)] == [True, False]


def test_a_group_of_the_same_name_keeps_what_it_had() -> None:
    own, _made = Group.objects.get_or_create(name=OPERATORS)
    own.permissions.set(Permission.objects.filter(codename="view_user"))
    grant(apps, {OPERATORS: ["runs.diagnosisrun.see_all_sessions"]})
    assert permissions_of(OPERATORS) == {"auth.view_user", "runs.see_all_sessions"}
