"""The explorer's data are of the shape of the real thing. A few hundred runs of it, none of them timed."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from audit.models import TraceEvent, TraceHead
from audit.record import load_record
from audit.verification import verify
from bench import seeding
from runs.harness.run import PublishedResult, Subject
from runs.models import DiagnosisRun
from superbiz.embedded import locked
from superbiz.places import Places

COUNT = 400
NOW = datetime(2031, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def events(db: None, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(seeding, "LONG_SEARCHES", 40)
    return seeding.fill(COUNT, NOW)


def test_every_record_verifies_and_every_status_and_verdict_is_there(events: int) -> None:
    runs = list(DiagnosisRun.objects.all())
    assert len(runs) == COUNT
    assert [problem for run in runs for problem in verify(load_record(run.id))] == []
    assert {run.status for run in runs} == {"QUEUED", "RUNNING", "SUCCESS", "DEGRADED", "FAILED", "CANCELLED"}
    assert {run.verdict for run in runs} == {"PASS", "LOW_CONFID", "REJECT", None}
    assert {run.trigger for run in runs} == {"ALERT", "CHAT", "MANUAL", "EVAL"}
    for run in runs:
        TypeAdapter(Subject).validate_python(run.subject)
        if run.published_result:
            PublishedResult.model_validate(run.published_result)


def test_events_are_as_many_as_promised(events: int) -> None:
    counts = Counter(TraceEvent.objects.values_list("run_id", flat=True))
    assert events == sum(counts.values()) == sum(TraceHead.objects.values_list("events", flat=True))
    assert events == pytest.approx(seeding.EVENTS * COUNT / seeding.RUNS, rel=0.02)
    assert [counts[run_id] for run_id in seeding.SHORT_RUNS] == [15] * len(seeding.SHORT_RUNS)
    # Two frames before the searches, one for the budget that they exceed, four after them.
    assert counts[seeding.LONG_RUN] == 7 + 3 * 40
    assert 7 + 3 * 3_331 == 10_000


def test_the_same_data_are_drawn_again(events: int) -> None:
    again = {told.run["id"]: told.head_hash for told in seeding.Draw(NOW, COUNT).runs() if told.frames}
    assert again == dict(TraceHead.objects.values_list("run_id", "hash"))


def test_an_unfinished_or_older_folder_is_removed_and_a_finished_one_kept(tmp_path: Path) -> None:
    older, own = tmp_path / "explorer-0", tmp_path / "explorer-1"
    for folder in (older, own):
        folder.mkdir()
        (folder / "data").touch()
    seeding.prepare_folder(own)
    assert not older.exists()
    assert not own.exists()
    (own / "run").mkdir(parents=True)
    with locked(Places(own).owner_lock) as working:
        assert working
        seeding.prepare_folder(own)
        assert own.exists()
    (own / "seeded").touch()
    seeding.prepare_folder(own)
    assert own.exists()
