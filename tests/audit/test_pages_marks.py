"""An excerpt is marked exactly where the gate found it."""

import pytest

from audit.pages.hostile import as_json, one_line, seen, shown
from audit.pages.marks import in_context, marked, span_of
from gatekeeper.text import fold


@pytest.mark.parametrize(
    ("text", "excerpt", "span_text"),
    [
        ("a pool is exhausted now", "pool is exhausted", "pool is exhausted"),
        ("a pool  is\n\texhausted now", "pool is exhausted", "pool  is\n\texhausted"),
        ("a pool is exhausted", "pool   is exhausted", "pool is exhausted"),
        ("\x1b[31mpool\x1b[0m is exhausted", "pool is exhausted", "pool\x1b[0m is exhausted"),
        ("ｐｏｏｌ is exhausted", "pool is exhausted", "ｐｏｏｌ is exhausted"),
        ("cafe\u0301 is open", "café is open", "cafe\u0301 is open"),
        ("caf\u00e9 is open", "cafe\u0301 is", "caf\u00e9 is"),
        ("连接池已耗尽，请求超时", "连接池已耗尽,请求超时", "连接池已耗尽，请求超时"),
        ("total=10", "total=10", "total=10"),
        ("  total=10  ", " total=10 ", " total=10 "),
    ],
)
def test_the_span_is_found_under_every_spelling_that_the_gate_accepts(text: str, excerpt: str, span_text: str) -> None:
    assert fold(excerpt) in fold(text)
    span = span_of(text, excerpt)
    assert span is not None
    assert text[slice(*span)] == span_text


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [("total=10", "total=11"), ("Total=10", "total=10"), ("a b c", "a c"), ("", "x"), ("x", ""), ("x", "  ")],
)
def test_what_does_not_stand_in_the_text_is_not_marked(text: str, excerpt: str) -> None:
    assert span_of(text, excerpt) is None
    assert not marked(text, [excerpt]).found
    assert not in_context(text, excerpt).found


@pytest.mark.parametrize(
    ("excerpts", "expected"),
    [
        (["bcd"], "a[bcd]efgh"),
        (["bcd", "fg"], "a[bcd]e[fg]h"),
        (["fg", "bcd"], "a[bcd]e[fg]h"),
        (["bcd", "cde"], "a[bcd][e]fgh"),
        (["bcde", "cd"], "a[bcde]fgh"),
        (["abcdefgh"], "[abcdefgh]"),
    ],
)
def test_every_character_stays_once_and_in_order(excerpts: list[str], expected: str) -> None:
    pieces = marked("abcdefgh", excerpts).pieces
    assert "".join(f"[{piece.text}]" if piece.marked else piece.text for piece in pieces) == expected


def test_the_context_says_where_it_was_cut() -> None:
    source = in_context("x" * 50 + "NEEDLE" + "y" * 50, "NEEDLE", around=10)
    assert "".join(piece.text for piece in source.pieces) == "x" * 10 + "NEEDLE" + "y" * 10
    assert (source.cut_before, source.cut_after) == (True, True)
    whole = in_context("NEEDLE", "NEEDLE")
    assert (whole.cut_before, whole.cut_after) == (False, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\nhere", "plain\ttext\nhere"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("1\u034f0", "1⟦U+034F⟧0"),
        ("1\u11600\u3164", "1⟦U+1160⟧0⟦U+3164⟧"),
        ("\u180e\u2800\uffa0", "⟦U+180E⟧⟦U+2800⟧⟦U+FFA0⟧"),
        ("9\ufe0f\u00ad", "9⟦U+FE0F⟧⟦U+00AD⟧"),
        ("9\U000e0100\U000e0030", "9⟦U+E0100⟧⟦U+E0030⟧"),
        ("a\x00b", "a⟦U+0000⟧b"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;t\x07", "⟦U+001B⟧]0;t⟦U+0007⟧"),
        ("a\ud800b", "a⟦U+D800⟧b"),
        ("a\u200bb\ufeff", "a⟦U+200B⟧b⟦U+FEFF⟧"),
        ("a\r\nb\rc", "a\nb⟦U+000D⟧c"),
        ("نص عادي", "نص عادي"),
    ],
)
def test_characters_that_act_unseen_are_shown_by_their_number(text: str, expected: str) -> None:
    assert seen(text) == expected


def test_long_texts_are_cut_and_say_so() -> None:
    assert shown("abc", 3) == shown("abc", 10)
    cut = shown("abcdef", 4)
    assert (cut.text, cut.cut, cut.left_out) == ("abcd", True, 2)
    assert one_line("a\n  b", 10) == "a b"
    assert len(one_line("x" * 1000, 20)) == 20


@pytest.mark.parametrize(
    ("value", "cut"),
    [({"a": 1}, False), ("x" * 10_000_000, True), ([[0] * 1000] * 1000, True), (list(range(9)), False)],
)
def test_json_is_written_only_as_far_as_it_is_shown(value: object, cut: bool) -> None:
    written = as_json(value, limit=1000)
    assert written.cut is cut
    assert len(written.text) <= 1000
