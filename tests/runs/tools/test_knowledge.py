from typing import Any

import pytest

from gatekeeper.types import EvidenceStatus, Relevance
from runs.harness.ports import ToolResult
from runs.knowledge.chunking import Document
from runs.knowledge.index import KnowledgeIndex
from runs.tools.knowledge import LookupKnowledge, matched_span
from tests.runs.tools.context import call, context

POOL = Document(
    "pool",
    "Connection pool exhausted",
    "## Symptoms\n\nRequests wait for a connection.\n\n"
    "## Fix\n\nRaise the pool size.\nRestart with password=hunter2 set.\n\n"
    f"## Causes\n\n{'A leak keeps each connection of the pool. ' * 30}",
    alerts=("PoolExhausted",),
)
LAG = Document("lag", "Replication lag", "The replica is behind. Look at the connection of the replica.")
BREAD = Document("bread", "Sourdough", "Flour, water, salt.")


async def lookup(query: str, top_k: int = 5, **seen: Any) -> ToolResult:
    return await call(
        LookupKnowledge(KnowledgeIndex([POOL, LAG, BREAD])), within=context(**seen), query=query, top_k=top_k
    )


async def test_passages_come_with_document_section_and_relevance() -> None:
    result = await lookup("PoolExhausted: no connection in the pool", top_k=4)
    assert result.status is EvidenceStatus.OK
    first = result.output["hits"][0]
    assert (first["document_id"], first["title"], first["relevance"]) == ("pool", POOL.title, "PRECISE")
    assert {hit["section"] for hit in result.output["hits"]} >= {"Causes"}
    assert result.relevance is Relevance.PRECISE
    assert result.evidence_refs[0].relevance is Relevance.PRECISE
    assert result.output["l0"] == [{"document_id": "pool", "kind": "alert", "matched": "PoolExhausted"}]
    assert (result.retrieval_layer, result.l0_match_count, result.dedup_reason) == ("L0+L1", 1, None)
    assert result.documents[0].document_id == "pool"
    assert len(result.documents[0].raw_paths) == 3
    assert result.details["scored"][0]["document_id"] == "pool"


async def test_without_a_name_in_the_query_only_ranking_speaks() -> None:
    result = await lookup("the replica is behind")
    assert (result.retrieval_layer, result.l0_match_count) == ("L1", 0)
    assert result.l1_match_count == len(result.details["scored"]) == 1
    assert result.output["hits"][0]["document_id"] == "lag"


async def test_secrets_in_runbooks_are_masked() -> None:
    result = await lookup("raise the pool size and restart with password")
    assert any("password=[redacted]" in ref.text for ref in result.evidence_refs)
    assert all("hunter2" not in ref.text for ref in result.evidence_refs)


async def test_a_document_comes_once_a_run() -> None:
    query = "connection of the pool or the replica"
    assert {hit["document_id"] for hit in (await lookup(query)).output["hits"]} == {"pool", "lag"}
    again = await lookup(query, seen_in_run=frozenset({"pool"}))
    assert {hit["document_id"] for hit in again.output["hits"]} == {"lag"}


async def test_what_was_all_given_already_is_neither_evidence_nor_its_absence() -> None:
    result = await lookup("the replica is behind", seen_in_run=frozenset({"lag"}))
    assert result.status is EvidenceStatus.DEDUPLICATED
    assert (result.evidence_refs, result.dedup_reason) == ((), "SEEN_IN_RUN")
    assert "lag" in result.output["note"]


async def test_a_document_known_from_the_session_comes_as_its_matched_span() -> None:
    result = await lookup("raise the pool size", seen_in_session=frozenset({"pool"}))
    own = [hit for hit in result.output["hits"] if hit["document_id"] == "pool"]
    assert [(hit["short_form"], hit["text"]) for hit in own] == [(True, "Raise the pool size.")]
    assert result.dedup_reason == "SEEN_IN_SESSION"


@pytest.mark.parametrize("query", ["zebra xylophone", "???", "{{ $labels.pod }}"])
async def test_nothing_found_says_how_much_was_searched(query: str) -> None:
    result = await lookup(query)
    assert result.status is EvidenceStatus.NO_EVIDENCE
    assert "all 3 documents were searched" in result.evidence_refs[0].text
    assert result.l0_match_count in {None, 0}


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("First line.\n- Raise the pool size.\nLast.", "- Raise the pool size."),
        ("No word here.\nNor here.", "No word here."),
        ("---\n```\nraise it\n```", "raise it"),
        ("###", "###"),
        ("- Raise the pool size\n  and restart.\n- Or not.", "- Raise the pool size\n  and restart."),
        ("Raise the pool\nsize now.\nThen wait.", "Raise the pool\nsize now."),
        ("## Raise the pool size\nIt is small.", "## Raise the pool size"),
        ("| pool | size |\n| raise | pool size |", "| raise | pool size |"),
        (f"Raise the pool size. {'Then wait. ' * 40}", f"Raise the pool size. {'Then wait. ' * 25}".strip()),
        ("raise " + "x" * 400, "raise " + "x" * 294),
    ],
)
def test_the_matched_span_is_a_verbatim_line(text: str, span: str) -> None:
    assert matched_span(text, "raise pool size") == span
