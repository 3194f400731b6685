"""Transitions race each other with the real ledger plugged in."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from audit.models import TraceEvent, TraceHead
from runs import lifecycle, tally
from runs.errors import CancelReason
from runs.models import DiagnosisRun
from tests.factories import RunFactory, conclusion, now, withheld

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 40


def race(*moves: Callable[[], object]) -> None:
    barrier = threading.Barrier(len(moves))

    def play(move: Callable[[], object]) -> None:
        barrier.wait()
        try:
            move()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(moves)) as pool:
        list(pool.map(play, moves))


def test_the_ledger_tells_one_end_and_it_is_the_row_s() -> None:
    for _ in range(ROUNDS):
        run_id = RunFactory(attempts=1).id
        held = lifecycle.claim(run_id, "worker")
        assert held is not None
        ref = held.ref
        DiagnosisRun.objects.filter(id=run_id).update(heartbeat_at=now() - timedelta(minutes=1))
        race(
            lambda ref=ref: lifecycle.finish(ref, conclusion()),  # type: ignore[misc]
            lambda ref=ref: lifecycle.finish(ref, withheld()),  # type: ignore[misc]
            lambda run_id=run_id: lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED),  # type: ignore[misc]
            lifecycle.recover_lost,
        )
        row = DiagnosisRun.objects.get(id=run_id)
        frames = list(TraceEvent.objects.filter(run_id=run_id).order_by("sequence_no"))
        assert [frame.sequence_no for frame in frames] == list(range(1, len(frames) + 1))
        ends = [frame for frame in frames if frame.event_type == "RUN_FINISHED"]
        assert [frame.details["outcome"] for frame in ends] == [row.outcome]
        assert frames[-1] == ends[0]
        assert (row.trace_event_count, row.trace_head_hash) == (len(frames), frames[-1].hash)
        assert TraceHead.objects.get(run_id=run_id).closed
        assert tally.total(row.emitted).events == len(frames)
