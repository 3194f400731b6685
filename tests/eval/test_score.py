"""What counts as found, as forbidden and as worse."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from eval import baseline
from eval.__main__ import main
from eval.run import INCIDENTS, diagnose, incident_slugs
from eval.score import BadTruth, Ended, Score, Truth, score
from eval.verifier import Figures, Share

LINE = "10:04:11 ERROR pool exhausted, 41 requests wait"
GAUGE = "pool_active: 10 at 10:10:00Z (last), rose from 4 at 09:51:00Z"
NOTHING = "query_logs found no line with level ERROR, service 'a-api'"
INVOCATIONS = {
    "inv_1": ("query_logs", {"$.lines[0].text": LINE}),
    "inv_2": ("query_metrics", {"$.series[0].summary": GAUGE}),
    "inv_3": ("query_logs", {"$.no_evidence": NOTHING}),
}
TRUTH: dict[str, Any] = {
    "expected_findings": [
        {"id": "pool", "any_of": [r"pool exhausted", r"pool is used up"], "must_cite_tool": ["query_logs"]},
        {"id": "active", "any_of": [r"pool_active: \d+"], "must_cite_tool": ["query_metrics"]},
    ],
    "forbidden_findings": [r"(?i)cpu\b.{0,20}is the cause"],
    "expect_outcome": "SUCCESS",
    "expect_nothing_found": False,
}
QUIET: dict[str, Any] = TRUTH | {
    "expected_findings": [],
    "expect_outcome": "SUCCESS|DEGRADED",
    "expect_nothing_found": True,
}


def claim(text: str, invocation: str = "inv_1", kind: str = "observation", **changes: str) -> dict[str, Any]:
    tool, refs = INVOCATIONS[invocation]
    ((path, ref),) = refs.items()
    cited = {"sourceInvocationId": invocation, "toolName": tool, "rawPath": path, "evidenceExcerpt": ref} | changes
    return {"claimId": "c1", "kind": kind, "claimText": text, "evidence": [cited]}


def ended(*claims: dict[str, Any], conclusion: str = "", statements: tuple[str, ...] = (), **changes: Any) -> Ended:
    numbered = [each | {"claimId": f"c{number}"} for number, each in enumerate(claims, start=1)]
    published = {
        "query": "why",
        "conclusion": conclusion,
        "scope": "",
        "limitations": [],
        "statements": [{"text": text, "claimIds": ["c1"]} for text in statements],
        "claims": numbered,
        "sourceDocuments": [],
    }
    known: dict[str, Any] = {"outcome": "SUCCESS", "verdict": "PASS", "published": published, "safe": {}}
    return Ended(**known | {"invocations": INVOCATIONS} | changes)


POOL, ACTIVE = claim(LINE), claim(GAUGE, "inv_2")
NEGATIVE = claim(NOTHING, "inv_3", "negative_observation")
WITHHELD = ended(outcome="DEGRADED", verdict="REJECT", published=None, safe={"headline": "Nothing was released."})


@dataclass(frozen=True)
class Found:
    name: str
    ended: Ended
    found: tuple[str, ...] = ()
    uncited: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


FINDINGS = [
    Found("both", ended(POOL, ACTIVE), ("pool", "active")),
    Found("one", ended(POOL), ("pool",), missing=("active",)),
    Found("in the excerpt", ended(claim("the pool has no connection"), ACTIVE), ("pool", "active")),
    Found("in a statement of the claim", ended(ACTIVE, statements=("the pool is used up",)), ("active",), ("pool",)),
    Found("in the conclusion only", ended(ACTIVE, conclusion="pool exhausted"), ("active",), missing=("pool",)),
    Found("broken over two lines", ended(claim("pool\n  exhausted"), ACTIVE), ("pool", "active")),
    Found("from another tool", ended(claim("pool exhausted", "inv_2"), ACTIVE), ("active",), ("pool",)),
    Found("withheld", WITHHELD, missing=("pool", "active")),
]


@pytest.mark.parametrize("case", FINDINGS, ids=lambda case: case.name)
def test_a_finding_needs_a_published_claim_with_the_right_citation(case: Found) -> None:
    scored = score(Truth.read(TRUTH), case.ended)
    assert (scored.found, scored.uncited, scored.missing) == (case.found, case.uncited, case.missing)
    assert scored.expected == 2


FAULTS = [
    (TRUTH, ended(POOL, ACTIVE), ""),
    (TRUTH, ended(POOL, conclusion="CPU of node-1 is the cause."), "forbidden"),
    (TRUTH, ended(POOL, statements=("CPU of node-1\nis the cause",)), "forbidden"),
    (TRUTH, replace(WITHHELD, safe={"headline": "x", "lookedAt": ["cpu is the cause"]}), "forbidden"),
    (TRUTH, ended(NEGATIVE, conclusion="Errors of a-api are ruled out."), "proof of absence"),
    (TRUTH, ended(NEGATIVE, conclusion="This does not rule out errors."), ""),
    (TRUTH, ended(claim(LINE, evidenceExcerpt="42 requests wait")), "not on record"),
    (TRUTH, ended(claim(LINE, sourceInvocationId="inv_9")), "not on record"),
    (TRUTH, ended(claim(LINE, toolName="query_metrics")), "not on record"),
    (TRUTH, ended(claim(LINE, rawPath="$.lines[1].text")), "not on record"),
    (TRUTH, ended(claim(LINE, evidenceExcerpt="pool  exhausted")), ""),
    (TRUTH, ended(POOL, record_complete=False), "ledger"),
    (TRUTH, ended(outcome="FAILED", verdict=None, published=None), "ended FAILED"),
    (TRUTH, ended(outcome="CANCELLED", verdict=None, published=None), "ended CANCELLED"),
    (QUIET, ended(NEGATIVE), ""),
    (QUIET, WITHHELD, ""),
    (QUIET, ended(claim("pool_active stayed at 10", "inv_2")), ""),
    (QUIET, ended(claim("活动连接保持不变", "inv_2")), ""),
    (QUIET, ended(ACTIVE), "where there is none"),
    (QUIET, ended(claim(LINE, "inv_1", "negative_observation")), "where there is none"),
]


@pytest.mark.parametrize(("truth", "run", "told"), FAULTS)
def test_faults_are_told(truth: dict[str, Any], run: Ended, told: str) -> None:
    faults = score(Truth.read(truth), run).faults
    assert len(faults) == bool(told), faults
    assert told in "".join(faults)


@pytest.mark.parametrize(
    ("outcome", "truth", "expected"),
    [("SUCCESS", TRUTH, True), ("DEGRADED", TRUTH, False), ("DEGRADED", QUIET, True), ("FAILED", QUIET, False)],
)
def test_the_outcome_is_one_of_those_that_are_right(outcome: str, truth: dict[str, Any], expected: bool) -> None:
    assert score(Truth.read(truth), replace(WITHHELD, outcome=outcome)).outcome_expected is expected


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"forbidden_findings": ["("]}, "no regular expression"),
        ({"expected_findings": [{"id": "x"}]}, "lacks 'any_of'"),
        ({"expected_findings": 3}, "shape"),
        ({"expect_outcome": None}, "shape"),
    ],
)
def test_a_truth_that_cannot_be_used_is_refused_in_a_sentence(change: dict[str, Any], told: str) -> None:
    with pytest.raises(BadTruth, match=told):
        Truth.read(TRUTH | change)


# ---- against the baseline -------------------------------------------------------------------------------------

WHOLE = Score(("pool", "active"), (), (), (), outcome_expected=True)
KEPT = baseline.incident_entry(ended(POOL, ACTIVE), WHOLE)


@pytest.mark.parametrize(
    ("run", "scored", "kept", "worse"),
    [
        (ended(), WHOLE, KEPT, []),
        (ended(), WHOLE, None, []),
        (ended(), replace(WHOLE, found=("pool",)), KEPT, ["lost the finding active"]),
        (ended(), replace(WHOLE, found=()), None, []),
        (ended(), replace(WHOLE, faults=("said it",)), KEPT, ["said it"]),
        (ended(), replace(WHOLE, faults=("said it",)), None, ["said it"]),
        (ended(verdict="LOW_CONFID"), WHOLE, KEPT, ["verdict LOW_CONFID, was PASS"]),
        (ended(verdict="PASS"), WHOLE, KEPT | {"verdict": "LOW_CONFID"}, []),
        (ended(verdict=None), WHOLE, KEPT | {"verdict": "REJECT"}, ["verdict None, was REJECT"]),
        (ended(outcome="DEGRADED"), replace(WHOLE, outcome_expected=False), KEPT, ["outcome DEGRADED, was SUCCESS"]),
        (ended(outcome="DEGRADED"), replace(WHOLE, outcome_expected=False), KEPT | {"outcome_expected": False}, []),
        (ended(tokens=10**9, seconds=999.0, model_calls=99), WHOLE, KEPT, []),
    ],
)
def test_what_is_worse_than_the_baseline(
    run: Ended, scored: Score, kept: dict[str, Any] | None, worse: list[str]
) -> None:
    assert baseline.worse_incident(run, scored, kept) == worse


def figures(false_support: int, recall: int = 5) -> dict[str, Figures]:
    return {"wrong_number en": Figures(Share(false_support, 30), Share(recall, 10), 0)}


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (figures(1), figures(1), 0),
        (figures(1), figures(2), 1),
        (figures(2), figures(1), 0),
        (figures(1), figures(1, 0), 0),
        ({}, figures(9), 0),
    ],
)
def test_only_false_support_that_rises_is_worse(
    before: dict[str, Figures], now: dict[str, Figures], worse: int
) -> None:
    assert len(baseline.worse_verifier(now, baseline.verifier_entry(before))) == worse


def test_a_baseline_keeps_what_was_not_measured_this_time(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert baseline.read("offline", path) == baseline.Baseline({}, {})
    rates = baseline.verifier_entry(figures(1))
    baseline.save("offline", {"a": KEPT}, rates, path)
    baseline.save("openai:x", {"a": KEPT | {"tokens": 7}}, {}, path)
    baseline.save("offline", {"b": KEPT}, {}, path)
    assert baseline.read("offline", path) == baseline.Baseline({"a": KEPT, "b": KEPT}, rates)
    assert baseline.read("openai:x", path).incidents["a"]["tokens"] == 7
    path.write_text("{")
    with pytest.raises(baseline.BadBaseline, match="not valid JSON"):
        baseline.read("offline", path)


# ---- the command ----------------------------------------------------------------------------------------------


def test_an_unknown_incident_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended_with:
        main(["no-such"])
    assert ended_with.value.code == 2
    assert "there is no incident no-such" in capsys.readouterr().err


def test_a_model_that_is_none_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPERBIZ_LLM", "offline")
    assert main(["verifier", "--model", "gpt"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("eval: SUPERBIZ_LLM must be")


def test_an_incident_that_is_being_recorded_is_left_out(tmp_path: Path) -> None:
    assert {"pool-exhausted", "cpu-red-herring", "false-alarm"} <= set(incident_slugs())
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "alert.json").write_text("{}")
    assert incident_slugs(tmp_path) == []


@pytest.mark.django_db(transaction=True)
def test_an_incident_is_diagnosed_by_the_real_product_and_leaves_no_setting_behind(settings: Settings) -> None:
    before = settings.SUPERBIZ
    for command, arguments in (("sync_rules", ()), ("sync_prompts", ()), ("import_runbooks", ("--bundled",))):
        call_command(command, *arguments, verbosity=0)
    result = diagnose("cpu-red-herring", INCIDENTS)
    assert result.score.found == ("lock-timeouts", "index-build-holds-the-lock")
    assert result.score.faults == ()
    assert result.ended.groundedness is not None
    assert result.ended.tokens > 0
    assert before == settings.SUPERBIZ
