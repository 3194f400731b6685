"""L1: BM25 over whole documents, over passages and over names, fused into one order of documents.

BM25 is bm25s' Lucene variant (Robertson and Zaragoza, 2009; IDF as in Lucene). Three views see different
things: the passage that answers, the document that is about it, and the name that says it outright.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import bm25s
import numpy as np
from numpy.typing import NDArray

from runs.knowledge.chunking import Chunk, Document
from runs.knowledge.tokens import words

# Shares of the three views, each scaled to its own best; chosen as round numbers, see `eval/retrieval.py`.
DOCUMENT_SHARE, PASSAGE_SHARE, NAME_SHARE = 0.4, 0.3, 0.3
MAX_QUERY_WORDS = 256
Scores = NDArray[np.float32]


class WordIndex:
    """BM25 over texts given as words. Immutable once built; reading it is safe from any thread."""

    def __init__(self, texts: Sequence[Sequence[str]], *, k1: float = 1.2, b: float = 0.75) -> None:
        self.size = len(texts)
        self._bm25: bm25s.BM25 | None = None
        if any(texts):
            self._bm25 = bm25s.BM25(method="lucene", k1=k1, b=b)
            self._bm25.index([list(text) for text in texts], show_progress=False)

    def scores(self, query: Sequence[str]) -> Scores:
        known = [word for word in query if self._bm25 is not None and word in self._bm25.vocab_dict]
        if self._bm25 is None or not known:
            return np.zeros(self.size, dtype=np.float32)
        scores: Scores = self._bm25.get_scores(known)
        return scores


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """`score` in [0, 1] relative to the best; `coverage`: the share of the query's information the document holds."""

    position: int
    score: float
    coverage: float


class Ranking:
    """The three views over one set of documents and their passages."""

    def __init__(self, documents: Sequence[Document], chunks: Sequence[Chunk]) -> None:
        place = {document.document_id: position for position, document in enumerate(documents)}
        self._chunk_place = np.array([place[chunk.document_id] for chunk in chunks], dtype=np.int64)
        names = [words(_names_of(document)) for document in documents]
        bodies = [words(document.text) for document in documents]
        whole = [name + body for name, body in zip(names, bodies, strict=True)]
        self._names = WordIndex(names, b=0.5)
        self._documents = WordIndex(whole)
        self._chunks = WordIndex([words(f"{chunk.section}\n{chunk.text}") for chunk in chunks])
        self._vocabulary = [frozenset(text) for text in whole]
        self._idf = _idf(self._vocabulary)
        # A word that no document holds cannot tell them apart: it counts, but for half.
        self._unknown_idf = math.log(1 + len(documents)) / 2

    def documents(self, query: Sequence[str]) -> list[RankedDocument]:
        """Every document that shares a word with the query, best first."""
        passages = np.zeros(len(self._vocabulary), dtype=np.float32)
        np.maximum.at(passages, self._chunk_place, self._chunks.scores(query))
        fused = (
            DOCUMENT_SHARE * _scaled(self._documents.scores(query))
            + PASSAGE_SHARE * _scaled(passages)
            + NAME_SHARE * _scaled(self._names.scores(query))
        )
        order = np.argsort(-fused, kind="stable")
        return [
            RankedDocument(int(at), float(fused[at]), self._coverage(query, int(at))) for at in order if fused[at] > 0
        ]

    def passages(self, query: Sequence[str]) -> Scores:
        """A score for every passage, in the order of the passages."""
        return self._chunks.scores(query)

    def _coverage(self, query: Sequence[str], position: int) -> float:
        # One letter or digit stands in nearly every text: it may order documents, and makes none relevant.
        asked = {word for word in query if len(word) > 1 or not word.isascii()}
        weights = {word: self._idf.get(word, self._unknown_idf) for word in asked}
        total = sum(weights.values())
        held = sum(weight for word, weight in weights.items() if word in self._vocabulary[position])
        return held / total if total else 0.0


def query_words(query: str) -> list[str]:
    """The distinct words of a query, in order, bounded."""
    return list(dict.fromkeys(words(query)))[:MAX_QUERY_WORDS]


def _names_of(document: Document) -> str:
    return " \n ".join((document.title, *document.alerts, *document.error_codes, *document.aliases, *document.services))


def _idf(texts: Iterable[frozenset[str]]) -> dict[str, float]:
    counts: dict[str, int] = {}
    size = 0
    for text in texts:
        size += 1
        for word in text:
            counts[word] = counts.get(word, 0) + 1
    return {word: math.log(1 + (size - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def _scaled(scores: Scores) -> Scores:
    best = float(scores.max(initial=0.0))
    return scores / np.float32(best) if best > 0 else scores
