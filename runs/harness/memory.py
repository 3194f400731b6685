"""What a question may know of the turns before it in its session. Bounded values, made by `runs.recall`.

It helps to understand a follow-up ("and yesterday?"). It is no evidence: whatever a run states, it has looked up
itself, so nothing of a memory counts as the run's input when claims are judged.
"""

from dataclasses import asdict, dataclass
from typing import Any

MAX_TURNS = 6
TURN_QUERY_CHARS = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """What was asked, in at most TURN_QUERY_CHARS, and as what it was taken."""

    intent: str
    query: str


@dataclass(frozen=True, slots=True)
class Previous:
    """What the turn before released: words that were published, without the ids and quotations behind them."""

    intent: str
    query: str
    conclusion: str
    confidence: str
    statements: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """`turns` from the oldest to the newest, MAX_TURNS at most; `previous` None: nothing was released just before."""

    turns: tuple[Turn, ...] = ()
    previous: Previous | None = None

    def history_json(self) -> list[dict[str, Any]]:
        return [asdict(turn) for turn in self.turns]

    def previous_json(self) -> dict[str, Any] | None:
        return asdict(self.previous) if self.previous else None


NOTHING_REMEMBERED = Memory()
