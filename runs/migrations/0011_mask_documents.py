from datetime import UTC, datetime

from django.db import migrations

from runs import library
from runs.knowledge.chunking import Document, chunk


def mask(apps, _schema_editor):
    """Documents were cut into passages with their secrets in them, and a part of one is not known for a secret."""
    documents = apps.get_model("runs", "KnowledgeDocument").objects
    chunks = apps.get_model("runs", "KnowledgeChunk").objects
    for row in documents.order_by("id").iterator(chunk_size=20):
        hints = {name: tuple(row.hints.get(name, ())) for name in library.HINT_FIELDS}
        before = Document(row.id, row.title, row.text, **hints)
        document = library.masked(before)
        if document == before:
            continue
        documents.filter(id=row.id).update(
            title=document.title,
            text=document.text,
            hints={name: list(getattr(document, name)) for name in library.HINT_FIELDS},
            sha256=library.digest_of(document, row.source),
            imported_at=datetime.now(UTC),
        )
        chunks.filter(document_id=row.id).delete()
        chunks.bulk_create(
            chunks.model(document_id=row.id, position=piece.ordinal, section=piece.section[:300], text=piece.text)
            for piece in chunk(document)
        )


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0010_run_document'),
    ]

    operations = [
        migrations.RunPython(mask, migrations.RunPython.noop, elidable=True),
    ]
