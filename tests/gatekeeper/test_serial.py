"""A judgement as JSON: whole, back again, without its texts, and as words for a repair."""

import json

import pytest

from gatekeeper import rules
from gatekeeper.gate import judge
from gatekeeper.serial import MalformedResult, feedback, from_dict, redacted, to_dict
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import GateResult, RuleMode
from tests.gatekeeper.cases import advice, case_of, cite, claim, rule_set

SECRET = "verysecrettext"


def a_result() -> GateResult:
    good = claim(cite())
    bad = claim(cite(excerpt=f"{SECRET} 60000ms"), cite("inv_x", path=f"$.{SECRET}"), text=SECRET, claim_id="c2")
    runbook = claim(advice(), claim_id="c3")
    return judge(case_of(good, bad, runbook, good, version=SECRET), rule_set(GK009=RuleMode.SHADOW))


def test_a_result_comes_back_the_same() -> None:
    result = a_result()
    assert from_dict(json.loads(json.dumps(to_dict(result)))) == result


def test_keys_and_rules_stand_in_a_stable_order() -> None:
    assert json.dumps(to_dict(a_result())) == json.dumps(to_dict(a_result()))
    stored = to_dict(a_result())
    assert list(stored) == [
        "version",
        "verdict",
        "rule_set_number",
        "rule_set_digest",
        "enabled_rules",
        "draft_rules",
        "claims",
    ]
    codes = [rule["code"] for rule in stored["claims"][0]["rules"]]
    assert codes == sorted(codes) == list(rules.CLAIM_RULES)


def test_the_stored_result_names_its_rules() -> None:
    stored = to_dict(a_result())
    assert (stored["rule_set_number"], stored["rule_set_digest"]) == (1, shipped_rule_set().digest)
    assert [(rule["code"], rule["mode"]) for rule in stored["enabled_rules"]][-1] == (rules.GK009, "SHADOW")


def strings(value: object) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(strings(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(strings(each) for each in value))
    return {value} if isinstance(value, str) else set()


SHOWN = {"c1", "c2", "c3", *rules.CODES, *RuleMode, "PASS", "FAIL", "NA", "REJECT", "LOW_CONFID"}


def test_redacted_shows_ids_codes_modes_verdicts_and_digests_only() -> None:
    stored = to_dict(a_result())
    shown = redacted(stored)
    digests = {text for text in strings(shown) if len(text) == 64 and set(text) <= set("0123456789abcdef")}
    assert strings(shown) - digests <= SHOWN
    assert digests
    assert SECRET in json.dumps(stored)
    assert SECRET not in json.dumps(shown)


def test_redacted_does_not_show_a_key_it_does_not_know() -> None:
    stored = to_dict(a_result()) | {"later_addition": SECRET}
    stored["claims"][0] |= {"note": SECRET}
    stored["claims"][0]["rules"][0] |= {"note": SECRET}
    assert SECRET not in json.dumps(redacted(stored))


def test_a_digest_tells_one_claim_from_another() -> None:
    shown = redacted(to_dict(a_result()))
    assert len({judged["claim_sha256"] for judged in shown["claims"]}) == 3


@pytest.mark.parametrize(
    "stored",
    [{}, {"version": 2}, {"version": 1, "verdict": "SPLENDID"}, to_dict(a_result()) | {"claims": [{"claim": None}]}],
)
def test_what_cannot_be_read_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(MalformedResult):
        from_dict(stored)


def test_feedback_tells_each_enforced_failure() -> None:
    told = feedback(a_result())
    assert [(each["claim_id"], each["rule"], each["citation"]) for each in told] == [
        (None, rules.GK001, None),
        ("c2", rules.GK002, 1),
        ("c2", rules.GK005, 0),
        ("c1", rules.GK001, None),
    ]
    assert told[2]["reason"] == "excerpt not found in $.lines[0].text."
    assert told[3]["reason"] == "claim_id 'c1' is used by an earlier claim; each needs its own."


def test_feedback_to_an_empty_draft_asks_for_claims() -> None:
    assert [each["rule"] for each in feedback(judge(case_of(), shipped_rule_set()))] == [None]


def test_feedback_to_a_good_draft_is_empty() -> None:
    assert feedback(judge(case_of(claim(cite())), shipped_rule_set())) == []
