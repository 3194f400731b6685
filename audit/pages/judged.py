"""What gate and verifier said of a run's claims: codes, counts and verdicts, nothing that is restricted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from audit.pages.words import FAILS_IN_SHADOW, RULE_VERDICT_WORDS, RULE_WORDS, tone_of_rule
from audit.restricted import visible_self_evaluation
from gatekeeper.types import RuleMode
from runs.models import DiagnosisRun
from runs.pages.words import Tone, Words

Codes = tuple[tuple[str, Words], ...]


@dataclass(frozen=True, slots=True)
class GateRound:
    """One round. `failed`: rules that had their effect; `in_shadow`: rules that would have had it."""

    repair: bool
    claims: int
    accepted: int
    failed: Codes
    in_shadow: Codes


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule's verdict about one claim. `verdict` is PASS, FAIL or NA; `shadow`: whatever it is, it had no effect."""

    code: str
    words: Words
    verdict: str
    verdict_words: Words
    tone: Tone
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """Without restricted texts. `rules` and `supported`: by claim id; the rules in the round that stands."""

    rounds: tuple[GateRound, ...]
    rules: Mapping[str, tuple[RuleLine, ...]]
    supported: Mapping[str, bool | None]


def judged_of(run: DiagnosisRun) -> Judged:
    kept = visible_self_evaluation(run, may_read_reasoning=False) or {}
    evaluation = kept.get("verifier_evaluation") or {}
    rounds = evaluation.get("gatekeeper_result", {}).get("rounds", [])
    standing = standing_round(rounds) or {}
    drafted = list(standing.get("draft_rules", ()))
    checks = (evaluation.get("evaluation") or {}).get("claim_checks", [])
    return Judged(
        rounds=gate_rounds(rounds),
        rules={claim["claim_id"]: rule_lines([*drafted, *claim["rules"]]) for claim in standing.get("claims", ())},
        supported={check["claim_id"]: check["supported"] for check in checks},
    )


def gate_rounds(rounds: Iterable[Mapping[str, Any]]) -> tuple[GateRound, ...]:
    """Of the rounds of a visible self-evaluation, in their order."""
    return tuple(
        GateRound(
            repair=number > 0,
            claims=len(each["claims"]),
            accepted=sum(claim["accepted"] is True for claim in each["claims"]),
            failed=_failed(each, RuleMode.ENFORCED),
            in_shadow=_failed(each, RuleMode.SHADOW),
        )
        for number, each in enumerate(rounds)
    )


def _failed(judged: Mapping[str, Any], mode: RuleMode) -> Codes:
    rules = [*judged["draft_rules"], *(rule for claim in judged["claims"] for rule in claim["rules"])]
    codes = {rule["code"] for rule in rules if rule["verdict"] == "FAIL" and rule["mode"] == mode}
    return tuple((code, RULE_WORDS.get(code, code)) for code in sorted(codes))


def rule_line(code: str, verdict: str, *, shadow: bool = False) -> RuleLine:
    words = RULE_WORDS.get(code, code)
    if shadow and verdict == "FAIL":
        return RuleLine(code, words, verdict, FAILS_IN_SHADOW, Tone.WARN, shadow)
    return RuleLine(code, words, verdict, RULE_VERDICT_WORDS.get(verdict, verdict), tone_of_rule(verdict), shadow)


def rule_lines(rules: Iterable[Mapping[str, Any]]) -> tuple[RuleLine, ...]:
    """One line for each code: a rule that failed at one citation has failed."""
    worst: dict[str, Mapping[str, Any]] = {}
    for rule in rules:
        code = rule["code"]
        if code not in worst or worst[code]["verdict"] != "FAIL":
            worst[code] = rule
    return tuple(
        rule_line(code, rule["verdict"], shadow=rule.get("mode") == RuleMode.SHADOW) for code, rule in worst.items()
    )


def standing_round(rounds: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The gate's last word: the repaired draft where anything of it stood, else the first one."""
    if not rounds:
        return None
    last = rounds[-1]
    stands = any(claim["accepted"] for claim in last.get("claims", ()))
    return last if stands or len(rounds) == 1 else rounds[0]
