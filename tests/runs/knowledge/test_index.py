import threading

import pytest

from gatekeeper.types import Relevance
from runs.knowledge.chunking import Chunk, Document
from runs.knowledge.hints import Hint, HintTable
from runs.knowledge.index import KnowledgeIndex, SearchResult

DISK = Document(
    "disk",
    "NodeFilesystemAlmostFull",
    "The filesystem of a node has little space left. Remove old logs and images, then grow the volume.",
    aliases=("no space left on device", "磁盘写满"),
)
POOL = Document(
    "pool",
    "Connection pool exhausted",
    "All connections of the pool are in use. Requests wait until a connection is given back, or time out.",
    alerts=("DatabasePoolExhausted",),
    error_codes=("SQLSTATE 53300", "ORA-00020"),
)
REDIS = Document("redis", "Redis evictions", "Redis evicts keys when memory is full. Raise maxmemory or expire keys.")
TLS = Document("tls", "Certificate expires", "The certificate of the endpoint expires soon. Renew it and reload.")
DOCUMENTS = (DISK, POOL, REDIS, TLS)


@pytest.fixture(scope="module")
def index() -> KnowledgeIndex:
    return KnowledgeIndex(DOCUMENTS)


def first(result: SearchResult) -> str:
    return result.documents[0].document_id


@pytest.mark.parametrize(
    ("query", "hints"),
    [
        ("alert NodeFilesystemAlmostFull fires", [("disk", "title")]),
        ("node filesystem almost full", [("disk", "title")]),
        ("DATABASEPOOLEXHAUSTED", [("pool", "alert")]),
        ("why: database pool exhausted?", [("pool", "alert")]),
        ("error ORA-00020 seen", [("pool", "error_code")]),
        ("code SQLSTATE 53300", [("pool", "error_code")]),
        ("write failed: No space left on device", [("disk", "alias")]),
        ("服务器磁盘写满了怎么办", [("disk", "alias")]),
        ("ORA-000201", []),
        ("redis evictions and NodeFilesystemAlmostFull", [("redis", "title"), ("disk", "title")]),
        ("the pool", []),
    ],
)
def test_exact_names_in_the_query_are_hints(query: str, hints: list[tuple[str, str]]) -> None:
    found = HintTable.of(DOCUMENTS).find(query)
    assert sorted((hint.document_id, hint.kind) for hint in found) == sorted(hints)


def test_a_hint_tells_the_documents_own_spelling() -> None:
    assert HintTable.of(DOCUMENTS).find("databasepoolexhausted") == (Hint("pool", "alert", "DatabasePoolExhausted"),)


@pytest.mark.parametrize(
    ("query", "document", "relevance"),
    [
        ("DatabasePoolExhausted", "pool", Relevance.PRECISE),
        ("DatabasePoolExhausted all connections in use", "pool", Relevance.PRECISE),
        ("requests wait for a connection", "pool", Relevance.HIGHLY_RELEVANT),
        ("keys are evicted, memory is full", "redis", Relevance.HIGHLY_RELEVANT),
        ("renewing certificates", "tls", Relevance.HIGHLY_RELEVANT),
        ("volume mounted by unrelated kubernetes daemonset scheduling affinity", "disk", Relevance.REFERENCE),
    ],
)
def test_the_right_document_comes_first_with_its_relevance(
    index: KnowledgeIndex, query: str, document: str, relevance: Relevance
) -> None:
    result = index.search(query)
    assert (first(result), result.documents[0].relevance) == (document, relevance)
    assert result.hits[0].relevance is relevance


def test_a_hint_lifts_but_ranking_still_answers(index: KnowledgeIndex) -> None:
    result = index.search("redis evictions while connections of the pool are in use and requests wait")
    assert {hint.document_id for hint in result.l0} == {"redis"}
    assert {"redis", "pool"} <= {row.document_id for row in result.documents}


def test_top_k_bounds_the_passages(index: KnowledgeIndex) -> None:
    for top_k in (1, 2, 8):
        assert len(index.search("connection memory certificate filesystem", top_k).hits) <= top_k
    assert index.search("connection pool", 1).hits[0].document_id == "pool"


def test_a_document_that_gives_several_passages_also_says_what_to_do() -> None:
    symptoms = "\n\n".join(f"## Symptom {i}\n\nThe pool is exhausted and requests wait for the pool." for i in range(5))
    text = f"{symptoms}\n\n## Fixes\n\nRaise the limit. {'x' * 400}\n\n## Other\n\nNothing."
    index = KnowledgeIndex([Document("pool", "Pool exhausted", text)])
    sections = [hit.section for hit in index.search("pool exhausted requests wait", 5).hits]
    assert sections == ["Symptom 0", "Symptom 1", "Fixes"]
    assert [hit.section for hit in index.search("pool exhausted requests wait", 1).hits] == ["Symptom 0"]


def test_excluded_documents_give_no_passages_but_stay_in_the_ranking(index: KnowledgeIndex) -> None:
    result = index.search("connection pool exhausted", exclude=frozenset({"pool"}))
    assert first(result) == "pool"
    assert all(hit.document_id != "pool" for hit in result.hits)


@pytest.mark.parametrize("query", ["", "???", "the of and", "zebra xylophone"])
def test_a_query_without_known_words_finds_nothing(index: KnowledgeIndex, query: str) -> None:
    assert index.search(query) == SearchResult((), (), ())


@pytest.mark.parametrize("documents", [(), (Document("empty", "Empty", ""),), (Document("signs", "???", "!!!"),)])
def test_an_index_of_nothing_answers_nothing(documents: tuple[Document, ...]) -> None:
    index = KnowledgeIndex(documents)
    assert len(index) == len(documents)
    assert index.search("connection pool").hits == ()
    assert index.search("empty").hits == ()


def test_stored_passages_are_used_as_they_are() -> None:
    stored = [Chunk("pool#7", "pool", 7, "Fix", "raise the pool"), Chunk("gone#0", "gone", 0, "", "raise the pool")]
    hits = KnowledgeIndex([POOL], stored).search("raise the pool").hits
    assert [hit.chunk_id for hit in hits] == ["pool#7"]


def test_searching_is_the_same_from_many_threads(index: KnowledgeIndex) -> None:
    queries = ["connection pool", "certificate", "memory full", "filesystem space"] * 10
    alone = [index.search(query) for query in queries]
    together: dict[int, SearchResult] = {}
    threads = [
        threading.Thread(target=lambda at=at, query=query: together.update({at: index.search(query)}))
        for at, query in enumerate(queries)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[at] for at in range(len(queries))] == alone


@pytest.mark.parametrize("query", ["%s %d", "s", "a b c d", "1 2 3", "%d/%d"])
def test_single_letters_and_digits_are_no_ground_to_find_anything(query: str) -> None:
    texts = ("Reload with `nginx -s reload`.", "Set `-d 3`, then `c 2 1`.", "Plan b.")
    documents = [Document(f"d{at}", f"Title {at}", text) for at, text in enumerate(texts)]
    assert KnowledgeIndex(documents).search(query).hits == ()
