"""Prompts and runs together: figures of versions, and dry-runs from the first page to the comparison."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django.fixtures import Settings

from audit.dryrunlimit import TooManyDryRuns
from audit.dryruns import compare, start
from audit.models import RunPrompt
from audit.promptuse import VersionUse, use_of
from prompts.actions import do_activate, save_version, sync_shipped
from prompts.models import Prompt, PromptVersion
from runs.access import Caller
from runs.models import DiagnosisRun
from runs.rehearsals import scene_of_run
from tests.audit.selfevaluations import CLAIM, evaluation
from tests.audit.turns import answer_after
from tests.factories import RunFactory, SessionFactory, UserFactory, published

pytestmark = pytest.mark.django_db

INCIDENT = "pool-exhausted"
BASE = "/prompts/chat_verifier/"


@pytest.fixture
def anna() -> User:
    return UserFactory.create(username="anna", is_staff=True, is_superuser=True)


@pytest.fixture
def second(anna: User) -> PromptVersion:
    sync_shipped()
    first = PromptVersion.objects.get(prompt_id="chat_verifier")
    return save_version(first, first.text + "Be brief.\n", by=anna, reason="a try")


@pytest.fixture
def client(anna: User, second: PromptVersion) -> Client:
    return client_of(anna)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def given(version: int, prompt: str = "chat_verifier", **changes: Any) -> DiagnosisRun:
    """A run that was given this version of the verifier's prompt."""
    run: DiagnosisRun = RunFactory.create(**changes)
    RunPrompt.objects.create(run=run, prompt=prompt, version=f"{prompt.replace('_', '-')}-v{version}")
    return run


def rehearsal(beside: str | None = None, version: int = 2, **changes: Any) -> DiagnosisRun:
    about = {"version": 1, "prompts": {"chat_verifier": version}, "now": "2026-01-31T08:00:00Z", "incident": INCIDENT,
             "of_run": None, "beside": beside}  # fmt: skip
    return given(version, trigger="EVAL", rehearsal=about, **changes)


# ---- figures ----------------------------------------------------------------------------------------------------


def test_the_figures_of_a_version_are_those_of_its_runs_without_rehearsals(second: PromptVersion) -> None:
    given(1, success=True, groundedness=1.0, input_tokens=900, output_tokens=100)
    given(1, success=True, verdict="LOW_CONFID", groundedness=0.5, input_tokens=2000)
    given(1, failed=True, input_tokens=0)
    given(1)
    given(1, prompt="executor", success=True)
    rehearsal(success=True, groundedness=0.1)
    rehearsal(version=1, success=True, groundedness=0.1)
    assert use_of(second.prompt) == (
        VersionUse("chat-verifier-v2", 2, 0, 0, None, None, None, None, None),
        VersionUse("chat-verifier-v1", 1, 4, 1, 0.5, 0.5, 0.0, 0.75, 1000),
    )


def test_the_figures_are_on_the_prompts_page_and_link_to_the_runs(client: Client) -> None:
    run = given(1, success=True, groundedness=0.875)
    page = client.get("/admin/prompts/prompt/chat_verifier/change/").content.decode()
    assert f'hx-get="{BASE}usage/"' in page
    for headers in ({}, {"HX-Request": "true", "HX-Target": "usage"}):
        text = client.get(f"{BASE}usage/", headers=headers).content.decode()
        assert "0.88" in text
        assert f"{BASE}versions/1/runs/" in text
        assert ("<html" in text) is not bool(headers)
    runs = client.get(f"{BASE}versions/1/runs/").content.decode()
    assert f"/runs/{run.id}/" in runs
    assert "No run was given" in client.get(f"{BASE}versions/2/runs/").content.decode()


def test_the_runs_of_a_version_are_those_that_the_reader_may_see(second: PromptVersion) -> None:
    theirs = given(1, session=SessionFactory(owner=UserFactory()))
    everyones = given(1)
    reader = UserFactory.create(is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_prompt"))
    text = client_of(reader).get(f"{BASE}versions/1/runs/").content.decode()
    assert everyones.id in text
    assert theirs.id not in text


def test_the_figures_of_many_runs_take_two_queries(
    second: PromptVersion, django_assert_num_queries: Callable[[int], Any]
) -> None:
    for _ in range(3):
        given(1, success=True)
    prompt = Prompt.objects.get(name="chat_verifier")
    with django_assert_num_queries(2):
        use_of(prompt)


# ---- starting a dry-run -----------------------------------------------------------------------------------------


def test_a_dry_run_on_an_incident_is_two_rehearsals(client: Client, anna: User) -> None:
    answer = client.post(f"{BASE}versions/2/dry-run/", {"incident": INCIDENT})
    tried = DiagnosisRun.objects.get(rehearsal__prompts={"chat_verifier": 2})
    active = DiagnosisRun.objects.get(rehearsal__prompts={"chat_verifier": 1})
    assert answer["Location"] == f"/prompts/dry-runs/{tried.id}/"
    assert tried.rehearsal["beside"] == active.id
    for run in (tried, active):
        assert (run.trigger, run.session.owner, run.alert_id) == ("EVAL", anna, None)
    assert tried.subject == active.subject
    assert tried.session_id != active.session_id


def test_a_dry_run_on_a_past_run_stands_beside_that_run(client: Client) -> None:
    past = RunFactory(success=True)
    assert past.id in client.get(f"{BASE}versions/2/dry-run/").content.decode()
    answer = client.post(f"{BASE}versions/2/dry-run/", {"run": f" {past.id} "})
    tried = DiagnosisRun.objects.exclude(id=past.id).get()
    assert answer["Location"] == f"/prompts/dry-runs/{tried.id}/"
    assert (tried.rehearsal["of_run"], tried.rehearsal["beside"], tried.subject) == (past.id, past.id, past.subject)


def test_a_prompt_of_questions_is_tried_with_a_question(client: Client, anna: User) -> None:
    first = PromptVersion.objects.get(prompt_id="chat_planner")
    version = save_version(first, first.text + "Be brief.\n", by=anna, reason="a try")
    address = f"/prompts/chat_planner/versions/{version.number}/dry-run/"
    assert client.post(address, {"incident": INCIDENT}).status_code == 422
    assert client.post(address, {"incident": INCIDENT, "question": "Why is checkout slow?"}).status_code == 302
    assert set(DiagnosisRun.objects.values_list("query", "subject__alert")) == {("Why is checkout slow?", None)}


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"incident": "none"}, "Select a valid choice"),
        ({"incident": "../../etc"}, "Select a valid choice"),
        ({"run": "run_none"}, "There is no such run."),
        ({"run": ""}, "This field is required."),
        ({"run": "x" * 500}, "at most 40 characters"),
        ({}, "Nothing was started."),
    ],
    ids=["no such incident", "a path", "no such run", "no run", "an endless id", "nothing at all"],
)
def test_what_cannot_be_tried_is_told_and_starts_nothing(client: Client, sent: dict[str, str], says: str) -> None:
    answer = client.post(f"{BASE}versions/2/dry-run/", sent)
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not DiagnosisRun.objects.exists()


ABOUT = {"version": 1, "prompts": {}, "now": "2026-01-31T08:00:00Z"}
UNFIT: list[tuple[str, dict[str, Any], str]] = [
    ("it goes on", {"running": True}, "goes on still"),
    ("a rehearsal", {"success": True, "trigger": "EVAL", "rehearsal": ABOUT}, "a rehearsal itself"),
    ("hidden", {"success": True, "session__owner": "another"}, "There is no such run."),
]


@pytest.mark.parametrize(("what", "changes", "says"), UNFIT, ids=[case[0] for case in UNFIT])
def test_a_run_that_cannot_be_repeated_is_refused(
    second: PromptVersion, what: str, changes: dict[str, Any], says: str
) -> None:
    admin = UserFactory.create(is_staff=True)
    admin.user_permissions.set(Permission.objects.filter(codename="change_prompt"))
    if "session__owner" in changes:
        changes = changes | {"session__owner": UserFactory()}
    run = RunFactory(**changes)
    answer = client_of(admin).post(f"{BASE}versions/2/dry-run/", {"run": run.id})
    assert (answer.status_code, says in answer.content.decode()) == (422, True)
    assert DiagnosisRun.objects.count() == 1


def test_an_unfit_version_is_not_tried(client: Client, second: PromptVersion, anna: User) -> None:
    draft = save_version(second, "Be brief.", by=anna, reason="a draft")
    address = f"{BASE}versions/{draft.number}/dry-run/"
    assert "Try it" not in client.get(address).content.decode()
    assert client.post(address, {"incident": INCIDENT}).status_code == 422
    assert not DiagnosisRun.objects.exists()


# ---- what is said of a dry-run ----------------------------------------------------------------------------------

UNREAD = "The offline model reads no prompts"
DECIDING = (
    f"{BASE}versions/2/dry-run/",
    f"{BASE}versions/2/dry-runs/",
    "/admin/prompts/prompt/chat_verifier/versions/2/activate/",
)


@pytest.mark.parametrize("path", DECIDING)
@pytest.mark.parametrize(("models", "unread"), [
    ({}, True),
    ({"llm": "openai:gpt-5"}, False),
    ({"llm_verifier": "openai:gpt-5"}, False),
    ({"llm": "openai:gpt-5", "llm_verifier": "offline"}, True),
])  # fmt: skip
def test_pages_that_decide_about_a_prompt_say_that_nobody_reads_it(
    client: Client, settings: Settings, path: str, models: dict[str, str], unread: bool
) -> None:
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update=models)
    answer = client.get(path)
    assert answer.status_code == 200
    assert (UNREAD in answer.content.decode()) is unread


@pytest.mark.parametrize(("model", "unread"), [("offline", True), ("openai:gpt-5", False)])
def test_the_result_of_a_dry_run_says_that_nobody_read_the_prompt(client: Client, model: str, unread: bool) -> None:
    tried = rehearsal(given(1, success=True).id, success=True, model=model)
    assert (UNREAD in client.get(f"/prompts/dry-runs/{tried.id}/").content.decode()) is unread


@pytest.mark.parametrize("page", ["", "activate/"])
def test_past_dry_runs_are_shown_where_a_version_is_decided_about(client: Client, page: str) -> None:
    address = f"{BASE}versions/2/dry-runs/"
    text = client.get(f"/admin/prompts/prompt/chat_verifier/versions/2/{page}").content.decode()
    assert f'hx-get="{address}"' in text
    assert f'<a href="{address}">' in text
    part = {"HX-Request": "true", "HX-Target": "dry-runs"}
    assert "Dry-run it first" in client.get(address, headers=part).content.decode()
    tried = rehearsal(given(1, success=True).id, success=True)
    for headers in ({}, part):
        text = client.get(address, headers=headers).content.decode()
        assert f"/prompts/dry-runs/{tried.id}/" in text
        assert "Dry-run it first" not in text
        assert "Another dry-run" in text
        assert ("<html" in text) is not bool(headers)


def test_who_may_not_start_a_dry_run_is_not_offered_one(second: PromptVersion) -> None:
    auditor = UserFactory.create(is_staff=True, permissions=["view_prompt", "see_all_sessions"])
    tried = rehearsal(given(1, success=True).id, success=True)
    for path in (f"/prompts/dry-runs/{tried.id}/", f"{BASE}versions/2/dry-runs/"):
        answer = client_of(auditor).get(path)
        assert answer.status_code == 200
        assert f"{BASE}versions/2/dry-run/" not in answer.content.decode()


# ---- how many go on at once -------------------------------------------------------------------------------------


def ended(**which: Any) -> None:
    """What was started of them was cancelled."""
    DiagnosisRun.objects.filter(**which).update(
        status="CANCELLED", outcome="CANCELLED", cancel_reason="USER_REQUESTED", safe_content={"headline": "x"},
        finished_at="2026-01-31T09:00:00Z",
    )  # fmt: skip


def test_a_third_dry_run_of_a_person_waits_for_an_end_and_the_refusal_links_those_that_go_on(client: Client) -> None:
    address = f"{BASE}versions/2/dry-run/"
    going = [client.post(address, {"incident": INCIDENT})["Location"] for _ in range(2)]
    refused = client.post(address, {"incident": INCIDENT})
    text = refused.content.decode()
    assert refused.status_code == 429
    assert "2 of your dry-runs go on still" in text
    assert all(f'href="{location}"' in text.partition("Try it on the incident")[0] for location in going)
    assert DiagnosisRun.objects.count() == 4
    # The version's own run has ended, the one to compare with has not.
    ended(rehearsal__prompts={"chat_verifier": 2})
    assert client.post(address, {"incident": INCIDENT}).status_code == 429
    ended()
    assert client.post(address, {"incident": INCIDENT}).status_code == 302


def prompt_admin() -> User:
    user: User = UserFactory.create(is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="change_prompt"))
    return user


def test_all_dry_runs_together_take_a_quarter_of_a_worker(second: PromptVersion) -> None:
    address = f"{BASE}versions/2/dry-run/"
    people = [client_of(prompt_admin()) for _ in range(5)]
    answers = [person.post(address, {"incident": INCIDENT}) for person in people]
    assert [answer.status_code for answer in answers] == [302, 302, 302, 302, 429]
    text = answers[-1].content.decode()
    assert "8 runs go on, and there is room for 8" in text
    assert not any(answer["Location"] in text for answer in answers[:-1])
    # A past run beside it is no load: one more run than there is room for all the same.
    past = RunFactory(success=True)
    assert people[4].post(address, {"run": past.id}).status_code == 429
    ended(requested_by__isnull=False, rehearsal__prompts={"chat_verifier": 2})
    assert people[4].post(address, {"run": past.id}).status_code == 302


def test_real_runs_take_no_room_of_dry_runs(client: Client, anna: User) -> None:
    for _ in range(9):
        RunFactory.create(running=True, requested_by=anna)
    assert client.post(f"{BASE}versions/2/dry-run/", {"incident": INCIDENT}).status_code == 302


def test_a_worker_that_takes_one_run_at_a_time_leaves_room_for_one_dry_run(client: Client, settings: Settings) -> None:
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"worker_concurrency": 1})
    answers = [client.post(f"{BASE}versions/2/dry-run/", {"incident": INCIDENT}).status_code for _ in range(2)]
    assert answers == [302, 429]


@pytest.mark.django_db(transaction=True)
def test_who_starts_a_dry_run_waits_until_those_before_are_counted(second: PromptVersion, anna: User) -> None:
    scene = scene_of_run(RunFactory.create(success=True))

    def third() -> str:
        try:
            return start(second, scene, anna)
        except TooManyDryRuns as full:
            return str(full)

    assert "2 of your dry-runs" in answer_after(lambda: [start(second, scene, anna) for _ in range(2)], third)


# ---- comparing --------------------------------------------------------------------------------------------------


def said(*texts: str) -> dict[str, Any]:
    result = published().model_dump(mode="json", by_alias=True)
    return result | {"statements": [{"text": text, "claimIds": ["c1"]} for text in texts]}


def test_both_runs_stand_side_by_side(client: Client) -> None:
    kept = evaluation(CLAIM | {"claim_id": "c9"}, accepted=False)
    old = given(1, success=True, groundedness=0.5, published_result=said("The pool is full.", "Nobody waits."))
    new = rehearsal(
        old.id, success=True, verdict="LOW_CONFID", groundedness=0.75, published_result=said("The pool is exhausted."),
        self_evaluation=kept, input_tokens=1234,
    )  # fmt: skip
    text = client.get(f"/prompts/dry-runs/{new.id}/").content.decode()
    for shown in ("chat-verifier-v1", "chat-verifier-v2", "0.50", "0.75", "GK005_EXCERPT_SUPPORTED", "c9",
                  f"/runs/{old.id}/", f"/runs/{new.id}/", "1\u2009234", "<del>Nobody waits.</del>"):  # fmt: skip
        assert shown in text
    assert "SECRET" not in text
    assert "every 2s" not in text
    assert "http-equiv" not in text


def test_while_a_run_goes_on_the_page_follows_it(client: Client) -> None:
    old = rehearsal(version=1)
    new = rehearsal(old.id, running=True)
    page = client.get(f"/prompts/dry-runs/{new.id}/").content.decode()
    part = client.get(
        f"/prompts/dry-runs/{new.id}/", headers={"HX-Request": "true", "HX-Target": "dry-run"}
    ).content.decode()
    assert 'http-equiv="refresh"' in page
    for text in (page, part):
        assert 'hx-trigger="every 2s"' in text
        assert "Released statements" not in text
    assert "<html" not in part


@pytest.mark.parametrize("beside", ["run_gone", None])
def test_a_run_to_compare_with_that_is_gone_is_told(client: Client, beside: str | None) -> None:
    new = rehearsal(beside, failed=True)
    text = client.get(f"/prompts/dry-runs/{new.id}/").content.decode()
    assert "is not on record" in text
    assert "It did." in text


def test_other_prompts_that_differ_are_named(anna: User, second: PromptVersion) -> None:
    old = given(1, success=True)
    new = rehearsal(old.id, success=True)
    for run, version in ((old, "executor-v1"), (new, "executor-v4")):
        RunPrompt.objects.create(run=run, prompt="executor", version=version)
    assert compare(Caller(user=anna), new).others == (("executor-v1", "executor-v4"),)


def test_only_a_rehearsal_is_compared(client: Client) -> None:
    assert client.get(f"/prompts/dry-runs/{given(1, success=True).id}/").status_code == 404
    assert client.get("/prompts/dry-runs/run_none/").status_code == 404


def test_a_rehearsal_is_marked_in_the_list_and_on_its_page(client: Client) -> None:
    new = rehearsal(given(1, success=True).id, success=True)
    listed = client.get("/").content.decode()
    assert listed.count(">rehearsal<") == 1
    page = client.get(f"/runs/{new.id}/").content.decode()
    assert "It tries chat-verifier-v2" in page
    assert f"/prompts/dry-runs/{new.id}/" in page


# ---- who may ----------------------------------------------------------------------------------------------------

LOOKING = (f"{BASE}usage/", f"{BASE}versions/1/runs/", "dry-run")
STARTING = (f"{BASE}versions/2/dry-run/",)


@pytest.mark.parametrize(
    ("permission", "allowed"),
    [(None, ()), ("view_prompt", LOOKING), ("activate_prompt", LOOKING), ("change_prompt", (*LOOKING, *STARTING))],
)
def test_each_page_asks_for_its_permission(
    second: PromptVersion, permission: str | None, allowed: tuple[str, ...]
) -> None:
    user = UserFactory.create(is_staff=True)
    if permission:
        user.user_permissions.add(Permission.objects.get(codename=permission))
    client, new = client_of(user), rehearsal()
    addresses = {name: f"/prompts/dry-runs/{new.id}/" if name == "dry-run" else name for name in (*LOOKING, *STARTING)}
    assert {name for name, address in addresses.items() if client.get(address).status_code == 200} == set(allowed)
    assert {client.get(address).status_code for name, address in addresses.items() if name not in allowed} <= {403}
    assert {Client().get(address).status_code for address in addresses.values()} == {302}


def test_the_active_version_can_be_compared_after_it_was_made_active(
    client: Client, second: PromptVersion, anna: User
) -> None:
    shown = second.prompt.newest_activation()
    do_activate(second, shown=shown.id if shown else None, by=anna, reason="good")
    first = second.prompt.versions.get(number=1)
    client.post(f"{BASE}versions/{first.number}/dry-run/", {"incident": INCIDENT})
    tried = DiagnosisRun.objects.get(rehearsal__prompts={"chat_verifier": 1})
    beside = DiagnosisRun.objects.get(id=tried.rehearsal["beside"])
    assert beside.rehearsal["prompts"] == {"chat_verifier": 2}
