"""An excerpt is marked exactly where the gate found it."""

import pytest

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
