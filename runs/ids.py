"""Ids: of runs (sortable by time), of steps, model calls and tool invocations (short and unguessable).

An invocation id must not be guessable, because a model that invents one has to be caught; so the live source
draws from the system's randomness. `SeededIds` gives the same ids again for the same seed.
"""

import random
import re
import secrets
import time

BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
# Crockford's order of digits before letters keeps the text order of encoded numbers their numeric order.
SORTABLE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_BITS = 48
_RUN_BITS = 80


def run_id(now_ms: int | None = None) -> str:
    """`run_` and 16 sortable base-32 characters: 48 bits of milliseconds since 1970, then 32 random bits."""
    millis = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    number = (millis & ((1 << _TIME_BITS) - 1)) << (_RUN_BITS - _TIME_BITS) | secrets.randbits(_RUN_BITS - _TIME_BITS)
    return "run_" + "".join(SORTABLE32[number >> shift & 31] for shift in range(_RUN_BITS - 5, -1, -5))


RUN_ID_PATTERN = f"run_[{SORTABLE32}]{{16}}"
_RUN_ID = re.compile(RUN_ID_PATTERN)


def is_run_id(text: str) -> bool:
    """Whether `run_id` could have made it."""
    return _RUN_ID.fullmatch(text) is not None


class _Ids:
    """`runs.harness.ports.IdSource` over any source of randomness."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def _text(self, length: int) -> str:
        bits = self._source.getrandbits(5 * length)  # one draw: the system's randomness is a call a time
        return "".join(BASE32[bits >> shift & 31] for shift in range(0, 5 * length, 5))

    def step_id(self) -> str:
        return f"step_{self._text(16)}"

    def invocation_id(self) -> str:
        return f"inv_{self._text(6)}"

    def call_id(self) -> str:
        return f"call_{self._text(16)}"

    def jitter(self) -> float:
        return self._source.random()


class RandomIds(_Ids):
    def __init__(self) -> None:
        super().__init__(random.SystemRandom())


class SeededIds(_Ids):
    """The same ids in the same order for the same seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))  # noqa: S311 (reproducible on purpose)
