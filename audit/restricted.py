"""What of a run's evaluation of itself may be seen without the permission to read reasoning.

Drafts, rejected claims, excerpts, reasons and the composer's words are restricted. Everything here is built from
what may be shown: a key that this module does not know is left out.
"""

from collections.abc import Mapping
from typing import Any

from gatekeeper.canonical import sha256_of
from gatekeeper.serial import redacted
from gatekeeper.types import ANSWER_VERSION
from runs.harness.drafts import CLAIM_ID
from runs.models import DiagnosisRun

SUMMARY_KEYS = ("invocation_id", "tool_name", "status", "evidence_count", "relevance_level", "duration_ms")
PROMPT_KEYS = ("name", "version", "resource", "sha256")
UNKNOWN_ID = "(unknown)"


def visible_self_evaluation(run: DiagnosisRun, may_read_reasoning: bool) -> dict[str, Any] | None:
    """The column as it is for readers of reasoning; for all others claim ids, rule codes, verdicts and digests."""
    kept = run.self_evaluation
    if kept is None or may_read_reasoning:
        return kept
    kept = _object(kept)
    return {
        "verifier_evaluation": _verifier_evaluation(_object(kept.get("verifier_evaluation"))),
        "aiops_rule_evaluation": _aiops(_object(kept.get("aiops_rule_evaluation"))),
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    """Codes and ids: short, without white space. Anything longer could be a text."""
    return [item for item in value if _is_name(item)] if isinstance(value, list) else []


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 60 and not any(char.isspace() for char in value)


def _picked(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value.get(key) for key in keys}


def _verifier_evaluation(kept: Mapping[str, Any]) -> dict[str, Any] | None:
    if not kept:
        return None
    draft = _draft(_object(kept.get("executor_structured_output")))
    given = frozenset(claim["claim_id"] for claim in draft["claims"])
    release = _object(kept.get("release"))
    composed = kept.get("composer_output")
    return {
        "verdict": kept.get("verdict"),
        "evaluation": _evaluation(kept.get("evaluation"), given),
        "contract_violations": _names(kept.get("contract_violations")),
        "executor_structured_output": draft,
        "gatekeeper_result": {
            "rounds": [_round(each) for each in _objects(_object(kept.get("gatekeeper_result")).get("rounds"))]
        },
        "tool_trace_summary": [_picked(each, SUMMARY_KEYS) for each in _objects(kept.get("tool_trace_summary"))],
        "prompt_audit": _prompt_audit(_object(kept.get("prompt_audit"))),
        "composer_output": None if composed is None else {"sha256": sha256_of(composed)},
        "release": {"decision": release.get("decision"), "dropped": _names(release.get("dropped"))},
    }


def _claim_id(value: Any, given: frozenset[str] | None = None) -> str:
    """An id of the form that drafts give, and of the `given` claims: any other could be a model's own sentence."""
    fits = isinstance(value, str) and CLAIM_ID.fullmatch(value) and (given is None or value in given)
    return value if fits else UNKNOWN_ID


def _evaluation(kept: Any, given: frozenset[str]) -> dict[str, Any] | None:
    if not isinstance(kept, Mapping):
        return None
    checks = _objects(kept.get("claim_checks"))
    return {
        **_picked(kept, ("verdict", "groundedness_score", "critical_fact_count")),
        "claim_checks": [
            {"claim_id": _claim_id(check.get("claim_id"), given), "supported": check.get("supported")}
            for check in checks
        ],
        "sha256": sha256_of(kept),
    }


def _draft(kept: Mapping[str, Any]) -> dict[str, Any]:
    version = kept.get("answer_version")
    return {
        "answer_version": version if version in {ANSWER_VERSION, None} else "other",
        "claims": [
            {
                "claim_id": _claim_id(claim.get("claim_id")),
                **_picked(claim, ("kind", "critical")),
                "claim_sha256": sha256_of(claim),
            }
            for claim in _objects(kept.get("claims"))
        ],
    }


def _round(kept: Mapping[str, Any]) -> dict[str, Any]:
    try:
        shown = redacted(kept)
        claims = [{**claim, "claim_id": _claim_id(claim["claim_id"])} for claim in shown["claims"]]
        return {**shown, "claims": claims}
    except (KeyError, TypeError):
        return {"sha256": sha256_of(kept)}


def _prompt_audit(kept: Mapping[str, Any]) -> dict[str, Any]:
    prompts = _objects(kept.get("prompts"))
    return {"version": kept.get("version"), "prompts": [_picked(prompt, PROMPT_KEYS) for prompt in prompts]}


def _aiops(kept: Mapping[str, Any]) -> dict[str, Any] | None:
    if not kept:
        return None
    rules = _objects(kept.get("rules"))
    return {"verdict": kept.get("verdict"), "rules": [_picked(rule, ("code", "passed")) for rule in rules]}
