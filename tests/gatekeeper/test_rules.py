"""Each rule, by what it lets pass and what it refuses."""

from dataclasses import dataclass, replace

import pytest

from gatekeeper import rules
from gatekeeper.types import Case, Claim, ClaimKind, Finding, Intent
from tests.gatekeeper.cases import REFERENCE_ONLY, advice, case_of, cite, claim, nothing

GUIDANCE, NEGATIVE = ClaimKind.GUIDANCE, ClaimKind.NEGATIVE_OBSERVATION
PASS: list[int | None] = []
REFERENCE = advice("$.hits[1].text", REFERENCE_ONLY)


@dataclass(frozen=True)
class Row:
    """`failed` lists the evidence items at fault (None: the claim as a whole); `NA` where the rule does not apply."""

    says: str
    code: str
    claim: Claim
    failed: list[int | None] | str
    inputs: tuple[str, ...] = ()
    intent: Intent = Intent.DIAGNOSIS


ROWS = [
    Row("a call of this run", rules.GK002, claim(cite()), PASS),
    Row("no evidence", rules.GK002, claim(), [None]),
    Row("an invented id", rules.GK002, claim(cite("inv_made_up")), [0]),
    Row("each invented id is told", rules.GK002, claim(cite("inv_x"), cite(), cite("inv_y")), [0, 2]),
    Row("an id in other case", rules.GK002, claim(cite("INV_LOGS")), [0]),
    Row("the tool that was called", rules.GK003, claim(cite()), PASS),
    Row("another tool", rules.GK003, claim(cite(tool="lookup_knowledge")), [0]),
    Row("no tool", rules.GK003, claim(cite(tool="")), [0]),
    Row("an unknown call has no tool", rules.GK003, claim(cite("inv_x")), [0]),
    Row("nothing to look at", rules.GK003, claim(), "NA"),
    Row("a path of the call", rules.GK004, claim(cite()), PASS),
    Row("no such path", rules.GK004, claim(cite(path="$.lines[9].text")), [0]),
    Row("the path written otherwise", rules.GK004, claim(cite(path="$['lines'][0].text")), [0]),
    Row("a path of another call", rules.GK004, claim(cite(path="$.hits[0].text")), [0]),
    Row("a ref the model did not see", rules.GK004, claim(cite(path="$.lines[2].text")), [0]),
    Row("an unknown call has no path", rules.GK004, claim(cite("inv_x")), [0]),
    Row("nothing to look at", rules.GK004, claim(), "NA"),
    Row("a verbatim span", rules.GK005, claim(cite()), PASS),
    Row("other white space", rules.GK005, claim(cite(excerpt="  request timed\n\tout  after 30000ms ")), PASS),
    Row("full-width forms", rules.GK005, claim(cite(excerpt="ｔｉｍｅｄ　ｏｕｔ　ａｆｔｅｒ　３００００ms")), PASS),
    Row("colour codes", rules.GK005, claim(cite(excerpt="request \x1b[1;31mtimed out\x1b[0m after")), PASS),
    Row("text in a terminal command", rules.GK005, claim(cite(excerpt="request \x1b]0;not\x07timed out after")), [0]),
    Row("other case", rules.GK005, claim(cite(excerpt="REQUEST TIMED OUT")), [0]),
    Row("another digit", rules.GK005, claim(cite(excerpt="request timed out after 30001ms")), [0]),
    Row("a word more", rules.GK005, claim(cite(excerpt="Connection is not not available")), [0]),
    Row("a word less", rules.GK005, claim(cite(excerpt="Connection is available, request")), [0]),
    Row("two spans put together", rules.GK005, claim(cite(excerpt="HikariPool-1 - timed out after 30000ms")), [0]),
    Row("an ellipsis", rules.GK005, claim(cite(excerpt="Connection is … timed out")), [0]),
    Row("the text of another ref", rules.GK005, claim(cite(excerpt="has 1,024 waiting threads")), [0]),
    Row("seven characters", rules.GK005, claim(cite(excerpt="30000ms")), [0]),
    Row("seven characters and spaces", rules.GK005, claim(cite(excerpt="   30000ms   ")), [0]),
    Row("a short text as a whole", rules.GK005, claim(cite(path="$.level", excerpt="ERROR")), PASS),
    Row("an empty excerpt", rules.GK005, claim(cite(excerpt=" \n")), [0]),
    Row("no excerpt at all", rules.GK005, claim(), [None]),
    Row("no text to compare with", rules.GK005, claim(cite("inv_x"), cite(path="$.nowhere")), [0, 1]),
    Row("a negative on nothing found", rules.GK006, claim(nothing(), kind=NEGATIVE), PASS),
    Row("a repeated call that found nothing", rules.GK006, claim(nothing("inv_again"), kind=NEGATIVE), PASS),
    Row("a repeated call that found lines", rules.GK006, claim(nothing("inv_seen"), kind=NEGATIVE), [0]),
    Row("a call that ended otherwise", rules.GK006, claim(nothing("inv_odd"), kind=NEGATIVE), [0]),
    Row("a failure is not nothing found", rules.GK006, claim(nothing("inv_failed"), kind=NEGATIVE), [0]),
    Row("a negative on a line", rules.GK006, claim(cite(), kind=NEGATIVE), [0]),
    Row("a negative on nothing and a line", rules.GK006, claim(nothing(), cite(), kind=NEGATIVE), [1]),
    Row("an observation on nothing", rules.GK006, claim(nothing()), [0]),
    Row("guidance on nothing", rules.GK006, claim(advice(), nothing(), kind=GUIDANCE), [1]),
    Row("an observation on a line", rules.GK006, claim(cite()), PASS),
    Row("an unknown call found nothing", rules.GK006, claim(nothing("inv_x"), kind=NEGATIVE), [0]),
    Row("the excerpt's number", rules.GK007, claim(cite(), text="It took 30,000 ms."), PASS),
    Row("another unit", rules.GK007, claim(cite(), text="It took 30 s."), [None]),
    Row("a name of the line, not of the excerpt", rules.GK007, claim(cite(), text="HikariPool-1 timed out."), [None]),
    Row(
        "a number of the line, not of the excerpt",
        rules.GK007,
        claim(cite(excerpt="Connection is not available"), text="It took 30000 ms."),
        [None],
    ),
    Row(
        "a number cut at one place and whole at another",
        rules.GK007,
        claim(cite("inv_twice", "$.t", "request took 15"), text="It took 15."),
        PASS,
    ),
    Row("a number of the alert", rules.GK007, claim(cite(), text="12.5% fail."), PASS, ("ratio 12.5 %",)),
    Row("any of the excerpts", rules.GK007, claim(cite(), advice(), text="30000 ms"), PASS),
    Row("a cut number", rules.GK007, claim(cite(excerpt="request timed out after 300"), text="300 ms"), [None]),
    Row("a name that needs no support", rules.GK007, claim(cite(), text="The k8s pods fail."), PASS),
    Row("no term", rules.GK007, claim(cite()), PASS),
    Row("a hidden zero", rules.GK007, claim(cite(), text="It took 300000\u034f ms."), [None]),
    Row("a superscript", rules.GK007, claim(cite(), text="⁹⁹ percent failed."), [None]),
    Row("a hidden character", rules.GK007, claim(cite(), text="Requests time\u200b out."), [None]),
    Row("a character of the alert", rules.GK007, claim(cite(), text="caf\u00ade is slow."), PASS, ("caf\u00ade",)),
    Row("an emoji", rules.GK007, claim(cite(), text="⚠\ufe0f Requests time out."), PASS),
    Row("no evidence and no term", rules.GK007, claim(), PASS),
    Row("no evidence and a term", rules.GK007, claim(text="It took 5 s."), [None]),
    Row("a call that succeeded", rules.GK008, claim(cite(), nothing()), PASS),
    *(
        Row(f"a call that ended as {name}", rules.GK008, claim(cite(name, "$.error", "no answer within")), [0])
        for name in ("inv_failed", "inv_timeout", "inv_refused")
    ),
    Row("an unknown call", rules.GK008, claim(cite("inv_x")), [0]),
    Row("an observation on telemetry", rules.GK009, claim(cite()), PASS),
    Row("an observation on both", rules.GK009, claim(advice(), cite()), PASS),
    Row("an observation on a runbook", rules.GK009, claim(advice()), [None]),
    Row("an observation on the clock", rules.GK009, claim(cite("inv_clock", "$.now", "it is 10:45 now")), [None]),
    Row("guidance on a runbook", rules.GK009, claim(advice(), kind=GUIDANCE), PASS),
    Row("guidance on a reference", rules.GK009, claim(REFERENCE, kind=GUIDANCE), [None]),
    Row("guidance on both", rules.GK009, claim(REFERENCE, advice(), kind=GUIDANCE), PASS),
    Row("a negative", rules.GK009, claim(nothing(), kind=NEGATIVE), "NA"),
    Row("a question", rules.GK009, claim(advice()), "NA", (), Intent.KNOWLEDGE_QUERY),
    Row("no known call", rules.GK009, claim(cite("inv_x")), "NA"),
]


def found(row: Row) -> list[Finding]:
    case = replace(case_of(row.claim, inputs=row.inputs), intent=row.intent)
    answer = rules.CLAIM_RULES[row.code](case, row.claim, {"ignored_names": "k8s"})
    return list(answer) if isinstance(answer, tuple) else [answer]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.code[:5]}-{row.says}" for row in ROWS])
def test_a_rule_decides(row: Row) -> None:
    findings = found(row)
    assert {finding.code for finding in findings} == {row.code}
    if row.failed in ("NA", PASS):
        assert [finding.passed for finding in findings] == [None if row.failed == "NA" else True]
    else:
        assert [(finding.passed, finding.citation) for finding in findings] == [(False, item) for item in row.failed]
        assert all(finding.reason for finding in findings)


@pytest.mark.parametrize(
    ("version", "passed"),
    [("executor_evidence_v2", True), ("executor_evidence_v1", False), (None, False), ("", False)],
)
def test_the_draft_states_its_version(version: str | None, passed: bool) -> None:
    assert rules.answer_version(case_of(version=version), {}).passed is passed


REASONS = [
    (claim(cite(path="$.lines[0].txt")), rules.GK004, "nearest path is $.lines[0].text"),
    (claim(cite(excerpt="has 1,024 waiting threads")), rules.GK005, "it stands in $.lines[1].text"),
    (claim(cite(excerpt="request timed out after 60000ms")), rules.GK005, "but then not '60000ms'"),
    (claim(cite(excerpt="nothing of the sort")), rules.GK005, "excerpt not found in $.lines[0].text."),
    (claim(cite(), text="Code ERR_7 after 5 s."), rules.GK007, "ERR_7, 5 s"),
    (claim(cite(), text="Requests time\u200b out."), rules.GK007, "cannot be seen: U+200B"),
]


@pytest.mark.parametrize(("judged", "code", "words"), REASONS, ids=[words for _, _, words in REASONS])
def test_a_reason_helps_to_put_it_right(judged: Claim, code: str, words: str) -> None:
    case: Case = case_of(judged)
    answer = rules.CLAIM_RULES[code](case, judged, {})
    reasons = [finding.reason for finding in (answer if isinstance(answer, tuple) else (answer,))]
    assert words in reasons[0]


def test_what_was_compared_is_bounded() -> None:
    long = "x" * 5_000
    judged = claim(cite(long, long, long, long), text=f"{long}_{long}")
    case = case_of(judged)
    for code, rule in rules.CLAIM_RULES.items():
        answer = rule(case, judged, {})
        for finding in answer if isinstance(answer, tuple) else (answer,):
            assert len(finding.reason) < 700, code
            assert all(len(value) <= 300 for value in finding.compared.values()), code
