import threading

import pytest

from runs.tools.breaker import Breakers, CircuitBreaker, CircuitState


class Hand:
    """A clock turned by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def breaker(clock: Hand) -> CircuitBreaker:
    return CircuitBreaker(failures=3, cool_down_s=30, monotonic=clock)


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.failed()


def test_it_opens_after_failures_in_a_row_only(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.state is CircuitState.CLOSED
    assert breaker.allow()
    breaker.failed()
    assert breaker.state is CircuitState.OPEN
    assert not breaker.allow()


def test_after_the_cool_down_one_probe_passes_and_its_success_closes(breaker: CircuitBreaker, clock: Hand) -> None:
    fail(breaker, 3)
    assert breaker.retry_in_s == 30
    clock.seconds += 29
    assert not breaker.allow()
    clock.seconds += 1
    assert breaker.state is CircuitState.HALF_OPEN
    assert breaker.allow()
    assert not breaker.allow()
    breaker.succeeded()
    assert breaker.state is CircuitState.CLOSED
    assert breaker.retry_in_s == 0
    assert breaker.allow()


def test_a_failed_probe_opens_it_again_for_a_whole_cool_down(breaker: CircuitBreaker, clock: Hand) -> None:
    fail(breaker, 3)
    clock.seconds += 30
    assert breaker.allow()
    clock.seconds += 5
    breaker.failed()
    assert breaker.state is CircuitState.OPEN
    assert breaker.retry_in_s == 30


def test_a_probe_that_never_reports_does_not_block_for_ever(breaker: CircuitBreaker, clock: Hand) -> None:
    fail(breaker, 3)
    clock.seconds += 30
    assert breaker.allow()
    clock.seconds += 30
    assert breaker.allow()


def test_one_probe_among_many_threads(breaker: CircuitBreaker, clock: Hand) -> None:
    fail(breaker, 3)
    clock.seconds += 30
    passed: list[bool] = []
    threads = [threading.Thread(target=lambda: passed.append(breaker.allow())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert passed.count(True) == 1


def test_each_tool_has_its_own(clock: Hand) -> None:
    breakers = Breakers(failures=1, cool_down_s=30, monotonic=clock)
    breakers.of("query_logs").failed()
    assert breakers.of("query_metrics").allow()
    assert breakers.states() == {"query_logs": CircuitState.OPEN, "query_metrics": CircuitState.CLOSED}


@pytest.mark.parametrize(("failures", "cool_down_s"), [(0, 30), (1, 0)])
def test_a_breaker_that_could_not_work_is_not_made(clock: Hand, failures: int, cool_down_s: float) -> None:
    with pytest.raises(ValueError, match="breaker"):
        CircuitBreaker(failures=failures, cool_down_s=cool_down_s, monotonic=clock)
