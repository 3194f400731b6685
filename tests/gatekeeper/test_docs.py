"""docs/gates.md tells the truth: its table is the shipped metadata, its examples are judged as it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gatekeeper.gate import judge
from gatekeeper.rules import CODES, GK001
from gatekeeper.shipped import shipped_rule_set, shipped_rules
from gatekeeper.types import (
    ANSWER_VERSION,
    Case,
    Citation,
    Claim,
    ClaimKind,
    Draft,
    EvidenceRef,
    EvidenceStatus,
    Intent,
    Invocation,
    Relevance,
    SourceKind,
    Verdict,
)

PAGE = (Path(__file__).parents[2] / "docs" / "gates.md").read_text(encoding="utf-8")
EXAMPLES = [
    (code, outcome, json.loads(block))
    for code, section in re.findall(r"^### `(GK\d{3}_\w+)`\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for outcome, block in re.findall(r"^```json (passes|fails)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
]


def documented_case(draft: Draft) -> Case:
    block = re.search(r"^```json run\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert block
    run = json.loads(block.group(1))
    calls = [
        Invocation(
            call["invocation_id"],
            call["tool_name"],
            EvidenceStatus(call["status"]),
            SourceKind(call["source_kind"]),
            {
                ref["raw_path"]: EvidenceRef(
                    ref["raw_path"],
                    ref["text"],
                    ref.get("shown", True),
                    Relevance(ref["relevance"]) if "relevance" in ref else None,
                )
                for ref in call["refs"]
            },
        )
        for call in run["invocations"]
    ]
    return Case(draft, {c.invocation_id: c for c in calls}, tuple(run["input_texts"]), Intent(run["intent"]))


def documented_claim(example: dict[str, Any]) -> Claim:
    evidence = tuple(Citation(**item) for item in example["evidence"])
    return Claim("c1", ClaimKind(example["kind"]), example["claim_text"], False, evidence)


def test_the_table_is_the_shipped_metadata() -> None:
    rows = re.findall(r"^\| `(GK\d{3}_\w+)` \| (.*?) \| (\w+) \| (\w+) \| (.+?) \|$", PAGE, re.MULTILINE)
    shipped = [(rule.code, rule.title, rule.mode.value, rule.severity.value) for rule in shipped_rules()]
    assert [row[:4] for row in rows] == shipped
    assert all(reason.strip() for *_, reason in rows)


def test_every_rule_has_an_example_of_each_kind() -> None:
    assert [(code, outcome) for code, outcome, _ in EXAMPLES] == [
        (code, outcome) for code in CODES for outcome in ("passes", "fails")
    ]


def test_every_parameter_is_explained() -> None:
    for rule in shipped_rules():
        for name in rule.params:
            assert f"`{name}`" in PAGE
            assert name in rule.description


@pytest.mark.parametrize(("code", "outcome", "example"), EXAMPLES, ids=[f"{c[:5]}-{o}" for c, o, _ in EXAMPLES])
def test_an_example_is_judged_as_documented(code: str, outcome: str, example: dict[str, Any]) -> None:
    if code == GK001:
        good = next(documented_claim(claim) for _, kind, claim in EXAMPLES if kind == "passes" and "evidence" in claim)
        draft = Draft(example["answer_version"], (good,))
    else:
        draft = Draft(ANSWER_VERSION, (documented_claim(example),))
    result = judge(documented_case(draft), shipped_rule_set())
    failures = [rule.finding.code for rule in result.draft_rules if rule.effective_failure]
    failures += [failed for judged in result.claims for failed in judged.failed_codes]
    assert failures == ([] if outcome == "passes" else [code])
    assert (result.verdict is Verdict.PASS) is (outcome == "passes")
