"""A proposed change of rules, tried on past runs."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from audit import impact
from audit.models import RulePreview
from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.models import RuleProposal
from gatekeeper.types import RuleMode
from tests.audit.told_runs import told_run
from tests.audit.turns import answer_after
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shipped_rules() -> None:
    rulesets.sync()


def preview_of(change: RuleChange, code: str = "GK005_EXCERPT_SUPPORTED") -> RulePreview:
    superuser = UserFactory.create(is_superuser=True)
    shown = rulesets.newest_row().number
    proposal = rulesets.propose(shown, Changes(rules={code: change}), by=superuser, reason="try it")
    return impact.start(proposal, 100, superuser)


def worked(preview: RulePreview) -> RulePreview:
    impact.work(preview.pk)
    preview.refresh_from_db()
    return preview


def test_every_concluded_run_is_judged_and_the_preview_ends() -> None:
    for _ in range(3):
        told_run()
    done = worked(preview_of(RuleChange(mode=RuleMode.SHADOW)))
    assert (done.status, done.total, done.done, done.error) == ("DONE", 3, 3, "")
    assert done.finished_at is not None


def test_runs_that_would_come_out_otherwise_are_listed_with_their_claims() -> None:
    run = told_run()
    done = worked(preview_of(RuleChange(params={"min_chars": 5_000})))
    listed = done.runs.get()
    assert (done.changed, listed.run_id) == (1, run.id)
    assert listed.consequence == impact.Consequence.WITHHELD
    assert all("GK005_EXCERPT_SUPPORTED" in claim["failed_after"] for claim in listed.claims)


def test_the_same_preview_is_not_begun_twice() -> None:
    first = preview_of(RuleChange(mode=RuleMode.SHADOW))
    assert impact.start(first.proposal, 100, first.requested_by) == first
    worked(first)
    assert impact.start(first.proposal, 100, first.requested_by) != first


def test_a_preview_whose_worker_went_silent_is_lost_and_taken_by_nobody() -> None:
    preview = preview_of(RuleChange(mode=RuleMode.SHADOW))
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    RulePreview.objects.filter(pk=preview.pk).update(status="RUNNING", started_at=long_ago, beat_at=long_ago)
    preview.refresh_from_db()
    assert impact.is_lost(preview)
    assert worked(preview).status == "RUNNING"
    impact.give_up(preview, "its worker went silent")
    preview.refresh_from_db()
    assert (preview.status, preview.error) == ("FAILED", "its worker went silent")


def a_change(by: User, min_chars: int) -> RuleProposal:
    changes = Changes(rules={"GK005_EXCERPT_SUPPORTED": RuleChange(params={"min_chars": min_chars})})
    return rulesets.propose(rulesets.newest_row().number, changes, by=by, reason="try it")


def test_a_person_has_two_previews_at_once_and_everybody_together_a_few() -> None:
    people = [UserFactory.create(is_superuser=True) for _ in range(3)]
    made = [[a_change(by, 20 + n) for n in range(3)] for by in people]
    first, _second = (impact.start(proposal, 100, people[0]) for proposal in made[0][:2])
    with pytest.raises(impact.TooManyPreviews, match="You try 2 changes"):
        impact.start(made[0][2], 100, people[0])
    assert impact.start(made[0][0], 100, people[0]) == first
    for proposal in made[1][:2]:
        impact.start(proposal, 100, people[1])
    with pytest.raises(impact.TooManyPreviews, match="4 changes are tried"):
        impact.start(made[2][0], 100, people[2])
    worked(first)
    assert impact.start(made[2][0], 100, people[2]).status == "QUEUED"


def test_a_lost_preview_takes_no_room_and_is_not_taken_up_after_all() -> None:
    by = UserFactory.create(is_superuser=True)
    lost = [impact.start(a_change(by, 20 + n), 100, by) for n in range(2)]
    RulePreview.objects.update(beat_at=datetime.now(UTC) - timedelta(minutes=5))
    assert impact.start(a_change(by, 30), 100, by).status == "QUEUED"
    assert [worked(preview).status for preview in lost] == ["FAILED", "FAILED"]


@pytest.mark.django_db(transaction=True)
def test_who_starts_a_preview_waits_until_those_before_are_counted() -> None:
    by = UserFactory.create(is_superuser=True)
    *before, last = (a_change(by, 20 + n) for n in range(3))

    def third() -> str:
        try:
            return impact.start(last, 100, by).status
        except impact.TooManyPreviews as full:
            return str(full)

    assert "You try 2 changes" in answer_after(lambda: [impact.start(one, 100, by) for one in before], third)
