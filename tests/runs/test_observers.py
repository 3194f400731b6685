from typing import Any

import pytest
from pytest_django.fixtures import Settings

from runs.errors import LeaseLost
from runs.harness.events import Emission
from runs.harness.run import Settled
from runs.observers import RunRef, observe_all, observer_errors, observers, settle_all
from tests.runs.watching import Told

REF = RunRef(run_id="run_1", session_id="s", lease_token="t")
EMISSION = Emission(frame=None)


class Broken:
    """Fails at everything, with what the class says."""

    error: Exception = RuntimeError("broken")

    def observe(self, run: RunRef, emission: Emission) -> None:
        raise self.error

    async def settle(self, run: RunRef) -> Settled:
        raise self.error

    def write(self, run: RunRef, emission: Emission) -> None:
        raise self.error


class Robbed(Broken):
    error = LeaseLost()


class Owing(Told):
    def __init__(self) -> None:
        super().__init__()
        self.settled = Settled(complete=False, unrecorded_invocations=frozenset({"inv_aaaaaa"}))


@pytest.fixture
def use(settings: Settings) -> Any:
    def chosen(*names: str) -> None:
        settings.RUN_OBSERVERS = [f"tests.runs.{name}" for name in names]
        observers.cache_clear()

    yield chosen
    observers.cache_clear()


def errors() -> float:
    return sum(
        sample.value
        for metric in observer_errors.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


async def test_a_broken_observer_is_counted_and_the_others_go_on(use: Any) -> None:
    use("test_observers.Broken", "watching.Told")
    before = errors()
    observe_all(REF, EMISSION)
    assert await settle_all(REF) == Settled(complete=False)
    assert errors() == before + 2
    told = observers()[1]
    assert isinstance(told, Told)
    assert told.observed == [EMISSION]


async def test_what_any_observer_owes_is_owed(use: Any) -> None:
    use("watching.Told", "test_observers.Owing")
    assert await settle_all(REF) == Settled(False, frozenset({"inv_aaaaaa"}))


async def test_without_observers_nothing_is_owed(use: Any) -> None:
    use()
    assert await settle_all(REF) == Settled(complete=True)


async def test_a_lost_lease_is_told(use: Any) -> None:
    use("test_observers.Robbed")
    with pytest.raises(LeaseLost):
        await settle_all(REF)
