"""Written knowledge: documents, the passages they are cut into, and the runs whose answers cite them."""

from django.db import models


class KnowledgeDocument(models.Model):
    """A runbook or note. `id` is its slug; `source` says where it came from; `hints` feed L0."""

    id = models.CharField(primary_key=True, max_length=200)
    title = models.CharField(max_length=300)
    text = models.TextField()
    source = models.CharField(max_length=500, default="")
    hints = models.JSONField(default=dict)
    sha256 = models.CharField(max_length=64)
    imported_at = models.DateTimeField()

    class Meta:
        db_table = "knowledge_document"
        constraints = [models.CheckConstraint(condition=~models.Q(title=""), name="knowledge_document_title")]

    def __str__(self) -> str:
        return self.title


class KnowledgeChunk(models.Model):
    id = models.BigAutoField(primary_key=True)
    document = models.ForeignKey(KnowledgeDocument, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    section = models.CharField(max_length=300, default="")
    text = models.TextField()

    class Meta:
        db_table = "knowledge_chunk"
        constraints = [
            models.UniqueConstraint(fields=["document", "position"], name="knowledge_chunk_position"),
        ]

    def __str__(self) -> str:
        return f"{self.document_id}#{self.position}"


class RunDocument(models.Model):
    """A document among the sources of a run's published answer. An index of `published_result`; rehearsals have none.

    `document_id` is no foreign key: a document that was taken away was cited all the same.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey("runs.DiagnosisRun", on_delete=models.CASCADE, related_name="documents_cited")
    document_id = models.CharField(max_length=200)
    at = models.DateTimeField()

    class Meta:
        db_table = "run_document"
        constraints = [models.UniqueConstraint(fields=["run", "document_id"], name="run_document_once")]
        # Of one document: how many runs cite it, and the newest of them.
        indexes = [models.Index(fields=["document_id", "-at"], name="idx_run_document_at")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.document_id}"
