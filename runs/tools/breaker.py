"""A circuit breaker a tool: after some failures in a row its source is left alone for a while.

CLOSED: calls pass. OPEN: refused until the cool-down is over. HALF_OPEN: one call passes as a probe; its
success closes the circuit, its failure opens it again. A probe that never reports back (its run was
cancelled) is given up after another cool-down. Safe from any thread and any task.
"""

import threading
from collections.abc import Callable
from enum import StrEnum


class CircuitState(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class CircuitBreaker:
    """`failures`: how many in a row open it. `cool_down_s` and `monotonic` in seconds."""

    def __init__(self, *, failures: int, cool_down_s: float, monotonic: Callable[[], float]) -> None:
        if failures < 1 or cool_down_s <= 0:
            raise ValueError("a breaker needs at least one failure and a cool-down above zero")
        self._limit = failures
        self._cool_down_s = cool_down_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probed_at: float | None = None

    @property
    def state(self) -> CircuitState:
        with self._lock:
            return self._state()

    @property
    def retry_in_s(self) -> float:
        """Seconds until a call may pass; 0 when one may now."""
        with self._lock:
            if self._opened_at is None:
                return 0.0
            since = self._opened_at if self._probed_at is None else self._probed_at
            return max(0.0, since + self._cool_down_s - self._monotonic())

    def allow(self) -> bool:
        """Whether a call may be made now. True in HALF_OPEN makes the caller's call the probe."""
        with self._lock:
            if self._opened_at is None:
                return True
            now = self._monotonic()
            since = self._opened_at if self._probed_at is None else self._probed_at
            if now - since < self._cool_down_s:
                return False
            self._probed_at = now
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._in_a_row = 0
            self._opened_at = self._probed_at = None

    def failed(self) -> None:
        """Only failures of the source count; a call refused for its arguments says nothing about it."""
        with self._lock:
            self._in_a_row += 1
            if self._in_a_row >= self._limit or self._opened_at is not None:
                self._opened_at = self._monotonic()
                self._probed_at = None

    def _state(self) -> CircuitState:
        if self._opened_at is None:
            return CircuitState.CLOSED
        cooled = self._monotonic() - self._opened_at >= self._cool_down_s
        return CircuitState.HALF_OPEN if cooled or self._probed_at is not None else CircuitState.OPEN


class Breakers:
    """One breaker a tool name, made when first asked for and kept for the life of the process."""

    def __init__(self, *, failures: int, cool_down_s: float, monotonic: Callable[[], float]) -> None:
        self._failures, self._cool_down_s, self._monotonic = failures, cool_down_s, monotonic
        self._lock = threading.Lock()
        self._breakers: dict[str, CircuitBreaker] = {}

    def of(self, tool_name: str) -> CircuitBreaker:
        with self._lock:
            if tool_name not in self._breakers:
                self._breakers[tool_name] = CircuitBreaker(
                    failures=self._failures, cool_down_s=self._cool_down_s, monotonic=self._monotonic
                )
            return self._breakers[tool_name]

    def states(self) -> dict[str, CircuitState]:
        with self._lock:
            return {name: breaker.state for name, breaker in sorted(self._breakers.items())}
