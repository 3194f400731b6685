import pytest
from django.contrib import admin
from django.test import Client

from audit.models import AgentReasoning
from audit.record import load_record
from tests.audit.recording import finished_run
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

LEDGERS = [model for model in admin.site._registry if model._meta.app_label == "audit"]


@pytest.fixture
def superuser() -> Client:
    client = Client()
    client.force_login(UserFactory.create(is_staff=True, is_superuser=True))
    return client


@pytest.mark.parametrize("model", LEDGERS, ids=lambda model: model.__name__)
def test_every_ledger_is_listed_searched_and_shown_but_not_changed(superuser: Client, model: type) -> None:
    run = finished_run()
    base = f"/admin/audit/{model._meta.model_name}/"  # type: ignore[attr-defined]
    assert superuser.get(base).status_code == 200
    assert superuser.get(base, {"q": run.id}).status_code == 200
    assert superuser.get(f"{base}add/").status_code == 403
    row = model._default_manager.first()  # type: ignore[attr-defined]
    if row is not None:
        assert superuser.get(f"{base}{row.pk}/change/").status_code == 200
        assert superuser.post(f"{base}{row.pk}/change/", {}).status_code == 403
        assert superuser.post(f"{base}{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_admin_never_shows_reasoning(superuser: Client) -> None:
    finished_run()
    row = AgentReasoning.objects.get()
    page = superuser.get(f"/admin/audit/agentreasoning/{row.pk}/change/").content.decode()
    assert row.step_id in page
    assert "The pool looks full" not in page
    assert "Let me read the logs" not in page


def test_the_frames_of_a_run_are_one_link_away(superuser: Client) -> None:
    run = finished_run()
    steps = superuser.get("/admin/audit/agentstep/").content.decode()
    link = f"/admin/audit/traceevent/?run_id={run.id}"
    assert link in steps
    frames = superuser.get(link).content.decode()
    assert frames.count(f">{run.id}<") == len(load_record(run.id).frames)


@pytest.mark.parametrize(
    "lookup",
    [
        "thought__icontains=pool",
        "thought__startswith=T",
        "assistant_text__regex=.",
        "run__self_evaluation__icontains=a",
        "run__lease_token__startswith=a",
        "created_at__year=-1",
    ],
)
def test_the_admin_answers_no_guesses_at_restricted_columns(superuser: Client, lookup: str) -> None:
    finished_run()
    assert superuser.get(f"/admin/audit/agentreasoning/?{lookup}").status_code == 400


@pytest.mark.parametrize(
    "address",
    ["traceevent/?event_type__exact=RUN_STARTED", "traceevent/?legacy__exact=1", "toolinvocation/?tool_name=x"],
)
def test_the_filters_that_the_lists_offer_work(superuser: Client, address: str) -> None:
    finished_run()
    assert superuser.get(f"/admin/audit/{address}").status_code == 200
