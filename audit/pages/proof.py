"""Why a published statement was allowed: its claims, what each gate said of them, the excerpt in its source.

Everything here is what anyone who may read the run may see: published texts, tool output, rule codes and verdicts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import JSONField, Value
from django.db.models.expressions import RawSQL

from audit.models import ToolInvocation
from audit.pages.judged import Judged, RuleLine
from audit.pages.marks import Marked, in_context
from audit.pages.words import KIND_WORDS
from gatekeeper.types import NO_EVIDENCE_PATH, Intent, SourceKind
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line, seen
from runs.pages.links import document_address
from runs.pages.words import Words
from runs.tools.knowledge import LookupKnowledge


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One citation. `sequence_no` None: no event of this run tells of that tool call.

    `document`: the address of the passage in its runbook, empty where the excerpt is of none.
    """

    invocation_id: str
    tool_name: str
    raw_path: str
    excerpt: str
    source: Marked
    sequence_no: int | None
    ref_index: int | None
    nothing_found: bool
    document: str


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
    """The published result, ready to be shown. `general`: an answer that no evidence stands behind, as it says.

    `documents`: address, which may be empty, and title.
    """

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
    sources = _sources(run.id, claims.values())
    proofs = {
        claim_id: ClaimProof(
            claim_id=claim_id,
            kind=KIND_WORDS.get(claim["kind"], claim["kind"]),
            text=seen(claim["claimText"]),
            rules=judged.rules.get(claim_id, ()),
            supported=judged.supported.get(claim_id),
            evidence=tuple(_evidence(item, sources, events_of_invocations) for item in claim["evidence"]),
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
        documents=tuple(
            (document_address(document["documentId"]), seen(document["title"]))
            for document in result["sourceDocuments"]
        ),
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


@dataclass(frozen=True, slots=True)
class _Source:
    """A ref that is cited: its index and text; the document that it is of, where it is of one."""

    index: int
    text: str
    document_id: str


# Of the passages that a look-up gave: the ref at `$.hits[2].text` is of the third.
_DOCUMENTS = RawSQL(
    "CASE WHEN source_kind = %s THEN jsonb_path_query_array(output, '$.hits[*].document_id') ELSE '[]' END",
    [SourceKind.KNOWLEDGE.value],
    output_field=JSONField(),
)
_NO_DOCUMENTS = Value([], output_field=JSONField())
_HIT = re.compile(r"\$\.hits\[(\d{1,4})\]")


def _sources(run_id: str, claims: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], _Source]:
    """By invocation id and path. One query."""
    items = [item for claim in claims for item in claim["evidence"]]
    cited = {item["sourceInvocationId"] for item in items}
    of_runbooks = any(item["toolName"] == LookupKnowledge.name for item in items)
    documents = _DOCUMENTS if of_runbooks else _NO_DOCUMENTS
    rows = ToolInvocation.objects.filter(run_id=run_id, invocation_id__in=cited).annotate(documents=documents)
    return {
        (invocation_id, ref["raw_path"]): _Source(index, ref["text"], _document_of(ref["raw_path"], documents))
        for invocation_id, refs, documents in rows.values_list("invocation_id", "evidence_refs", "documents")
        for index, ref in enumerate(refs)
    }


def _document_of(raw_path: str, documents: Sequence[Any]) -> str:
    """Empty: it is of no document."""
    hit = _HIT.match(raw_path)
    at = int(hit[1]) if hit else len(documents)
    found = documents[at] if at < len(documents) else ""
    return found if isinstance(found, str) else ""


def _evidence(
    item: Mapping[str, str], sources: Mapping[tuple[str, str], _Source], events: Mapping[str, int]
) -> EvidenceLine:
    key = item["sourceInvocationId"], item["rawPath"]
    source = sources.get(key)
    return EvidenceLine(
        invocation_id=one_line(item["sourceInvocationId"], 60),
        tool_name=one_line(item["toolName"], 60),
        raw_path=one_line(item["rawPath"], 120),
        excerpt=seen(item["evidenceExcerpt"]),
        source=in_context(source.text if source else "", item["evidenceExcerpt"]),
        sequence_no=events.get(item["sourceInvocationId"]),
        ref_index=source.index if source else None,
        nothing_found=item["rawPath"] == NO_EVIDENCE_PATH,
        document=document_address(source.document_id, item["evidenceExcerpt"]) if source else "",
    )
