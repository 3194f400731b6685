"""Which attempt of a run a process holds."""

from runs.driver import Abandon, Held, Holdings
from runs.observers import RunRef


async def test_a_run_taken_again_by_the_same_process_is_held_for_its_new_attempt() -> None:
    holdings = Holdings()
    first, second = (Held(RunRef("run_1", "alert-1", lease)) for lease in ("lease-1", "lease-2"))
    earlier = holdings.holding(first)
    earlier.__enter__()
    with holdings.holding(second):
        assert first.why is Abandon.LEASE_LOST
        earlier.__exit__(None, None, None)
        assert holdings.leases() == {"run_1": "lease-2"}
    assert holdings.leases() == {}
