"""The colours of the pages keep WCAG 2.2 AA, in light and in dark."""

import re
from pathlib import Path

import pytest

TOKENS = (Path(__file__).parents[2] / "static" / "css" / "tokens.css").read_text(encoding="utf-8")
TEXT, SHAPE = 4.5, 3.0
GROUNDS = ("ground", "surface", "raised")
PAIRS = [
    *((ink, ground, TEXT) for ink in ("ink", "ink-2", "link", "good", "warn", "bad", "live") for ground in GROUNDS),
    *((tone, f"{tone}-ground", TEXT) for tone in ("good", "warn", "bad", "live")),
    *(("ink", f"{tone}-ground", TEXT) for tone in ("good", "warn", "bad", "live")),
    ("ink-2", "live-ground", TEXT),
    ("ink-2", "bad-ground", TEXT),
    *((tone, "warn-ground", TEXT) for tone in ("good", "bad", "link")),
    ("accent-ink", "accent", TEXT),
    ("mark-ink", "mark", TEXT),
    *((shape, ground, SHAPE) for shape in ("line-strong", "focus", "accent") for ground in GROUNDS),
]


def colours(scheme: str) -> dict[str, str]:
    light, dark = TOKENS.split("@media (prefers-color-scheme: dark)")
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back", "least"), PAIRS)
def test_what_is_read_stands_out_from_what_is_behind_it(scheme: str, front: str, back: str, least: float) -> None:
    palette = colours(scheme)
    lighter, darker = sorted((luminance(palette[front]), luminance(palette[back])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= least


def test_both_schemes_define_the_same_colours() -> None:
    assert colours("light").keys() == colours("dark").keys()
