"""A report denies nothing that its claims do not."""

import pytest

from runs.harness.negation import adds_negation

ADDED = [
    ("The pool is not exhausted.", ["The pool is exhausted."]),
    ("The pool isn't exhausted.", ["The pool is exhausted."]),
    ("The pool isn’t full.", ["The pool is full."]),
    ("The pool was never full.", ["The pool was full."]),
    ("The pool is n\u200bot full; n\u00adot at all.", ["The pool was full."]),
    ("No request waited.", ["41 requests waited."]),
    ("The service did not fail.", ["The service failed."]),
    ("The request was not refused.", ["connection refused"]),
    ("连接池没有耗尽。", ["连接池已耗尽。"]),
    ("请求并未超时。", ["请求超时。"]),
    ("连接池不满。", ["连接池已满。"]),
]
FINE = [
    ("The pool is exhausted.", ["The pool is exhausted."]),
    ("There was no connection.", ["Connection is not available"]),
    ("The connection was not available.", ["There was no connection."]),
    ("No connection was idle.", ["total=10, idle=0"]),
    ("The service could not connect.", ["connection refused by upstream"]),
    ("The cause is not known.", ["The pool is exhausted."]),
    ("This is not proof of a leak.", ["The pool is exhausted."]),
    ("Metrics were not looked at.", ["The pool is exhausted."]),
    ("A leak cannot be ruled out.", ["The pool is exhausted."]),
    ("没有可用连接。", ["空闲连接 0"]),
    ("服务没有得到应答。", ["请求失败"]),
    ("无法确定原因。", ["连接池已耗尽。"]),
    ("延迟不断上升。", ["延迟上升。"]),
    ("无论如何，连接池已耗尽。", ["连接池已耗尽。"]),
]


@pytest.mark.parametrize(("said", "sources"), ADDED)
def test_a_denial_of_its_own(said: str, sources: list[str]) -> None:
    assert adds_negation(said, sources)


@pytest.mark.parametrize(("said", "sources"), FINE)
def test_no_denial_of_its_own(said: str, sources: list[str]) -> None:
    assert not adds_negation(said, sources)
