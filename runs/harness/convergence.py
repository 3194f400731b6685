"""When searching on is pointless. Pure: it looks at the calls made so far and says why to stop, or None.

Three signs: nothing new in two rounds, the same calls coming round again (A, B, A, B), and one
tool asked again and again with only its numbers drifting (limit 100, 101, 102).
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

STALE_ROUNDS = 2
DRIFT_CALLS = 4
MAX_CYCLE = 3
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Stop:
    reason: str
    rounds: int
    tool_name: str | None = None


def call_key(tool_name: str, arguments: Any) -> str:
    """Same tool and same arguments give the same key, whatever the order of the fields."""
    return f"{tool_name} {_ENCODER.encode(arguments)}"


def drift_key(key: str) -> str:
    return _NUMBER.sub("#", key)


@dataclass(slots=True)
class Convergence:
    """One executor conversation. `keys` holds the key of every call, in order."""

    keys: list[str] = field(default_factory=list)
    rounds: int = 0
    stale: int = 0

    def resume(self) -> None:
        """The conversation goes on with a new order: what is stale is counted anew, the calls made are remembered."""
        self.stale = 0

    def observe(self, keys: list[str], *, new_evidence: bool) -> Stop | None:
        """Takes in one round of calls and says why to stop, if there is a reason."""
        self.rounds += 1
        self.keys.extend(keys)
        self.stale = 0 if new_evidence else self.stale + 1
        if self.stale >= STALE_ROUNDS:
            return Stop("NO_NEW_EVIDENCE", self.rounds)
        if self._cycles() and not new_evidence:
            return Stop("CYCLE", self.rounds, _tool_of(self.keys[-1]))
        if drifting := self._drifting():
            return Stop("DRIFTING_ARGUMENTS", self.rounds, drifting)
        return None

    def _cycles(self) -> bool:
        for length in range(1, MAX_CYCLE + 1):
            if len(self.keys) >= 2 * length and self.keys[-length:] == self.keys[-2 * length : -length]:
                return True
        return False

    def _drifting(self) -> str | None:
        tail = self.keys[-DRIFT_CALLS:]
        if len(tail) < DRIFT_CALLS or len({drift_key(key) for key in tail}) != 1:
            return None
        return _tool_of(tail[-1])


def _tool_of(key: str) -> str:
    return key.split(" ", 1)[0]
