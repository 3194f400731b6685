"""Where an excerpt stands in the text it was taken from.

The gate compares folded texts (`gatekeeper.text.fold`); here each folded character remembers which stretch of the
original it came from, so that the original can be shown with the excerpt marked.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from gatekeeper.text import fold
from runs.pages.hostile import seen

# As in `gatekeeper.text`: sequences without a text of their own.
_ANSI = re.compile(r"\x1b\[[0-9;:?]{0,32}[A-Za-z]")
CONTEXT_CHARS = 400
SOURCE_LIMIT = 50_000
# Longer texts are searched for the excerpt as it is written, and no further.
FOLD_LIMIT = 200_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; `marked` where it is cited."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """A source text with its cited spans. `found` False: an excerpt could not be placed in it."""

    pieces: tuple[Piece, ...]
    found: bool
    cut_before: bool = False
    cut_after: bool = False


def span_of(text: str, excerpt: str) -> tuple[int, int] | None:
    """Start and end of the excerpt in `text`, as the gate would find it."""
    if not excerpt.strip():
        return None
    start = text.find(excerpt)
    if start >= 0:
        return start, start + len(excerpt)
    if len(text) > FOLD_LIMIT:
        return None
    folded, stretches = _folded_with_places(text)
    wanted = fold(excerpt)
    start = folded.find(wanted)
    if start < 0:
        return None
    return stretches[start][0], stretches[start + len(wanted) - 1][1]


def _folded_with_places(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The folded text, and for each of its characters the stretch of `text` that it stands for."""
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    for start, end in _clusters(text):
        for character in fold(text[start:end]) or (" " if text[start:end].isspace() else ""):
            if character == " " and folded and folded[-1] == " ":
                places[-1] = (places[-1][0], end)
                continue
            folded.append(character)
            places.append((start, end))
    return "".join(folded), places


def _clusters(text: str) -> Iterable[tuple[int, int]]:
    """Stretches that fold on their own: a character with its combining marks, a colour code."""
    position = 0
    while position < len(text):
        colour = _ANSI.match(text, position)
        if colour:
            yield colour.span()
            position = colour.end()
            continue
        end = position + 1
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        yield position, end
        position = end


def marked(text: str, excerpts: Iterable[str]) -> Marked:
    """The whole text (up to a limit) with each excerpt marked; overlapping excerpts become one mark."""
    body = text[:SOURCE_LIMIT]
    spans = [span_of(body, excerpt) for excerpt in excerpts]
    found = sorted(span for span in spans if span is not None)
    pieces: list[Piece] = []
    position = 0
    for start, end in found:
        start = max(start, position)
        if end <= start:
            continue
        pieces += [Piece(seen(body[position:start])), Piece(seen(body[start:end]), marked=True)]
        position = end
    pieces.append(Piece(seen(body[position:])))
    kept = tuple(piece for piece in pieces if piece.text)
    return Marked(kept, found=None not in spans, cut_after=len(text) > SOURCE_LIMIT)


def in_context(text: str, excerpt: str, around: int = CONTEXT_CHARS) -> Marked:
    """The excerpt marked inside what stands around it, for reading at a glance."""
    span = span_of(text, excerpt)
    if span is None:
        return Marked((Piece(seen(excerpt), marked=True),), found=False)
    start, end = span
    before, after = max(0, start - around), min(len(text), end + around)
    pieces = (
        Piece(seen(text[before:start])),
        Piece(seen(text[start:end]), marked=True),
        Piece(seen(text[end:after])),
    )
    kept = tuple(piece for piece in pieces if piece.text)
    return Marked(kept, found=True, cut_before=before > 0, cut_after=after < len(text))
