"""Rules and runs together: how often a rule failed, and the preview of a change from its first page to its last."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from audit import impact, ruleuse
from audit.models import RulePreview, RunRule
from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.models import RuleProposal
from gatekeeper.rules import GK005, GK007
from gatekeeper.types import RuleMode
from runs.access import Caller
from runs.models import DiagnosisRun
from tests.audit.told_runs import told_run
from tests.factories import RunFactory, SessionFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shipped_rules() -> None:
    rulesets.sync()


@pytest.fixture
def anna() -> User:
    return UserFactory.create(username="anna", is_staff=True, is_superuser=True)


@pytest.fixture
def client(anna: User) -> Client:
    client = Client()
    client.force_login(anna)
    return client


def failed(code: str, mode: str, days_ago: int = 0, **changes: Any) -> DiagnosisRun:
    """A run in which the rule failed."""
    at = datetime.now(UTC).replace(hour=0, minute=0, second=1) - timedelta(days=days_ago)
    run: DiagnosisRun = RunFactory.create(success=True, **changes)
    RunRule.objects.create(run=run, rule=code, mode=mode, rule_set_version=1, claims=1, at=at)
    return run


def as_part(target: str) -> dict[str, str]:
    return {"HX-Request": "true", "HX-Target": target}


# ---- how often rules failed -------------------------------------------------------------------------------------


def test_a_rules_failures_are_counted_by_day_and_mode_without_rehearsals() -> None:
    failed(GK007, "SHADOW")
    failed(GK007, "SHADOW", days_ago=3)
    failed(GK007, "ENFORCED", days_ago=3)
    failed(GK007, "SHADOW", days_ago=ruleuse.DAYS)
    failed(GK005, "SHADOW")
    failed(GK007, "SHADOW", trigger="EVAL", rehearsal={"version": 1})
    days = ruleuse.use_by_day(GK007, datetime.now(UTC))
    assert len(days) == ruleuse.DAYS
    assert [(day.enforced, day.shadow) for day in days if day.both] == [(1, 1), (0, 1)]
    assert (days[-1].shadow, days[-4].enforced) == (1, 1)
    counted = {use.code: (use.enforced, use.shadow) for use in ruleuse.use_of_all(datetime.now(UTC))}
    assert (counted[GK007], counted[GK005]) == ((1, 2), (0, 1))


def test_the_figures_are_on_the_rules_pages_and_link_to_the_runs(client: Client) -> None:
    run, other = failed(GK007, "SHADOW"), failed(GK007, "ENFORCED", days_ago=2)
    for where, part, link in (
        ("/rules/usage/", "rules-usage", f"/rules/{GK007}/runs/?mode=SHADOW"),
        (
            f"/rules/{GK007}/usage/",
            "rule-usage",
            f"/rules/{GK007}/runs/?mode=SHADOW&amp;day={datetime.now(UTC):%Y-%m-%d}",
        ),
    ):
        for headers in ({}, as_part(part)):
            text = client.get(where, headers=headers).content.decode()
            assert link in text
            assert ("<html" in text) is not bool(headers)
    shadow = client.get(f"/rules/{GK007}/runs/?mode=SHADOW").content.decode()
    assert run.id in shadow
    assert other.id not in shadow
    assert other.id in client.get(f"/rules/{GK007}/runs/").content.decode()
    assert client.get(f"/rules/{GK007}/runs/?day=x").status_code == 404
    for day in ("9999-12-31", "0001-01-01"):
        assert client.get(f"/rules/{GK007}/runs/?day={day}").status_code == 200
    assert client.get("/rules/GK404_NONE/usage/").status_code == 404


def test_the_runs_of_a_rule_are_those_that_the_reader_may_see() -> None:
    theirs = failed(GK007, "SHADOW", session=SessionFactory(owner=UserFactory()))
    everyones = failed(GK007, "SHADOW")
    reader = UserFactory.create()
    reader.user_permissions.add(Permission.objects.get(codename="view_rule"))
    client = Client()
    client.force_login(reader)
    text = client.get(f"/rules/{GK007}/runs/").content.decode()
    assert everyones.id in text
    assert theirs.id not in text


def test_a_rule_set_names_the_runs_judged_by_it(client: Client) -> None:
    run, other = RunFactory(success=True, rule_set_version=1), RunFactory(success=True, rule_set_version=2)
    text = client.get("/rule-sets/1/runs/").content.decode()
    assert run.id in text
    assert other.id not in text
    assert client.get("/rule-sets/77/runs/").status_code == 404


@pytest.mark.parametrize(
    ("path", "permission"),
    [
        ("/rules/usage/", "view_rule"),
        (f"/rules/{GK007}/usage/", "view_rule"),
        (f"/rules/{GK007}/runs/", "view_rule"),
        ("/rule-sets/1/runs/", "view_rule"),
        ("/rule-proposals/{proposal}/previews/", "change_rule"),
        ("/rule-previews/{preview}/", "change_rule"),
    ],
)
def test_each_page_asks_for_its_permission(anna: User, path: str, permission: str) -> None:
    preview = impact.start(stricter(anna), 100, anna)
    address = path.format(proposal=preview.proposal_id, preview=preview.pk)
    for held, status in ((None, 403), (permission, 200)):
        person = UserFactory.create(is_staff=True, permissions=[held] if held else [])
        client = Client()
        client.force_login(person)
        assert client.get(address).status_code == status
    assert Client().get(address)["Location"].startswith("/sign-in/")


# ---- previews ---------------------------------------------------------------------------------------------------


def stricter(by: User) -> RuleProposal:
    changes = Changes(rules={GK005: RuleChange(params={"min_chars": 5_000})})
    return rulesets.propose(rulesets.newest_row().number, changes, by=by, reason="Short ones mislead")


def test_a_preview_begins_on_the_proposals_page_and_is_worked_off_by_a_task(client: Client, anna: User) -> None:
    proposal = stricter(anna)
    assert (
        f'hx-get="/rule-proposals/{proposal.pk}/previews/"'
        in client.get(f"/admin/gatekeeper/ruleproposal/{proposal.pk}/change/").content.decode()
    )
    part = client.get(f"/rule-proposals/{proposal.pk}/previews/", headers=as_part("rule-previews")).content.decode()
    assert "<html" not in part
    assert "Try it on the last 100 runs" in part
    answer = client.post(f"/rule-proposals/{proposal.pk}/previews/", {"size": "1000"})
    preview = RulePreview.objects.get()
    assert answer["Location"] == f"/rule-previews/{preview.pk}/"
    assert (preview.size, preview.status, preview.requested_by) == (1000, "QUEUED", anna)
    assert client.post(f"/rule-proposals/{proposal.pk}/previews/", {"size": "7"}).status_code == 422


def test_who_only_sees_the_rules_reads_previews_and_starts_none(anna: User) -> None:
    auditor = UserFactory.create(is_staff=True)
    auditor.user_permissions.add(Permission.objects.get(codename="view_rule"))
    client = Client()
    client.force_login(auditor)
    proposal = stricter(anna)
    of_proposal = f"/rule-proposals/{proposal.pk}/previews/"
    assert "Nobody has tried it on past runs." in client.get(of_proposal).content.decode()
    preview = impact.start(proposal, 100, anna)
    text = client.get(of_proposal).content.decode()
    assert f'href="/rule-previews/{preview.pk}/"' in text
    assert "Try it on the last" not in text
    assert client.get(f"/rule-previews/{preview.pk}/").status_code == 200
    assert client.post(of_proposal, {"size": "100"}).status_code == 403
    assert RulePreview.objects.count() == 1


def test_a_third_preview_is_refused_on_the_page_which_links_those_that_go_on(client: Client, anna: User) -> None:
    going = [impact.start(stricter(anna), size, anna) for size in impact.SIZES]
    answer = client.post(f"/rule-proposals/{stricter(anna).pk}/previews/", {"size": "100"})
    text = answer.content.decode()
    assert answer.status_code == 429
    assert "You try 2 changes on past runs already." in text
    assert all(f'href="/rule-previews/{preview.pk}/"' in text for preview in going)
    assert RulePreview.objects.count() == 2


def test_a_preview_shows_its_progress_and_asks_again_until_it_is_over(client: Client, anna: User) -> None:
    told_run()
    preview = impact.start(stricter(anna), 100, anna)
    RulePreview.objects.filter(pk=preview.pk).update(status="RUNNING", total=100, done=40)
    page = client.get(f"/rule-previews/{preview.pk}/").content.decode()
    assert '<progress id="preview-progress" max="100" value="40">' in page
    assert 'hx-trigger="every 1s"' in page
    assert "http-equiv" in page
    RulePreview.objects.filter(pk=preview.pk).update(status="QUEUED", total=0, done=0)
    impact.work(preview.pk)
    part = client.get(f"/rule-previews/{preview.pk}/", headers=as_part("rule-preview")).content.decode()
    assert "<html" not in part
    assert "every 1s" not in part
    assert "1 of 1 runs would come out otherwise." in part


def test_a_finished_preview_lists_each_run_with_its_claims_and_what_follows(client: Client, anna: User) -> None:
    run, gone = told_run(), told_run()
    DiagnosisRun.objects.filter(id=gone.id).update(self_evaluation=None)
    preview = impact.start(stricter(anna), 100, anna)
    impact.work(preview.pk)
    text = client.get(f"/rule-previews/{preview.pk}/").content.decode()
    assert f"/runs/{run.id}/" in text
    assert "nothing would be released" in text
    assert "GK005" in text
    assert f"{gone.id} keeps no draft." in text
    assert "SECRET" not in text
    only = client.get(f"/rule-previews/{preview.pk}/?consequence=NOT_JUDGED").content.decode()
    assert f"/runs/{gone.id}/" in only
    assert f"/runs/{run.id}/" not in only
    assert client.get(f"/rule-previews/{preview.pk}/?consequence=x").status_code == 404


def test_a_lost_preview_says_so_and_asks_no_more(client: Client, anna: User) -> None:
    preview = impact.start(stricter(anna), 100, anna)
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    RulePreview.objects.filter(pk=preview.pk).update(status="RUNNING", started_at=long_ago, beat_at=long_ago)
    text = client.get(f"/rule-previews/{preview.pk}/").content.decode()
    assert "Nothing was heard of its worker" in text
    assert "every 1s" not in text
    assert "http-equiv" not in text


def test_what_is_found_leaves_out_runs_of_others(anna: User) -> None:
    told_run(session=SessionFactory(owner=UserFactory()))
    preview = impact.start(stricter(anna), 100, anna)
    impact.work(preview.pk)
    stranger = Caller(user=UserFactory.create())
    assert (impact.found(preview, Caller(user=anna)).count(), impact.found(preview, stranger).count()) == (1, 0)
    assert impact.counts(preview, stranger) == ()


def test_a_thousand_runs_are_read_in_few_queries(
    anna: User, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    for _ in range(6):
        told_run()
    preview = impact.start(stricter(anna), 100, anna)
    with django_assert_max_num_queries(14):
        impact.work(preview.pk)


# ---- the floor of safety ----------------------------------------------------------------------------------------


@pytest.fixture
def lowered(anna: User) -> int:
    """Number of a set below the floor."""
    changes = Changes(rules={GK005: RuleChange(mode=RuleMode.SHADOW)})
    shown = rulesets.newest_row().number
    proposal = rulesets.propose(shown, changes, by=anna, reason="Trying.")
    return rulesets.save_proposal(proposal, shown, by=anna, reason="Trying.").number


def test_a_run_under_a_lowered_floor_says_so_on_its_page_and_in_the_list(client: Client, lowered: int) -> None:
    under, other = RunFactory(success=True, rule_set_version=lowered), RunFactory(success=True, rule_set_version=1)
    text = client.get(f"/runs/{under.id}/").content.decode()
    assert "The floor of safety was lowered." in text
    assert GK005 in text
    assert "The floor of safety was lowered." not in client.get(f"/runs/{other.id}/").content.decode()
    rows = client.get("/").content.decode()
    assert rows.count("floor of safety lowered") == 1
    assert "floor of safety lowered" in rows.split(f'id="row-{under.id}"')[1].split("</tr>")[0]


def test_a_runs_page_links_its_rule_set_for_those_who_may_see_it(client: Client, lowered: int) -> None:
    run = RunFactory(success=True, rule_set_version=lowered)
    link = f'href="/admin/gatekeeper/ruleset/number/{lowered}/"'
    assert link in client.get(f"/runs/{run.id}/").content.decode()
    assert client.get(f"/admin/gatekeeper/ruleset/number/{lowered}/").status_code == 200
    reader = Client()
    reader.force_login(UserFactory.create())
    text = reader.get(f"/runs/{run.id}/").content.decode()
    assert link not in text
    assert "The floor of safety was lowered." in text
