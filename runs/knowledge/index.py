"""The searchable whole: documents in, ranked passages out. Built once, read from any thread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatekeeper.types import Relevance
from runs.knowledge.chunking import Chunk, Document, chunk
from runs.knowledge.hints import Hint, HintTable
from runs.knowledge.ranking import RankedDocument, Ranking, query_words

# A hint lifts; it does not decide: ranking alone can still put another document first.
HINT_LIFT = {"title": 0.5, "alert": 0.5, "error_code": 0.4, "alias": 0.25}
HIGHLY_RELEVANT_COVERAGE = 0.45
HIGHLY_RELEVANT_SHARE = 0.6
LEAST_COVERAGE = 0.12
# How many passages the first, second, … document may give.
PASSAGES_BY_RANK = (3, 2, 1)


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage. `score` of its document (best without hints: 1), for order only; `rank` of its document from 1."""

    document_id: str
    chunk_id: str
    title: str
    section: str
    text: str
    score: float
    relevance: Relevance
    rank: int


@dataclass(frozen=True, slots=True)
class Scored:
    """A document in the ranking, for the record."""

    document_id: str
    title: str
    score: float
    coverage: float
    hinted: bool
    relevance: Relevance


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`l0`: exact hints. `documents`: what ranking found, best first. `hits`: passages, best document first."""

    l0: tuple[Hint, ...]
    documents: tuple[Scored, ...]
    hits: tuple[Hit, ...]


class KnowledgeIndex:
    """Frozen after construction; `search` is pure."""

    def __init__(self, documents: Iterable[Document], chunks: Iterable[Chunk] | None = None) -> None:
        """`chunks` where they are stored already; else the documents are cut here."""
        self._documents = tuple(documents)
        self._chunks = tuple(chunks) if chunks is not None else tuple(c for d in self._documents for c in chunk(d))
        self._of_document: dict[str, list[int]] = {document.document_id: [] for document in self._documents}
        for position, piece in enumerate(self._chunks):
            self._of_document[piece.document_id].append(position)
        self._hints = HintTable.of(self._documents)
        self._ranking = Ranking(self._documents, self._chunks)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def passages(self) -> int:
        return len(self._chunks)

    def search(self, query: str, top_k: int = 5, *, exclude: frozenset[str] = frozenset()) -> SearchResult:
        """The `top_k` best passages. Documents in `exclude` are ranked and told, but give no passages."""
        asked = query_words(query)
        hints = self._hints.find(query)
        documents = self._judged(self._ranking.documents(asked), hints)
        return SearchResult(hints, documents, self._passages(asked, documents, top_k, exclude))

    def _judged(self, ranked: Sequence[RankedDocument], hints: Sequence[Hint]) -> tuple[Scored, ...]:
        lift: dict[str, float] = {}
        for hint in hints:
            lift[hint.document_id] = max(lift.get(hint.document_id, 0.0), HINT_LIFT[hint.kind])
        best = max((row.score for row in ranked), default=0.0)
        rows = []
        for row in ranked:
            document = self._documents[row.position]
            hinted = document.document_id in lift
            if row.coverage < LEAST_COVERAGE and not hinted:
                continue
            relevance = _relevance(row, hinted, best)
            score = round(row.score + lift.get(document.document_id, 0.0), 4)
            rows.append(Scored(document.document_id, document.title, score, round(row.coverage, 4), hinted, relevance))
        return tuple(sorted(rows, key=lambda row: -row.score))

    def _passages(
        self, asked: Sequence[str], documents: Sequence[Scored], top_k: int, exclude: frozenset[str]
    ) -> tuple[Hit, ...]:
        scores = self._ranking.passages(asked)
        titles = {document.document_id: document.title for document in self._documents}
        hits: list[Hit] = []
        giving = [row for row in documents if row.document_id not in exclude][:top_k]
        # Every document that is in gives at least one passage; what is left goes to the best ones.
        spare = top_k - len(giving)
        for rank, row in enumerate(giving, start=1):
            more = min(spare, PASSAGES_BY_RANK[min(rank, len(PASSAGES_BY_RANK)) - 1] - 1)
            places = sorted(self._of_document[row.document_id], key=lambda at: (-scores[at], at))[: 1 + more]
            spare -= max(0, len(places) - 1)
            for at in places:
                piece = self._chunks[at]
                hits.append(
                    Hit(
                        row.document_id,
                        piece.chunk_id,
                        titles[row.document_id],
                        piece.section,
                        piece.text,
                        row.score,
                        row.relevance,
                        rank,
                    )
                )
        return tuple(hits)


def _relevance(row: RankedDocument, hinted: bool, best: float) -> Relevance:
    """PRECISE: named outright and found by ranking among the better ones. HIGHLY_RELEVANT: holds much of what was asked."""
    if hinted and row.score >= best * 0.3:
        return Relevance.PRECISE
    if row.coverage >= HIGHLY_RELEVANT_COVERAGE and row.score >= best * HIGHLY_RELEVANT_SHARE:
        return Relevance.HIGHLY_RELEVANT
    return Relevance.REFERENCE
