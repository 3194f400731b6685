"""From an executor's text to a draft: what is taken over of an answer that broke its form."""

import json
from typing import Any

import pytest

from gatekeeper.types import ANSWER_VERSION, Citation, Claim, ClaimKind, Draft
from runs.harness import drafts
from runs.harness.structured import MAX_TEXT_CHARS
from runs.harness.wire import MAX_CLAIMS, ExecutorEvidence

CITATION = {
    "source_invocation_id": "inv_aaaaaa",
    "tool_name": "query_logs",
    "raw_path": "$.lines[0].text",
    "evidence_excerpt": "timed out after 30s",
}
WIRE: dict[str, Any] = {
    "claim_id": "c1",
    "kind": "observation",
    "claim_text": "It timed out.",
    "critical": True,
    "evidence": [CITATION],
}
CLAIM = Claim("c1", ClaimKind.OBSERVATION, "It timed out.", True, (Citation(*CITATION.values()),))


def answer(*claims: Any, **more: Any) -> dict[str, Any]:
    return {"answer_version": ANSWER_VERSION, "claims": list(claims)} | more


def test_a_kept_form_is_taken_over_whole() -> None:
    evidence = ExecutorEvidence.model_validate(answer(WIRE))
    assert drafts.from_wire(evidence) == Draft(ANSWER_VERSION, (CLAIM,))


SALVAGED = [
    ("another version", json.dumps(answer(WIRE, answer_version="v1")), Draft("v1", (CLAIM,))),
    ("no version", json.dumps({"claims": [WIRE]}), Draft(None, (CLAIM,))),
    ("a version that is no text", json.dumps(answer(WIRE, answer_version=2)), Draft(None, (CLAIM,))),
    ("an unknown field", json.dumps(answer(WIRE, mood="good")), Draft(ANSWER_VERSION, (CLAIM,))),
    ("in prose", f"I found: {json.dumps(answer(WIRE))} and no more", Draft(ANSWER_VERSION, (CLAIM,))),
    ("behind braces of prose", f"{{x}} {json.dumps(answer(WIRE))}", Draft(ANSWER_VERSION, (CLAIM,))),
    ("behind another object", '{"a": 1} ' + json.dumps(answer(WIRE)), Draft(ANSWER_VERSION, (CLAIM,))),
    ("fenced", f"```json\n{json.dumps(answer(WIRE))}\n```", Draft(ANSWER_VERSION, (CLAIM,))),
    ("one claim of three is whole", json.dumps(answer(WIRE | {"kind": "x"}, WIRE, 7)), Draft(ANSWER_VERSION, (CLAIM,))),
    ("no claim is whole", json.dumps(answer({"claim_id": "c1"})), Draft(ANSWER_VERSION, ())),
]


@pytest.mark.parametrize(("name", "text", "draft"), SALVAGED, ids=[name for name, _, _ in SALVAGED])
def test_whole_claims_of_a_broken_form_are_salvaged(name: str, text: str, draft: Draft) -> None:
    assert drafts.salvage(text) == draft


@pytest.mark.parametrize(
    "text",
    [None, "", "prose", "[]", "7", "{}", '{"claims": {}}', '{"claims": ', "{" * 5_000, " " * MAX_TEXT_CHARS + "{}"],
    ids=["none", "empty", "prose", "list", "number", "no claims", "object", "cut off", "braces", "too long"],
)
def test_nothing_to_read_is_an_empty_draft(text: str | None) -> None:
    assert drafts.salvage(text) == drafts.EMPTY


def test_no_more_claims_are_salvaged_than_an_answer_may_hold() -> None:
    many = [WIRE | {"claim_id": f"c{n}"} for n in range(MAX_CLAIMS + 5)]
    assert len(drafts.salvage(json.dumps({"claims": many})).claims) == MAX_CLAIMS


IDS = [
    (["c1", "C2", "claim_3", "obs-12", "n1"], ["c1", "C2", "claim_3", "obs-12", "n1"]),
    (["pool", "c1", "the boss took bribes"], ["c2", "c1", "c3"]),
    (["c1 ", "c1", "c٢", "metrics1", "c12345", "c1x", "1", "c"], ["c2", "c1", "c3", "c4", "c5", "c6", "c7", "c8"]),
    (["c1\n", "<b>"], ["c1", "c2"]),
    (["the pool", "the pool", "c7", "c7"], ["c1", "c1", "c7", "c7"]),
]


@pytest.mark.parametrize(("given", "kept"), IDS)
def test_an_id_that_could_be_a_text_is_replaced(given: list[str], kept: list[str]) -> None:
    wire = answer(*(WIRE | {"claim_id": id_} for id_ in given))
    strict = drafts.from_wire(ExecutorEvidence.model_validate(wire))
    assert [claim.claim_id for claim in strict.claims] == kept
    assert drafts.salvage(json.dumps(wire | {"mood": "good"})) == strict


def test_a_draft_is_kept_as_it_came() -> None:
    assert drafts.to_json(Draft(ANSWER_VERSION, (CLAIM,))) == answer(WIRE)
    assert drafts.to_json(drafts.EMPTY) == {"answer_version": None, "claims": []}
