"""The circuit breakers of a process as its operators see them: one gauge and two counters a tool."""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge

from runs.tools.breaker import CircuitBreaker, CircuitState

STATE_NUMBERS = {CircuitState.CLOSED: 0, CircuitState.HALF_OPEN: 1, CircuitState.OPEN: 2}

breaker_state = Gauge(
    "tool_breaker_state",
    "A tool's circuit: 0 closed, 1 half-open, 2 open; the worst of all workers.",
    ["tool"],
    multiprocess_mode="livemax",
)
opened_total = Counter("tool_breaker_opened", "Times a tool's circuit opened.", ["tool"])
refused_total = Counter("tool_breaker_refused", "Calls that were not made because the circuit was open.", ["tool"])


class CountedBreaker:
    """`runs.harness.ports.Breaker` over a circuit breaker: counts what it does."""

    def __init__(self, tool: str, breaker: CircuitBreaker) -> None:
        self._tool = tool
        self._breaker = breaker

    def allow(self) -> bool:
        allowed = self._breaker.allow()
        if not allowed:
            refused_total.labels(tool=self._tool).inc()
        return allowed

    def succeeded(self) -> None:
        self._breaker.succeeded()
        self._show()

    def failed(self) -> None:
        before = self._breaker.state
        self._breaker.failed()
        if before is not CircuitState.OPEN and self._breaker.state is CircuitState.OPEN:
            opened_total.labels(tool=self._tool).inc()
        self._show()

    def _show(self) -> None:
        show({self._tool: self._breaker.state})


def show(states: Mapping[str, CircuitState]) -> None:
    """Set the gauge. An open circuit becomes half-open by time alone, so this is to be done now and then."""
    for tool, state in states.items():
        breaker_state.labels(tool=tool).set(STATE_NUMBERS[state])


def left_alone(states: Mapping[str, CircuitState]) -> list[str]:
    """The tools that are not asked for now."""
    return sorted(tool for tool, state in states.items() if state is CircuitState.OPEN)
