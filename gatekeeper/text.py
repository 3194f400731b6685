"""Folding: when two spellings of a text count as the same text.

Only what does not change what a reader reads is folded: colour codes, full-width forms, Unicode
composition and white space. Case, punctuation, zero-width characters and order are kept, so a
changed digit, an added word or two spans put together never fold into the original.
"""

import re
import unicodedata
from collections.abc import Iterable

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

# Code points without a shape of their own: the format characters (category Cf) and those that Unicode lists as
# Default_Ignorable_Code_Point (DerivedCoreProperties.txt) in other categories, with the blank braille pattern.
_UNSEEN_BESIDE_FORMAT = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
)
_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
UNSEEN = _UNSEEN_BESIDE_FORMAT + _FORMAT
"""All of them, as the inside of a character class."""

_UNSEEN = re.compile(f"[{UNSEEN}]")
# All but tab, line feed and carriage return.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# These have honest work beside letters and signs that are not ASCII: emoji, Persian, the scripts of India.
_JOINERS_AND_VARIANTS = re.compile("(?<=[^\x00-\x7f])[\u200c\u200d\ufe0e\ufe0f](?![0-9A-Za-z])")
_HYPHENS = frozenset("\u2010\u2011\ufe63")
_ROMAN = range(0x2160, 0x2183)
_MATHEMATICAL = range(0x1D400, 0x1D800)


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


class _Legible(dict[int, str]):
    """What each code point is read as, worked out when it is first met: a table for `str.translate`."""

    def __missing__(self, code: int) -> str:
        self[code] = read = _read_as(chr(code))
        return read


def _read_as(char: str) -> str:
    if _UNSEEN.fullmatch(char):
        return ""
    if char in _HYPHENS:
        return "-"
    if char.isascii():
        return char
    if char.isdigit():
        return str(unicodedata.digit(char))
    plain = unicodedata.normalize("NFKC", char)
    if ord(char) in _MATHEMATICAL or any("0" <= each <= "9" for each in plain):
        return plain
    if ord(char) in _ROMAN or unicodedata.category(char) == "No":
        return f"{unicodedata.numeric(char):g}"
    return char


_LEGIBLE = _Legible()


def legible(folded: str) -> str:
    """A folded text as its terms and words are read: what has no shape is gone, digits and hyphens are plain ones.

    Digits are those of every script, superscripts, circled ones and fractions (⁹ is 9, ½ is 1⁄2). Each character is
    read by itself, so `legible(a + b) == legible(a) + legible(b)`. Never compare quotations by it: see `fold`.
    """
    return folded if folded.isascii() else folded.translate(_LEGIBLE)


def hidden_characters(text: str, sources: Iterable[str] = ()) -> str:
    """The characters without a shape in `text` that none of `sources` has, each once.

    Joiners and variation selectors do not count where they stand behind a character that is not ASCII.
    """
    if text.isascii():
        return ""
    found = dict.fromkeys(_UNSEEN.findall(_JOINERS_AND_VARIANTS.sub("", text)))
    if not found:
        return ""
    known = "".join(sources)
    return "".join(char for char in found if char not in known)


def unseen(text: str) -> str:
    """Which characters of a text its reader cannot see, each once, as `U+200B, U+202E`; empty where all can be seen.

    They act (control characters, direction marks, separators) or have no shape. For the words of people about what they
    do, which stand on pages beside others.
    """
    if text.isprintable() and text.isascii():
        return ""
    found = dict.fromkeys([*_CONTROLS.findall(text), *hidden_characters(text)])
    return ", ".join(f"U+{ord(char):04X}" for char in found)


def solid_length(folded: str) -> int:
    """How many characters of a folded text are not spaces."""
    return len(folded) - folded.count(" ")


def bounded(text: str, limit: int = 300) -> str:
    """At most `limit` characters, the cut marked."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
