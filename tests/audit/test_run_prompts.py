"""The index of runs by prompt version: written with the record, once, and gone with its run."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone

from audit.models import RunPrompt
from audit.pruning import prune_batch
from runs.harness.events import Emission, PromptPinned
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, running

pytestmark = pytest.mark.django_db(transaction=True)

GIVEN = (PromptPinned("executor", "executor-v3"), PromptPinned("chat_verifier", "chat-verifier-v1"))


def started() -> Emission:
    return replace(emissions.started(), records=GIVEN)


def given(run: DiagnosisRun) -> set[tuple[str, str]]:
    return set(RunPrompt.objects.filter(run=run).values_list("prompt", "version"))


def test_the_first_frame_of_a_run_brings_its_prompts() -> None:
    run, other = running(), running()
    append_now(run, [started()])
    append_now(other, [emissions.started()])
    assert given(run) == {("executor", "executor-v3"), ("chat_verifier", "chat-verifier-v1")}
    assert given(other) == set()


def test_a_second_attempt_tells_them_again_without_harm() -> None:
    run = running()
    append_now(run, [started(), emissions.routing(), started()])
    assert len(given(run)) == RunPrompt.objects.count() == 2
    assert run.trace_events.count() == 3


def test_the_index_is_append_only_and_goes_with_its_run() -> None:
    run = running()
    append_now(run, [started()])
    with pytest.raises(DatabaseError), transaction.atomic():
        RunPrompt.objects.update(version="another")
    with pytest.raises(DatabaseError), transaction.atomic():
        RunPrompt.objects.all().delete()
    DiagnosisRun.objects.filter(id=run.id).update(
        status="FAILED",
        outcome="FAILED",
        failure_code="INTERNAL",
        lease_token=None,
        safe_content={"headline": "h", "reason": "r", "lookedAt": []},
        finished_at=timezone.now() - timedelta(days=2),
    )
    assert prune_batch(timezone.now(), by="test", reason="test") == [run.id]
    assert not RunPrompt.objects.exists()
