"""The written knowledge as people read it: what there is, what a search finds, one document passage by passage."""

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from django.db.models import Count, Max, QuerySet
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from gatekeeper.types import Relevance
from runs.access import Caller, visible_runs
from runs.knowledge.index import SearchResult
from runs.library import SHELF
from runs.models import DiagnosisRun, KnowledgeChunk, KnowledgeDocument, RunDocument
from runs.pages.cutblocks import going_on, left_open
from runs.pages.hostile import one_line, seen
from runs.pages.markdownhtml import html_of
from runs.pages.words import Tone, Words, badge
from runs.tools.redaction import clean

DOCUMENTS_A_PAGE = 100
PASSAGES_A_PAGE = 60
FOUND = 12
RUNS_SHOWN = 10
SEARCH_LIMIT = 1_000
EXCERPT_LIMIT = 400
HIT_CHARS = 600

RELEVANCE_WORDS: dict[Relevance, tuple[Words, Tone]] = {
    Relevance.PRECISE: (_("precise"), Tone.GOOD),
    Relevance.HIGHLY_RELEVANT: (_("highly relevant"), Tone.NORMAL),
    Relevance.REFERENCE: (_("for reference"), Tone.QUIET),
}
HINT_WORDS: dict[str, Words] = {
    "title": _("title"),
    "alert": _("alert name"),
    "error_code": _("error code"),
    "alias": _("alias"),
}
NAME_WORDS: dict[str, Words] = {
    "alerts": _("Alerts"),
    "error_codes": _("Error codes"),
    "aliases": _("Also called"),
    "services": _("Services"),
}


# ---- the list -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """`cited`: released runs whose answer names the document; `cited_at`: the last of them."""

    id: str
    title: str
    source: str
    passages: int
    imported_at: datetime
    cited: int
    cited_at: datetime | None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """`number` from 1 on, of `pages`."""

    rows: tuple[DocumentRow, ...]
    total: int
    number: int
    pages: int


def document_page(number: int) -> DocumentPage:
    """By title. Three queries."""
    total = KnowledgeDocument.objects.count()
    pages = max(1, math.ceil(total / DOCUMENTS_A_PAGE))
    number = min(max(1, number), pages)
    start = (number - 1) * DOCUMENTS_A_PAGE
    documents = KnowledgeDocument.objects.defer("text").annotate(passages=Count("chunks")).order_by("title", "id")
    shown = list(documents[start : start + DOCUMENTS_A_PAGE])
    cited = _citations(row.id for row in shown)
    rows = [
        DocumentRow(
            id=row.id,
            title=one_line(clean(row.title)),
            source=one_line(row.source),
            passages=row.passages,
            imported_at=row.imported_at,
            cited=cited.get(row.id, (0, None))[0],
            cited_at=cited.get(row.id, (0, None))[1],
        )
        for row in shown
    ]
    return DocumentPage(tuple(rows), total, number, pages)


def _citations(document_ids: Iterable[str]) -> dict[str, tuple[int, datetime | None]]:
    rows = RunDocument.objects.filter(document_id__in=list(document_ids)).values("document_id").order_by()
    return {row["document_id"]: (row["runs"], row["last"]) for row in rows.annotate(runs=Count("id"), last=Max("at"))}


# ---- the search -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hint:
    """A name of the document that stands in the question."""

    document_id: str
    kind: Words
    matched: str


@dataclass(frozen=True, slots=True)
class FoundPassage:
    document_id: str
    position: int
    title: str
    section: str
    text: str
    relevance: Words
    tone: Tone

    @property
    def page(self) -> int:
        """The page of its document on which it stands."""
        return page_of_passage(self.position)


@dataclass(frozen=True, slots=True)
class Found:
    hints: tuple[Hint, ...]
    passages: tuple[FoundPassage, ...]


def search(words: str) -> Found:
    """What `lookup_knowledge` would find for these words."""
    result: SearchResult = SHELF.index().search(words, FOUND)
    hints = [Hint(hint.document_id, HINT_WORDS[hint.kind], one_line(clean(hint.matched))) for hint in result.l0]
    passages = []
    for hit in result.hits:
        relevance, tone = RELEVANCE_WORDS[hit.relevance]
        passages.append(
            FoundPassage(
                document_id=hit.document_id,
                position=int(hit.chunk_id.rpartition("#")[2]),
                title=one_line(clean(hit.title)),
                section=one_line(clean(hit.section)),
                text=_begun(seen(clean(hit.text))),
                relevance=relevance,
                tone=tone,
            )
        )
    return Found(tuple(hints), tuple(passages))


def _begun(text: str) -> str:
    return text if len(text) <= HIT_CHARS else f"{text[: HIT_CHARS - 1].rstrip()}…"


def page_of_passage(position: int) -> int:
    return position // PASSAGES_A_PAGE + 1


# ---- one document ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passage:
    """`above`: the headings over it, empty where they are those of the passage before. `found`: it is the cited one."""

    position: int
    above: tuple[str, ...]
    html: SafeString
    found: bool

    @property
    def heading(self) -> str:
        return self.above[-1] if self.above else ""


@dataclass(frozen=True, slots=True)
class CitingRun:
    id: str
    badge: Words
    tone: Tone
    conclusion: str
    at: datetime


@dataclass(frozen=True, slots=True)
class DocumentView:
    """`found_at`: position of the passage that was asked for; None: none holds it. `runs`: the newest that cite it."""

    id: str
    title: str
    source: str
    sha256: str
    imported_at: datetime
    names: tuple[tuple[Words, tuple[str, ...]], ...]
    passages: tuple[Passage, ...]
    total: int
    number: int
    pages: int
    found_at: int | None
    cited: int
    runs: tuple[CitingRun, ...]


def document_view(caller: Caller, row: KnowledgeDocument, *, number: int, excerpt: str = "") -> DocumentView:
    """One page of its passages: that of the excerpt where one is looked for. Six queries at most."""
    chunks = KnowledgeChunk.objects.filter(document=row).order_by("position")
    total = chunks.count()
    pages = max(1, math.ceil(total / PASSAGES_A_PAGE))
    found_at = _position_of(excerpt, chunks.values_list("position", "text")) if excerpt else None
    number = page_of_passage(found_at) if found_at is not None else min(max(1, number), pages)
    shown = chunks.filter(position__gte=(number - 1) * PASSAGES_A_PAGE, position__lt=number * PASSAGES_A_PAGE)
    return DocumentView(
        id=row.id,
        title=one_line(clean(row.title)),
        source=one_line(row.source),
        sha256=row.sha256,
        imported_at=row.imported_at,
        names=_names(row),
        passages=tuple(_passages(shown, found_at, _opened_before(chunks, shown.first()))),
        total=total,
        number=number,
        pages=pages,
        found_at=found_at,
        cited=RunDocument.objects.filter(document_id=row.id).count(),
        runs=_citing(caller, row.id),
    )


def _names(row: KnowledgeDocument) -> tuple[tuple[Words, tuple[str, ...]], ...]:
    return tuple(
        (words, tuple(one_line(clean(str(name)), 80) for name in row.hints[field]))
        for field, words in NAME_WORDS.items()
        if row.hints.get(field)
    )


def _opened_before(chunks: QuerySet[KnowledgeChunk], first: KnowledgeChunk | None) -> str:
    """What the passages above leave open. No block goes on over a heading."""
    if first is None or not first.position:
        return ""
    above = chunks.filter(position__lt=first.position).reverse()
    same = list(takewhile(lambda piece: piece.section == first.section, above.iterator()))
    opened = ""
    for piece in reversed(same):
        opened = left_open(going_on(opened, piece.text))
    return opened


def _passages(chunks: Iterable[KnowledgeChunk], found_at: int | None, opened: str) -> Iterable[Passage]:
    section, before = None, None
    for piece in chunks:
        if section not in {None, piece.section}:
            opened = ""
        text = going_on(opened, piece.text)
        opened, section = left_open(text), piece.section
        above = tuple(one_line(clean(part), 160) for part in piece.section.split(" > ") if part)
        yield Passage(
            piece.position, above if above != before else (), html_of(clean(text)), piece.position == found_at
        )
        before = above


def _position_of(excerpt: str, passages: Iterable[tuple[int, str]]) -> int | None:
    wanted = _folded(excerpt)
    return next((position for position, text in passages if wanted in _folded(clean(text))), None) if wanted else None


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _citing(caller: Caller, document_id: str) -> tuple[CitingRun, ...]:
    """The newest of those that the reader may see."""
    runs = visible_runs(caller).filter(documents_cited__document_id=document_id)
    newest = runs.order_by("-documents_cited__at", "-id").defer("self_evaluation", "subject")[:RUNS_SHOWN]
    return tuple(_citing_run(run) for run in newest)


def _citing_run(run: DiagnosisRun) -> CitingRun:
    words, tone = badge(run)
    conclusion = (run.published_result or {}).get("conclusion", "")
    return CitingRun(run.id, words, tone, one_line(conclusion, 200), run.finished_at or run.queued_at)
