"""What counts as lower than the floor of safety."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from gatekeeper.floor import FLOOR, lowered_codes, lowered_further, lowerings
from gatekeeper.rules import GK001, GK002, GK005, GK006, GK007
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import RuleMode, RuleSetting, Severity

SHIPPED = shipped_rule_set().rules


def changed(code: str, **changes: Any) -> tuple[RuleSetting, ...]:
    return tuple(replace(rule, **changes) if rule.code == code else rule for rule in SHIPPED)


@dataclass(frozen=True)
class Case:
    name: str
    code: str
    changes: dict[str, Any]
    lowers: tuple[str, ...]


CASES = [
    Case("in shadow", GK002, {"mode": RuleMode.SHADOW}, ("mode",)),
    Case("off", GK006, {"mode": RuleMode.OFF}, ("mode",)),
    Case("less severe", GK002, {"severity": Severity.LOW_CONFID}, ("severity",)),
    Case("a shorter excerpt", GK005, {"params": {"min_chars": 7}}, ("min_chars",)),
    Case("a longer excerpt", GK005, {"params": {"min_chars": 9}}, ()),
    Case("two things", GK005, {"mode": RuleMode.OFF, "params": {"min_chars": 0}}, ("mode", "min_chars")),
    Case("a rule above the floor", GK007, {"mode": RuleMode.OFF, "params": {"ignored_names": "all"}}, ()),
    Case("another rule above the floor", GK001, {"mode": RuleMode.OFF}, ()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_below_the_floor(case: Case) -> None:
    settings = changed(case.code, **case.changes)
    assert tuple(lowering.what for lowering in lowerings(settings)) == case.lowers
    assert lowered_codes(settings) == ((case.code,) if case.lowers else ())
    assert tuple(lowering.what for lowering in lowered_further(SHIPPED, settings)) == case.lowers
    assert lowered_further(settings, SHIPPED) == (), "up is free"
    assert lowered_further(settings, settings) == (), "what is low already is nobody's doing now"


def test_the_shipped_rules_stand_on_the_floor() -> None:
    assert lowerings(SHIPPED) == ()
    assert {rule.code for rule in SHIPPED} > set(FLOOR)


def test_a_rule_that_is_missing_is_off() -> None:
    assert lowered_codes(rule for rule in SHIPPED if rule.code != GK005) == (GK005,)


def test_a_step_further_down_is_told_apart_from_one_up() -> None:
    low, lower = changed(GK005, params={"min_chars": 6}), changed(GK005, params={"min_chars": 3})
    assert [each.what for each in lowered_further(low, lower)] == ["min_chars"]
    assert lowered_further(lower, low) == ()
