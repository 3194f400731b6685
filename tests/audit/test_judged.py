from typing import Any

import pytest
from django.test import Client

from audit.pages.judged import gate_rounds, rule_lines
from runs.pages.words import Tone
from tests.audit.told_runs import told_run
from tests.factories import UserFactory


def rule(code: str, verdict: str, mode: str = "ENFORCED") -> dict[str, Any]:
    return {"code": code, "verdict": verdict, "mode": mode}


def judged(
    claims: list[tuple[bool, list[dict[str, Any]]]], draft: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"draft_rules": draft or [], "claims": [{"accepted": stood, "rules": rules} for stood, rules in claims]}


def test_each_round_tells_how_many_claims_stood_and_which_rules_failed() -> None:
    first = judged(
        [
            (True, [rule("GK005_EXCERPT_SUPPORTED", "PASS"), rule("GK007_NUMBERS_SUPPORTED", "FAIL", "SHADOW")]),
            (False, [rule("GK005_EXCERPT_SUPPORTED", "FAIL"), rule("GK002_INVOCATION_EXISTS", "FAIL")]),
        ],
        draft=[rule("GK001_ANSWER_VERSION", "FAIL")],
    )
    second = judged([(True, [rule("GK005_EXCERPT_SUPPORTED", "PASS")])])
    before, after = gate_rounds([first, second])
    assert (before.repair, before.accepted, before.claims) == (False, 1, 2)
    assert [code for code, _ in before.failed] == [
        "GK001_ANSWER_VERSION",
        "GK002_INVOCATION_EXISTS",
        "GK005_EXCERPT_SUPPORTED",
    ]
    assert [code for code, _ in before.in_shadow] == ["GK007_NUMBERS_SUPPORTED"]
    assert (after.repair, after.accepted, after.claims, after.failed, after.in_shadow) == (True, 1, 1, (), ())


def test_a_failure_in_shadow_is_told_as_one_without_effect() -> None:
    (shadow,) = rule_lines([rule("GK007_NUMBERS_SUPPORTED", "FAIL", "SHADOW")])
    (enforced,) = rule_lines([rule("GK007_NUMBERS_SUPPORTED", "FAIL")])
    assert (shadow.tone, str(shadow.verdict_words), shadow.shadow) == (Tone.WARN, "would fail", True)
    assert (enforced.tone, str(enforced.verdict_words), enforced.shadow) == (Tone.BAD, "fail", False)


@pytest.mark.django_db(transaction=True)
def test_a_repaired_run_says_on_its_page_what_the_gate_refused_first() -> None:
    client = Client()
    client.force_login(UserFactory())
    page = client.get(f"/runs/{told_run().id}/").content.decode()
    told = page[page.index("<dt>Evidence gate</dt>") :].split("</div>")[0]
    assert "0 of 1 claims stood" in told
    assert told.index("0 of 1 claims stood") < told.index("GK") < told.index("after repair") < told.index("1 of 1")
    assert "SECRET" not in page
