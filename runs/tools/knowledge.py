"""`lookup_knowledge`: passages of runbooks and other written knowledge."""

import re
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.types import EvidenceRef, EvidenceStatus, Relevance, SourceKind
from runs.harness.ports import SourceDocument, ToolContext, ToolResult
from runs.knowledge.index import Hit, SearchResult
from runs.knowledge.ranking import query_words
from runs.knowledge.tokens import words
from runs.tools.evidence import cut, no_evidence, preview_of
from runs.tools.redaction import clean

MAX_TOP_K = 8
SPAN_CHARS = 300
RECORDED_DOCUMENTS = 10
# A line that is no continuation of the one before, one that needs none, and one that has none.
_BEGINS = re.compile(r"\s*(?:[-*+>|]\s|\d+[.)]\s|#{1,6}\s|\||```|~~~)")
_ENDS = re.compile(r"[.!?:;。！？：；]\W*$")
_ALONE = re.compile(r"\s*(?:#{1,6}\s|\||```|~~~|-{3,}\s*$)")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
SEEN_IN_RUN = "SEEN_IN_RUN"
SEEN_IN_SESSION = "SEEN_IN_SESSION"


class KnowledgeQuery(BaseModel):
    """Look up written knowledge."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str = Field(
        min_length=1,
        max_length=1000,
        description="What to look up: an alert name, an error code, an error text, or the question in a few words.",
    )
    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="The most passages to return.")


class Index(Protocol):
    """What this tool needs of `runs.knowledge.index.KnowledgeIndex`."""

    def __len__(self) -> int: ...

    def search(self, query: str, top_k: int = 5, *, exclude: frozenset[str] = frozenset()) -> SearchResult: ...


class LookupKnowledge:
    """The tool. A document comes once a run; one known from an earlier run of the session comes as its matched span."""

    name = "lookup_knowledge"
    description = (
        "Search runbooks and operating knowledge. Returns passages with their document, section and relevance. "
        "What a runbook advises is guidance; it says nothing about the state of the system now."
    )
    arguments: type[BaseModel] = KnowledgeQuery
    source_kind = SourceKind.KNOWLEDGE

    def __init__(self, index: Index) -> None:
        self._index = index

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        query: KnowledgeQuery = arguments
        found = self._index.search(query.query, query.top_k, exclude=context.seen_in_run)
        if not found.hits:
            return self._nothing(query, found, context)
        return _result(query, found, context.seen_in_session)

    def _nothing(self, query: KnowledgeQuery, found: SearchResult, context: ToolContext) -> ToolResult:
        if found.documents:
            return _known_already(query, found)
        text = (
            f"lookup_knowledge found nothing for {query.query!r} at {context.now:%Y-%m-%dT%H:%M:%SZ}: "
            f"all {len(self._index)} documents were searched."
        )
        return no_evidence(text, output=_head(query, found), details=_details(found))


def _known_already(query: KnowledgeQuery, found: SearchResult) -> ToolResult:
    """Something fits, and this run has been given all of it: neither new evidence nor the absence of any."""
    told = ", ".join(row.document_id for row in found.documents[:RECORDED_DOCUMENTS])
    note = clean(f"All documents that fit were already given in this run: {told}. Cite them as they were given then.")
    return ToolResult(
        status=EvidenceStatus.DEDUPLICATED,
        output={**_head(query, found), "note": note},
        evidence_refs=(),
        preview=cut(note, SPAN_CHARS),
        relevance=None,
        retrieval_layer=_layer(found),
        l0_match_count=len(found.l0),
        l1_match_count=len(found.documents),
        dedup_reason=SEEN_IN_RUN,
        details=_details(found),
    )


def _result(query: KnowledgeQuery, found: SearchResult, seen_in_session: frozenset[str]) -> ToolResult:
    hits = _without_repeats(found.hits, seen_in_session)
    rows = [_row(hit, query.query, short=hit.document_id in seen_in_session) for hit in hits]
    paths = [f"$.hits[{i}].text" for i in range(len(hits))]
    refs = [
        EvidenceRef(path, row["text"], relevance=hit.relevance)
        for path, row, hit in zip(paths, rows, hits, strict=True)
    ]
    documents: dict[str, SourceDocument] = {}
    for hit, path in zip(hits, paths, strict=True):
        known = documents.get(hit.document_id)
        documents[hit.document_id] = SourceDocument(
            hit.document_id, clean(hit.title), ((*known.raw_paths, path) if known else (path,))
        )
    return ToolResult(
        status=EvidenceStatus.OK,
        output={**_head(query, found), "hits": rows},
        evidence_refs=tuple(refs),
        preview=preview_of([f"{hit.title}: {row['text']}" for hit, row in zip(hits, rows, strict=True)]),
        relevance=_best(hits),
        retrieval_layer=_layer(found),
        l0_match_count=len(found.l0),
        l1_match_count=len(found.documents),
        dedup_reason=SEEN_IN_SESSION if any(hit.document_id in seen_in_session for hit in hits) else None,
        documents=tuple(documents.values()),
        details=_details(found),
    )


def _without_repeats(hits: tuple[Hit, ...], seen_in_session: frozenset[str]) -> list[Hit]:
    """A document known from the session gives its best passage only."""
    kept: list[Hit] = []
    for hit in hits:
        if hit.document_id not in seen_in_session or all(other.document_id != hit.document_id for other in kept):
            kept.append(hit)
    return kept


def _row(hit: Hit, query: str, *, short: bool) -> dict[str, Any]:
    return {
        "document_id": hit.document_id,
        "title": clean(hit.title),
        "section": clean(hit.section),
        "relevance": hit.relevance.value,
        "short_form": short,
        "text": clean(matched_span(hit.text, query) if short else hit.text),
    }


def matched_span(text: str, query: str) -> str:
    """The line of `text` that shares most words with the query, verbatim and bounded; the first where none does.

    A line that goes on in the next, as wrapped prose does, is taken with it: half a sentence may say something else.
    """
    asked = set(query_words(query))
    passages = [passage for passage in _passages(text) if passage.strip(" \t`#-*")]
    if not passages:
        return text.strip()[:SPAN_CHARS]
    best = max(passages, key=lambda passage: len(asked.intersection(words(passage))))
    return best if len(best) <= SPAN_CHARS else _whole_sentences(best)


def _passages(text: str) -> list[str]:
    """The lines of a text, those joined that are one sentence over several lines."""
    passages: list[str] = []
    open_end = False
    for line in text.split("\n"):
        if open_end and line.strip() and not _BEGINS.match(line):
            passages[-1] += f"\n{line.rstrip()}"
        else:
            passages.append(line.strip())
        open_end = bool(line.strip()) and not _ENDS.search(line) and not _ALONE.match(line)
    return passages


def _whole_sentences(passage: str) -> str:
    """The beginning of a passage, to the end of its last sentence that fits; cut where the first one does not."""
    begun = passage[:SPAN_CHARS]
    ends = [found.end() for found in _SENTENCE_END.finditer(begun)]
    return begun[: ends[-1]].rstrip() if ends else begun


def _head(query: KnowledgeQuery, found: SearchResult) -> dict[str, Any]:
    return {
        "query": clean(query.query),
        "l0": [
            {"document_id": hint.document_id, "kind": hint.kind, "matched": clean(hint.matched)} for hint in found.l0
        ],
        "hits": [],
    }


def _details(found: SearchResult) -> dict[str, Any]:
    return {
        "scored": [
            {
                "document_id": row.document_id,
                "score": row.score,
                "coverage": row.coverage,
                "hinted": row.hinted,
                "relevance": row.relevance.value,
            }
            for row in found.documents[:RECORDED_DOCUMENTS]
        ]
    }


def _layer(found: SearchResult) -> str:
    if found.l0 and found.documents:
        return "L0+L1"
    return "L0" if found.l0 else "L1"


def _best(hits: list[Hit]) -> Relevance:
    order = (Relevance.PRECISE, Relevance.HIGHLY_RELEVANT, Relevance.REFERENCE)
    return min((hit.relevance for hit in hits), key=order.index)
