"""The one place where a result to publish is built.

A composer's words leave only where they name allowed claims, bring no number, code or identifier
that those claims (or the input) lack, are made of the words of those claims, deny nothing that the
claims do not, and do not turn "this query found nothing" into proof of absence. What does not hold
is replaced by the claims' own words.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gatekeeper.text import hidden_characters
from gatekeeper.types import Claim, RuleSet, SourceKind, Verdict
from runs.harness import coverage, fidelity
from runs.harness.absence import proves_absence, says_too_much, tells_empty, tells_state
from runs.harness.context import KeptInvocation
from runs.harness.coverage import Vocabulary
from runs.harness.negation import adds_negation, denies, of_knowledge
from runs.harness.run import (
    PublishedClaim,
    PublishedEvidence,
    PublishedResult,
    PublishedStatement,
    SourceDocumentRef,
)
from runs.harness.smalltalk import tells_more
from runs.harness.wire import ComposerOutput

MAX_LIMITATIONS = 10
MAX_DOCUMENTS = 10
CONCLUSION_CHARS = 2000
SCOPE_CHARS = 1000
LIMITATION_CHARS = 500
QUERY_CHARS = 2000
OUR_NAME = "SuperBiz"
NO_WORDS = ComposerOutput(conclusion="", scope="", statements=[], limitations=[])


@dataclass(frozen=True, slots=True)
class Material:
    """What a release is made from: the claims that may be said, and everything that lowers confidence.

    `verdict` is the final one: never REJECT here. `limitations` are code's own sentences.
    """

    query: str
    verdict: Verdict
    claims: tuple[Claim, ...]
    input_texts: tuple[str, ...]
    invocations: Mapping[str, KeptInvocation]
    composed: ComposerOutput | None
    scope: str
    limitations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """`dropped` says, by kind, what of the composer's words did not hold."""

    result: PublishedResult
    proposed: int
    kept: int
    dropped: tuple[str, ...] = field(default_factory=tuple)


def unsupported_words(text: str, claims: Iterable[Claim], input_texts: Iterable[str]) -> list[str]:
    """Numbers, codes and identifiers of `text` that neither `claims` (with their excerpts) nor the input have."""
    return [term.text for term in coverage.unsupported(text, (*_texts_of(claims), *input_texts))]


def release(material: Material) -> Released:
    """Builds the published result. `material.claims` must not be empty."""
    allowed = {claim.claim_id: claim for claim in material.claims}
    dropped: list[str] = []
    proposed = list(material.composed.statements) if material.composed else []
    statements = []
    for statement in proposed:
        fault = _fault(statement.text, statement.claim_ids, allowed, material.input_texts)
        if fault is None:
            statements.append(
                PublishedStatement(text=statement.text, claim_ids=list(dict.fromkeys(statement.claim_ids)))
            )
        else:
            dropped.append(fault)
    kept = len(statements)
    statements += _unsaid_critical(material.claims, statements)
    own, ground = material.composed or NO_WORDS, _Ground.of(material)
    conclusion = _own_or_none(own.conclusion, ground, "CONCLUSION", dropped)
    scope = _own_or_none(own.scope, ground, "SCOPE", dropped)
    limitations = [said for text in own.limitations if (said := _own_or_none(text, ground, "LIMITATION", dropped))]
    result = _result(
        material.query,
        conclusion=conclusion or _assembled(statements),
        scope=scope or material.scope,
        low=material.verdict is not Verdict.PASS,
        statements=statements,
        claims=[_published(claim) for claim in material.claims],
        limitations=[*material.limitations, *limitations],
        documents=_documents(material),
    )
    return Released(result, len(proposed), kept, tuple(dict.fromkeys(dropped)))


def _fault(text: str, claim_ids: list[str], allowed: Mapping[str, Claim], input_texts: tuple[str, ...]) -> str | None:
    """Why a statement may not be said, or None."""
    if not claim_ids:
        return "STATEMENT_NAMES_NO_CLAIM"
    if any(id_ not in allowed for id_ in claim_ids):
        return "STATEMENT_NAMES_UNKNOWN_CLAIM"
    claims = [allowed[id_] for id_ in claim_ids]
    if unsupported_words(text, claims, input_texts):
        return "STATEMENT_ADDS_FACT"
    if says_too_much(text, claims):
        return "STATEMENT_PROVES_ABSENCE"
    told = _texts_of(claims)
    if hidden_characters(text, (*told, *input_texts)):
        return "STATEMENT_HIDES_CHARACTERS"
    known = Vocabulary.of((*told, *input_texts))
    if not all(coverage.holds(sentence, known) for sentence in coverage.sentences(text)):
        return "STATEMENT_ADDS_CONTENT"
    if adds_negation(text, told):
        return "NEGATION_ADDED"
    turned = fidelity.first_fault(text, fidelity.Ground(tuple(claims), input_texts))
    return f"STATEMENT_{turned}" if turned else None


def _texts_of(claims: Iterable[Claim]) -> list[str]:
    return [part for claim in claims for part in (claim.claim_text, *(e.evidence_excerpt for e in claim.evidence))]


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the composer's own texts may rest on: all allowed claims, the input, code's own sentences."""

    material: Material
    told: tuple[str, ...]
    given: tuple[str, ...]
    known: Vocabulary

    @classmethod
    def of(cls, material: Material) -> "_Ground":
        told = tuple(_texts_of(material.claims))
        given = (*material.input_texts, material.scope, *material.limitations)
        return cls(material, told, given, Vocabulary.of((*told, *given)))

    def fault(self, sentence: str, before: str, *, may_deny: bool) -> str | None:
        if unsupported_words(sentence, self.material.claims, self.given):
            return "ADDS_FACT"
        if proves_absence(sentence, self.material.claims):
            return "PROVES_ABSENCE"
        if hidden_characters(sentence, (*self.told, *self.given)):
            return "HIDES_CHARACTERS"
        if not coverage.holds(sentence, self.known):
            return "ADDS_CONTENT"
        # What is not known, or was not looked at, is no claim about anything.
        if may_deny and of_knowledge(sentence):
            return None
        if may_deny and denies(sentence) and not tells_empty(sentence):
            return "ADDS_NEGATION"
        if coverage.only_frames(sentence):
            held = of_knowledge(sentence) or tells_empty(sentence) or not (denies(sentence) or tells_state(sentence))
            return None if held else "ADDS_NEGATION"
        if adds_negation(sentence, self.told):
            return "ADDS_NEGATION"
        return fidelity.fault(sentence, fidelity.Ground(self.material.claims, self.given), before)


def _closed(kept: str) -> str:
    """A text of which only the beginning was kept ends in a full stop."""
    said = kept.strip()
    return f"{said[:-1]}{'。' if said[-1] == '；' else '.'}" if said.endswith((";", "；")) else said


def _own_or_none(text: str, ground: _Ground, what: str, dropped: list[str]) -> str | None:
    """Those sentences of the composer's own text that hold against all allowed claims; None where none does.

    What was not looked at is said with a negation, so only the conclusion is held to those of the claims.
    """
    kept: list[str] = []
    for sentence in coverage.sentences(text):
        fault = ground.fault(sentence, "".join(kept), may_deny=what != "CONCLUSION")
        if fault is None:
            kept.append(sentence)
        else:
            dropped.append(f"{what}_{fault}")
    said = _closed("".join(kept))
    if not said:
        return None
    claims = ground.material.claims
    # As a whole, since a wording may run over the end of a line; searches that found nothing are to be called so.
    if proves_absence(said, claims) or (what == "CONCLUSION" and says_too_much(said, claims)):
        dropped.append(f"{what}_PROVES_ABSENCE")
        return None
    return said


def _unsaid_critical(claims: tuple[Claim, ...], statements: list[PublishedStatement]) -> list[PublishedStatement]:
    """Critical claims that no kept statement carries are said in their own words; all claims, where none was kept."""
    said = {id_ for statement in statements for id_ in statement.claim_ids}
    return [
        PublishedStatement(text=claim.claim_text, claim_ids=[claim.claim_id])
        for claim in claims
        if claim.claim_id not in said and (claim.critical or not statements)
    ]


def _assembled(statements: list[PublishedStatement]) -> str:
    text = " ".join(statement.text for statement in statements[:4])
    return text or "The evidence found is listed below."


def _published(claim: Claim) -> PublishedClaim:
    return PublishedClaim(
        claim_id=claim.claim_id,
        kind=claim.kind.value,
        claim_text=claim.claim_text,
        evidence=[
            PublishedEvidence(
                source_invocation_id=item.source_invocation_id,
                tool_name=item.tool_name,
                raw_path=item.raw_path,
                evidence_excerpt=item.evidence_excerpt,
            )
            for item in claim.evidence
        ],
    )


def _documents(material: Material) -> list[SourceDocumentRef]:
    """Documents behind cited knowledge passages, each once."""
    found: dict[str, SourceDocumentRef] = {}
    for claim in material.claims:
        for item in claim.evidence:
            kept = material.invocations.get(item.source_invocation_id)
            if kept is None or kept.record.source_kind != SourceKind.KNOWLEDGE:
                continue
            for document in kept.documents:
                if item.raw_path in document.raw_paths:
                    found.setdefault(
                        document.document_id,
                        SourceDocumentRef(document_id=document.document_id, title=document.title),
                    )
    return list(found.values())[:MAX_DOCUMENTS]


def _bounded(limitations: list[str]) -> list[str]:
    return list(dict.fromkeys(_cut(text, LIMITATION_CHARS) for text in limitations))[:MAX_LIMITATIONS]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


TALK_SCOPE = "General talk: no system and no document was looked at, and no evidence stands behind it."
FLOOR_LOWERED = (
    "This was judged under rule set {number}, in which rules that keep invented citations out are weakened: {codes}."
)
RECORD_INCOMPLETE = "The record of this run is incomplete: part of it could not be written."


def floor_lowered(rule_set: RuleSet) -> list[str]:
    """What every result under a rule set below the floor of safety says first."""
    return [floor_sentence(rule_set.number, rule_set.lowered)] if rule_set.lowered else []


def floor_sentence(number: int, lowered: Iterable[str]) -> str:
    """`lowered`: codes of the rules that are weaker than the floor."""
    return FLOOR_LOWERED.format(number=number, codes=", ".join(lowered))


def release_talk(query: str, reply: str, given: Iterable[str], *, limitations: Iterable[str] = ()) -> Released | None:
    """Builds the result of general talk, without claims; None where nothing of the reply may be said.

    A sentence with a number, code or identifier that the person has not used (`given`) states a fact, and is dropped;
    so is one that says how a system is, why, that somebody looked, or what to do to it: nothing was looked at.
    """
    sources = tuple(given)
    kept, dropped, said = [], [], list(coverage.sentences(reply))
    for sentence in said:
        if unsupported_words(sentence, (), (*sources, OUR_NAME)):
            dropped.append("TALK_STATES_FACT")
        elif hidden_characters(sentence, sources):
            dropped.append("TALK_HIDES_CHARACTERS")
        elif tells_more(sentence, sources):
            dropped.append("TALK_STATES_FACT")
        else:
            kept.append(sentence)
    text = _closed("".join(kept))
    if not text:
        return None
    result = _result(query, conclusion=text, scope=TALK_SCOPE, low=False, limitations=list(limitations))
    return Released(result, len(said), len(kept), tuple(dict.fromkeys(dropped)))


def _result(
    query: str,
    *,
    conclusion: str,
    scope: str,
    low: bool,
    limitations: list[str],
    statements: Iterable[PublishedStatement] = (),
    claims: Iterable[PublishedClaim] = (),
    documents: Iterable[SourceDocumentRef] = (),
) -> PublishedResult:
    """Bounded."""
    return PublishedResult(
        query=query[:QUERY_CHARS],
        conclusion=_cut(conclusion, CONCLUSION_CHARS),
        scope=_cut(scope, SCOPE_CHARS),
        confidence="LOW" if low else "NORMAL",
        statements=list(statements),
        claims=list(claims),
        limitations=_bounded(limitations),
        source_documents=list(documents),
    )


def as_json(result: PublishedResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True)
