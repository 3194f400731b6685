"""The stored knowledge: runbooks brought in as documents and passages, and the index that searches them.

A process keeps one index and builds it again when the documents have changed; looking whether they have is one
small query.
"""

import hashlib
import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection, transaction
from django.db.models import Count, Max

from runs.knowledge.chunking import MAX_TITLE_CHARS, Chunk, Document, chunk
from runs.knowledge.index import KnowledgeIndex
from runs.models import KnowledgeChunk, KnowledgeDocument
from runs.tools.redaction import clean

HINT_FIELDS = ("alerts", "error_codes", "aliases", "services")
# Any number, as long as nothing else of ours takes it: imports come one after the other.
IMPORT_LOCK = 7_203_401


@dataclass(frozen=True, slots=True)
class Version:
    """What the index was built from: every import and removal changes one of these."""

    documents: int
    newest: datetime | None


def version() -> Version:
    return Version(**KnowledgeDocument.objects.aggregate(documents=Count("id"), newest=Max("imported_at")))


def load() -> KnowledgeIndex:
    """Build the index from what is stored now."""
    documents = [_document(row) for row in KnowledgeDocument.objects.order_by("id")]
    chunks = [
        Chunk(f"{row.document_id}#{row.position}", row.document_id, row.position, row.section, row.text)
        for row in KnowledgeChunk.objects.order_by("document_id", "position")
    ]
    return KnowledgeIndex(documents, chunks)


def _document(row: KnowledgeDocument) -> Document:
    return Document(row.id, row.title, row.text, **{name: tuple(row.hints.get(name, ())) for name in HINT_FIELDS})


class Shelf:
    """The process's index. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: tuple[Version, KnowledgeIndex] | None = None

    def index(self) -> KnowledgeIndex:
        """The index over what is stored now; uses the database."""
        stored = version()
        with self._lock:
            if self._held is None or self._held[0] != stored:
                self._held = (stored, load())
            return self._held[1]


SHELF = Shelf()

CITED = """
    INSERT INTO run_document (run_id, document_id, at)
    SELECT DISTINCT run.id, left(source ->> 'documentId', 200), run.finished_at
    FROM diagnosis_run run, jsonb_array_elements(run.published_result -> 'sourceDocuments') source
    WHERE run.id = %s AND run.rehearsal IS NULL
    ON CONFLICT DO NOTHING
"""


def note_citations(run_id: str) -> None:
    """Write down which documents the run's published answer names. May be repeated."""
    with connection.cursor() as cursor:
        cursor.execute(CITED, [run_id])


def masked(document: Document) -> Document:
    """Without its secrets. As a whole, before it is cut: half a private key is not known for one."""
    hints = {name: tuple(clean(text) for text in getattr(document, name)) for name in HINT_FIELDS}
    title = clean(document.title)[:MAX_TITLE_CHARS]
    return Document(document.document_id, title, clean(document.text), **hints)


def digest_of(document: Document, source: str) -> str:
    return hashlib.sha256(repr((source, document)).encode()).hexdigest()


def store(document: Document, *, source: str) -> bool:
    """Bring a document in, or in again where it changed. Returns whether anything changed."""
    document = masked(document)
    digest = digest_of(document, source)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])
        if KnowledgeDocument.objects.filter(id=document.document_id, sha256=digest).exists():
            return False
        row, _ = KnowledgeDocument.objects.update_or_create(
            id=document.document_id,
            defaults={
                "title": document.title,
                "text": document.text,
                "source": source,
                "hints": {name: list(getattr(document, name)) for name in HINT_FIELDS},
                "sha256": digest,
                "imported_at": datetime.now(UTC),
            },
        )
        row.chunks.all().delete()
        KnowledgeChunk.objects.bulk_create(
            KnowledgeChunk(document=row, position=piece.ordinal, section=piece.section[:300], text=piece.text)
            for piece in chunk(document)
        )
    return True
