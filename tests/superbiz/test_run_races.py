"""Transitions race each other with the real ledger plugged in, a thousand times."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from audit.record import load_records
from audit.verification import verify
from runs import lifecycle, tally
from runs.errors import CancelReason
from runs.harness.run import Emitted, Spending
from runs.lifecycle import Claimed
from runs.models import DiagnosisRun
from tests.factories import RunFactory, conclusion, now, withheld

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 1_000
# How far out of step they may be: about what a transition takes, so that each is sometimes first.
STEP_S = 0.006
SPENT = Spending(model_calls=2, tool_calls=1, input_tokens=100, output_tokens=20)


def claimed() -> Claimed:
    held = lifecycle.claim(RunFactory(attempts=1).id, "worker")
    assert held is not None
    return held


Move = Callable[[Claimed], object]
# What the attempt does at its end, what its budget does to it, what a person does, what the reaper does.
MOVES: dict[str, Move] = {
    "finish": lambda held: lifecycle.finish(held.ref, conclusion(), held.tally.and_spent(SPENT)),
    "budget": lambda held: lifecycle.finish(held.ref, withheld(), held.tally.and_spent(SPENT)),
    "count": lambda held: lifecycle.keep_tally(held.ref, held.tally.and_spent(SPENT)),
    "cancel": lambda held: lifecycle.request_cancel(held.run.run_id, CancelReason.USER_REQUESTED),
    "reap": lambda _held: lifecycle.recover_lost(),
}
OF_THE_WORKER = {"finish", "budget"}
# In every third round the worker is really dead: cancel and reaper have the run to themselves.
DEAD_EVERY = 3


class Race:
    """One thread a move; in each round all are let go at once, a little out of step, on one run."""

    def __init__(self, runs: list[Claimed]) -> None:
        self.runs = runs
        self.gate = threading.Barrier(len(MOVES), action=self._make_silent)
        self.round = -1

    def _make_silent(self) -> None:
        """In the last thread that arrives, before any goes on: its worker has not been heard for long."""
        self.round += 1
        silent = DiagnosisRun.objects.filter(id=self.runs[self.round].run.run_id)
        silent.update(heartbeat_at=now() - timedelta(minutes=1))

    def play(self, name: str) -> None:
        dice = random.Random(name)
        try:
            for number, held in enumerate(self.runs):
                self.gate.wait()
                threading.Event().wait(dice.random() * STEP_S)
                if number % DEAD_EVERY or name not in OF_THE_WORKER:
                    MOVES[name](held)
        except BaseException:
            self.gate.abort()
            raise
        finally:
            connection.close()


def test_the_ledger_tells_one_end_and_it_is_the_row_s(tell_at_the_end: Callable[[str], None]) -> None:
    runs = [claimed() for _ in range(ROUNDS)]
    # The reaper is to find none of them before its round.
    DiagnosisRun.objects.update(heartbeat_at=now() + timedelta(days=1))
    race = Race(runs)
    with ThreadPoolExecutor(len(MOVES)) as pool:
        list(pool.map(race.play, MOVES))
    lifecycle.recover_lost()  # what the reaper passed over in its round, because another had locked it

    ends: Counter[str] = Counter()
    run_ids = [held.run.run_id for held in runs]
    rows = DiagnosisRun.objects.in_bulk(run_ids)
    for record in load_records(run_ids):
        row, frames = rows[record.run_id], record.frames
        assert [frame["sequence_no"] for frame in frames] == list(range(1, len(frames) + 1))
        finished = [frame for frame in frames if frame["event_type"] == "RUN_FINISHED"]
        assert [frame["details"]["outcome"] for frame in finished] == [row.outcome]
        assert frames[-1] == finished[0]
        assert (row.trace_event_count, row.trace_head_hash) == (len(frames), frames[-1]["hash"])
        assert record.head is not None
        assert record.head["closed"]
        assert tally.total(row.emitted) == Emitted(events=len(frames)), row.emitted
        assert row.model_calls in {0, 2}
        assert verify(record) == []
        ends[f"{row.outcome} {row.release_decision or row.failure_code or row.cancel_reason}"] += 1
    tell_at_the_end(f"{ROUNDS} races: " + ", ".join(f"{count} × {end}" for end, count in ends.most_common()))
    assert sum(ends.values()) == ROUNDS
    assert len(ends) == 4, "some move never won: this race proves nothing"
