"""The searchable whole: documents in, ranked passages out. Built once, read from any thread."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatekeeper.types import Relevance
from runs.knowledge.chunking import Chunk, Document, chunk
from runs.knowledge.hints import Hint, HintTable
from runs.knowledge.ranking import RankedDocument, Ranking, query_words

# A hint lifts; it does not decide: ranking alone can still put another document first.
HINT_LIFT = {"title": 0.5, "alert": 0.5, "error_code": 0.4, "alias": 0.25}
PRECISE_SHARE = 0.3
HIGHLY_RELEVANT_COVERAGE = 0.45
HIGHLY_RELEVANT_SHARE = 0.6
LEAST_COVERAGE = 0.08
# A document far behind the best one is noise, not a second opinion.
LEAST_SHARE = 0.2
# How many passages a document may give.
PASSAGES_OF = {Relevance.PRECISE: 3, Relevance.HIGHLY_RELEVANT: 2, Relevance.REFERENCE: 1}


_ADVICE = re.compile(
    r"\b(fix|mitigat|remed|resol|solution|recover|action|what to do)|处理|解决|修复|缓解", re.IGNORECASE
)


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
        """`chunks` where they are stored already (those of other documents are left out); else cut here."""
        self._documents = tuple(documents)
        self._of_document: dict[str, list[int]] = {document.document_id: [] for document in self._documents}
        pieces = chunks if chunks is not None else (piece for document in self._documents for piece in chunk(document))
        self._chunks = tuple(piece for piece in pieces if piece.document_id in self._of_document)
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
            if not hinted and (row.coverage < LEAST_COVERAGE or row.score < best * LEAST_SHARE):
                continue
            relevance = _relevance(row, hinted, best)
            score = round(row.score + lift.get(document.document_id, 0.0), 4)
            rows.append(Scored(document.document_id, document.title, score, round(row.coverage, 4), hinted, relevance))
        return tuple(sorted(rows, key=lambda row: -row.score))

    def _passages(
        self, asked: Sequence[str], documents: Sequence[Scored], top_k: int, exclude: frozenset[str]
    ) -> tuple[Hit, ...]:
        scores = self._ranking.passages(asked)
        hits: list[Hit] = []
        giving = (row for row in documents if row.document_id not in exclude)
        for rank, row in enumerate(giving, start=1):
            if len(hits) >= top_k:
                break
            places = sorted(self._of_document[row.document_id], key=lambda at: (-scores[at], at))
            wanted = min(PASSAGES_OF[row.relevance], top_k - len(hits))
            hits += [_hit(row, self._chunks[at], rank) for at in self._with_advice(places, wanted)]
        return tuple(hits)

    def _with_advice(self, places: Sequence[int], wanted: int) -> Sequence[int]:
        """The first `wanted`; where none of several says what to do, the last gives way to the best one that does.

        Passages that resemble an alert most repeat its symptoms, and who asks wants to know what to do about them.
        """
        chosen = list(places[:wanted])
        advice = [at for at in places if _ADVICE.search(self._chunks[at].section)]
        if wanted > 1 and advice and advice[0] not in chosen:
            chosen[-1] = advice[0]
        return chosen


def _hit(row: Scored, piece: Chunk, rank: int) -> Hit:
    return Hit(
        document_id=row.document_id,
        chunk_id=piece.chunk_id,
        title=row.title,
        section=piece.section,
        text=piece.text,
        score=row.score,
        relevance=row.relevance,
        rank=rank,
    )


def _relevance(row: RankedDocument, hinted: bool, best: float) -> Relevance:
    """PRECISE: named outright, and ranking agrees. HIGHLY_RELEVANT: near the best, and holds much of what was asked."""
    if hinted and row.score >= best * PRECISE_SHARE:
        return Relevance.PRECISE
    if row.coverage >= HIGHLY_RELEVANT_COVERAGE and row.score >= best * HIGHLY_RELEVANT_SHARE:
        return Relevance.HIGHLY_RELEVANT
    return Relevance.REFERENCE
