from runs.models.alert import Alert
from runs.models.knowledge import KnowledgeChunk, KnowledgeDocument
from runs.models.run import DiagnosisRun
from runs.models.session import ChatSession
from runs.models.token import ApiToken

__all__ = ["Alert", "ApiToken", "ChatSession", "DiagnosisRun", "KnowledgeChunk", "KnowledgeDocument"]
