from audit.models.access import ReasoningAccess, ReasoningAccessHead
from audit.models.ledgers import AgentReasoning, AgentStep, ModelCallRow, ToolInvocation
from audit.models.prompts import RunPrompt
from audit.models.rules import RulePreview, RulePreviewRun, RunRule
from audit.models.trace import PrunedRun, TraceEvent, TraceHead

__all__ = [
    "AgentReasoning",
    "AgentStep",
    "ModelCallRow",
    "PrunedRun",
    "ReasoningAccess",
    "ReasoningAccessHead",
    "RulePreview",
    "RulePreviewRun",
    "RunPrompt",
    "RunRule",
    "ToolInvocation",
    "TraceEvent",
    "TraceHead",
]
