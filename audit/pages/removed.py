"""The claims of a draft that a run left out, and what took each: ids, codes and digests, never a text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from audit.pages.judged import standing_round
from audit.pages.words import RULE_WORDS
from audit.restricted import visible_self_evaluation
from gatekeeper.types import RuleMode
from runs.models import DiagnosisRun
from runs.pages.words import Words

NOT_SUPPORTED = _("the verifier: it does not follow from its evidence")


@dataclass(frozen=True, slots=True)
class Removed:
    """`digest`: SHA-256 of the claim's canonical JSON, by which two drafts are told apart. `by`: codes with words."""

    claim_id: str
    digest: str
    by: tuple[tuple[str, Words], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`claims`: by the gate, then by the verifier. `dropped`: codes of why words of the composer went."""

    claims: tuple[Removed, ...]
    dropped: tuple[str, ...]


def left_out(run: DiagnosisRun) -> LeftOut:
    """The same for everybody: whoever may read the texts reads them on the run's page, where it is recorded."""
    kept = (visible_self_evaluation(run, may_read_reasoning=False) or {}).get("verifier_evaluation") or {}
    rounds = (kept.get("gatekeeper_result") or {}).get("rounds") or []
    standing = {claim["claim_id"]: claim for claim in (standing_round(rounds) or {}).get("claims", ())}
    # What an earlier draft held and the standing one does not was left out with the repair.
    gone = {claim["claim_id"]: claim for each in rounds for claim in each.get("claims", ()) if not claim["accepted"]}
    by_gate = [
        Removed(claim_id, claim["claim_sha256"], _failed(claim))
        for claim_id, claim in gone.items()
        if not (claim_id in standing and standing[claim_id]["accepted"])
    ]
    checks = (kept.get("evaluation") or {}).get("claim_checks") or []
    by_verifier = [
        Removed(
            check["claim_id"],
            standing.get(check["claim_id"], {}).get("claim_sha256", ""),
            (("VERIFIER", NOT_SUPPORTED),),
        )
        for check in checks
        if check.get("supported") is False
    ]
    return LeftOut((*by_gate, *by_verifier), tuple((kept.get("release") or {}).get("dropped") or ()))


def _failed(claim: Mapping[str, Any]) -> tuple[tuple[str, Words], ...]:
    codes = dict.fromkeys(
        rule["code"] for rule in claim["rules"] if rule["verdict"] == "FAIL" and rule["mode"] == RuleMode.ENFORCED
    )
    return tuple((code, RULE_WORDS.get(code, code)) for code in codes)
