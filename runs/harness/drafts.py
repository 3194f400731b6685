"""From an executor's reply to a draft. Pure.

A strict reader decides whether the contract held; a lenient one still takes over the claims that
are whole, so that an answer in an older form is judged (and marked) instead of lost.
"""

import re
from dataclasses import replace
from itertools import count
from typing import Any

from pydantic import ValidationError

from gatekeeper.types import Citation, Claim, Draft
from runs.harness.structured import objects_in
from runs.harness.wire import MAX_CLAIMS, ExecutorClaim, ExecutorEvidence

EMPTY = Draft(answer_version=None, claims=())
CLAIM_ID = re.compile(r"[A-Za-z]{1,6}[-_]?[0-9]{1,4}")
"""The ids that a model may give its claims. Ids are shown to everyone, so none may hold a sentence."""


def from_wire(evidence: ExecutorEvidence) -> Draft:
    return Draft(evidence.answer_version, _with_safe_ids([claim_from_wire(claim) for claim in evidence.claims]))


def salvage(text: str | None) -> Draft:
    """What can be read of an answer that broke its contract; an empty draft where nothing can."""
    value = next((found for found in objects_in(text or "") if isinstance(found.get("claims"), list)), None)
    if value is None:
        return EMPTY
    claims = []
    for item in value["claims"][:MAX_CLAIMS]:
        try:
            claims.append(claim_from_wire(ExecutorClaim.model_validate(item)))
        except ValidationError:
            continue
    version = value.get("answer_version")
    return Draft(version if isinstance(version, str) else None, _with_safe_ids(claims))


def _with_safe_ids(claims: list[Claim]) -> tuple[Claim, ...]:
    """Other ids than `CLAIM_ID` become the next `cN` that no claim has.

    One id used twice becomes one id used twice: that a claim repeats another's is for the gate to say.
    """
    taken = {claim.claim_id for claim in claims}
    free = (f"c{n}" for n in count(1) if f"c{n}" not in taken)
    renamed: dict[str, str] = {}
    for claim in claims:
        if not CLAIM_ID.fullmatch(claim.claim_id) and claim.claim_id not in renamed:
            renamed[claim.claim_id] = next(free)
    return tuple(replace(claim, claim_id=renamed.get(claim.claim_id, claim.claim_id)) for claim in claims)


def to_json(draft: Draft) -> dict[str, Any]:
    """The draft as `self_evaluation` keeps it: restricted."""
    return {
        "answer_version": draft.answer_version,
        "claims": [
            {
                "claim_id": claim.claim_id,
                "kind": claim.kind.value,
                "claim_text": claim.claim_text,
                "critical": claim.critical,
                "evidence": [
                    {
                        "source_invocation_id": item.source_invocation_id,
                        "tool_name": item.tool_name,
                        "raw_path": item.raw_path,
                        "evidence_excerpt": item.evidence_excerpt,
                    }
                    for item in claim.evidence
                ],
            }
            for claim in draft.claims
        ],
    }


def claim_from_wire(wire: ExecutorClaim) -> Claim:
    return Claim(
        claim_id=wire.claim_id,
        kind=wire.kind,
        claim_text=wire.claim_text,
        critical=wire.critical,
        evidence=tuple(
            Citation(item.source_invocation_id, item.tool_name, item.raw_path, item.evidence_excerpt)
            for item in wire.evidence
        ),
    )
