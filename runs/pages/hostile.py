"""Text from tools, alerts and models, made safe to look at. Escaping is the templates' part.

What would change how the rest of a page reads (control characters, direction marks, lone surrogates) is shown by its
number instead of acting; what is too long is cut, and says so.
"""

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gatekeeper.text import UNSEEN, strip_ansi

TEXT_LIMIT = 20_000
JSON_LIMIT = 60_000

# C0 and C1 controls except tab and newline; line and paragraph separators; surrogates; and everything that has no shape
# of its own: direction marks, zero-width characters, fillers, variation selectors, tags.
_ACTS_UNSEEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{UNSEEN}]")


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as it may be shown. `left_out` is how much of it is not: characters, or None where nobody counted."""

    text: str
    cut: bool = False
    left_out: int | None = 0


def seen(text: str) -> str:
    """The text with each character that acts unseen replaced by its number. Colour codes go."""
    plain = strip_ansi(text).replace("\r\n", "\n")
    return _ACTS_UNSEEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", plain)


def shown(text: str, limit: int = TEXT_LIMIT) -> Cut:
    left_out = max(0, len(text) - limit)
    return Cut(seen(text[:limit]), left_out > 0, left_out)


def one_line(text: str, limit: int = 200) -> str:
    """For headings and table cells."""
    line = seen(" ".join(text[: limit * 2].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def as_json(value: Any, limit: int = JSON_LIMIT) -> Cut:
    """Indented JSON, written only as far as it is shown."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=2, default=str)
    parts, length = [], 0
    for part in encoder.iterencode(_bounded(value, limit)):
        parts.append(part[: limit - length])
        length += len(part)
        if length > limit:
            return Cut(seen("".join(parts)), cut=True, left_out=None)
    return Cut(seen("".join(parts)))


def _bounded(value: Any, limit: int, depth: int = 0) -> Any:
    """The value with long strings and lists cut short, so that no encoder has to work through megabytes."""
    if isinstance(value, str):
        return value[: limit + 1]
    if depth > 60:
        return "…"
    if isinstance(value, dict):
        return {str(key)[:200]: _bounded(item, limit, depth + 1) for key, item in islice(value.items(), limit)}
    if isinstance(value, list | tuple):
        return [_bounded(item, limit, depth + 1) for item in islice(value, limit)]
    return value
