"""A verifier held to its contract: what it may decide, and what counts as broken."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from gatekeeper.types import Citation, Claim, ClaimKind, Verdict
from runs.harness.verification import enforce
from runs.harness.wire import VerifierEvaluation

PASS, LOW, REJECT = Verdict.PASS, Verdict.LOW_CONFID, Verdict.REJECT

Check = tuple[str, bool]


def claims(*ids: str) -> tuple[Claim, ...]:
    """`c…` are critical, others are not. They say what their excerpts do."""
    item = Citation("inv_aaaaaa", "query_logs", "$.lines[0].text", "10:42:17 request timed out")
    return tuple(Claim(id_, ClaimKind.OBSERVATION, "A request timed out.", id_.startswith("c"), (item,)) for id_ in ids)


def evaluation(checks: tuple[Check, ...], verdict: Verdict, **more: Any) -> VerifierEvaluation:
    base: dict[str, Any] = {
        "verdict": verdict,
        "groundedness_score": 0.8,
        "critical_fact_count": 1,
        "claim_checks": [{"claim_id": id_, "supported": ok, "reason": ""} for id_, ok in checks],
        "facts_checked": [],
        "rationale": "",
    }
    return VerifierEvaluation.model_validate(base | more)


@dataclass(frozen=True)
class Case:
    name: str
    checks: tuple[Check, ...]
    says: Verdict
    verdict: Verdict
    supported: tuple[str, ...]
    violations: tuple[str, ...] = ()
    ids: tuple[str, ...] = ("c1", "c2", "m1")
    more: dict[str, Any] = field(default_factory=dict)


ALL = (("c1", True), ("c2", True), ("m1", True))
IDS = ("c1", "c2", "m1")

CASES = [
    Case("all supported", ALL, PASS, PASS, IDS),
    Case("all supported in another order", ALL[::-1], PASS, PASS, IDS),
    Case("all supported, yet low", ALL, LOW, LOW, IDS),
    Case("all supported, yet rejected", ALL, REJECT, REJECT, IDS),
    Case("facts are our claims", ALL, PASS, PASS, IDS, more={"facts_checked": ["c1", "c2"]}),
    Case("a lesser claim unsupported", (*ALL[:2], ("m1", False)), PASS, PASS, ("c1", "c2")),
    Case(
        "pass over a critical claim",
        (("c1", False), *ALL[1:]),
        PASS,
        LOW,
        ("c2", "m1"),
        ("PASS_OVER_UNSUPPORTED_CRITICAL",),
    ),
    Case("low over a critical claim is honest", (("c1", False), *ALL[1:]), LOW, LOW, ("c2", "m1")),
    Case(
        "pass over nothing supported",
        tuple((id_, False) for id_ in IDS),
        PASS,
        REJECT,
        (),
        ("PASS_OVER_UNSUPPORTED_CRITICAL",),
    ),
    Case("low over nothing supported", tuple((id_, False) for id_ in IDS), LOW, REJECT, ()),
    Case("pass over nothing supported, none critical", (("m1", False),), PASS, REJECT, (), ids=("m1",)),
    Case(
        "a critical claim not checked",
        ALL[1:],
        PASS,
        LOW,
        ("c2", "m1"),
        ("CLAIM_NOT_CHECKED", "PASS_OVER_UNSUPPORTED_CRITICAL"),
    ),
    Case("a lesser claim not checked", ALL[:2], PASS, LOW, ("c1", "c2"), ("CLAIM_NOT_CHECKED",)),
    Case("a claim not checked, rejected anyway", ALL[:2], REJECT, REJECT, ("c1", "c2"), ("CLAIM_NOT_CHECKED",)),
    Case("nothing checked", (), PASS, LOW, IDS, ("NO_CHECKS", "CLAIM_NOT_CHECKED")),
    Case("nothing checked, and low", (), LOW, LOW, IDS, ("NO_CHECKS", "CLAIM_NOT_CHECKED")),
    Case("nothing checked, rejected", (), REJECT, REJECT, IDS, ("NO_CHECKS", "CLAIM_NOT_CHECKED")),
    Case("checked twice alike", (*ALL, ("m1", True)), PASS, LOW, ("c1", "c2"), ("CLAIM_CHECKED_TWICE",)),
    Case("checked twice unlike", (*ALL, ("m1", False)), PASS, LOW, ("c1", "c2"), ("CLAIM_CHECKED_TWICE",)),
    Case("only claim checked twice", (("c1", True),) * 2, PASS, LOW, ("c1",), ("CLAIM_CHECKED_TWICE",), ids=("c1",)),
    Case(
        "only claim checked twice unlike",
        (("c1", True), ("c1", False)),
        PASS,
        REJECT,
        (),
        ("CLAIM_CHECKED_TWICE", "PASS_OVER_UNSUPPORTED_CRITICAL"),
        ids=("c1",),
    ),
    Case("an unknown claim", (*ALL, ("c9", True)), PASS, LOW, IDS, ("UNKNOWN_CLAIM",)),
    Case("an unknown claim refused", (*ALL, ("c9", False)), PASS, LOW, IDS, ("UNKNOWN_CLAIM",)),
    Case(
        "only an unknown claim",
        (("c9", True),),
        PASS,
        LOW,
        ("c1",),
        ("CLAIM_NOT_CHECKED", "UNKNOWN_CLAIM"),
        ids=("c1",),
    ),
    Case(
        "an id in another case",
        (("C1", True), *ALL[1:]),
        LOW,
        LOW,
        ("c2", "m1"),
        ("CLAIM_NOT_CHECKED", "UNKNOWN_CLAIM"),
    ),
    Case("an unknown fact", ALL, PASS, LOW, IDS, ("UNKNOWN_FACT",), more={"facts_checked": ["c1", "f7"]}),
    Case(
        "more critical facts than claims",
        ALL,
        PASS,
        LOW,
        IDS,
        ("CRITICAL_COUNT_TOO_HIGH",),
        more={"critical_fact_count": 4},
    ),
    Case(
        "everything at once",
        (("c1", False), ("m1", True), ("m1", True), ("c9", True)),
        PASS,
        REJECT,
        (),
        (
            "CLAIM_NOT_CHECKED",
            "CLAIM_CHECKED_TWICE",
            "UNKNOWN_CLAIM",
            "UNKNOWN_FACT",
            "CRITICAL_COUNT_TOO_HIGH",
            "PASS_OVER_UNSUPPORTED_CRITICAL",
        ),
        more={"facts_checked": ["x"], "critical_fact_count": 99},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_is_never_better_than_its_checks(case: Case) -> None:
    more = {"facts_checked": list(case.ids)} | case.more
    judged = enforce(evaluation(case.checks, case.says, **more), claims(*case.ids))
    assert (judged.verdict, judged.supported, judged.violations) == (case.verdict, case.supported, case.violations)
    assert judged.score == 0.8


CONTRADICTED = [
    ("a low score", ("c1",), {"groundedness_score": 0.49}),
    ("no score at all", ("m1",), {"groundedness_score": 0}),
    ("critical claims, no fact read", ("c1", "m1"), {"facts_checked": []}),
]
CONSISTENT = [
    ("the least score", ("c1",), {"groundedness_score": 0.5}),
    ("no fact read, none critical", ("m1",), {"facts_checked": []}),
]


@pytest.mark.parametrize(("name", "ids", "more"), CONTRADICTED, ids=[name for name, *_ in CONTRADICTED])
def test_a_pass_that_its_own_figures_contradict_is_low(name: str, ids: tuple[str, ...], more: dict[str, Any]) -> None:
    said = evaluation(tuple((id_, True) for id_ in ids), PASS, **{"facts_checked": list(ids)} | more)
    judged = enforce(said, claims(*ids))
    assert (judged.verdict, judged.supported, judged.violations) == (LOW, ids, ("SCORE_CONTRADICTS_VERDICT",))


@pytest.mark.parametrize(("name", "ids", "more"), CONSISTENT, ids=[name for name, *_ in CONSISTENT])
def test_a_pass_in_keeping_with_its_figures_is_one(name: str, ids: tuple[str, ...], more: dict[str, Any]) -> None:
    said = evaluation(tuple((id_, True) for id_ in ids), PASS, **{"facts_checked": list(ids)} | more)
    judged = enforce(said, claims(*ids))
    assert (judged.verdict, judged.violations) == (PASS, ())


def test_a_low_score_under_low_confidence_is_honest() -> None:
    judged = enforce(evaluation(ALL, LOW, groundedness_score=0.1), claims(*IDS))
    assert (judged.verdict, judged.violations) == (LOW, ())


def test_an_unusable_answer_leaves_the_claims_at_low() -> None:
    judged = enforce(None, claims("c1", "m1"))
    assert (judged.verdict, judged.supported, judged.violations) == (LOW, ("c1", "m1"), ("UNUSABLE_ANSWER",))
    assert (judged.score, judged.evaluation) == (None, None)


def test_an_unusable_answer_leaves_nothing_of_a_claim_that_says_more_than_its_excerpt() -> None:
    item = Citation("inv_aaaaaa", "query_logs", "$.lines[0].text", "10:42:17 request timed out")
    invented = Claim("c1", ClaimKind.OBSERVATION, "The network is healthy.", True, (item,))
    assert (enforce(None, (invented,)).verdict, enforce(None, (invented,)).supported) == (REJECT, ())
    assert enforce(None, (invented, *claims("c2"))).supported == ("c2",)


def test_the_answer_is_kept_as_it_came() -> None:
    answer = evaluation(ALL, PASS, rationale="I read them.")
    assert enforce(answer, claims("c1")).evaluation == answer.model_dump(mode="json")


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_score_outside_its_range_is_no_answer(score: float) -> None:
    with pytest.raises(ValueError, match="groundedness_score"):
        evaluation(ALL, PASS, groundedness_score=score)
