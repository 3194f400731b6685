"""Text from tools, alerts and models, made safe to look at. Escaping is the templates' part.

What would change how the rest of a page reads (control characters, direction marks, lone surrogates) is shown by its
number instead of acting; what is too long is cut, and says so.
"""

import re
from dataclasses import dataclass

from gatekeeper.text import UNSEEN, strip_ansi

TEXT_LIMIT = 20_000

# C0 and C1 controls except tab and newline; line and paragraph separators; surrogates; and everything that has no shape
# of its own: direction marks, zero-width characters, fillers, variation selectors, tags.
_ACTS_UNSEEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{UNSEEN}]")


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as it may be shown. `left_out` is how much of it is not: characters, or None where nobody counted."""

    text: str
    cut: bool = False
    left_out: int | None = 0


# JSON inside of text, as logs carry it: `\u4f60` is one character that some writer spelled out. One that is itself
# escaped (`\\u4f60`) is left as it is, and so are those below U+00A0, which JSON has to spell out.
_SPELLED_OUT = re.compile(r"(?<!\\)(?:\\u(?!00[0-9])[0-9a-fA-F]{4})+")


def _unspelled(found: re.Match[str]) -> str:
    units = bytes.fromhex(found[0].replace("\\u", ""))
    return units.decode("utf-16-be", "surrogatepass")


def seen(text: str) -> str:
    """The text as it is shown everywhere: spelled-out characters decoded, colour codes gone.

    Each character that acts unseen is replaced by its number.
    """
    plain = strip_ansi(text).replace("\r\n", "\n")
    if "\\u" in plain:
        plain = _SPELLED_OUT.sub(_unspelled, plain)
    return _ACTS_UNSEEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", plain)


def shown(text: str, limit: int = TEXT_LIMIT) -> Cut:
    left_out = max(0, len(text) - limit)
    return Cut(seen(text[:limit]), left_out > 0, left_out)


def one_line(text: str, limit: int = 200) -> str:
    """For headings and table cells."""
    line = seen(" ".join(text[: limit * 2].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"
