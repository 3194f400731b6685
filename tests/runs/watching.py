"""An observer that keeps what it is told, so that tests see the frames of a run as any observer would."""

from dataclasses import dataclass

from django.db import transaction

from runs.harness.events import Emission, Frame
from runs.harness.run import Settled
from runs.observers import RunRef


@dataclass(frozen=True)
class Written:
    run_id: str
    frame: Frame


class Told:
    """What it was told. `written` is in the order of the run's row lock; `committed` holds what stayed of it."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.committed: set[int] = set()
        self.observed: list[Emission] = []
        self.settled = Settled(complete=True)

    def observe(self, run: RunRef, emission: Emission) -> None:
        self.observed.append(emission)

    async def settle(self, run: RunRef) -> Settled:
        return self.settled

    def write(self, run: RunRef, emission: Emission) -> None:
        assert emission.frame is not None
        entry = Written(run.run_id, emission.frame)
        self.written.append(entry)
        transaction.on_commit(lambda: self.committed.add(id(entry)))

    def frames(self, run_id: str) -> list[Frame]:
        return [entry.frame for entry in self.written if entry.run_id == run_id and id(entry) in self.committed]

    def events(self, run_id: str) -> list[str]:
        return [str(frame.event_type) for frame in self.frames(run_id)]


told: list[Told] = []


def current_observer() -> Told:
    return told[-1]
