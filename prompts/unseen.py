"""Characters of a text that a reader of its page cannot see: they would let a text say more than it shows."""

import unicodedata

_SEEN_CONTROLS = frozenset("\n\t")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Without a shape too, but of other categories: joiners, fillers, variation selectors, the blank braille pattern.
_SHAPELESS = (
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
)


def unseen(text: str) -> str:
    """Which of them the text holds, each once, as `U+200B, U+2028`; empty where it holds none."""
    held = dict.fromkeys(char for char in text if not char.isprintable() or ord(char) in _SHAPELESS)
    return ", ".join(f"U+{ord(char):04X}" for char in held if _is_unseen(char))


def _is_unseen(char: str) -> bool:
    if char in _SEEN_CONTROLS:
        return False
    return unicodedata.category(char) in _HIDDEN_CATEGORIES or ord(char) in _SHAPELESS
