"""Folding: which differences do not count."""

import pytest

from gatekeeper.text import bounded, fold, solid_length

FOLDED = [
    ("plain text", "plain text"),
    ("  trimmed  ", "trimmed"),
    ("tabs\tand\r\nlines\u3000and\u00a0more", "tabs and lines and more"),
    ("\x1b[1;31mred\x1b[0m text", "red text"),
    ("Ｆｕｌｌ－ｗｉｄｔｈ：１２％", "Full-width:12%"),
    ("cafe\u0301", "caf\u00e9"),
    ("ａ\u0301", "\u00e1"),
    ("连接池 耗尽", "连接池 耗尽"),
]


@pytest.mark.parametrize(("text", "folded"), FOLDED)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a b", "ab"),
        ("Error", "error"),
        ("don't", "don’t"),
        ("a-b", "a–b"),
        ("a\u200bb", "ab"),
        ("①", "1"),
        ("ﬁ", "fi"),
    ],
)
def test_differences_that_count(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_a_terminal_command_with_text_in_it_is_kept() -> None:
    assert "hidden" in fold("shown \x1b]0;hidden\x07 text")


def test_solid_length_leaves_out_spaces() -> None:
    assert solid_length("a b c") == 3


def test_a_cut_is_marked() -> None:
    assert bounded("abcdef", 4) == "abc…"
    assert bounded("abcd", 4) == "abcd"
