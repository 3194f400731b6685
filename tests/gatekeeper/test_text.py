"""Folding: which differences do not count."""

import sys
import unicodedata

import pytest

from gatekeeper.text import bounded, fold, hidden_characters, legible, solid_length

SHAPELESS = [
    *("\u034f", "\u00ad", "\u115f", "\u1160", "\u17b4", "\u180b", "\u180e", "\u200b", "\u200d", "\u202e", "\u2060"),
    *("\u2065", "\u2800", "\u3164", "\ufe0f", "\ufeff", "\uffa0", "\ufff0", "\U0001d173", "\U000e0030", "\U000e0100"),
]

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


READ = [
    ("⁹⁹ ₉₉ ⑨⑨ ❾➒ ９９ ٩٩ 𝟗𝟡", "99 99 99 99 99 99 99"),
    ("½ ¼ ⑫ ⓫ Ⅻ ⒓", "1⁄2 1⁄4 12 11 12 12."),
    ("a\u2010b a\u2011b", "a-b a-b"),
    ("𝐇𝐢𝐤𝐚𝐫𝐢", "Hikari"),
    ("连接池 〇 九 – café", "连接池 〇 九 – café"),
]


@pytest.mark.parametrize(("text", "read"), READ)
def test_digits_and_hyphens_of_every_form_are_read_as_plain_ones(text: str, read: str) -> None:
    assert legible(text) == read


@pytest.mark.parametrize("char", SHAPELESS, ids=lambda char: f"U+{ord(char):04X}")
def test_a_character_without_a_shape_is_not_read_but_stays_in_quotations(char: str) -> None:
    assert legible(f"1{char}0") == "10"
    assert fold(f"1{char}0") != fold("10")


def test_every_format_character_is_without_a_shape() -> None:
    everything = (chr(code) for code in range(sys.maxunicode + 1))
    assert [hex(ord(char)) for char in everything if unicodedata.category(char) == "Cf" and legible(char)] == []


HIDDEN = [
    ("plain", (), ""),
    ("a\u200bb \u200b\u2060", (), "\u200b\u2060"),
    ("a\u200bb", ("x\u200by",), ""),
    ("连接\u200b池", (), "\u200b"),
    ("⚠\ufe0f full", (), ""),
    ("👩\u200d🔧", (), ""),
    ("می\u200cشود", (), ""),
    ("1\ufe0f0", (), "\ufe0f"),
    ("⚠\ufe0f9", (), "\ufe0f"),
    ("f\u200dail", (), "\u200d"),
]


@pytest.mark.parametrize(("text", "sources", "hidden"), HIDDEN)
def test_hidden_characters(text: str, sources: tuple[str, ...], hidden: str) -> None:
    assert hidden_characters(text, sources) == hidden
