"""Runs with a record, made through the recorder and the lifecycle as in production."""

from collections.abc import Iterable

from django.db import transaction

from audit.recorder import LedgerRecorder
from runs import lifecycle
from runs.harness.events import Emission
from runs.harness.run import Emitted, Spending
from runs.models import DiagnosisRun
from runs.observers import RunRef
from runs.tally import Tally
from tests.audit import emissions
from tests.factories import RunFactory, conclusion


def ref(run: DiagnosisRun) -> RunRef:
    return RunRef(run.id, run.session_id, run.lease_token)


def running(**changes: object) -> DiagnosisRun:
    return RunFactory.create(running=True, **changes)


def append_now(run: DiagnosisRun, told: Iterable[Emission]) -> None:
    """Each emission in a transaction of its own."""
    recorder = LedgerRecorder()
    for emission in told:
        with transaction.atomic():
            recorder.write(ref(run), emission)


def finished_run(step_id: str = "stp_1") -> DiagnosisRun:
    """RUN_STARTED, the small run, RUN_FINISHED: 8 frames."""
    run = running(emitted={"1": {}})
    append_now(run, [emissions.started(), *emissions.small_run(step_id)])
    spent = Spending(model_calls=2, tool_calls=1, input_tokens=100, output_tokens=20)
    counted = Tally(1, spent, Emitted(events=7, steps=1, tool_invocations=1, model_calls=2))
    assert lifecycle.finish(ref(run), conclusion(), counted)
    run.refresh_from_db()
    return run
