"""Whether a sentence says something else with the very words of its claims. Pure.

Words, figures and names may all be in the claims, and yet the sentence be false. Each check here only refuses: what is
refused is said in the claims' own words instead, so a true sentence lost costs style, never truth.

    JOINS_CLAIMS       figures, names or words of one sentence come from different claims
    REORDERS           it tells of a change, with its figures in another order than where they come from
    NAMES_CAUSE        it names a cause, and no claim of it does
    TURNS_MEANING      it denies what the claims state, or states what they deny
    TELLS_AS_FACT      words of mere advice, or of a search that found nothing, stand there as something that is so
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gatekeeper.terms import Term, terms
from gatekeeper.text import fold, legible
from gatekeeper.types import Claim, ClaimKind
from runs.harness import absence, coverage
from runs.harness.coverage import Vocabulary
from runs.harness.negation import denies, like_denial, of_knowledge

HALF = 0.5
_CLAUSE = re.compile(r"(?<=[.!?])\s+|[;,:。；，：！？\n|]+\s*|\s+(?:and|but|while|whereas)\s+", re.IGNORECASE)
_CAUSE = re.compile(
    r"\b(?:caus\w+|because|due\s+to|owing\s+to|le(?:d|ads?)\s+to|result(?:s|ed|ing)?\s+(?:in|from)|trigger(?:s|ed|ing)"
    r"|therefore|thus|hence|explain(?:s|ed)?|stem(?:s|med)?\s+from|responsible|to\s+blame|culprit)\b"
    r"|因为|由于|导致|引起|引发|造成|因此|所以|根因|原因|致使",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\bfrom\b.*\bto\b|→|->|\(was\b|\b(?:rose|risen|rising|fell|fall(?:s|en|ing)?|dropp?\w*|increas\w+|decreas\w+|grew"
    r"|grow\w*|lower\w*|rais\w+|reduc\w+|doubl\w+|instead\s+of|rather\s+than|(?:more|less|fewer|higher)\s+than)\b"
    r"|从.*[到至升降]|由.*[到至变升降]|上升|下降|升[至到]|降[至到]|增[加至长]|减[少至]|原[为来是]",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ADVICE = re.compile(
    r"\b(?:runbooks?|documents?|guid\w+|advis\w+|advice|recommend\w*|suggest\w*|should|next\s+steps?|consider|propos\w+)\b"
    r"|手册|文档|指南|预案|建议|应当|应该|推荐",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Ground:
    """The claims that a sentence may rest on, and the texts that were given: alert, question, code's own sentences."""

    claims: tuple[Claim, ...]
    given: tuple[str, ...]


# A release asks of the same few dozen texts again with every sentence.
@lru_cache(maxsize=2_048)
def _has(wording: re.Pattern[str], text: str) -> bool:
    return wording.search(fold(text)) is not None


def first_fault(text: str, ground: Ground) -> str | None:
    """Why a text may not be said, as the code of its first sentence that may not, or None."""
    if any(fold(text).strip() == fold(claim.claim_text).strip() for claim in ground.claims):
        return None
    before = ""
    for sentence in coverage.sentences(text):
        if code := fault(sentence, ground, before):
            return code
        before += sentence
    return None


def fault(sentence: str, ground: Ground, before: str = "") -> str | None:
    """Why the sentence may not be said, as a code, or None. `before`: what stands before it in the same text."""
    if _stands_in(sentence, (), ground.given):
        return None
    holders = [claim for claim in ground.claims if _stands_in(sentence, _texts(claim), ground.given)]
    faults = [_fault_over(sentence, before, Ground((claim,), ground.given)) for claim in holders]
    if not faults:
        return "JOINS_CLAIMS"
    return None if None in faults else faults[0]


def quotes(claim: Claim) -> bool:
    """Whether a claim says no more than its excerpts do: for claims that no verifier has judged."""
    excerpts = tuple(item.evidence_excerpt for item in claim.evidence)
    own = (replace(claim, claim_text=excerpt) for excerpt in excerpts)
    return first_fault(claim.claim_text, Ground(tuple(own), ())) is None


def _fault_over(sentence: str, before: str, ground: Ground) -> str | None:
    if _reorders(sentence, ground) or _turns_direction(sentence, ground.claims):
        return "REORDERS"
    if _names_cause(sentence, ground):
        return "NAMES_CAUSE"
    if _turns_meaning(sentence, ground.claims):
        return "TURNS_MEANING"
    return "TELLS_AS_FACT" if _tells_as_fact(sentence, before, ground) else None


def _texts(claim: Claim) -> tuple[str, ...]:
    return (claim.claim_text, *(item.evidence_excerpt for item in claim.evidence))


def _all_texts(claims: Iterable[Claim]) -> list[str]:
    return [text for claim in claims for text in _texts(claim)]


def _stands_in(sentence: str, texts: Sequence[str], given: Sequence[str]) -> bool:
    """All its figures and names in the texts, and the words of each clause together in a clause of them."""
    if coverage.unsupported(sentence, (*texts, *given)):
        return False
    known = [each for text in (texts or given) for each in _known_by_clause(text)]
    return all(any(coverage.holds(clause, each) for each in known) for clause in _clauses(sentence))


@lru_cache(maxsize=256)
def _known_by_clause(text: str) -> tuple[Vocabulary, ...]:
    """The words of each clause; a clause that comes again adds nothing."""
    return tuple(Vocabulary.of((clause,)) for clause in dict.fromkeys(_clauses(text)))


@lru_cache(maxsize=1_024)
def _figures(text: str) -> tuple[Term, ...]:
    """The numbers, without times of day and dates, whose place in a sentence says nothing."""
    return tuple(
        term for term in terms(fold(text)) if term.value is not None and re.fullmatch(r"\d+(?:\.\d+)?", term.value)
    )


def _reorders(sentence: str, ground: Ground) -> bool:
    said = [term.value for term in _figures(sentence)]
    if len(set(said)) < 2:
        return False
    kept = [(text, [term.value for term in _figures(text)]) for text in (*_all_texts(ground.claims), *ground.given)]
    holding = [(text, values) for text, values in kept if set(said) <= set(values)]
    if not any(_has(_CHANGE, text) for text in (sentence, *(text for text, _ in holding))):
        return False
    return bool(holding) and not any(_in_order(said, values) for _, values in holding)


_DIRECTION = re.compile(r"(\bfrom|\bto|\buntil|\bwas|->|→|从|由|到|至|升至|降至|为)\s*$", re.IGNORECASE)


def _directions(text: str) -> dict[str | None, set[str]]:
    """By number, what stands before it and says whether it is the old value or the new; "" for anything else."""
    read = legible(fold(text))
    found: dict[str | None, set[str]] = {}
    for term in _figures(text):
        before = _DIRECTION.search(read[: term.start])
        found.setdefault(term.value, set()).add(before.group(1).lower() if before else "")
    return found


def _turns_direction(sentence: str, claims: Iterable[Claim]) -> bool:
    """Whether a number of a change stands there as its old or new value and no text has it so."""
    if not _has(_CHANGE, sentence):
        return False
    told: dict[str | None, set[str]] = {}
    for text in _all_texts(claims):
        for value, directions in _directions(text).items():
            told.setdefault(value, set()).update(directions)
    return any(
        not directions <= known
        for value, directions in _directions(sentence).items()
        if (known := told.get(value)) is not None
    )


def _in_order(said: Sequence[str | None], kept: Sequence[str | None]) -> bool:
    rest = iter(kept)
    return all(value in rest for value in said)


def _names_cause(sentence: str, ground: Ground) -> bool:
    if not _has(_CAUSE, sentence) or of_knowledge(sentence):
        return False
    return not any(_has(_CAUSE, text) for text in _all_texts(ground.claims))


@lru_cache(maxsize=1_024)
def _clauses(text: str) -> tuple[str, ...]:
    return tuple(clause for clause in _CLAUSE.split(legible(fold(text))) if clause.strip())


def _turns_meaning(sentence: str, claims: Iterable[Claim]) -> bool:
    """Whether what a clause is made of stands in the claims only in clauses that say the opposite."""
    clauses = list(dict.fromkeys(clause for text in _all_texts(claims) for clause in _clauses(text)))
    denied = [clause for clause in clauses if denies(clause)]
    stated = [clause for clause in clauses if not denies(clause)]
    failing = [clause for clause in stated if like_denial(clause)]
    for clause in _clauses(sentence):
        if coverage.only_frames(clause) or of_knowledge(clause):
            continue
        if not denies(clause):
            own, opposite = stated, [] if like_denial(clause) else denied
        elif like_denial(clause):
            own, opposite = denied, stated
        else:
            # "Could not connect" for "connection refused", but not "was not refused".
            own, opposite = [*denied, *failing], [each for each in stated if each not in failing]
        if _made_of(clause, own) < HALF < _made_of(clause, opposite):
            return True
    return False


def _made_whole(sentence: str, claims: Iterable[Claim], given: Sequence[str]) -> bool:
    return coverage.holds(sentence, Vocabulary.of((*_all_texts(claims), *given)))


def _made_of(clause: str, sources: Sequence[str]) -> float:
    return coverage.coverage(clause, Vocabulary.of(sources))


_CONDITION = re.compile(
    r"\b(?:when|if|once|unless|whenever|in\s+case|where)\b|如果|若|当|一旦|假如|倘若", re.IGNORECASE
)


def _drops_condition(sentence: str, claims: Iterable[Claim]) -> bool:
    """Whether it says, without the "when", what advice only supposes."""
    if _has(_CONDITION, sentence):
        return False
    supposed, said = [], []
    for text in _all_texts(claim for claim in claims if claim.kind is ClaimKind.GUIDANCE):
        for part in coverage.sentences(legible(fold(text))):
            plain, *conditions = _CONDITION.split(part)
            said.append(plain)
            for condition in conditions:
                head, *rest = re.split(r"[,;，；]", condition)
                supposed.append(head)
                said += rest
    plainly = Vocabulary.of(said)
    return any(
        not coverage.holds(clause, plainly) and coverage.coverage(clause, Vocabulary.of([condition])) > HALF
        for condition in supposed
        for clause in _clauses(sentence)
    )


def _tells_as_fact(sentence: str, before: str, ground: Ground) -> bool:
    """Advice is told as advice and an empty search as a search; everything else is made of what was observed.

    Advice may be longer than the sentence that calls it so.
    """
    kinds = {ClaimKind.OBSERVATION}
    if _has(_ADVICE, before + sentence):
        kinds.add(ClaimKind.GUIDANCE)
    if denies(before + sentence):
        kinds.add(ClaimKind.NEGATIVE_OBSERVATION)
    firm = [claim for claim in ground.claims if claim.kind in kinds]
    observed = [claim for claim in ground.claims if claim.kind is ClaimKind.OBSERVATION]
    if _drops_condition(sentence, ground.claims) and not _made_whole(sentence, observed, ground.given):
        return True
    if any(
        denies(clause) and not _made_whole(clause, observed, ground.given) and not absence.tells_empty(clause)
        for clause in _clauses(sentence)
    ):
        return True
    if len(firm) == len(ground.claims):
        return False
    known = Vocabulary.of((*_all_texts(firm), *ground.given))
    named = coverage.unsupported(sentence, (*_all_texts(firm), *ground.given))
    return bool(named) or not all(coverage.holds(part, known) for part in coverage.sentences(sentence))
