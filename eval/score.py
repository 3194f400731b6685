"""Scores one diagnosed incident against its truth. Pure: a `Published` and a `Truth` in, a `Score` out.

What counts as said is everything that was published: conclusion, scope, limitations, statements, claims and their
excerpts, and the safe content. What counts as found is a published claim (or a statement of it) that an expected
pattern matches and that cites one of the tools the finding must be cited from.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatekeeper.text import fold
from gatekeeper.types import NO_EVIDENCE_PATH, Citation, Claim, ClaimKind, Verdict
from runs.harness.absence import proves_absence

# What may be said of a healthy service beside "this query found nothing": that a value stayed where it was.
NEUTRAL = re.compile(
    r"\b(stayed|unchanged|stable|steady|no change|between \S+ and \S+)\b|保持|不变|未变化|稳定", re.IGNORECASE
)
VERDICTS = (Verdict.PASS, Verdict.LOW_CONFID, Verdict.REJECT)


class BadTruth(Exception):
    """A truth.json that cannot be scored against; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`tools` empty: any citation will do."""

    id: str
    any_of: tuple[re.Pattern[str], ...]
    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class Truth:
    """`outcomes`: the run's outcomes that are right."""

    findings: tuple[Finding, ...]
    forbidden: tuple[re.Pattern[str], ...]
    outcomes: frozenset[str]
    nothing_found: bool

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> "Truth":
        """From truth.json's object. Raises `BadTruth`."""
        try:
            return cls(
                findings=tuple(
                    Finding(each["id"], _patterns(each["any_of"]), frozenset(each.get("must_cite_tool", ())))
                    for each in value["expected_findings"]
                ),
                forbidden=_patterns(value["forbidden_findings"]),
                outcomes=frozenset(value["expect_outcome"].split("|")),
                nothing_found=bool(value["expect_nothing_found"]),
            )
        except KeyError as missing:
            raise BadTruth(f"the truth lacks {missing.args[0]!r}") from missing
        except re.error as error:
            raise BadTruth(f"the pattern {error.pattern!r} is no regular expression: {error.msg}") from error
        except (TypeError, AttributeError) as error:
            raise BadTruth("the truth has not the shape of docs/evaluation.md") from error


def _patterns(texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text) for text in texts)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, as its row and its ledger tell.

    `published` is `publishedResult`'s JSON or None, `safe` the `safeContent`. `invocations` maps an invocation id to
    its tool and the texts that could be cited from it by path. `seconds` from claim to end.
    """

    outcome: str
    verdict: str | None
    published: Mapping[str, Any] | None
    safe: Mapping[str, Any]
    invocations: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    record_complete: bool = True
    groundedness: float | None = None
    tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    seconds: float = 0.0

    @property
    def claims(self) -> Sequence[Mapping[str, Any]]:
        return self.published["claims"] if self.published else ()


@dataclass(frozen=True, slots=True)
class Score:
    """`uncited`: said, but not from a tool that the finding must be cited from. `faults`: what must never be."""

    found: tuple[str, ...]
    uncited: tuple[str, ...]
    missing: tuple[str, ...]
    faults: tuple[str, ...]
    outcome_expected: bool

    @property
    def expected(self) -> int:
        return len(self.found) + len(self.uncited) + len(self.missing)


def score(truth: Truth, ended: Ended) -> Score:
    found, uncited, missing = [], [], []
    for finding in truth.findings:
        saying = [claim for claim in ended.claims if _says(finding, _words_of(claim, ended.published or {}))]
        if any(_cites(claim, finding.tools) for claim in saying):
            found.append(finding.id)
        elif saying:
            uncited.append(finding.id)
        else:
            missing.append(finding.id)
    return Score(
        found=tuple(found),
        uncited=tuple(uncited),
        missing=tuple(missing),
        faults=tuple(_faults(truth, ended)),
        outcome_expected=ended.outcome in truth.outcomes,
    )


def _says(finding: Finding, texts: Sequence[str]) -> bool:
    return any(pattern.search(text) for pattern in finding.any_of for text in texts)


def _words_of(claim: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    """The claim, its excerpts, and the statements that are made of it."""
    texts = [claim["claimText"], *(item["evidenceExcerpt"] for item in claim["evidence"])]
    texts += [each["text"] for each in published.get("statements", ()) if claim["claimId"] in each["claimIds"]]
    return [_flat(text) for text in texts]


def _cites(claim: Mapping[str, Any], tools: frozenset[str]) -> bool:
    return any(not tools or item["toolName"] in tools for item in claim["evidence"])


def _flat(text: str) -> str:
    return " ".join(text.split())


def _faults(truth: Truth, ended: Ended) -> Iterable[str]:
    if ended.outcome not in {"SUCCESS", "DEGRADED"}:
        yield f"ended {ended.outcome}"
    said = [_flat(text) for text in _texts_of([ended.published or {}, ended.safe])]
    for pattern in truth.forbidden:
        if any(pattern.search(text) for text in said):
            yield f"said what is forbidden: {pattern.pattern}"
    if any(proves_absence(text, [_claim(claim) for claim in ended.claims]) for text in _own_words(ended)):
        yield "took a search that found nothing for proof of absence"
    if truth.nothing_found:
        for claim in ended.claims:
            if not _claims_nothing(claim):
                yield f"claimed a finding where there is none: {_flat(claim['claimText'])[:80]}"
    for claim in ended.claims:
        for item in claim["evidence"]:
            if not _on_record(item, ended.invocations):
                yield f"{claim['claimId']} cites what is not on record: {item['sourceInvocationId']} {item['rawPath']}"
    if not ended.record_complete:
        yield "the ledger is incomplete or its chain does not hold"


def _texts_of(value: Any) -> Iterable[str]:
    """Every string of a JSON value; the keys are ours."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_of(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts_of(item)


def _own_words(ended: Ended) -> Iterable[str]:
    """What was published outside quotations."""
    if ended.published is None:
        yield from _texts_of(ended.safe)
        return
    yield from (ended.published["conclusion"], ended.published["scope"], *ended.published["limitations"])
    yield from (statement["text"] for statement in ended.published["statements"])
    yield from (claim["claimText"] for claim in ended.claims)


def _claim(published: Mapping[str, Any]) -> Claim:
    return Claim(
        claim_id=published["claimId"],
        kind=ClaimKind(published["kind"]),
        claim_text=published["claimText"],
        critical=False,
        evidence=tuple(
            Citation(item["sourceInvocationId"], item["toolName"], item["rawPath"], item["evidenceExcerpt"])
            for item in published["evidence"]
        ),
    )


def _claims_nothing(claim: Mapping[str, Any]) -> bool:
    if claim["kind"] == ClaimKind.NEGATIVE_OBSERVATION:
        return all(item["rawPath"] == NO_EVIDENCE_PATH for item in claim["evidence"])
    return bool(NEUTRAL.search(claim["claimText"]))


def _on_record(item: Mapping[str, Any], invocations: Mapping[str, tuple[str, Mapping[str, str]]]) -> bool:
    """Whether the run's own ledger holds the excerpt, under that invocation, tool and path."""
    tool, refs = invocations.get(item["sourceInvocationId"], ("", {}))
    return tool == item["toolName"] and fold(item["evidenceExcerpt"]) in fold(refs.get(item["rawPath"], ""))
