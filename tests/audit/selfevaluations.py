"""A run's evaluation of itself, every restricted text in it spelled SECRET."""

from typing import Any

from gatekeeper.types import ANSWER_VERSION

CLAIM = {
    "claim_id": "c1",
    "kind": "observation",
    "claim_text": "SECRET claim: 10 of 10 connections are active",
    "critical": True,
    "evidence": [
        {
            "source_invocation_id": "inv_aaaaaa",
            "tool_name": "query_logs",
            "raw_path": "$.lines[0].text",
            "evidence_excerpt": "total=10, active=10, idle=0",
        }
    ],
}


def rule(code: str, verdict: str) -> dict[str, Any]:
    return {
        "code": code,
        "mode": "ENFORCED",
        "severity": "REJECT",
        "verdict": verdict,
        "reason": "SECRET reason",
        "compared": {"excerpt": "SECRET excerpt"},
        "citation": 0,
    }


def gate_round(claim: dict[str, Any] = CLAIM, *, accepted: bool = True) -> dict[str, Any]:
    return {
        "version": 1,
        "verdict": "PASS" if accepted else "REJECT",
        "rule_set_number": 1,
        "rule_set_digest": "d" * 64,
        "enabled_rules": [],
        "draft_rules": [rule("GK001_ANSWER_VERSION", "PASS")],
        "claims": [
            {
                "claim_id": claim["claim_id"],
                "accepted": accepted,
                "claim": claim,
                "rules": [rule("GK005_EXCERPT_SUPPORTED", "PASS" if accepted else "FAIL")],
            }
        ],
    }


def evaluation(*claims: dict[str, Any], accepted: bool = True, **changes: Any) -> dict[str, Any]:
    claims = claims or (CLAIM,)
    verifier: dict[str, Any] = {
        "verdict": "PASS",
        "evaluation": {
            "verdict": "PASS",
            "groundedness_score": 1.0,
            "critical_fact_count": 1,
            "claim_checks": [{"claim_id": "c1", "supported": True, "reason": "SECRET reason"}],
            "facts_checked": ["c1"],
            "rationale": "SECRET rationale",
        },
        "contract_violations": ["UNKNOWN_CLAIM", "SECRET words of a model"],
        "executor_structured_output": {"answer_version": ANSWER_VERSION, "claims": list(claims)},
        "gatekeeper_result": {"rounds": [gate_round(claims[0], accepted=accepted)]},
        "tool_trace_summary": [
            {
                "invocation_id": "inv_aaaaaa",
                "tool_name": "query_logs",
                "status": "OK",
                "evidence_count": 1,
                "relevance_level": None,
                "duration_ms": 31,
                "later_key": "SECRET",
            }
        ],
        "prompt_audit": {
            "version": "aiops-prompts-v1",
            "prompts": [
                {"name": "executor", "version": "v1", "resource": "prompts/x.md", "sha256": "s", "text": "SECRET"}
            ],
        },
        "composer_output": {"conclusion": "SECRET conclusion"},
        "release": {"decision": "RELEASED", "dropped": ["NUMBERS"]},
        "later_key": "SECRET",
    }
    return {
        "verifier_evaluation": verifier | changes,
        "aiops_rule_evaluation": {
            "verdict": "PASS",
            "rules": [{"code": "AR001_REPORT_EXISTS", "passed": True, "reason": "SECRET reason"}],
        },
        "later_key": "SECRET",
    }
