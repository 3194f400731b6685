"""Numbers written in words, English and Chinese: "ninety-nine percent", "two hundred", 三十秒, 百分之九十九.

A figure in words is a figure. "One" and 一 are left out: they are more often an article ("one of the pods", 一些) than
a count. So are ordinals and fractions of plain speech ("a third", "a quarter"). What multiplies without an exact value
("twice", "dozens", "millions", "half", 九成) has no value, and counts as a name: it stands in the evidence as it is.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ONES = dict(
    zip(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
        " eighteen nineteen".split(),
        range(1, 20),
        strict=True,
    )
)
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_SMALL = {**_ONES, **_TENS}
_ATOM = "|".join((*_SMALL, *_SCALES))
_RUN = re.compile(rf"\b(?:{_ATOM})(?:(?:[ -]| and |-and-)(?:{_ATOM}))*\b", re.IGNORECASE)
_EACH = re.compile(rf"\b(?:{_ATOM})\b", re.IGNORECASE)
_INEXACT = re.compile(
    r"\b(?:twice|thrice|half|(?:hundred|thousand|million|billion|trillion|dozen)s"
    r"|(?:two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|many|mani|several)fold)\b(?!-)",
    re.IGNORECASE,
)
# Every number in words has one of these in it; most texts have none, and looking for them is quick.
_HINTS = (
    "two three four five six seven eight nine ten eleven twelve teen twent thirt fort fift hundred thousand illion"
    " dozen twice thrice half fold"
).split()
_DIGIT_BEFORE = re.compile(r"[0-9][ -]?$")

_HAN_DIGITS = dict(zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_HAN_NUMBERS = "".join((*_HAN_DIGITS, *_HAN_SCALES))
_COUNTED = "秒|毫秒|微秒|分钟|小时|天|周|年|个|次|台|条|倍|字节|行|项|位|名|处|组|份|块|张|页|枚|套"
_HAN = re.compile(
    rf"百分之(?P<percent>[零〇一二两三四五六七八九十百千]+)"
    rf"|(?P<tenths>(?<![{_HAN_NUMBERS}])[一二三四五六七八九]成)(?![功为就立员本果熟长绩])"
    rf"|(?<![第{_HAN_NUMBERS}])(?P<number>[{_HAN_NUMBERS}]+(?={_COUNTED})|[{_HAN_NUMBERS}]{{2,}})"
)


class Numeral(NamedTuple):
    """A number in words at `text[start:end]`: its value in digits, or None where it has no exact one."""

    start: int
    end: int
    value: str | None
    percent: bool = False


_Placed = tuple[str, int, int]


def numerals(text: str) -> Iterator[Numeral]:
    """The numbers in words of a text that is read as `legible` has it, in order of script, then of place."""
    lowered = text.lower()
    if any(hint in lowered for hint in _HINTS):
        yield from _english(text)
    if not text.isascii():
        yield from _chinese(text)


def _english(text: str) -> Iterator[Numeral]:
    for run in _RUN.finditer(text):
        words = [(found.group().lower(), found.start(), found.end()) for found in _EACH.finditer(text, *run.span())]
        if words[0][0] in _SCALES and _DIGIT_BEFORE.search(text[max(0, run.start() - 2) : run.start()]):
            # "30 thousand": there it is the unit of a number in digits.
            del words[0]
        for number in _split(words):
            value = _value([word for word, _, _ in number])
            if value > 1:
                yield Numeral(number[0][1], number[-1][2], str(value))
    for found in _INEXACT.finditer(text):
        yield Numeral(*found.span(), None)


def _split(words: Iterable[_Placed]) -> Iterator[list[_Placed]]:
    """Neighbouring number words as numbers: "two hundred and five" is one, "four and five" are two."""
    number: list[_Placed] = []
    for word in words:
        if number and not _goes_on(number[-1][0], word[0]):
            yield number
            number = []
        number.append(word)
    if number:
        yield number


def _goes_on(last: str, word: str) -> bool:
    return word in _SCALES or last in _SCALES or (last in _TENS and word in _ONES and _ONES[word] < _TENS["twenty"] / 2)


def _value(words: Iterable[str]) -> int:
    total = part = 0
    for word in words:
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "hundred":
            part = max(part, 1) * _SCALES[word]
        else:
            total, part = total + max(part, 1) * _SCALES[word], 0
    return total + part


def _chinese(text: str) -> Iterator[Numeral]:
    for found in _HAN.finditer(text):
        kind = found.lastgroup or ""
        if kind == "tenths":
            yield Numeral(*found.span(kind), None)
        elif (value := _han_value(found.group(kind))) is not None and value > 1:
            yield Numeral(found.start(kind), found.end(kind), str(value), kind == "percent")


def _han_value(written: str) -> int | None:
    """The value of Chinese number characters, or None where they are no number (万一, 三四, 千万)."""
    total = section = 0
    digit: int | None = None
    for char in written:
        if char in _HAN_DIGITS:
            if digit:
                return None
            digit = _HAN_DIGITS[char]
            continue
        scale = _HAN_SCALES[char]
        if digit is None and not (char == "十" and not section) and not (scale >= _HAN_SCALES["万"] and section):
            return None
        if scale >= _HAN_SCALES["万"]:
            total, section = total + (section + (digit or 0)) * scale, 0
        else:
            section += (1 if digit is None else digit) * scale
        digit = None
    return total + section + (digit or 0)
