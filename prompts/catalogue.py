"""Which prompts there are, where their shipped text lies, and which belong to which set."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent

CHAT_SET = "chat-prompts"
AIOPS_SET = "aiops-prompts"
MAX_PROMPT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Shipped:
    """`resource` is relative to the project."""

    name: str
    title: str
    resource: str
    sets: frozenset[str]

    def text(self) -> str:
        return (ROOT.parent / self.resource).read_text(encoding="utf-8")


def _shipped(name: str, title: str, file: str, *sets: str) -> Shipped:
    return Shipped(name, title, f"prompts/{file}", frozenset(sets))


CATALOGUE: tuple[Shipped, ...] = (
    _shipped("intent_router", "Intent router", "intent-router-prompt.md", CHAT_SET),
    _shipped("system_chat", "System chat", "system-chat-prompt.md", CHAT_SET),
    _shipped("chat_planner", "Chat planner", "chat-planner-prompt.md", CHAT_SET),
    _shipped("chat_executor", "Chat executor", "chat-executor-prompt.md", CHAT_SET),
    _shipped("chat_verifier", "Verifier", "chat-verifier-prompt.md", CHAT_SET, AIOPS_SET),
    _shipped("chat_composer", "Composer", "chat-composer-prompt.md", CHAT_SET, AIOPS_SET),
    _shipped("supervisor", "Alert supervisor", "supervisor-prompt.md", AIOPS_SET),
    _shipped("planner", "Alert planner", "planner-prompt.md", AIOPS_SET),
    _shipped("executor", "Alert executor", "executor-prompt.md", AIOPS_SET),
)
