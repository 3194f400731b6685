"""The offline verifier: does a claim say no more than its evidence?

It can read, not understand. So a claim is supported only when it is a quotation or a near-quotation: each of its
clauses stands, in order, at the beginning of a clause of one cited text, with nothing but articles, forms of "to be",
bracketed asides and the head of a log line left out; no negation, condition, trial ("dry run:"), part ("2 of 5") or
change of direction may have been left out or put in; every number, time and identifier is the same. A free rewording
it cannot judge is "not supported". The score tells how much of the claims' wording the evidence covers.

Input and output are the contract's JSON objects (`verifier_evaluation`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from gatekeeper.types import NO_EVIDENCE_PATH, ClaimKind, Verdict
from runs.harness.wire import ClaimCheck, VerifierEvaluation
from runs.llm.offline.brief import AllowedClaim, Deliberation
from runs.llm.offline.tokens import LEVELS, Kind, Token, fold, singular, tokenize
from runs.llm.offline.vocabulary import (
    CONDITIONS,
    CONDITIONS_CJK,
    DIRECTION_OF,
    EMPTY,
    HEDGES,
    LIMITS,
    LIMITS_CJK,
    LOG_HEAD,
    NEGATIONS,
    OVERTURNS,
    OVERTURNS_CJK,
    PROGRAMS,
    UNREAL,
    UNREAL_CJK,
    WHEN,
    WHERE,
    WHY,
)

FRAME = re.compile(
    r"^\s*(?:the\s+)?(?:logs?|log lines?|runbook|metrics?|alert's expression|alerts?"
    r"|日志|运行手册|手册|指标|告警表达式|告警)"
    r"(?:\s+(?:says?|shows?|reads?|advises|is active))?(?:\s*(?:显示|建议|记录))?\s*[:：]\s*",
    re.IGNORECASE,
)
STRONG = frozenset(";.!?。；！？\n")
TELLS_OUTCOME = frozenset(":=")
QUOTES = frozenset("\"'“”‘’")
MAX_SKIP = 60
MAX_TOKENS = 600
"""More than any line or paragraph that a verifier is shown; keeps hostile text from taking long."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`coverage` in [0, 1]; `contradicted`: the evidence says otherwise, rather than something else."""

    supported: bool
    coverage: float
    reason: str
    contradicted: bool = False


def evaluate(deliberation: Deliberation) -> VerifierEvaluation:
    """Checks every claim once and draws the verdict that its own checks allow."""
    judged = [(claim, judge_claim(claim)) for claim in deliberation.claims]
    supported = [claim.claim_id for claim, judgement in judged if judgement.supported]
    score = sum(j.coverage for _, j in judged) / len(judged) if judged else 0.0
    return VerifierEvaluation(
        verdict=_verdict([judgement for _, judgement in judged]),
        groundedness_score=round(score, 3),
        critical_fact_count=sum(claim.critical for claim, _ in judged),
        claim_checks=[
            ClaimCheck(claim_id=claim.claim_id, supported=j.supported, reason=j.reason) for claim, j in judged
        ],
        facts_checked=[claim.claim_id for claim, _ in judged],
        rationale=f"{len(supported)} of {len(judged)} claims are quoted closely enough from their evidence to be "
        "supported; wording that only a reader could judge counts as not supported.",
    )


def _verdict(judgements: Sequence[Judgement]) -> Verdict:
    if judgements and all(j.supported for j in judgements):
        return Verdict.PASS
    if judgements and all(j.contradicted for j in judgements):
        return Verdict.REJECT
    return Verdict.LOW_CONFID


def judge_claim(claim: AllowedClaim) -> Judgement:
    """One claim against its own excerpts and the lines or paragraphs they stand in."""
    if not claim.evidence:
        return Judgement(False, 0.0, "The claim cites no evidence.")
    negative = [item.raw_path == NO_EVIDENCE_PATH for item in claim.evidence]
    if claim.kind is ClaimKind.NEGATIVE_OBSERVATION and not all(negative):
        return Judgement(False, 0.0, "A negative observation has to rest on a query that found nothing.")
    if claim.kind is not ClaimKind.NEGATIVE_OBSERVATION and any(negative):
        return Judgement(False, 0.0, "A query that found nothing supports a negative observation only.")
    # An excerpt that was cut to say something else is judged in its surroundings.
    texts = [
        item.context if item.evidence_excerpt in item.context else item.evidence_excerpt for item in claim.evidence
    ]
    return judge_text(claim.claim_text, texts)


def judge_text(claim_text: str, texts: Sequence[str]) -> Judgement:
    """Whether the claim's text is covered by the texts: whole by one of them, or sentence by sentence."""
    said = FRAME.sub("", claim_text)
    claim = [token for token in tokenize(said) if _content(token) or token.separates]
    if not any(_content(token) for token in claim):
        return Judgement(False, 0.0, "The claim says nothing that could be checked.")
    evidence = [tokenize(text)[:MAX_TOKENS] for text in texts]
    if any(_follows(claim, text) for text in evidence) or _sentence_by_sentence(said, evidence):
        return Judgement(True, 1.0, "The wording, numbers and names of the claim stand in its evidence.")
    return _why_not(claim, evidence)


def _sentence_by_sentence(said: str, evidence: Sequence[tuple[Token, ...]]) -> bool:
    parts = [part for part in re.split(r"[;；。]\s*|\.\s+", fold(said)) if part.strip()]
    if len(parts) < 2:
        return False
    return all(any(_follows(list(tokenize(part)), text) for text in evidence) for part in parts)


def _why_not(claim: Sequence[Token], evidence: Sequence[tuple[Token, ...]]) -> Judgement:
    content = [token for token in claim if _content(token)]
    held = [token for text in evidence for token in text if _content(token)]
    missing = [token for token in content if not any(_same(token, other) for other in held)]
    coverage = round(1 - len(missing) / len(content), 3)
    close = coverage >= 0.5
    telling = [token.text for token in missing if token.telling]
    if telling:
        named = ", ".join(telling[:4])[:200]
        return Judgement(False, coverage, f"Not in the evidence: {named}.", contradicted=close)
    if (_has(content, NEGATIONS)) != (_has(held, NEGATIONS)):
        return Judgement(False, coverage, "The claim and its evidence differ in a negation.", contradicted=close)
    said, seen = _directions(content), _directions(held)
    if said and seen and not said <= seen:
        return Judgement(False, coverage, "The claim and its evidence differ in direction.", contradicted=close)
    if missing:
        named = ", ".join(token.text for token in missing[:6])[:200]
        return Judgement(False, coverage, f"Words that the evidence does not have: {named}.")
    return Judgement(False, min(coverage, 0.9), "The words are there, but joined in another way than in the evidence.")


# ---- the alignment ---------------------------------------------------------------------------


def _follows(claim: Sequence[Token], evidence: Sequence[Token]) -> bool:
    """Whether the claim can be laid over the evidence, clause by clause, without changing what is said.

    `reachable` holds the positions in the evidence at which the claim's tokens so far may end.
    """
    wanted = _with_breaks(claim)
    if not wanted:
        return False
    first, _ = wanted[0]
    reachable = [i for i, token in enumerate(evidence) if _same(first, token) and _starts_clause(evidence, i)]
    depths = _depths(evidence)

    # The same gaps are asked about for every token of a claim that repeats itself.
    @cache
    def may_skip(left: int, right: int, broken: bool) -> bool:
        return _may_skip(evidence, depths, left, right, broken)

    for token, broken in wanted[1:]:
        reachable = sorted(
            {
                i
                for at in reachable
                for i in range(at + 1, min(at + MAX_SKIP + 1, len(evidence)))
                if _same(token, evidence[i]) and may_skip(at, i, broken)
            }
        )
        if not reachable:
            return False
    return any(_ends_well(evidence, at) for at in reachable)


def _with_breaks(claim: Sequence[Token]) -> list[tuple[Token, bool]]:
    """The content tokens, each with whether a mark stands between it and the one before."""
    out: list[tuple[Token, bool]] = []
    broken = False
    for token in claim:
        if token.separates:
            broken = True
        elif _content(token):
            out.append((token, broken))
            broken = False
    return out


def _may_skip(evidence: Sequence[Token], depths: Sequence[int], left: int, right: int, broken: bool) -> bool:
    """Whether the claim may leave out what stands between two matched tokens.

    Within a clause: empty words and bracketed asides. Where the claim has a mark: also the head of a log line, provided
    that both sides are whole clauses; and whole pairs of a label set.
    """
    gap = evidence[left + 1 : right]
    content = [token for token in gap if _content(token)]
    if any(_turns_meaning(token) for token in content) or _unreal(gap) or _is_part(gap):
        return False
    if not content:
        return broken or not any(token.text in STRONG - {"\n"} for token in gap)
    outside = [t for t, depth in zip(gap, depths[left + 1 : right], strict=True) if depth == 0 and _content(t)]
    if not broken:
        return not outside and not any(token.text in STRONG for token in gap)
    if not outside and depths[left] and depths[right]:
        return _pair_ends(evidence, left) and _pair_begins(evidence, right)
    if _is_stamp(evidence[left]) and _begins_json_value(evidence, right):
        return True
    return all(_is_head(token) for token in outside) and _closes(evidence, left) and _opens(evidence, right)


def _depths(evidence: Sequence[Token]) -> list[int]:
    """For each token in how many brackets it stands. Only closed ones count, and `{` only as a label set `name{`:
    what a JSON line says stands all in braces and is no aside."""
    depths = [0] * len(evidence)
    opened: list[int] = []
    for i, token in enumerate(evidence):
        if token.kind is Kind.OPEN:
            opened.append(i)
        elif token.kind is Kind.CLOSE and opened:
            begin = opened.pop()
            attached = begin > 0 and evidence[begin - 1].end == evidence[begin].start
            if evidence[begin].text != "{" or attached:
                for inside in range(begin, i + 1):
                    depths[inside] += 1
    return depths


def _pair_ends(evidence: Sequence[Token], at: int) -> bool:
    """Whether the token is the last of a `key="value"` pair."""
    following = next((token.text for token in evidence[at + 1 :] if token.text not in QUOTES), "")
    return following in {",", "}"}


def _begins_pair(tokens: Sequence[Token], at: int) -> bool:
    """Whether the token is the key of a `key=value`: in logfmt each pair is a clause, with no mark between."""
    return tokens[at].kind in {Kind.WORD, Kind.IDENTIFIER} and at + 1 < len(tokens) and tokens[at + 1].text == "="


def _pair_begins(evidence: Sequence[Token], at: int) -> bool:
    return at + 1 < len(evidence) and evidence[at + 1].text in {"=", "!"}


def _begins_json_value(evidence: Sequence[Token], at: int) -> bool:
    """Whether the token opens a string value of a JSON line: after time and level, a claim may quote any one field."""
    return at > 2 and [token.text for token in evidence[at - 3 : at]] == ['"', ":", '"']


def _starts_clause(evidence: Sequence[Token], at: int) -> bool:
    """Nothing that matters stands before it in its clause, and no condition or "dry run:" in its sentence."""
    begin = next((i + 1 for i in range(at - 1, -1, -1) if evidence[i].text in STRONG), 0)
    before = evidence[begin:at]
    label_end = next((i for i in range(len(before) - 1, -1, -1) if before[i].text == ":"), 0)
    if _conditional(before) or _unreal(before[:label_end]):
        return False
    if _begins_pair(evidence, at) and not (before and _turns_meaning(before[-1])):
        return True
    clause_begin = next((i + 1 for i in range(len(before) - 1, -1, -1) if before[i].separates), 0)
    clause = [token for token in before[clause_begin:] if _content(token)]
    # A number right before belongs to what is counted: of "0 replicas ready" nobody may quote "replicas ready".
    if clause and clause[-1].kind is Kind.NUMBER:
        return False
    signed = (_is_stamp(left) and right.text in PROGRAMS for left, right in pairwise(clause))
    return all(_is_head(token) or is_signature for token, is_signature in zip(clause, (False, *signed), strict=False))


def _ends_well(evidence: Sequence[Token], at: int) -> bool:
    """What follows in the clause only says when or why; nothing after it in the sentence takes the claim back."""
    end = next((i for i in range(at + 1, len(evidence)) if evidence[i].text in STRONG), len(evidence))
    if end < len(evidence) and evidence[end].text == "?":
        return False  # a question states nothing
    after = evidence[at + 1 : end]
    if any(token.text in LIMITS for token in after) or LIMITS_CJK.search(_joined(after)):
        return False
    ends = (token.separates and token.text not in QUOTES or _begins_pair(after, i) for i, token in enumerate(after))
    marked = next((i for i, is_end in enumerate(ends) if is_end), len(after))
    rest = after[marked:]
    if rest and (rest[0].text in TELLS_OUTCOME or rest[0].kind is Kind.OPEN) and _takes_back(rest):
        return False
    return _only_when_or_why([token for token in after[:marked] if token.text not in QUOTES])


def _only_when_or_why(tail: Sequence[Token]) -> bool:
    """Whether a claim may leave out this tail of its clause."""
    words = [token for token in tail if _content(token) or token.text in WHEN | WHERE]
    if not words:
        return True
    first, following = words[0].text, words[1:]
    if any(_turns_meaning(token) for token in following) or _unreal(tail) or _is_part(tail):
        return False
    if first in WHEN:
        return bool(following) and following[0].kind in {Kind.TIME, Kind.NUMBER}
    if first in WHERE:
        return bool(following) and following[0].kind is Kind.TIME
    return first in WHY


def _takes_back(rest: Sequence[Token]) -> bool:
    """Whether the clause behind a colon, an equals sign or a bracket says that it did not happen, or only in part."""
    end = next((i for i, token in enumerate(rest[1:], start=1) if token.separates and token.text not in QUOTES), None)
    clause = rest[1:end]
    found = any(token.text in OVERTURNS | NEGATIONS for token in clause) or OVERTURNS_CJK.search(_joined(clause))
    return bool(found) or _unreal(clause) or _is_part(clause)


def _conditional(tokens: Sequence[Token]) -> bool:
    """Whether the tokens, left out of a sentence, would have said under what condition or how surely it holds."""
    found = any(token.text in HEDGES | CONDITIONS for token in tokens)
    return found or bool(CONDITIONS_CJK.search(_joined(tokens)))


def _unreal(tokens: Sequence[Token]) -> bool:
    return any(token.text in UNREAL for token in tokens) or bool(UNREAL_CJK.search(_joined(tokens)))


def _is_part(tokens: Sequence[Token]) -> bool:
    """Whether the tokens say "2 of 5" or "2/5"."""
    for left, middle, right in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if left.kind is Kind.NUMBER and middle.text == "of" and right.kind is Kind.NUMBER:
            return True
    return any(token.kind is Kind.NUMBER and re.fullmatch(r"\d+/\d+", token.text) for token in tokens)


def _joined(tokens: Sequence[Token]) -> str:
    """Chinese as it was written: its characters are tokens of their own."""
    return "".join(token.text if token.kind in {Kind.CJK, Kind.MARK} else " " for token in tokens)


def _closes(evidence: Sequence[Token], at: int) -> bool:
    follows = evidence[at + 1]
    return follows.separates or _is_head(follows) or _is_stamp(evidence[at])


def _opens(evidence: Sequence[Token], at: int) -> bool:
    before = evidence[at - 1]
    return before.separates or _is_stamp(before) or _is_stamp(evidence[at])


def _is_stamp(token: Token) -> bool:
    return token.kind is Kind.TIME or token.text in LEVELS or token.text == "z"


def _is_head(token: Token) -> bool:
    """What the head of a log line is made of: time, level, thread, logger, process number."""
    return _is_stamp(token) or token.kind in {Kind.IDENTIFIER, Kind.NUMBER} or token.text in LOG_HEAD


def _content(token: Token) -> bool:
    return not token.separates and token.text not in EMPTY


def _turns_meaning(token: Token) -> bool:
    return token.text in NEGATIONS or token.text in HEDGES or token.text in DIRECTION_OF


def _same(claimed: Token, held: Token) -> bool:
    if claimed.text == held.text:
        return True
    if claimed.kind is Kind.TIME and held.kind is Kind.TIME:
        return _same_time(claimed.text, held.text)
    if claimed.kind is Kind.WORD and held.kind is Kind.WORD:
        direction = DIRECTION_OF.get(claimed.text)
        if direction is not None:
            return DIRECTION_OF.get(held.text) == direction
        return singular(claimed.text) == singular(held.text)
    return False


def _same_time(claimed: str, held: str) -> bool:
    """`10:05` may stand for `10:05:23Z` and `10:05:23` for `10:05:23.119`: a coarser time, not another one."""
    claimed, held = claimed.removesuffix("z"), held.removesuffix("z")
    return held == claimed or (held.startswith(claimed) and held[len(claimed)] in ":.")


def _has(tokens: Sequence[Token], group: frozenset[str]) -> bool:
    return any(token.text in group for token in tokens)


def _directions(tokens: Sequence[Token]) -> frozenset[str]:
    return frozenset(DIRECTION_OF[token.text] for token in tokens if token.text in DIRECTION_OF)
