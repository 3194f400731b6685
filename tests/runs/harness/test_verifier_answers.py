"""A whole run whose verifier breaks its contract: whatever it says, the report is not passed.

The draft has two claims that hold before the gate: c1, critical, and c2, which is not.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from runs.harness.events import EventType
from tests.runs.harness.world import VERIFIER, evaluation, say, supports_all, world

BOTH = {"c1": True, "c2": True}


def said(checks: dict[str, bool] | None = None, **changes: Any) -> str:
    return json.dumps(evaluation(BOTH if checks is None else checks, **changes))


def check(claim_id: Any = "c1", supported: Any = True, **more: Any) -> dict[str, Any]:
    return {"claim_id": claim_id, "supported": supported, "reason": "read it"} | more


def checked(*checks: dict[str, Any]) -> str:
    return said(claim_checks=list(checks))


@dataclass(frozen=True)
class Violation:
    """`violations`: what the record says was broken; `released`: the claims that may go on at low confidence."""

    name: str
    answer: str
    violations: tuple[str, ...] = ("UNUSABLE_ANSWER",)
    released: tuple[str, ...] = ("c1", "c2")


NOT_CHECKED, OVER = "CLAIM_NOT_CHECKED", "PASS_OVER_UNSUPPORTED_CRITICAL"
VIOLATIONS = [
    Violation("prose", "I have read all of it and it is fine."),
    Violation("nothing", ""),
    Violation("a list", "[]"),
    Violation("JSON cut off", said()[:-20]),
    Violation("a verdict alone", '{"verdict": "PASS"}'),
    Violation("a verdict in other case", said(verdict="pass")),
    Violation("a verdict that there is not", said(verdict="CERTAIN")),
    Violation("a score above one", said(groundedness_score=1.01)),
    Violation("a score below nought", said(groundedness_score=-0.5)),
    Violation("a score that is NaN", said(groundedness_score=float("nan"))),
    Violation("a score without end", said(groundedness_score=float("inf"))),
    Violation("a score in words", said(groundedness_score="high")),
    Violation("a field too many", said(approved_by="the model")),
    Violation("a field too many in a check", checked(check(weight=9), check("c2"))),
    Violation("a field missing", json.dumps({k: v for k, v in evaluation(BOTH).items() if k != "claim_checks"})),
    Violation("checks that are a text", said(claim_checks="c1")),
    Violation("no word on support", checked({"claim_id": "c1", "reason": ""}, check("c2"))),
    Violation("support that is unknown", checked(check(supported="perhaps"), check("c2"))),
    Violation("no id", checked(check(None), check("c2"))),
    Violation("no checks", checked(), ("NO_CHECKS", NOT_CHECKED)),
    Violation("a critical claim not checked", said({"c2": True}), (NOT_CHECKED, OVER), ("c2",)),
    Violation("a lesser claim not checked", said({"c1": True}), (NOT_CHECKED,), ("c1",)),
    Violation("ids in other case", said({"C1": True, "c2": True}),
              (NOT_CHECKED, "UNKNOWN_CLAIM", "UNKNOWN_FACT", OVER), ("c2",)),
    Violation("a claim checked twice", checked(check(), check(), check("c2")), ("CLAIM_CHECKED_TWICE", OVER), ("c2",)),
    Violation("twice, and unlike", checked(check(supported=False), check(), check("c2")),
              ("CLAIM_CHECKED_TWICE", OVER), ("c2",)),
    Violation("a claim that there is not", said(BOTH | {"c3": True}), ("UNKNOWN_CLAIM", "UNKNOWN_FACT")),
    Violation("a fact that there is not", said(facts_checked=["c1", "c2", "c9"]), ("UNKNOWN_FACT",)),
    Violation("more critical facts than claims", said(critical_fact_count=7), ("CRITICAL_COUNT_TOO_HIGH",)),
    Violation("a pass over a critical claim", said({"c1": False, "c2": True}), (OVER,), ("c2",)),
    Violation("a pass at a low score", said(groundedness_score=0.1), ("SCORE_CONTRADICTS_VERDICT",)),
    Violation("a pass and no fact read", said(facts_checked=[]), ("SCORE_CONTRADICTS_VERDICT",)),
]  # fmt: skip


@pytest.mark.parametrize("case", VIOLATIONS, ids=lambda case: case.name)
async def test_no_broken_contract_becomes_a_pass(case: Violation) -> None:
    told, _ = world(moves={VERIFIER: [say(VERIFIER, case.answer)]})
    conclusion = await told.drive()
    assert conclusion.verdict == "LOW_CONFID"
    assert conclusion.published is not None
    assert conclusion.published.confidence == "LOW"
    assert tuple(claim.claim_id for claim in conclusion.published.claims) == case.released
    (frame,) = told.said.of(EventType.SEMANTIC_GUARD_DECISION)
    assert set(frame.details.model_dump()["contract_violations"]) == set(case.violations)


async def test_the_same_answer_in_form_is_a_pass() -> None:
    told, _ = world(moves={VERIFIER: [say(VERIFIER, supports_all)]})
    assert (await told.drive()).verdict == "PASS"
