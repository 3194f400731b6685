"""No list of the admin breaks on a lookup, or answers guesses at what it does not show."""

from typing import Any

import pytest
from django.contrib import admin
from django.db.models import Field, Model
from django.test import Client, RequestFactory

from runs.pages.lookups import is_plain
from tests.factories import RunFactory, UserFactory

pytestmark = pytest.mark.django_db
MODELS = [model for model, _ in admin.site._registry.items()]
VALUES = ("a", "99999999999999999999", "9999-12-31")


def lookups(model: type[Model]) -> list[str]:
    """Each lookup of each column, and some that there are not."""
    return [
        f"{field.name}__{name}"
        for field in model._meta.get_fields()
        if isinstance(field, Field)
        for name in (*field.get_lookups(), "year__gt", "nothing", "pk__range")
    ]


@pytest.fixture
def superuser() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(UserFactory.create(is_superuser=True, is_staff=True))
    RunFactory(success=True)
    return client


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_no_lookup_is_an_error_of_the_server(superuser: Client, model: Any) -> None:
    where, listing = f"/admin/{model._meta.app_label}/{model._meta.model_name}/", admin.site.get_model_admin(model)
    request = RequestFactory().get(where)
    allowed = [lookup for lookup in lookups(model) if listing.lookup_allowed(lookup, "1", request)]
    asked = [f"{where}?{lookup}={value}" for lookup in allowed for value in VALUES]
    assert [address for address in asked if superuser.get(address).status_code >= 500] == []


@pytest.mark.parametrize(
    "lookup",
    ["password__startswith", "password__iregex", "user__password__contains", "at__year", "at__date__gt", "id__range"],
)
def test_patterns_parts_and_ranges_are_not_plain(lookup: str) -> None:
    assert not is_plain(lookup)


@pytest.mark.parametrize("lookup", ["name", "on__exact", "groups__id__exact", "at__gte", "id__in", "run__isnull"])
def test_comparisons_are(lookup: str) -> None:
    assert is_plain(lookup)
