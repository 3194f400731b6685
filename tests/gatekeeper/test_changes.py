"""Changes of rules as values."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gatekeeper.changes import Changes, Difference, RuleChange, State, changes_between, differences, put_on
from gatekeeper.rules import CODES, GK005, GK007
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import RuleMode, Severity

SHIPPED = State(shipped_rule_set().rules)


def changed(code: str, own: dict[str, str] | None = None, **changes: Any) -> State:
    rules = tuple(replace(rule, **changes) if rule.code == code else rule for rule in SHIPPED.settings)
    return State(rules, own or {})


@st.composite
def states(draw: st.DrawFn) -> State:
    rules = tuple(
        replace(
            rule,
            mode=draw(st.sampled_from(RuleMode)),
            severity=draw(st.sampled_from(Severity)),
            params={
                name: draw(st.integers(0, 9)) if isinstance(value, int) else draw(st.text(max_size=3))
                for name, value in rule.params.items()
            },
        )
        for rule in SHIPPED.settings
    )
    return State(rules, draw(st.dictionaries(st.sampled_from(CODES), st.text(min_size=1, max_size=3))))


@given(states(), states())
def test_what_differs_leads_from_one_state_to_the_other(before: State, after: State) -> None:
    changes = Changes.model_validate_json(changes_between(before, after).model_dump_json())
    assert put_on(before, changes) == after
    assert (changes == Changes()) == (differences(before, after) == ())


def test_a_change_leaves_what_it_does_not_name() -> None:
    changes = Changes(rules={GK005: RuleChange(mode=RuleMode.SHADOW)})
    meanwhile = changed(GK005, {GK007: "ours"}, severity=Severity.LOW_CONFID, params={"min_chars": 12})
    made = put_on(meanwhile, changes).setting(GK005)
    assert made is not None
    assert (made.mode, made.severity, made.params) == (RuleMode.SHADOW, Severity.LOW_CONFID, {"min_chars": 12})
    assert put_on(meanwhile, changes).own == {GK007: "ours"}


def test_differences_are_told_field_by_field() -> None:
    after = changed(GK005, {GK007: "ours"}, mode=RuleMode.OFF, params={"min_chars": 12})
    assert differences(SHIPPED, after) == (
        Difference(GK005, "mode", "ENFORCED", "OFF"),
        Difference(GK005, "min_chars", 8, 12),
        Difference(GK007, "description", "", "ours"),
    )


def test_a_rule_of_one_side_only_is_told_without_the_other() -> None:
    fewer = State(tuple(rule for rule in SHIPPED.settings if rule.code != GK005))
    assert Difference(GK005, "mode", None, "ENFORCED") in differences(fewer, SHIPPED)
    assert put_on(fewer, Changes(rules={GK005: RuleChange(mode=RuleMode.OFF)})) == fewer
    assert put_on(SHIPPED, Changes(rules={GK005: RuleChange(params={"no_such": 1})})) == SHIPPED


@pytest.mark.parametrize("wrong", [{"rules": {GK005: {"mode": "ALWAYS"}}}, {"rules": {GK005: {"level": 1}}}, {"x": 1}])
def test_a_document_of_another_shape_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Changes.model_validate(wrong)
