"""How well knowledge retrieval finds the runbook of an alert.

    python -m eval.retrieval --data DIR [--details]

DIR holds `documents.jsonl` (`id, title, text`) and `alert_pairs.jsonl` (`alert, summary, description, relevant`).
Asked twice: with the alert's name in the query ("full"), and without it ("noname"); compared with plain
BM25 over the same texts. R@k is the share of alerts with a relevant document among the first k.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s

from runs.knowledge.chunking import Document
from runs.knowledge.index import KnowledgeIndex

CUTS = (1, 3, 5)
Search = Callable[[str], list[str]]


@dataclass(frozen=True)
class Pair:
    alert: str
    summary: str
    description: str
    relevant: frozenset[str]

    def query(self, *, named: bool) -> str:
        return " ".join(filter(None, (self.alert if named else "", self.summary, self.description)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures knowledge retrieval against alerts with known runbooks.")
    parser.add_argument("--data", type=Path, required=True, help="folder with documents.jsonl and alert_pairs.jsonl")
    parser.add_argument("--details", action="store_true", help="also list the alerts whose runbook is not first")
    options = parser.parse_args(arguments)
    try:
        documents, pairs = read(options.data)
    except (OSError, ValueError, KeyError) as error:
        print(f"retrieval: the data in {options.data} cannot be read: {error}", file=sys.stderr)
        return 2
    index = KnowledgeIndex(documents)

    def ours(query: str) -> list[str]:
        return [row.document_id for row in index.search(query).documents]

    plain = plain_bm25(documents)
    print(f"{len(documents)} documents, {index.passages} passages, {len(pairs)} alerts")
    print(f"{'query':<8} {'method':<10} " + " ".join(f"{f'R@{k}':>6}" for k in CUTS))
    for named in (True, False):
        for name, search in (("bm25", plain), ("superbiz", ours)):
            shares = recall(search, pairs, named=named)
            print(f"{'full' if named else 'noname':<8} {name:<10} " + " ".join(f"{share:6.3f}" for share in shares))
    if options.details:
        for pair in pairs:
            found = ours(pair.query(named=False))
            if not set(found[:1]) & pair.relevant:
                print(f"noname {pair.alert}: wanted {', '.join(sorted(pair.relevant))}; found {', '.join(found[:3])}")
    return 0


def read(folder: Path) -> tuple[list[Document], list[Pair]]:
    documents = [Document(row["id"], row["title"], row["text"]) for row in _rows(folder / "documents.jsonl")]
    pairs = [
        Pair(row["alert"], row.get("summary") or "", row.get("description") or "", frozenset(row["relevant"]))
        for row in _rows(folder / "alert_pairs.jsonl")
    ]
    return documents, pairs


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def plain_bm25(documents: Sequence[Document]) -> Search:
    """The baseline: lower-case words of title and text, nothing else."""

    def split(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([split(f"{document.title}\n{document.text}") for document in documents], show_progress=False)

    def search(query: str) -> list[str]:
        scores = index.get_scores([word for word in split(query) if word in index.vocab_dict])
        return [documents[at].document_id for at in (-scores).argsort(kind="stable")[: max(CUTS)]]

    return search


def recall(search: Search, pairs: Sequence[Pair], *, named: bool) -> list[float]:
    found = [search(pair.query(named=named)) for pair in pairs]
    return [
        sum(bool(set(ids[:k]) & pair.relevant) for ids, pair in zip(found, pairs, strict=True)) / len(pairs)
        for k in CUTS
    ]


if __name__ == "__main__":
    sys.exit(main())
