"""When searching on is pointless."""

from dataclasses import dataclass

import pytest

from runs.harness.convergence import Convergence, Stop, call_key, drift_key

A, B, C = (call_key("query_logs", {"text": text}) for text in ("a", "b", "c"))
D = [call_key("query_logs", {"text": "a", "limit": n}) for n in range(100, 110)]


@dataclass(frozen=True)
class Case:
    name: str
    rounds: tuple[tuple[tuple[str, ...], bool], ...]
    stops_at: int | None
    reason: str = ""


def news(*keys: str) -> tuple[tuple[str, ...], bool]:
    return keys, True


def stale(*keys: str) -> tuple[tuple[str, ...], bool]:
    return keys, False


CASES = [
    Case("always something new", (news(A), news(B), news(C)), None),
    Case("one stale round", (news(A), stale(B), news(C), stale(A)), None),
    Case("two stale rounds in a row", (news(A), stale(B), stale(C)), 3, "NO_NEW_EVIDENCE"),
    Case("nothing from the start", (stale(A), stale(B)), 2, "NO_NEW_EVIDENCE"),
    Case("the same call", (news(A), stale(A)), 2, "CYCLE"),
    Case("A, B, A, B", (news(A), news(B), news(A), stale(B)), 4, "CYCLE"),
    Case("three in a ring", (news(A), news(B), news(C), news(A), news(B), stale(C)), 6, "CYCLE"),
    Case("the same two at once", (news(A, B), stale(A, B)), 2, "CYCLE"),
    Case("a ring that still brings news", (news(A), news(B), news(A), news(B)), None),
    Case("numbers that drift", tuple(news(key) for key in D[:4]), 4, "DRIFTING_ARGUMENTS"),
    Case("three drifting calls are a search", tuple(news(key) for key in D[:3]), None),
    Case("drift with another call between", (*(news(key) for key in D[:3]), news(B), news(D[3])), None),
    Case("drift within one round", (news(*D[:4]),), 1, "DRIFTING_ARGUMENTS"),
]


def first_stop(case: Case, convergence: Convergence) -> tuple[int, Stop] | None:
    for number, (keys, new) in enumerate(case.rounds, 1):
        if stop := convergence.observe(list(keys), new_evidence=new):
            return number, stop
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_when_a_search_is_stopped(case: Case) -> None:
    stopped = first_stop(case, Convergence())
    if case.stops_at is None:
        assert stopped is None
        return
    assert stopped is not None
    number, stop = stopped
    assert (number, stop.reason, stop.rounds) == (case.stops_at, case.reason, case.stops_at)
    assert stop.tool_name == (None if case.reason == "NO_NEW_EVIDENCE" else "query_logs")


def test_a_resumed_search_counts_stale_rounds_anew_but_remembers_its_calls() -> None:
    convergence = Convergence()
    convergence.observe([A], new_evidence=True)
    convergence.observe([B], new_evidence=False)
    convergence.resume()
    assert convergence.observe([C], new_evidence=False) is None
    convergence.resume()
    stop = convergence.observe([C], new_evidence=False)
    assert stop is not None
    assert stop.reason == "CYCLE"


def test_the_order_of_arguments_makes_no_other_call() -> None:
    assert call_key("t", {"a": 1, "b": [2]}) == call_key("t", {"b": [2], "a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("t", {"a": 1}), ("t", {"a": 2})),
        (("t", {"a": 1}), ("u", {"a": 1})),
        (("t", {"a": "1"}), ("t", {"a": 1})),
        (("t", {}), ("t", None)),
    ],
)
def test_other_calls_have_other_keys(one: tuple[str, object], other: tuple[str, object]) -> None:
    assert call_key(*one) != call_key(*other)


def test_drift_is_a_change_of_numbers_only() -> None:
    assert drift_key('t {"limit": 100, "rate": 0.5}') == drift_key('t {"limit": 7, "rate": 12}')
    assert drift_key('t {"text": "a"}') != drift_key('t {"text": "b"}')
