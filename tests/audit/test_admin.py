import pytest
from django.contrib import admin
from django.test import Client

from audit.models import AgentReasoning, TraceEvent
from audit.readings import record_access
from audit.record import load_record
from runs.access import Caller
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


def test_a_row_links_its_run_and_session(superuser: Client) -> None:
    run = finished_run()
    record_access(Caller(user=UserFactory.create(username="casey")), run.id, "reasoning")
    to_run, to_session = f'href="/runs/{run.id}/"', f'href="/sessions/{run.session_id}/"'
    for model in ("traceevent", "tracehead", "agentstep", "modelcallrow", "toolinvocation", "agentreasoning"):
        assert to_run in superuser.get(f"/admin/audit/{model}/").content.decode(), model
    frame = TraceEvent.objects.filter(run=run).latest("id")
    page = superuser.get(f"/admin/audit/traceevent/{frame.pk}/change/").content.decode()
    assert to_run in page
    assert to_session in page
    assert to_run in superuser.get("/admin/audit/reasoningaccess/").content.decode()


@pytest.mark.parametrize(
    ("model", "wanted", "found"),
    [
        ("traceevent", "{run.id}", 8),
        ("traceevent", "{run.session_id}", 8),
        ("traceevent", "inv_aaaaaa", 1),
        ("traceevent", "{run.id} stp_1", 3),
        ("traceevent", "nothing", 0),
        ("toolinvocation", "inv_aaaaaa", 1),
        ("modelcallrow", "stp_1", 2),
        ("reasoningaccess", "cas", 1),
        ("reasoningaccess", "{run.id}", 1),
        ("reasoningaccess", "robin", 0),
    ],
)
def test_ledgers_are_searched_by_whole_ids_and_readers_by_name(
    superuser: Client, model: str, wanted: str, found: int
) -> None:
    run = finished_run()
    record_access(Caller(user=UserFactory.create(username="casey")), run.id, "reasoning")
    answer = superuser.get(f"/admin/audit/{model}/", {"q": wanted.format(run=run)})
    assert answer.context["cl"].result_count == found


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
