import json
from typing import Any

import pytest

from audit.restricted import visible_self_evaluation
from gatekeeper.canonical import sha256_of
from runs.models import DiagnosisRun
from tests.audit.selfevaluations import CLAIM, evaluation


def seen(kept: Any, *, may_read: bool = False) -> Any:
    return visible_self_evaluation(DiagnosisRun(self_evaluation=kept), may_read)


def test_no_restricted_text_is_left_without_the_permission() -> None:
    text = json.dumps(seen(evaluation()))
    assert "SECRET" not in text
    assert "total=10" not in text


def test_ids_codes_verdicts_and_digests_are_left() -> None:
    verifier = seen(evaluation())["verifier_evaluation"]
    draft = verifier["executor_structured_output"]["claims"]
    assert draft == [{"claim_id": "c1", "kind": "observation", "critical": True, "claim_sha256": sha256_of(CLAIM)}]
    (judged,) = verifier["gatekeeper_result"]["rounds"][0]["claims"]
    assert (judged["claim_id"], judged["accepted"]) == ("c1", True)
    assert [(rule["code"], rule["verdict"]) for rule in judged["rules"]] == [("GK005_EXCERPT_SUPPORTED", "PASS")]
    assert verifier["evaluation"]["claim_checks"] == [{"claim_id": "c1", "supported": True}]
    assert verifier["contract_violations"] == ["UNKNOWN_CLAIM"]
    assert verifier["release"] == {"decision": "RELEASED", "dropped": ["NUMBERS"]}
    assert seen(evaluation())["aiops_rule_evaluation"]["rules"] == [{"code": "AR001_REPORT_EXISTS", "passed": True}]


@pytest.mark.parametrize("made_up", ["SECRET words: c3 said so", "SECRET-1 ", "c9", "c1\nSECRET", 7, None, ["SECRET"]])
def test_an_id_that_a_verifier_made_up_is_its_own_text(made_up: Any) -> None:
    answer = evaluation()["verifier_evaluation"]["evaluation"]
    answer["claim_checks"] += [{"claim_id": made_up, "supported": False, "reason": "SECRET reason"}]
    answer["facts_checked"] += [made_up]
    shown = seen(evaluation(evaluation=answer))["verifier_evaluation"]["evaluation"]
    assert [check["claim_id"] for check in shown["claim_checks"]] == ["c1", "(unknown)"]
    assert "SECRET" not in json.dumps(shown)


def test_an_id_that_an_executor_made_up_is_its_own_text() -> None:
    verifier = seen(evaluation({**CLAIM, "claim_id": "SECRET told by the model"}))["verifier_evaluation"]
    assert verifier["executor_structured_output"]["claims"][0]["claim_id"] == "(unknown)"
    assert verifier["gatekeeper_result"]["rounds"][0]["claims"][0]["claim_id"] == "(unknown)"
    assert verifier["evaluation"]["claim_checks"][0]["claim_id"] == "(unknown)"


def test_a_reader_of_reasoning_sees_all() -> None:
    assert seen(evaluation(), may_read=True) == evaluation()


def test_an_answer_version_that_a_model_made_up_is_its_own_text() -> None:
    kept = evaluation(executor_structured_output={"answer_version": "SECRET", "claims": []})
    assert seen(kept)["verifier_evaluation"]["executor_structured_output"]["answer_version"] == "other"


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"verifier_evaluation": None, "aiops_rule_evaluation": None},
        {"verifier_evaluation": "SECRET", "aiops_rule_evaluation": ["SECRET"]},
        evaluation(gatekeeper_result={"rounds": [{"verdict": "PASS", "text": "SECRET"}, "SECRET"]}),
        evaluation(executor_structured_output=None, tool_trace_summary="SECRET", evaluation="SECRET"),
    ],
)
def test_odd_shapes_show_nothing(kept: Any) -> None:
    assert "SECRET" not in json.dumps(seen(kept))


def test_nothing_is_nothing() -> None:
    assert seen(None) is None
