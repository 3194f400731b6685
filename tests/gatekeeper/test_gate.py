"""The gate: what removes a claim, what sets the verdict, what modes do."""

from dataclasses import is_dataclass, replace

import pytest

from gatekeeper import rules, types
from gatekeeper.gate import UnknownRule, judge
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import Claim, ClaimKind, RuleMode, RuleSetting, Severity, Verdict
from tests.gatekeeper.cases import advice, case_of, cite, claim, nothing, rule_set

OFF, SHADOW = RuleMode.OFF, RuleMode.SHADOW
GOOD = claim(cite())
WRONG_DIGIT = claim(cite(excerpt="request timed out after 60000ms"), claim_id="c2")
WRONG_NUMBER = claim(cite(), text="It took 60 s.", claim_id="c2")
INVENTED = claim(cite("inv_made_up"), claim_id="c2")


def test_claims_that_hold_pass() -> None:
    negative = claim(nothing(), kind=ClaimKind.NEGATIVE_OBSERVATION, text="No deadlock was logged.", claim_id="c2")
    guidance = claim(advice(), kind=ClaimKind.GUIDANCE, claim_id="c3")
    result = judge(case_of(GOOD, negative, guidance), shipped_rule_set())
    assert result.verdict is Verdict.PASS
    assert result.accepted == (GOOD, negative, guidance)
    assert result.removed == ()
    assert result.version_ok


@pytest.mark.parametrize(
    ("bad", "verdict", "code"),
    [
        (WRONG_DIGIT, Verdict.REJECT, rules.GK005),
        (WRONG_NUMBER, Verdict.LOW_CONFID, rules.GK007),
        (INVENTED, Verdict.REJECT, rules.GK002),
    ],
)
def test_a_failed_rule_removes_the_claim_and_severity_sets_the_verdict(bad: Claim, verdict: Verdict, code: str) -> None:
    result = judge(case_of(GOOD, bad), shipped_rule_set())
    assert result.verdict is verdict
    assert result.accepted == (GOOD,)
    assert [removed.failed_codes for removed in result.removed] == [(code,)]


def test_one_failing_evidence_item_removes_the_claim() -> None:
    result = judge(case_of(claim(cite(), cite(path="$.nowhere"))), shipped_rule_set())
    assert result.accepted == ()
    assert result.removed[0].failed_codes == (rules.GK004,)


def test_the_worst_severity_wins() -> None:
    rejected = replace(WRONG_DIGIT, claim_id="c3")
    assert judge(case_of(WRONG_NUMBER, rejected), shipped_rule_set()).verdict is Verdict.REJECT


def test_a_wrong_version_lowers_the_verdict_and_removes_nothing() -> None:
    result = judge(case_of(GOOD, version=None), shipped_rule_set())
    assert result.verdict is Verdict.LOW_CONFID
    assert result.accepted == (GOOD,)
    assert not result.version_ok


def test_a_draft_without_claims_is_low() -> None:
    result = judge(case_of(), shipped_rule_set())
    assert (result.verdict, result.accepted, result.version_ok) == (Verdict.LOW_CONFID, (), True)


@pytest.mark.parametrize("mode", list(RuleMode))
def test_a_repeated_id_drops_the_later_claim_whatever_the_mode(mode: RuleMode) -> None:
    result = judge(case_of(GOOD, GOOD, GOOD), rule_set(GK001=mode))
    assert [judged.accepted for judged in result.claims] == [True, False, False]
    assert {judged.failed_codes for judged in result.removed} == {(rules.GK001,)}
    assert result.verdict is Verdict.LOW_CONFID


def test_a_rule_that_is_off_is_not_evaluated() -> None:
    result = judge(case_of(WRONG_DIGIT), rule_set(GK005=OFF))
    assert result.verdict is Verdict.PASS
    assert rules.GK005 not in {rule.finding.code for rule in result.claims[0].rules}
    assert rules.GK005 not in {setting.code for setting in result.enabled_rules}


def test_a_shadow_rule_is_recorded_without_effect() -> None:
    result = judge(case_of(WRONG_DIGIT), rule_set(GK005=SHADOW))
    shadow = [rule for rule in result.claims[0].rules if rule.finding.code == rules.GK005]
    assert [(rule.finding.passed, rule.mode) for rule in shadow] == [(False, SHADOW)]
    assert result.verdict is Verdict.PASS
    assert result.accepted == (WRONG_DIGIT,)


def test_a_shadow_version_rule_has_no_effect() -> None:
    result = judge(case_of(GOOD, version=None), rule_set(GK001=SHADOW))
    assert (result.verdict, result.version_ok) == (Verdict.PASS, True)


def test_a_severity_of_the_rule_set_counts() -> None:
    shipped = shipped_rule_set()
    strict = replace(shipped, rules=tuple(replace(rule, severity=Severity.REJECT) for rule in shipped.rules))
    assert judge(case_of(WRONG_NUMBER), strict).verdict is Verdict.REJECT


def test_a_parameter_of_the_rule_set_counts() -> None:
    shipped = shipped_rule_set()
    stricter = replace(
        shipped, rules=(RuleSetting(rules.GK005, RuleMode.ENFORCED, Severity.REJECT, {"min_chars": 40}),)
    )
    assert judge(case_of(GOOD), stricter).verdict is Verdict.REJECT
    assert judge(case_of(GOOD), shipped).verdict is Verdict.PASS


def test_one_fault_is_told_once() -> None:
    judged = judge(case_of(INVENTED), shipped_rule_set()).claims[0]
    assert judged.failed_codes == (rules.GK002,)
    consequences = {rule.finding.code: rule.finding for rule in judged.rules if rule.finding.citation == 0}
    assert consequences[rules.GK005].passed is None
    assert rules.GK002 in consequences[rules.GK005].reason


@pytest.mark.parametrize("mode", [OFF, SHADOW])
def test_an_invented_call_is_refused_by_the_other_rules_where_the_first_is_not_enforced(mode: RuleMode) -> None:
    judged = judge(case_of(INVENTED), rule_set(GK002=mode)).claims[0]
    assert not judged.accepted
    assert judged.failed_codes == (rules.GK003, rules.GK004, rules.GK008)


@pytest.mark.parametrize("mode", [OFF, SHADOW])
def test_a_claim_without_evidence_is_refused_where_the_first_rule_is_not_enforced(mode: RuleMode) -> None:
    assert judge(case_of(claim()), rule_set(GK002=mode)).claims[0].failed_codes == (rules.GK005,)


def test_an_unknown_rule_is_refused() -> None:
    strange = replace(shipped_rule_set(), rules=(RuleSetting("GK999_X", RuleMode.OFF, Severity.REJECT),))
    with pytest.raises(UnknownRule, match="GK999_X"):
        judge(case_of(GOOD), strange)


def test_the_same_case_is_judged_the_same_again() -> None:
    case = case_of(GOOD, WRONG_DIGIT, WRONG_NUMBER)
    assert judge(case, shipped_rule_set()) == judge(case, shipped_rule_set())


def test_a_result_says_of_each_claim_and_rule_how_it_went_and_why() -> None:
    """For every claim every rule in force, once or for each item at fault: passed, failed or not applicable; a failure
    with its reason and with what was compared, a passed quotation with its place and text."""
    good = claim(cite())
    wrong_all_over = claim(
        cite("inv_made_up", "$.nowhere", "nothing of the sort", "clock"),
        cite(tool="clock", path="$.lines[9].text"),
        cite(excerpt="request timed out after 60000ms"),
        cite("inv_failed", "$.error", "no answer within"),
        text="It took 77 s on node-9.",
        kind=ClaimKind.NEGATIVE_OBSERVATION,
        claim_id="c2",
    )
    on_a_runbook = claim(advice(), claim_id="c3")
    result = judge(case_of(good, wrong_all_over, on_a_runbook, version="v1"), rule_set())
    (version,) = result.draft_rules
    found = [version.finding, *(rule.finding for judged in result.claims for rule in judged.rules)]
    failed = [finding for finding in found if finding.passed is False]
    assert {finding.code for finding in failed} == set(rules.CODES)
    assert all(finding.reason and finding.compared for finding in failed)
    for judged in result.claims:
        assert list(dict.fromkeys(rule.finding.code for rule in judged.rules)) == list(rules.CLAIM_RULES)
    quoted = next(rule.finding for rule in result.claims[0].rules if rule.finding.code == rules.GK005)
    assert quoted.compared == {"path": "$.lines[0].text", "excerpt": "request timed out after 30000ms"}


def test_what_the_gate_judges_cannot_be_changed_by_a_rule() -> None:
    values = [each for each in vars(types).values() if is_dataclass(each)]
    assert len(values) >= 10
    assert [each.__name__ for each in values if not each.__dataclass_params__.frozen] == []
