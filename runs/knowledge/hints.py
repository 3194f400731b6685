"""L0: exact hits of a query on what a document is called.

Titles, alert names, error codes and aliases that stand in the query as whole words. A hint never
replaces ranking: it lifts a document that ranking then has to agree with.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from runs.knowledge.chunking import Document
from runs.knowledge.tokens import identifier_parts

SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Hint:
    """`kind` is title, alert, error_code or alias; `matched` the document's own spelling of it."""

    document_id: str
    kind: str
    matched: str


@dataclass(frozen=True, slots=True)
class HintTable:
    """Every name of every document, folded, with the hints it stands for."""

    names: dict[str, tuple[Hint, ...]]
    longest_words: int

    @classmethod
    def of(cls, documents: Iterable[Document]) -> "HintTable":
        names: dict[str, dict[Hint, None]] = {}
        for document in documents:
            for kind, texts in (
                ("title", (document.title,)),
                ("alert", document.alerts),
                ("error_code", document.error_codes),
                ("alias", document.aliases),
            ):
                for text in texts:
                    for form in _forms(text, split=kind in {"title", "alert"}):
                        names.setdefault(form, {})[Hint(document.document_id, kind, text)] = None
        longest = max((name.count(" ") + 1 for name in names), default=0)
        return cls({name: tuple(hints) for name, hints in names.items()}, longest)

    def find(self, query: str) -> tuple[Hint, ...]:
        """The hints of every name that stands in `query`, longest names first, each once."""
        found: dict[Hint, None] = {}
        spans: list[tuple[int, str]] = []
        folded = fold(query).split()
        for size in range(min(self.longest_words, len(folded)), 0, -1):
            spans += [(size, " ".join(folded[at : at + size])) for at in range(len(folded) - size + 1)]
        for _, span in spans:
            for hint in self.names.get(span, ()):
                found[hint] = None
        for name in self.names:
            if not name.isascii() and name in fold(query):
                found.update(dict.fromkeys(self.names[name]))
        return tuple(found)


_NOT_A_WORD = re.compile(r"[^\w]+")


def fold(text: str) -> str:
    """Lower case words separated by one space; what joins a name (`-`, `_`, `.`) separates too."""
    return " ".join(_NOT_A_WORD.sub(" ", text.replace("_", " ")).lower().split())


def _forms(text: str, *, split: bool) -> set[str]:
    """The spellings of a name; a CamelCase one also in words."""
    forms = {fold(text)}
    if split and " " not in text:
        parts = identifier_parts(text)
        if len(parts) > 1:
            forms.add(" ".join(parts))
    return {form for form in forms if len(form.replace(" ", "")) >= SHORTEST or not form.isascii()}
