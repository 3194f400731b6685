from prometheus_client import REGISTRY

from runs.breakers import CountedBreaker, left_alone, show
from runs.tools.breaker import Breakers, CircuitState


def value(name: str, tool: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"tool": tool})


def test_what_a_breaker_does_is_counted_and_its_state_shown() -> None:
    now = [0.0]
    breakers = Breakers(failures=2, cool_down_s=30, monotonic=lambda: now[0])
    breaker = CountedBreaker("a_tool", breakers.of("a_tool"))
    breaker.failed()
    assert value("tool_breaker_state", "a_tool") == 0
    breaker.failed()
    assert (value("tool_breaker_state", "a_tool"), left_alone(breakers.states())) == (2, ["a_tool"])
    assert [breaker.allow(), breaker.allow()] == [False, False]
    assert value("tool_breaker_refused_total", "a_tool") == 2
    now[0] = 31.0
    show(breakers.states())
    assert (value("tool_breaker_state", "a_tool"), left_alone(breakers.states())) == (1, [])
    assert breaker.allow()
    breaker.failed()
    assert value("tool_breaker_opened_total", "a_tool") == 2
    now[0] = 62.0
    assert breaker.allow()
    breaker.succeeded()
    assert breakers.states() == {"a_tool": CircuitState.CLOSED}
    assert value("tool_breaker_state", "a_tool") == 0
