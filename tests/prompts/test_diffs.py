"""How two texts are laid side by side."""

import random
from collections.abc import Iterable

import pytest

from prompts.diffs import Kind, Line, Row, count_changes, diff


def shown(rows: tuple[Row, ...]) -> list[str]:
    """One line a row: `-` and `+` with the marked stretches in brackets, `=` for what is the same."""

    def text(line: Line | None) -> str:
        return "".join(f"[{p.text}]" if p.marked else p.text for p in line.pieces) if line else ""

    signs = {Kind.SAME: "=", Kind.CHANGED: "~", Kind.REMOVED: "-", Kind.ADDED: "+", Kind.FOLDED: "…"}
    return [
        f"{signs[row.kind]} {row.folded}" if row.kind is Kind.FOLDED
        else f"{signs[row.kind]} {' → '.join(dict.fromkeys(text(line) for line in (row.before, row.after) if line))}"
        for row in rows
    ]  # fmt: skip


CASES = [
    ("nothing", "a\nb", "a\nb", ["… 2"]),
    ("only the last line end", "a\nb", "a\nb\n", ["… 2"]),
    ("a word", "the old word\n", "the new word\n", ["~ the [old] word → the [new] word"]),
    ("Chinese", "只说日志\n", "只说指标\n", ["~ [只说日志] → [只说指标]"]),
    ("a line more", "a\nc", "a\nb b b\nc", ["= a", "+ b b b", "= c"]),
    ("a line less", "a\nb b b\nc", "a\nc", ["= a", "- b b b", "= c"]),
    ("another line altogether", "quick fox", "0123456789", ["- quick fox", "+ 0123456789"]),
    (
        "a changed line among new ones",
        "You never invent ids.",
        "First.\nYou never invent any ids.\nLast.",
        ["+ First.", "~ You never invent ids. → You never invent [any ]ids.", "+ Last."],
    ),
    ("from nothing", "", "a", ["+ a"]),
    ("an empty line", "a\n\nb", "a\nb", ["= a", "- ", "= b"]),
    (
        "far from the change",
        "\n".join("abcdefgh") + "\nx",
        "\n".join("abcdefgh") + "\ny",
        ["… 5", "= f", "= g", "= h", "- x", "+ y"],
    ),
]


@pytest.mark.parametrize(("what", "before", "after", "rows"), CASES, ids=[case[0] for case in CASES])
def test_what_changed_is_laid_side_by_side(what: str, before: str, after: str, rows: list[str]) -> None:
    assert shown(diff(before, after).rows) == rows


def test_lines_are_counted_and_numbered_from_one() -> None:
    found = diff("a\nold line of words\nc", "a\nnew line of words\nc\nd")
    assert (found.added, found.removed, found.same) == (2, 1, False)
    assert [(row.before and row.before.number, row.after and row.after.number) for row in found.rows] == [
        (1, 1), (2, 2), (3, 3), (None, 4),
    ]  # fmt: skip
    assert count_changes("a", "a") == (0, 0)


def test_both_texts_can_be_read_off_any_difference() -> None:
    chance = random.Random(7)
    words = ["ids", "never", "quote", "claim", "", "the log", "  - x"]
    for _ in range(200):
        before, after = ([chance.choice(words) for _ in range(chance.randrange(9))] for _ in range(2))
        rows = diff("\n".join(before), "\n".join(after), context=None).rows
        for side, lines in (("before", before), ("after", after)):
            read = ["".join(p.text for p in line.pieces) for row in rows if (line := getattr(row, side)) is not None]
            assert read == ("\n".join(lines).removesuffix("\n").split("\n") if "\n".join(lines) else [])


def numbered(line: str, numbers: Iterable[int]) -> str:
    return "\n".join(line.format(number) for number in numbers)


COSTLY = {
    "lines that stand everywhere": (
        numbered("a{}b", (n % 50 for n in range(2000))),
        numbered("a{}b", (n * 7 % 50 for n in range(2000))),
    ),
    "words that stand everywhere": ("a " * 40_000, "b a " * 20_000),
    "one endless word": ("a" * 90_000, "a" * 89_999 + "b"),
    "long lines alike": (numbered("a" * 1990 + "{}", range(50)), numbered("a" * 1980 + "b{}", range(50))),
}


@pytest.mark.parametrize(("before", "after"), COSTLY.values(), ids=COSTLY.keys())
def test_what_would_cost_too_much_is_shown_plainer_and_whole(before: str, after: str) -> None:
    rows = diff(before, after, context=None).rows
    assert "\n".join("".join(p.text for p in row.before.pieces) for row in rows if row.before) == before
    assert "\n".join("".join(p.text for p in row.after.pieces) for row in rows if row.after) == after
    marked = [row for row in rows if row.kind is Kind.CHANGED]
    assert len(marked) < 5
    assert all(len(row.after.pieces) == 1 for row in marked if row.after)


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x0c", "\x85", "\x1c"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    assert not diff("a\nb\n", f"a{separator}b\n").same
