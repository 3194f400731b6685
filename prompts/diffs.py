"""What changed between two texts, line by line and within lines. Pure.

Lines are aligned by `difflib`; where lines were replaced, each is paired with its likeliest successor in order, and
the words that differ in a pair are marked. Long stretches without a change are folded.

Aligning is quadratic at worst, and texts come from people: what would cost too much is shown plainer (a line that
changed as one removed and one added, a changed stretch as the whole line), never slower.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

CONTEXT_LINES = 3
# Two lines less alike than this are not one line that changed.
ALIKE = 0.4
# Cells of comparisons (one length times the other): of a diff's pairs of lines, and of the words in one pair.
PAIRING_CELLS = 4_000_000
MARKING_CELLS = 250_000
# Beyond this, lines that stand in a text very often are no anchors to align by.
ALIGNING_CELLS = 1_000_000
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class Kind(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    REMOVED = "removed"
    ADDED = "added"
    FOLDED = "folded"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line; `marked` where the other side has something else."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1."""

    number: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """`before` None: the line is new; `after` None: it is gone. `folded`: how many unchanged lines are left out."""

    kind: Kind
    before: Line | None = None
    after: Line | None = None
    folded: int = 0


@dataclass(frozen=True, slots=True)
class Diff:
    """`added` and `removed` count lines; a changed line counts in both."""

    rows: tuple[Row, ...]
    added: int
    removed: int

    @property
    def same(self) -> bool:
        return not self.added and not self.removed


def diff(before: str, after: str, *, context: int | None = CONTEXT_LINES) -> Diff:
    """Lines end with a line feed; whether the last one does makes no difference. `context` None: nothing is folded."""
    rows = list(_rows(_lines(before), _lines(after)))
    added = sum(row.kind in {Kind.ADDED, Kind.CHANGED} for row in rows)
    removed = sum(row.kind in {Kind.REMOVED, Kind.CHANGED} for row in rows)
    return Diff(tuple(rows if context is None else _folded(rows, context)), added, removed)


def count_changes(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed."""
    found = diff(before, after)
    return found.added, found.removed


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _rows(before: Sequence[str], after: Sequence[str]) -> Iterator[Row]:
    large = len(before) * len(after) > ALIGNING_CELLS
    budget = _Budget(PAIRING_CELLS)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=large).get_opcodes():
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield Row(Kind.SAME, _whole(i, before[i]), _whole(j, after[j]))
        else:
            yield from _replaced(before, after, (i1, i2), (j1, j2), budget)


@dataclass(slots=True)
class _Budget:
    cells: int

    def takes(self, cells: int) -> bool:
        """Whether so many are left; takes them."""
        if cells > self.cells:
            return False
        self.cells -= cells
        return True


def _replaced(
    before: Sequence[str], after: Sequence[str], old: tuple[int, int], new: tuple[int, int], budget: _Budget
) -> Iterator[Row]:
    i, j = old[0], new[0]
    for k, m in _pairs(before, after, old, new, budget):
        yield from (Row(Kind.REMOVED, before=_whole(n, before[n])) for n in range(i, k))
        yield from (Row(Kind.ADDED, after=_whole(n, after[n])) for n in range(j, m))
        left, right = _marked(before[k], after[m])
        yield Row(Kind.CHANGED, Line(k + 1, left), Line(m + 1, right))
        i, j = k + 1, m + 1
    yield from (Row(Kind.REMOVED, before=_whole(n, before[n])) for n in range(i, old[1]))
    yield from (Row(Kind.ADDED, after=_whole(n, after[n])) for n in range(j, new[1]))


def _pairs(
    before: Sequence[str], after: Sequence[str], old: tuple[int, int], new: tuple[int, int], budget: _Budget
) -> Iterator[tuple[int, int]]:
    """Which old line became which new one: each old line takes the likeliest of those that are left below."""
    if not budget.takes((old[1] - old[0]) * (new[1] - new[0]) * len("a short line")):
        return
    start = new[0]
    for i in range(*old):
        best, at = ALIKE, -1
        matcher = SequenceMatcher(None, "", before[i], autojunk=False)
        for j in range(start, new[1]):
            matcher.set_seq1(after[j])
            if matcher.real_quick_ratio() <= best or not budget.takes(len(before[i]) + len(after[j])):
                continue
            if matcher.quick_ratio() <= best or not budget.takes(len(before[i]) * len(after[j])):
                continue
            if (alike := matcher.ratio()) > best:
                best, at = alike, j
        if at >= 0:
            yield i, at
            start = at + 1


def _marked(before: str, after: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) * len(new) > MARKING_CELLS:
        return (Piece(before, marked=True),), (Piece(after, marked=True),)
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        marked = tag != "equal"
        left.append(Piece("".join(old[i1:i2]), marked))
        right.append(Piece("".join(new[j1:j2]), marked))
    return tuple(piece for piece in left if piece.text), tuple(piece for piece in right if piece.text)


def _whole(index: int, text: str) -> Line:
    return Line(index + 1, (Piece(text),) if text else ())


def _folded(rows: Sequence[Row], context: int) -> Iterator[Row]:
    """Only lines within `context` of a change; a fold of a single line would save nothing."""
    near = [False] * len(rows)
    for at, row in enumerate(rows):
        if row.kind is not Kind.SAME:
            for k in range(max(0, at - context), min(len(rows), at + context + 1)):
                near[k] = True
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and not near[end]:
            end += 1
        if end - at > 1:
            yield Row(Kind.FOLDED, folded=end - at)
            at = end
        else:
            yield rows[at]
            at += 1
