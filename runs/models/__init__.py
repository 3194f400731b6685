from runs.models.alert import Alert
from runs.models.feedback import RunFeedback
from runs.models.knowledge import KnowledgeChunk, KnowledgeDocument, RunDocument
from runs.models.notice import RunNotice
from runs.models.run import DiagnosisRun
from runs.models.session import ChatSession
from runs.models.silence import AlertSilence
from runs.models.token import ApiToken

__all__ = [
    "Alert",
    "AlertSilence",
    "ApiToken",
    "ChatSession",
    "DiagnosisRun",
    "KnowledgeChunk",
    "KnowledgeDocument",
    "RunDocument",
    "RunFeedback",
    "RunNotice",
]
