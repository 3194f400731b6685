"""From a reply's text to a role's answer: what is forgiven, what is not, and what is said about it."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from runs.errors import ModelContractViolated
from runs.harness.structured import MAX_OBJECTS_TRIED, MAX_TEXT_CHARS, parse_reply
from runs.harness.wire import ExecutorEvidence, Plan, RouterIntent, VerifierEvaluation

INTENT = '{"intent": "DIAGNOSIS"}'
EVALUATION: dict[str, Any] = {
    "verdict": "PASS",
    "groundedness_score": 0.9,
    "critical_fact_count": 1,
    "claim_checks": [{"claim_id": "c1", "supported": True, "reason": "it says so"}],
    "facts_checked": ["c1"],
    "rationale": "",
}
CLAIM = {"claim_id": "c1", "kind": "observation", "claim_text": "x", "critical": True, "evidence": []}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(INTENT, id="exact"),
        pytest.param(f"\n  {INTENT}\t\n", id="white space around"),
        pytest.param(f"\ufeff{INTENT}", id="byte order mark"),
        pytest.param(f"```json\n{INTENT}\n```", id="fenced"),
        pytest.param(f"```\n{INTENT}\n```", id="fenced without a language"),
        pytest.param(f"```json\r\n{INTENT}\r\n```", id="fenced with CRLF"),
        pytest.param(f"Here is the answer:\n\n```json\n{INTENT}\n```\nDone.", id="fenced in prose"),
        pytest.param(f"```python\nprint(1)\n```\n```json\n{INTENT}\n```", id="second fence"),
        pytest.param(f"The intent is {INTENT}, I think.", id="in prose"),
        pytest.param(f"In {{braces}} of prose: {INTENT}", id="after other braces"),
        pytest.param(f'I saw {{"level": "ERROR"}} and answer {INTENT}', id="after another object"),
        pytest.param(f"{INTENT} {INTENT}", id="twice"),
        pytest.param(f"```json\n{INTENT}", id="fence never closed"),
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert parse_reply(text, RouterIntent).intent == "DIAGNOSIS"


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"groundedness_score": "0.5"}, "groundedness_score", 0.5),
        ({"groundedness_score": 1}, "groundedness_score", 1.0),
        ({"critical_fact_count": "3"}, "critical_fact_count", 3),
        ({"critical_fact_count": 2.0}, "critical_fact_count", 2),
    ],
)
def test_harmless_forms_of_a_number_are_taken(change: dict[str, Any], field: str, value: float) -> None:
    assert getattr(parse_reply(json.dumps(EVALUATION | change), VerifierEvaluation), field) == value


@pytest.mark.parametrize(("form", "value"), [("true", True), ("false", False), (1, True), ("no", False)])
def test_harmless_forms_of_a_boolean_are_taken(form: object, value: bool) -> None:
    check = {"claim_id": "c1", "supported": form, "reason": ""}
    assert (
        parse_reply(json.dumps(EVALUATION | {"claim_checks": [check]}), VerifierEvaluation).claim_checks[0].supported
        is value
    )


@dataclass(frozen=True)
class Refused:
    name: str
    text: str | None
    output: type[BaseModel]
    code: str
    reason: str


REFUSED = [
    Refused("nothing", None, RouterIntent, "EMPTY", "The answer is empty."),
    Refused("blank", " \n", RouterIntent, "EMPTY", "The answer is empty."),
    Refused("prose", "I would say DIAGNOSIS.", RouterIntent, "NOT_JSON", "The answer holds no JSON object."),
    Refused("a list", "[1, 2]", RouterIntent, "NOT_JSON", "The answer holds no JSON object."),
    Refused("a string", '"DIAGNOSIS"', RouterIntent, "NOT_JSON", "The answer holds no JSON object."),
    Refused("cut off", '{"intent": "DIAGN', RouterIntent, "NOT_JSON", "The answer holds no JSON object."),
    Refused("braces without end", "{" * 200_000, RouterIntent, "NOT_JSON", "The answer holds no JSON object."),
    Refused("nested without end", '{"a":' * 100_000, RouterIntent, "NOT_JSON", "The answer holds no JSON object."),
    Refused("too long", " " * MAX_TEXT_CHARS + INTENT, RouterIntent, "NOT_JSON", "longer than 1000000 characters"),
    Refused("NaN", '{"score": NaN}', VerifierEvaluation, "NOT_JSON", "The answer holds no JSON object."),
    Refused("enum in another case", '{"intent": "diagnosis"}', RouterIntent, "SCHEMA", "intent (enum)"),
    Refused("enum unknown", '{"intent": "GOSSIP"}', RouterIntent, "SCHEMA", "intent (enum)"),
    Refused("field missing", "{}", RouterIntent, "SCHEMA", "intent (missing)"),
    Refused("field too many", '{"intent": "DIAGNOSIS", "secret": 1}', RouterIntent, "SCHEMA", "? (extra_forbidden)"),
    Refused("text for a list", '{"focus": "f", "steps": "s"}', Plan, "SCHEMA", "steps (list_type)"),
    Refused("number for a text", '{"focus": 7, "steps": []}', Plan, "SCHEMA", "focus (string_type)"),
    Refused(
        "score out of range",
        json.dumps(EVALUATION | {"groundedness_score": 1.5}),
        VerifierEvaluation,
        "SCHEMA",
        "groundedness_score (less_than_equal)",
    ),
    Refused(
        "deep inside",
        json.dumps({"claims": [CLAIM, CLAIM | {"kind": "guess"}]}),
        ExecutorEvidence,
        "SCHEMA",
        "claims[1].kind (enum)",
    ),
    Refused(
        "old structure",
        json.dumps({"answer_version": "executor_evidence_v1", "claims": []}),
        ExecutorEvidence,
        "SCHEMA",
        "answer_version (literal_error)",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_does_not_fit_is_refused_with_a_reason(case: Refused) -> None:
    with pytest.raises(ModelContractViolated) as caught:
        parse_reply(case.text, case.output)
    assert caught.value.error_code == case.code
    assert case.reason in caught.value.safe_message


def test_the_reason_holds_no_word_of_the_model_and_is_bounded() -> None:
    hostile = {f"SECRET-{n}": "SECRET" for n in range(500)}
    claims = [CLAIM | {"kind": "SECRET", "SECRET-KEY": 1} for _ in range(30)]
    with pytest.raises(ModelContractViolated) as caught:
        parse_reply(json.dumps({"claims": claims, **hostile}), ExecutorEvidence)
    assert "SECRET" not in caught.value.safe_message
    assert len(caught.value.safe_message) < 400
    assert "more" in caught.value.safe_message


def test_an_object_behind_very_many_others_is_not_looked_for() -> None:
    with pytest.raises(ModelContractViolated):
        parse_reply('{"a": 1} ' * MAX_OBJECTS_TRIED + INTENT, RouterIntent)
