"""Which prompts there are, where their shipped text lies, which belong to which set, and how long each may be."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent

CHAT_SET = "chat-prompts"
AIOPS_SET = "aiops-prompts"


@dataclass(frozen=True, slots=True)
class Shipped:
    """`resource` is relative to the project. `max_chars`: of what may be active."""

    name: str
    title: str
    resource: str
    sets: frozenset[str]
    max_chars: int

    def text(self) -> str:
        return (ROOT.parent / self.resource).read_text(encoding="utf-8")


def _shipped(name: str, title: str, file: str, max_chars: int, *sets: str) -> Shipped:
    return Shipped(name, title, f"prompts/{file}", frozenset(sets), max_chars)


CATALOGUE: tuple[Shipped, ...] = (
    _shipped("intent_router", "Intent router", "intent-router-prompt.md", 8_000, CHAT_SET),
    _shipped("system_chat", "System chat", "system-chat-prompt.md", 8_000, CHAT_SET),
    _shipped("chat_planner", "Chat planner", "chat-planner-prompt.md", 8_000, CHAT_SET),
    _shipped("chat_executor", "Chat executor", "chat-executor-prompt.md", 20_000, CHAT_SET),
    _shipped("chat_verifier", "Verifier", "chat-verifier-prompt.md", 16_000, CHAT_SET, AIOPS_SET),
    _shipped("chat_composer", "Composer", "chat-composer-prompt.md", 16_000, CHAT_SET, AIOPS_SET),
    _shipped("supervisor", "Alert supervisor", "supervisor-prompt.md", 8_000, AIOPS_SET),
    _shipped("planner", "Alert planner", "planner-prompt.md", 8_000, AIOPS_SET),
    _shipped("executor", "Alert executor", "executor-prompt.md", 20_000, AIOPS_SET),
)
_BY_NAME = {shipped.name: shipped for shipped in CATALOGUE}


def shipped_of(name: str) -> Shipped | None:
    """None: a prompt of an earlier release, which no role asks for any more."""
    return _BY_NAME.get(name)
