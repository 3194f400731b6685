"""Folding: when two spellings of a text count as the same text.

Only what does not change what a reader reads is folded: colour codes, full-width forms, Unicode
composition and white space. Case, punctuation, zero-width characters and order are kept, so a
changed digit, an added word or two spans put together never fold into the original.
"""

import re
import unicodedata

# Only sequences without a text of their own. An operating-system command (ESC ] … BEL) carries free text,
# which would let an excerpt hide words from the comparison that a page would later show.
_ANSI = re.compile(r"\x1b\[[0-9;:?]{0,32}[A-Za-z]")

# U+FF01..U+FF5E are the printable ASCII characters moved up by 0xFEE0; the rest are full-width signs.
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    0x3000: " ",
    0xFFE0: "¢",
    0xFFE1: "£",
    0xFFE2: "¬",
    0xFFE3: "¯",
    0xFFE4: "¦",
    0xFFE5: "¥",
    0xFFE6: "₩",
}


def strip_ansi(text: str) -> str:
    """The text without terminal colour and cursor codes (ECMA-48 control sequences)."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def fold(text: str) -> str:
    """The form in which excerpts and evidence are compared: no ANSI codes, NFC, half-width, single spaces, trimmed."""
    if text.isascii():
        # Printable ASCII has no tab, line break or escape in it: most log lines need no work at all.
        if text.isprintable() and "  " not in text:
            return text.strip(" ")
        return " ".join(strip_ansi(text).split())
    half_width = strip_ansi(text).translate(_FULL_WIDTH)
    # NFC comes after the width: a full-width letter composes with a following accent only once it is narrow.
    return " ".join(unicodedata.normalize("NFC", half_width).split())


def solid_length(folded: str) -> int:
    """How many characters of a folded text are not spaces."""
    return len(folded) - folded.count(" ")


def bounded(text: str, limit: int = 300) -> str:
    """At most `limit` characters, the cut marked."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
