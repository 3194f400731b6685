"""How far a run has got, as a conversation shows it."""

import pytest
from pytest_django import DjangoAssertNumQueries

from audit.pages.progress import Progress, progress_of
from runs.harness.events import Emission, EventType, Frame, RunCancelRequested
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, running
from tests.audit.told_runs import guard

pytestmark = pytest.mark.django_db
PLACES = ("understand", "search", "check the citations", "check the meaning", "answer")


@pytest.fixture
def run() -> DiagnosisRun:
    return running(emitted={"1": {}})


def states(progress: Progress) -> dict[str, str]:
    assert tuple(str(step.words) for step in progress.steps) == PLACES
    return {str(step.words): step.state for step in progress.steps if step.state != "ahead"}


def cancel_requested() -> Emission:
    details = RunCancelRequested(reason="USER_REQUESTED", requested_by=None)
    return Emission(Frame(EventType.RUN_CANCEL_REQUESTED, details, "Asked for.", emissions.at(5)))


def test_a_run_without_a_record_has_begun_nothing(run: DiagnosisRun) -> None:
    assert progress_of(run.id).sequence_no == 0
    assert states(progress_of(run.id)) == {}


def test_phases_pass_one_after_the_other(run: DiagnosisRun) -> None:
    append_now(run, [emissions.started()])
    assert states(progress_of(run.id)) == {"understand": "now"}
    append_now(run, [emissions.routing(), emissions.opened()])
    assert states(progress_of(run.id)) == {"understand": "done", "search": "now"}
    append_now(run, [emissions.closed(), guard(EventType.EVIDENCE_GUARD_INITIAL, "REJECT")])
    assert list(states(progress_of(run.id)).values()) == ["done", "done", "now"]
    found = progress_of(run.id)
    assert (found.sequence_no, str(found.newest), found.summary) == (5, "Evidence gate", "REJECT: gate.")


def test_a_repair_goes_back_to_the_search(run: DiagnosisRun) -> None:
    guarded = guard(EventType.EVIDENCE_GUARD_INITIAL, "REJECT")
    append_now(run, [emissions.started(), guarded, emissions.opened()])
    assert states(progress_of(run.id)) == {"understand": "done", "search": "now"}


def test_what_happens_to_the_run_itself_is_no_phase(run: DiagnosisRun) -> None:
    append_now(run, [emissions.started(), emissions.opened(), cancel_requested()])
    found = progress_of(run.id)
    assert states(found) == {"understand": "done", "search": "now"}
    assert str(found.newest) == "Cancel requested"


def test_it_is_one_query(run: DiagnosisRun, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    append_now(run, [emissions.started()])
    with django_assert_num_queries(1):
        progress_of(run.id)
