"""An observer that keeps what it is told, so that tests see the frames of a run as any observer would."""

from django.db import transaction

from runs.harness.events import Emission, EventType
from runs.harness.run import Settled
from runs.observers import RunRef


class Told:
    """`committed`: (run id, frame's event type) of what lifecycle wrote, once its transaction is committed."""

    def __init__(self) -> None:
        self.committed: list[tuple[str, EventType]] = []
        self.observed: list[Emission] = []
        self.settled = Settled(complete=True)

    def observe(self, run: RunRef, emission: Emission) -> None:
        self.observed.append(emission)

    async def settle(self, run: RunRef) -> Settled:
        return self.settled

    def write(self, run: RunRef, emission: Emission) -> None:
        assert emission.frame is not None
        entry = (run.run_id, emission.frame.event_type)
        transaction.on_commit(lambda: self.committed.append(entry))

    def events(self, run_id: str) -> list[str]:
        return [str(event) for told_id, event in self.committed if told_id == run_id]


told: list[Told] = []


def current_observer() -> Told:
    return told[-1]
