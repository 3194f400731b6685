"""What the bundled incidents give to quote: their tools' real answers, and the claims that were made of them.

Each incident is diagnosed once by the offline model over its recording. Its drafts give claims with their citations;
beside them spans are cut out of everything that the executor was shown.
"""

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256

from gatekeeper.gate import judge
from gatekeeper.rules import MIN_EXCERPT_CHARS
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import (
    ANSWER_VERSION,
    Case,
    Citation,
    Claim,
    ClaimKind,
    ClaimResult,
    Draft,
    EvidenceStatus,
    Invocation,
)
from tests.runs.llm.offline_bench import INCIDENTS, Bench

SLUGS = tuple(sorted(path.parent.name for path in INCIDENTS.glob("*/alert.json")))
RULES = shipped_rule_set()
SPANS_OF_AN_INCIDENT = 120
SPAN_WORDS = 16


@dataclass(frozen=True)
class IncidentRun:
    """`claims` are of the draft, all accepted. `inputs`: the texts that came in with the run."""

    slug: str
    invocations: Mapping[str, Invocation]
    inputs: tuple[str, ...]
    claims: tuple[Claim, ...]

    def judged(self, claim: Claim) -> ClaimResult:
        draft = Draft(ANSWER_VERSION, (claim,))
        (result,) = judge(Case(draft, self.invocations, self.inputs), RULES).claims
        return result

    def accepts(self, claim: Claim) -> bool:
        return self.judged(claim).accepted

    def text_of(self, citation: Citation) -> str | None:
        invocation = self.invocations.get(citation.source_invocation_id)
        ref = invocation.refs.get(citation.raw_path) if invocation else None
        return ref.text if ref else None


@dataclass(frozen=True)
class Quotation:
    """A claim that holds, and the one citation of it that a forger works on."""

    run: IncidentRun
    claim: Claim
    at: int

    @property
    def citation(self) -> Citation:
        return self.claim.evidence[self.at]

    @property
    def excerpt(self) -> str:
        return self.citation.evidence_excerpt

    @property
    def text(self) -> str:
        text = self.run.text_of(self.citation)
        assert text is not None
        return text

    def citing(self, **changes: str) -> Claim:
        """The claim with that citation changed."""
        evidence = list(self.claim.evidence)
        evidence[self.at] = replace(self.citation, **changes)
        return replace(self.claim, evidence=tuple(evidence))

    def saying(self, text: str) -> Claim:
        return replace(self.claim, claim_text=text)


@cache
def incident_run(slug: str) -> IncidentRun:
    bench = Bench(slug)
    draft = asyncio.run(bench.execute())
    ids = {known: f"inv_{sha256(f'{slug} {known}'.encode()).hexdigest()[:6]}" for known in bench.invocations}
    claims = tuple(
        Claim(
            claim.claim_id,
            ClaimKind(claim.kind),
            claim.claim_text,
            claim.critical,
            tuple(
                Citation(ids[item.source_invocation_id], item.tool_name, item.raw_path, item.evidence_excerpt)
                for item in claim.evidence
            ),
        )
        for claim in draft.claims
    )
    invocations = {ids[known]: replace(call, invocation_id=ids[known]) for known, call in bench.invocations.items()}
    return IncidentRun(slug, invocations, (json.dumps(bench.alert, ensure_ascii=False), bench.query), claims)


@cache
def quotations() -> tuple[Quotation, ...]:
    """Of all incidents: each citation of each claim, and spans of what was shown."""
    return tuple(each for slug in SLUGS for each in _of_a_run(incident_run(slug)))


def _of_a_run(run: IncidentRun) -> Iterator[Quotation]:
    for claim in run.claims:
        for at in range(len(claim.evidence)):
            yield Quotation(run, claim, at)
    dice = random.Random(run.slug)
    shown = [
        (call, ref)
        for call in run.invocations.values()
        for ref in call.refs.values()
        if call.status is EvidenceStatus.OK and call.tool_name != "lookup_knowledge"
    ]
    for number, (call, ref) in enumerate(dice.choices(shown, k=SPANS_OF_AN_INCIDENT)):
        span = _span(ref.text, dice)
        if span is not None:
            citation = Citation(call.invocation_id, call.tool_name, ref.raw_path, span)
            # Every other claim says nothing of its own, so that its excerpt alone can give a forgery away.
            said = span if number % 2 else "The excerpt says so."
            yield Quotation(run, Claim(f"s{number}", ClaimKind.OBSERVATION, said, False, (citation,)), 0)


def _span(text: str, dice: random.Random) -> str | None:
    """Some whole words of the text in a row, at least as long as an excerpt has to be."""
    words = text.split(" ")
    start = dice.randrange(len(words))
    span = " ".join(words[start : start + dice.randint(2, SPAN_WORDS)])
    return span if len("".join(span.split())) >= MIN_EXCERPT_CHARS else None
