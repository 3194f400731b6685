"""A proposed change of rules, tried on past runs."""

from datetime import UTC, datetime, timedelta

import pytest

from audit import impact
from audit.models import RulePreview
from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.types import RuleMode
from tests.audit.told_runs import told_run
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
