"""Any text can be looked at."""

import pytest

from runs.pages.hostile import one_line, seen, shown


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
        (r"{\"m\": \"\u4f60\u597d\"}", '{\\"m\\": \\"你好\\"}'),
        (r"\ud83d\ude00 \ud83d", "😀 ⟦U+D83D⟧"),
        (r"\u202e \u200b", "⟦U+202E⟧ ⟦U+200B⟧"),
        (r"C:\\u4f60 \u0022 \u4f6", r"C:\\u4f60 \u0022 \u4f6"),
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
