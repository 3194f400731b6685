"""Terms: the numbers, codes and identifiers in a text, and whether other text has them.

A claim may put evidence into words of its own, but not bring figures or names of its own. What is a
term: numbers (with unit), dates and times, percentages, versions, addresses, codes (`ERR_123`,
`40P01`), ids (`HikariPool-1`, pod names), `snake_case`, dotted names, `CamelCase`, paths, text in
backticks, errno and signal names. What is not: plain words, also capitalised or upper-case ones,
and hyphenated English (`read-only`).

Texts are read as `gatekeeper.text.legible` has them, so that no character without a shape and no digit
of another form hides a figure. Numbers are equal when written the same after the removal of group
separators, of a fraction of zeros only and of the space before a unit: 1,000 = 1000, 93.0 = 93,
50% = 50 %, 30 秒 = 30s. Nothing is converted: 30000ms is not 30 s. Leading zeros count (SQLSTATE 08006),
and so do trailing ones after a fraction (18.10 is not 18.1). A bare number is supported by the same
number with any unit; a number with a unit needs that unit, beside the number or in a name near it
(`latency_ms=30000`).
"""

import errno
import re
import signal
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from gatekeeper.numerals import Numeral, numerals
from gatekeeper.text import legible

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
_ZONE = r"Z|[+-]\d{2}:?\d{2}"
_MOMENTS_AND_NUMBERS = rf"""
    (?P<date>\d{{4}}[-/]\d{{2}}[-/]\d{{2}})(?:[T\ ](?P<date_clock>{_CLOCK})(?P<date_zone>{_ZONE})?)?(?![\w-])
  | (?P<clock>{_CLOCK})(?P<zone>{_ZONE})?(?!:?\w)
  | (?P<scientific>\d+(?:\.\d+)?[eE][+-]?\d+)(?![\w.-])
  | (?P<grouped>(?<![\[,])\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?)(?![\d\]]|,\d)
"""
_WORD = r"\w+(?:[.-]\w+)*(?:\(\))?"
# Every word but ordinary ones (letters, none but the first upper-case, not joined to more): those are most of a
# text, and skipping them here rather than later is what makes the gate fast.
_TERM = re.compile(
    rf"""
    `[ ]*(?P<quote>[^`]{{0,199}}[^` ])[ ]*`
  | (?<!\w)(?![A-Za-z][a-z]*(?!\w|[.-]\w|\(\)))(?=[\w/])
    (?: {_MOMENTS_AND_NUMBERS}
      | (?P<path>(?<![.:/])/(?:[\w.-]+/)*[\w.-]*[\w-])
      | (?P<word>{_WORD})
    )""",
    re.ASCII | re.VERBOSE,
)
# The same for numbers alone, in evidence: words that have a digit. Backticks and slashes may stand anywhere there
# and must not hide a number. The look ahead is bounded so that a hostile run of dots costs no quadratic time.
_NUMERIC = re.compile(
    rf"(?<!\w)(?=[\w.-]{{0,200}}\d) (?: {_MOMENTS_AND_NUMBERS} | (?P<word>{_WORD}) )", re.ASCII | re.VERBOSE
)

# Letters of two alphabets that look alike, in one word: it reads as another word than it is. "µs" is a unit.
_MIXED_SCRIPTS = re.compile(
    r"(?!μs\b)(?<![^\W_])(?=[A-Za-z]*[\u0370-\u052f])(?=[\u0370-\u052f]*[A-Za-z])[A-Za-z\u0370-\u052f]+"
)

_UNIT_SPELLINGS = {
    "ns": "ns nanosecond nanoseconds 纳秒",
    "us": "us µs μs microsecond microseconds 微秒",
    "ms": "ms msec msecs millis millisecond milliseconds 毫秒",
    "s": "s sec secs second seconds 秒",
    "min": "m min mins minute minutes 分钟",
    "h": "h hr hrs hour hours 小时",
    "d": "d day days 天",
    "week": "week weeks 周",
    "month": "month months 个月",
    "year": "yr yrs year years 年",
    "ks": "ks kilosecond kiloseconds",
    "%": "% percent pct percentage",
    "‰": "‰",
    "B": "B byte bytes 字节",
    "KB": "KB kB kilobyte kilobytes",
    "MB": "MB megabyte megabytes",
    "GB": "GB gigabyte gigabytes",
    "TB": "TB terabyte terabytes",
    "PB": "PB petabyte petabytes",
    "Kb": "Kb kb Kbit kbps kilobit kilobits",
    "Mb": "Mb Mbit Mbps megabit megabits",
    "Gb": "Gb Gbit Gbps gigabit gigabits",
    "KiB": "KiB Ki kibibyte kibibytes",
    "MiB": "MiB Mi mebibyte mebibytes",
    "GiB": "GiB Gi gibibyte gibibytes",
    "TiB": "TiB Ti tebibyte tebibytes",
    "hundred": "hundred",
    "dozen": "dozen",
    "K": "K k thousand",
    "M": "M million",
    "G": "G",
    "bn": "bn billion",
    "trillion": "trillion",
    "Hz": "Hz hertz",
    "kHz": "kHz kilohertz",
    "MHz": "MHz megahertz",
    "GHz": "GHz gigahertz",
    "qps": "qps",
    "rpm": "rpm",
    "bps": "bps",
    "rps": "rps",
    "x": "x 倍",
    "百": "百",
    "千": "千",
    "万": "万",
    "亿": "亿",
}
_UNITS = {spelling: unit for unit, spellings in _UNIT_SPELLINGS.items() for spelling in spellings.split()}
_UNITS_LOWER = {spelling.lower(): unit for spelling, unit in _UNITS.items() if len(spelling) > 1}
_LONE_LETTERS_AFTER_SPACE = frozenset("smhd")
_UNIT_AFTER = re.compile(
    r"(\s?)(?:([%‰]|[µμ]s|纳秒|微秒|毫秒|秒|分钟|小时|天|周|个月|年|字节|倍|百(?!分)|千|万|亿)|([A-Za-z]+)(?![\w]))",
    re.ASCII,
)
_UNIT_WORDS = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|[%‰]|[µμ]s|纳秒|微秒|毫秒|分钟|小时|个月|字节")
# Away from its number, "min" is more often a minimum.
_NOT_A_UNIT_ALONE = frozenset({"min", "Min", "MIN"})

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(-?)([A-Za-z]*)")
_RANGE = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)([A-Za-z]*)")
_ENGLISH_PREFIX = re.compile(r"(?:non|sub|top|pre|post|over|under|mid|near|multi|max|min)-(?=\d)", re.IGNORECASE)
_ENGLISH_SUFFIX = re.compile(
    r"-(?:related|based|level|wide|side|specific|like|style|only|aware|bound|driven|backed|induced|triggered)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{3,}(?<!ing)")
_JOINED_SENTENCES = re.compile(r"[A-Za-z]?[a-z]+\.[A-Z][a-z]*")
_SERVICE_NAME = re.compile(
    r"[a-z]+(?:-[a-z]+)*-(?:service|svc|api|db|worker|gateway|deployment|job|consumer|producer|scheduler|backend"
    r"|frontend|exporter|operator|controller)"
)
# "3-node" counts; "12345-abc" names.
_MAX_COUNT_DIGITS = 4
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_SYSTEM_NAMES = frozenset(errno.errorcode.values()) | {each.name for each in signal.Signals}
_DIGITS = frozenset("0123456789")
_ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
# Before a minus these make it a range or a difference; anything else makes it a sign.
_OPERAND_ENDS = _ASCII_WORD | frozenset(")]%")
# After one of these a number starts that no earlier one can reach into.
_OPENS_NUMBER = frozenset(" =([\"'<>|")
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Term(NamedTuple):
    """A number (`value` and perhaps `unit`), or a name (`spellings`, lower case, any of which will do)."""

    text: str
    start: int
    end: int
    value: str | None = None
    unit: str | None = None
    spellings: tuple[str, ...] = ()


def terms(folded: str) -> Iterator[Term]:
    """The terms of a folded text, in order. Their places are those in `legible(folded)`."""
    text = legible(folded)
    others = [_in_words(text, numeral) for numeral in numerals(text)]
    if not text.isascii():
        others += [_name(found.group(), found.start()) for found in _MIXED_SCRIPTS.finditer(text)]
    if others:
        return iter(sorted((*_written(text), *others), key=attrgetter("start")))
    return _written(text)


def _in_words(text: str, numeral: Numeral) -> Term:
    """A number in words: the same in digits supports it, and so do the very words."""
    start, end, value, percent = numeral
    said = text[start:end].lower()
    if value is None:
        return _name(text[start:end], start)
    unit = "%" if percent else _unit_after(text, end)
    return Term(f"{text[start:end]} {unit}" if unit else text[start:end], start, end, value, unit, (said,))


def _written(text: str) -> Iterator[Term]:
    for match in _TERM.finditer(text):
        kind = match.lastgroup
        if kind == "word":
            yield from _word_terms(text, match.group(), match.start())
        elif kind == "quote" or kind == "path":
            yield _name(match.group(kind), match.start(kind))
        else:
            yield from _numeric_terms(text, match)


def unsupported_terms(folded: str, sources: Iterable["Source"], *, ignored: frozenset[str] = frozenset()) -> list[Term]:
    """The terms of a folded text that no source has. `ignored` holds lower-case names that need no support."""
    sources = list(sources)
    missing = []
    for term in terms(folded):
        if not ignored.isdisjoint(term.spellings):
            continue
        for source in sources:
            if source.supports(term):
                break
        else:
            missing.append(term)
    return missing


class Source:
    """A part of a folded text that may support terms: `text[start:end]`, the whole by default.

    What stands around the part tells where a term really ends, so that an excerpt which stops inside `1500`
    does not support `15`. Its numbers are read once, and only when a number is asked for.
    """

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        end = len(text) if end is None else end
        if not text.isascii():
            # Reading may change lengths, each character by itself: the part keeps its place between what is around it.
            before, part, after = legible(text[:start]), legible(text[start:end]), legible(text[end:])
            text, start, end = before + part + after, len(before), len(before) + len(part)
        self._start, self._end, self._text = start, end, text
        lowered = self._text.lower()
        self._lowered = lowered if len(lowered) == len(self._text) else self._text.translate(_ASCII_LOWER)
        self._numbers: dict[str, set[str | None]] | None = None

    def supports(self, term: Term) -> bool:
        if any(map(self._has_name, term.spellings)) and (term.unit is None or self._mentions_unit(term.unit)):
            return True
        if term.value is None:
            return False
        if term.value not in self._lowered and term.value.isdigit() and "," not in self._lowered:
            # Without group separators a whole number is written as it is, or is not there.
            return False
        return self._has_number_as_written(term) or self._has_number(term)

    def _has_number_as_written(self, term: Term) -> bool:
        """The usual case, without reading all numbers: the first place that has the digits has the number."""
        at = self._text.find(term.value or "", self._start, self._end)
        if at < 1 or self._text[at - 1] not in _OPENS_NUMBER:
            return False
        match = _NUMERIC.match(self._text, at)
        if match is not None:
            for found in _numeric_terms(self._text, match):
                if found.value == term.value and found.end <= self._end and (not term.unit or term.unit == found.unit):
                    return True
        return False

    def _has_number(self, term: Term) -> bool:
        if self._numbers is None:
            self._numbers = self._read_numbers()
        units = self._numbers.get(term.value or "")
        if units is None:
            return False
        return term.unit is None or term.unit in units or (None in units and self._mentions_unit(term.unit))

    def _read_numbers(self) -> dict[str, set[str | None]]:
        numbers: dict[str, set[str | None]] = {}
        for match in _NUMERIC.finditer(self._text):
            if match.end() <= self._start:
                continue
            if match.start() >= self._end:
                break
            for term in _numeric_terms(self._text, match):
                if term.value is not None and self._start <= term.start and term.end <= self._end:
                    numbers.setdefault(term.value, set()).add(term.unit)
                    for coarser in _coarser_times(term.value):
                        numbers.setdefault(coarser, set()).add(None)
        return numbers

    def _mentions_unit(self, unit: str) -> bool:
        """Whether a name or heading in the passage says the unit, as in `latency_ms=30000` or `used (percent): 93`."""
        words = _UNIT_WORDS.findall(self._text, self._start, self._end)
        return any(word not in _NOT_A_UNIT_ALONE and _unit(word) == unit for word in words)

    def _has_name(self, name: str) -> bool:
        text, start, end = self._lowered, self._start, self._end
        at = text.find(name, start, end)
        while at >= 0:
            if _stands_alone(text, at, at + len(name), name):
                return True
            at = text.find(name, at + 1, end)
        return False


def _unit(word: str) -> str | None:
    return _UNITS.get(word) or _UNITS_LOWER.get(word.lower())


def _unit_after(text: str, end: int) -> str | None:
    match = _UNIT_AFTER.match(text, end)
    if match is None:
        return None
    space, sign, word = match.groups()
    if sign:
        return _UNITS[sign]
    return None if space and len(word) == 1 and word not in _LONE_LETTERS_AFTER_SPACE else _unit(word)


def _number(text: str, start: int, end: int, written: str, unit: str | None = None) -> Term:
    """A number that stands at `start`. Its sign, and a unit after it, are read from what stands around it."""
    value = written
    if not written.isdigit():
        value = written.replace(",", "").lower().replace("e+", "e")
        whole, _, fraction = value.partition(".")
        if fraction and not fraction.strip("0"):
            value = whole
    if start and text[start - 1] in "-−" and text[max(0, start - 2) : start - 1] not in _OPERAND_ENDS:
        value = f"-{value}"
    if unit is None:
        unit = "%" if text.endswith("百分之", 0, start) else _unit_after(text, end)
    return Term(f"{written} {unit}" if unit else written, start, end, value, unit)


def _name(written: str, start: int, *also: str) -> Term:
    return Term(written, start, start + len(written), spellings=(written.lower(), *also))


def _numeric_terms(text: str, match: re.Match[str]) -> Iterator[Term]:
    """The terms of a match that starts with a digit or is a word with one."""
    kind = match.lastgroup
    if kind == "word":
        word = match.group()
        # An id such as HikariPool-1 has digits, but no number.
        if word[0] in _DIGITS or "-" in word and _ENGLISH_PREFIX.match(word):
            yield from _word_terms(text, word, match.start())
    elif kind == "scientific" or kind == "grouped":
        yield _number(text, match.start(), match.end(), match.group())
    else:
        yield from _moment_terms(match)


def _word_terms(text: str, word: str, start: int) -> Iterator[Term]:
    """The terms in one unbroken word: a number, an id, parts joined by hyphens, or nothing."""
    if word[0] in _DIGITS:
        if match := _NUMBER.fullmatch(word):
            digits, hyphen, suffix = match.groups()
            end = start + len(digits)
            unit = _unit(suffix) if suffix else None
            if unit or not suffix:
                yield _number(text, start, end, digits, unit)
                return
            if hyphen and len(digits) <= _MAX_COUNT_DIGITS:
                yield Term(digits, start, end, value=digits)
                return
            if suffix in _ORDINALS:
                yield _name(word, start, f"p{digits}")
                return
        if match := _RANGE.fullmatch(word):
            low, high, suffix = match.groups()
            unit = _unit(suffix) if suffix else None
            if unit or not suffix:
                yield Term(low, start, start + len(low), value=low)
                at = start + match.start(2)
                yield _number(text, at, at + len(high), high, unit)
                return
    bare = word
    if "-" in word:
        if match := _ENGLISH_PREFIX.match(word):
            yield from _word_terms(text, word[match.end() :], start + match.end())
            return
        bare = _ENGLISH_SUFFIX.sub("", word)
    if not _DIGITS.isdisjoint(bare):
        percentile = bare[1:] if bare[0] in "pP" and _DIGITS.issuperset(bare[1:]) else None
        yield _name(bare, start, *([f"{percentile}th"] if percentile else []))
    elif _SERVICE_NAME.fullmatch(bare):
        yield _name(bare, start)
    else:
        for part in re.finditer(r"[^-]+", bare):
            if _is_identifier(part.group()):
                yield _name(part.group().removesuffix("()"), start + part.start())


def _is_identifier(part: str) -> bool:
    """Whether a word without digits is a name of code or of the system rather than of the language."""
    if "_" in part:
        return len(part.strip("_")) > 0
    if part.endswith("()") or part in _SYSTEM_NAMES:
        return True
    if "." in part:
        # Not "e.g" or "a.m", nor two sentences with no space between them.
        return any(len(piece) > 1 for piece in part.split(".")) and not _JOINED_SENTENCES.fullmatch(part)
    return _CAMEL.search(part) is not None


def _moment_terms(match: re.Match[str]) -> Iterator[Term]:
    """A date, a time of day and an offset from UTC are terms of their own: a claim may give one without the other."""
    for group in ("date", "date_clock", "date_zone", "clock", "zone"):
        written = match.group(group)
        if written is None:
            continue
        value = written.replace("/", "-").replace(",", ".")
        if group.endswith("zone"):
            value = "utc+0000" if written == "Z" else "utc" + written.replace(":", "")
        elif group.endswith("clock"):
            value = value if value.index(":") == 2 else f"0{value}"
        yield Term(written, match.start(group), match.end(group), value=value)


def _coarser_times(value: str) -> Iterator[str]:
    """What a precise time also says: 10:42:17.123 is at 10:42:17 and at 10:42."""
    if ":" in value:
        seconds = value.partition(".")[0]
        yield seconds
        yield ":".join(seconds.split(":")[:2])


def _stands_alone(text: str, start: int, end: int, name: str) -> bool:
    """Whether the name found at `start` is no piece of a longer one: `pool-1` of `pool-12`, `10.0.3` of `10.0.3.17`."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if name[0] in _ASCII_WORD and before:
        if before in _ASCII_WORD:
            return False
        joined = text[start - 2 : start - 1] in _ASCII_WORD if start > 1 else False
        if joined and ((before == "-" and "-" in name) or (before == "." and name[0].isdigit())):
            return False
    if after and after in _ASCII_WORD:
        return False
    return not (name[-1].isdigit() and after in {".", ","} and text[end + 1 : end + 2].isdigit())
