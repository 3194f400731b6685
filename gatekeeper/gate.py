"""The gate: a draft, its run and a rule set in; a verdict on every claim out. No model, no I/O."""

from collections.abc import Iterable

from gatekeeper.rules import CLAIM_RULES, CODES, GK001, PASSED, PREREQUISITES, answer_version, repeated_claim_id
from gatekeeper.types import (
    Case,
    Claim,
    ClaimResult,
    Finding,
    GateResult,
    RuleMode,
    RuleResult,
    RuleSet,
    RuleSetting,
    Severity,
    Verdict,
)


class UnknownRule(ValueError):
    """A rule set names a rule that this version of the program does not have."""


def judge(case: Case, rule_set: RuleSet) -> GateResult:
    """Judge every claim of the draft under the rule set.

    A rule that is OFF is not evaluated; SHADOW is evaluated and recorded, without effect. A claim is accepted
    when no enforced rule from GK002 on failed for it. The verdict is the worst severity among enforced failures,
    at least LOW_CONFID for a draft without claims, else PASS. Raises `UnknownRule`.

    A claim whose id an earlier one has is dropped whatever GK001's mode: everything later is keyed by the id.
    """
    enabled = _enabled(rule_set)
    draft_rules = tuple(
        RuleResult(answer_version(case, setting.params), setting.mode, setting.severity)
        for setting in enabled
        if setting.code == GK001
    )
    checks = [_Check(setting) for setting in enabled if setting.code != GK001]
    structure = next((s for s in rule_set.rules if s.code == GK001), None)
    structure_severity = structure.severity if structure else Severity.LOW_CONFID

    seen: set[str] = set()
    claims = []
    for claim in case.draft.claims:
        accepted, results = _judge_claim(case, claim, checks)
        if claim.claim_id in seen:
            accepted = False
            results.insert(0, RuleResult(repeated_claim_id(claim), RuleMode.ENFORCED, structure_severity))
        seen.add(claim.claim_id)
        claims.append(ClaimResult(claim, accepted, tuple(results)))

    failures = [r for r in draft_rules if r.effective_failure]
    failures += [r for result in claims if not result.accepted for r in result.rules if r.effective_failure]
    verdict = Verdict.worst(*(Verdict(severity.value) for severity in {r.severity for r in failures}))
    if not claims:
        verdict = Verdict.worst(verdict, Verdict.LOW_CONFID)
    return GateResult(verdict, rule_set.number, rule_set.digest, draft_rules, tuple(claims), enabled)


def _enabled(rule_set: RuleSet) -> tuple[RuleSetting, ...]:
    unknown = [setting.code for setting in rule_set.rules if setting.code not in CODES]
    if unknown:
        raise UnknownRule(f"Rule set {rule_set.number} names unknown rules: {', '.join(unknown)}.")
    enabled = (setting for setting in rule_set.rules if setting.mode is not RuleMode.OFF)
    return tuple(sorted(enabled, key=lambda setting: setting.code))


class _Check:
    """A rule under its setting, and the result that most claims share: it passed and there is nothing to say."""

    def __init__(self, setting: RuleSetting) -> None:
        self.rule = CLAIM_RULES[setting.code]
        self.setting = setting
        self.passed = PASSED.get(setting.code)
        self.passed_result = self.result(self.passed) if self.passed else None

    def result(self, finding: Finding) -> RuleResult:
        return RuleResult(finding, self.setting.mode, self.setting.severity)


def _judge_claim(case: Case, claim: Claim, checks: list[_Check]) -> tuple[bool, list[RuleResult]]:
    """Whether the claim is accepted, and every rule's results in the order of the codes."""
    results: list[RuleResult] = []
    # (code, evidence item) of each enforced failure so far.
    failed: set[tuple[str, int | None]] = set()
    for check in checks:
        found = check.rule(case, claim, check.setting.params)
        if check.passed_result is not None and found is check.passed:
            results.append(check.passed_result)
            continue
        for finding in found if isinstance(found, tuple) else (found,):
            if finding.passed is False:
                finding = _without_consequences(finding, failed)
                if finding.passed is False and check.setting.mode is RuleMode.ENFORCED:
                    failed.add((finding.code, finding.citation))
            results.append(check.result(finding))
    return not failed, results


def _without_consequences(finding: Finding, failed: Iterable[tuple[str, int | None]]) -> Finding:
    """The finding, or "does not apply" where it only follows from another failure of the same evidence item."""
    for code in PREREQUISITES.get(finding.code, ()):
        if (code, finding.citation) in failed:
            return Finding(finding.code, None, f"Not judged: {code} failed here.", {}, finding.citation)
    return finding
