"""Why a published statement was allowed: its claims, what each gate said of them, the excerpt in its source.

Everything here is what anyone who may read the run may see: published texts, tool output, rule codes and verdicts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from audit.models import ToolInvocation
from audit.pages.judged import Judged, RuleLine
from audit.pages.marks import Marked, in_context
from audit.pages.words import KIND_WORDS
from gatekeeper.types import NO_EVIDENCE_PATH, Intent
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line, seen
from runs.pages.words import Words


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One citation. `sequence_no` None: no event of this run tells of that tool call."""

    invocation_id: str
    tool_name: str
    raw_path: str
    excerpt: str
    source: Marked
    sequence_no: int | None
    ref_index: int | None
    nothing_found: bool


@dataclass(frozen=True, slots=True)
class ClaimProof:
    """`rules` empty: no gate result is on record. `supported` None: the verifier did not judge it."""

    claim_id: str
    kind: Words
    text: str
    rules: tuple[RuleLine, ...]
    supported: bool | None
    evidence: tuple[EvidenceLine, ...]

    @property
    def failed_rules(self) -> int:
        return sum(rule.verdict == "FAIL" and not rule.shadow for rule in self.rules)

    @property
    def failed_in_shadow(self) -> int:
        return sum(rule.verdict == "FAIL" and rule.shadow for rule in self.rules)


@dataclass(frozen=True, slots=True)
class StatementProof:
    """`number` from 1 on."""

    number: int
    text: str
    claims: tuple[ClaimProof, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The published result, ready to be shown. `general`: an answer that no evidence stands behind, as it says."""

    general: bool
    conclusion: str
    scope: str
    low_confidence: bool
    statements: tuple[StatementProof, ...]
    limitations: tuple[str, ...]
    documents: tuple[tuple[str, str], ...]


def answer_of(run: DiagnosisRun, judged: Judged, events_of_invocations: Mapping[str, int]) -> Answer | None:
    """None: nothing was published. One query. `events_of_invocations`: sequence number by invocation id."""
    result = run.published_result
    if result is None:
        return None
    claims = {claim["claimId"]: claim for claim in result["claims"]}
    texts = _source_texts(run.id, claims.values())
    proofs = {
        claim_id: ClaimProof(
            claim_id=claim_id,
            kind=KIND_WORDS.get(claim["kind"], claim["kind"]),
            text=seen(claim["claimText"]),
            rules=judged.rules.get(claim_id, ()),
            supported=judged.supported.get(claim_id),
            evidence=tuple(_evidence(item, texts, events_of_invocations) for item in claim["evidence"]),
        )
        for claim_id, claim in claims.items()
    }
    return Answer(
        general=run.intent == Intent.SYSTEM_CHAT,
        conclusion=seen(result["conclusion"]),
        scope=seen(result["scope"]),
        low_confidence=result["confidence"] == "LOW",
        statements=tuple(
            StatementProof(
                number, seen(statement["text"]), tuple(proofs[each] for each in statement["claimIds"] if each in proofs)
            )
            for number, statement in enumerate(result["statements"], start=1)
        ),
        limitations=tuple(seen(text) for text in result["limitations"]),
        documents=tuple((document["documentId"], seen(document["title"])) for document in result["sourceDocuments"]),
    )


def cited_invocations(run: DiagnosisRun) -> set[str]:
    """Ids of the tool calls that the published claims cite."""
    claims = (run.published_result or {}).get("claims", ())
    return {item["sourceInvocationId"] for claim in claims for item in claim["evidence"]}


def citations_of(run: DiagnosisRun, invocation_id: str) -> dict[str, list[tuple[str, str]]]:
    """What the published claims cite of one tool call: `{raw_path: [(claim id, excerpt)]}`."""
    cited: dict[str, list[tuple[str, str]]] = {}
    for claim in (run.published_result or {}).get("claims", ()):
        for item in claim["evidence"]:
            if item["sourceInvocationId"] == invocation_id:
                cited.setdefault(item["rawPath"], []).append((claim["claimId"], item["evidenceExcerpt"]))
    return cited


def _source_texts(run_id: str, claims: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[int, str]]:
    """Index and text of each cited ref, by invocation id and path. One query."""
    cited = {item["sourceInvocationId"] for claim in claims for item in claim["evidence"]}
    rows = ToolInvocation.objects.filter(run_id=run_id, invocation_id__in=cited)
    return {
        (invocation_id, ref["raw_path"]): (index, ref["text"])
        for invocation_id, refs in rows.values_list("invocation_id", "evidence_refs")
        for index, ref in enumerate(refs)
    }


def _evidence(
    item: Mapping[str, str], texts: Mapping[tuple[str, str], tuple[int, str]], events: Mapping[str, int]
) -> EvidenceLine:
    key = item["sourceInvocationId"], item["rawPath"]
    index, text = texts.get(key, (None, ""))
    return EvidenceLine(
        invocation_id=one_line(item["sourceInvocationId"], 60),
        tool_name=one_line(item["toolName"], 60),
        raw_path=one_line(item["rawPath"], 120),
        excerpt=seen(item["evidenceExcerpt"]),
        source=in_context(text, item["evidenceExcerpt"]),
        sequence_no=events.get(item["sourceInvocationId"]),
        ref_index=index,
        nothing_found=item["rawPath"] == NO_EVIDENCE_PATH,
    )
