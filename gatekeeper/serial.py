"""The gate's answer as JSON: to keep, to read back for a replay, to show without its texts, to send for a repair.

The stored shape (version 1) is what `self_evaluation.gatekeeper_result` holds:

    {"version", "verdict", "rule_set_number", "rule_set_digest",
     "enabled_rules": [{"code", "mode", "severity", "params"}],
     "draft_rules": [RULE], "claims": [{"claim_id", "accepted", "claim": CLAIM, "rules": [RULE]}]}

RULE is {"code", "mode", "severity", "verdict": "PASS|FAIL|NA", "reason", "compared", "citation"}, one for each
finding; CLAIM is the claim as on the model wire. Keys stand in this order, rules in the order of their codes.
"""

from collections.abc import Mapping
from typing import Any

from gatekeeper.canonical import sha256_of
from gatekeeper.types import (
    Citation,
    Claim,
    ClaimKind,
    ClaimResult,
    Finding,
    GateResult,
    RuleMode,
    RuleResult,
    RuleSetting,
    Severity,
    Verdict,
)

RESULT_VERSION = 1

_VERDICTS: dict[bool | None, str] = {True: "PASS", False: "FAIL", None: "NA"}
_PASSED = {verdict: passed for passed, verdict in _VERDICTS.items()}


class MalformedResult(ValueError):
    """A stored gate result does not have the shape that this version of the program reads."""


def to_dict(result: GateResult) -> dict[str, Any]:
    """The whole result as JSON values. Restricted reading: it holds claims, excerpts and reasons."""
    return {
        "version": RESULT_VERSION,
        "verdict": result.verdict.value,
        "rule_set_number": result.rule_set_number,
        "rule_set_digest": result.rule_set_digest,
        "enabled_rules": [
            {
                "code": s.code,
                "mode": s.mode.value,
                "severity": s.severity.value,
                "params": dict(sorted(s.params.items())),
            }
            for s in result.enabled_rules
        ],
        "draft_rules": [_rule_to_dict(rule) for rule in result.draft_rules],
        "claims": [
            {
                "claim_id": judged.claim.claim_id,
                "accepted": judged.accepted,
                "claim": _claim_to_dict(judged.claim),
                "rules": [_rule_to_dict(rule) for rule in judged.rules],
            }
            for judged in result.claims
        ],
    }


def from_dict(stored: Mapping[str, Any]) -> GateResult:
    """The inverse of `to_dict`. Raises `MalformedResult`."""
    try:
        if stored["version"] != RESULT_VERSION:
            raise MalformedResult(f"A gate result of version {stored['version']!r} cannot be read here.")
        return GateResult(
            verdict=Verdict(stored["verdict"]),
            rule_set_number=stored["rule_set_number"],
            rule_set_digest=stored["rule_set_digest"],
            draft_rules=tuple(_rule_from_dict(rule) for rule in stored["draft_rules"]),
            claims=tuple(
                ClaimResult(
                    _claim_from_dict(judged["claim"]),
                    judged["accepted"],
                    tuple(_rule_from_dict(rule) for rule in judged["rules"]),
                )
                for judged in stored["claims"]
            ),
            enabled_rules=tuple(
                RuleSetting(rule["code"], RuleMode(rule["mode"]), Severity(rule["severity"]), dict(rule["params"]))
                for rule in stored["enabled_rules"]
            ),
        )
    except MalformedResult:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedResult(f"The gate result cannot be read: {error!r}.") from error


def redacted(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader without the restricted permission may see of a stored result.

    Claim ids, rule codes, modes and verdicts stay; each text is replaced by the SHA-256 of its canonical JSON. Built
    from what may be shown rather than by taking out what may not, so that a new key is never shown by accident.
    """
    return {
        "version": stored["version"],
        "verdict": stored["verdict"],
        "rule_set_number": stored["rule_set_number"],
        "rule_set_digest": stored["rule_set_digest"],
        "draft_rules": [_redacted_rule(rule) for rule in stored["draft_rules"]],
        "claims": [
            {
                "claim_id": judged["claim_id"],
                "accepted": judged["accepted"],
                "claim_sha256": sha256_of(judged["claim"]),
                "rules": [_redacted_rule(rule) for rule in judged["rules"]],
            }
            for judged in stored["claims"]
        ],
    }


def feedback(result: GateResult) -> list[dict[str, Any]]:
    """What the executor is told before its repair round: one entry for each thing to put right.

    `[{"claim_id", "rule", "citation", "reason"}]`. `claim_id` is null where the draft as a whole is meant, `rule`
    where no rule is behind it, `citation` (index of the evidence item) where the claim as a whole is meant. Only
    enforced failures are told: a shadow rule has no effect.
    """
    told = [_told(None, rule) for rule in result.draft_rules if rule.effective_failure]
    if not result.claims:
        reason = "The draft has no claims; propose at least one, with evidence, or a negative_observation."
        told.append({"claim_id": None, "rule": None, "citation": None, "reason": reason})
    for judged in result.removed:
        told += [_told(judged.claim.claim_id, rule) for rule in judged.rules if rule.effective_failure]
    return told


def _told(claim_id: str | None, rule: RuleResult) -> dict[str, Any]:
    found = rule.finding
    return {"claim_id": claim_id, "rule": found.code, "citation": found.citation, "reason": found.reason}


def _rule_to_dict(rule: RuleResult) -> dict[str, Any]:
    return {
        "code": rule.finding.code,
        "mode": rule.mode.value,
        "severity": rule.severity.value,
        "verdict": _VERDICTS[rule.finding.passed],
        "reason": rule.finding.reason,
        "compared": dict(sorted(rule.finding.compared.items())),
        "citation": rule.finding.citation,
    }


def _rule_from_dict(stored: Mapping[str, Any]) -> RuleResult:
    finding = Finding(
        stored["code"], _PASSED[stored["verdict"]], stored["reason"], dict(stored["compared"]), stored["citation"]
    )
    return RuleResult(finding, RuleMode(stored["mode"]), Severity(stored["severity"]))


def _redacted_rule(stored: Mapping[str, Any]) -> dict[str, Any]:
    detail = {key: stored[key] for key in ("reason", "compared", "citation")}
    return {
        "code": stored["code"],
        "mode": stored["mode"],
        "verdict": stored["verdict"],
        "detail_sha256": sha256_of(detail),
    }


def _claim_to_dict(claim: Claim) -> dict[str, Any]:
    return {
        "claim_id": claim.claim_id,
        "kind": claim.kind.value,
        "claim_text": claim.claim_text,
        "critical": claim.critical,
        "evidence": [
            {
                "source_invocation_id": citation.source_invocation_id,
                "tool_name": citation.tool_name,
                "raw_path": citation.raw_path,
                "evidence_excerpt": citation.evidence_excerpt,
            }
            for citation in claim.evidence
        ],
    }


def _claim_from_dict(stored: Mapping[str, Any]) -> Claim:
    evidence = tuple(
        Citation(item["source_invocation_id"], item["tool_name"], item["raw_path"], item["evidence_excerpt"])
        for item in stored["evidence"]
    )
    return Claim(stored["claim_id"], ClaimKind(stored["kind"]), stored["claim_text"], stored["critical"], evidence)
