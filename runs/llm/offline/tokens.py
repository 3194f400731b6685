"""Text as the offline model compares it: words, numbers, identifiers, CJK characters and the marks between them.

Folding is Unicode NFKC, lower case and white space. Pure; no state.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

CJK = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
LEVELS = frozenset("trace debug info notice warn warning error severe critical crit fatal panic emerg".split())

_DATE_T = re.compile(r"(\d{4}-\d{2}-\d{2})t(?=\d{2}:)")
_COMMA_MS = re.compile(r"(\d{2}:\d{2}:\d{2}),(\d{3})")
_NOT = re.compile(r"n't\b")
_UNIT_GAP = re.compile(r"(?<=\d) (?=(?:ms|s|sec|seconds?|%|kb|mb|gb|kib|mib|gib|rps|qps)(?![\w-]))")
_TOKEN = re.compile(
    rf"(?P<cjk>[{CJK}])"
    r"|(?P<tag>(?<!\w)[*#]\d+)"
    r"|(?P<number>(?<![\w)\]])[-+]?\d+(?:,\d{3})+(?:\.\d+)?(?:%|[a-z]+)?|(?<![\w)\]])[-+]?\.?\d\w*(?:[.:\-/]\w+)*%?)"
    r"|(?P<word>[^\W\d]\w*(?:['\u2019.:/@$\-]\w+)*(?:\(\))?)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<mark>[;:,.!?。；，：！？、|\n\"“”‘’《》「」=<>~]|->|=>|-{2,}|(?<=\s)-(?=\s))"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:z|[+-]\d{2}:?\d{2})?$|\d{4}-\d{2}-\d{2}$")
_SEPARATED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+")


class Kind(Enum):
    WORD = auto()
    IDENTIFIER = auto()
    NUMBER = auto()
    TIME = auto()
    CJK = auto()
    MARK = auto()
    OPEN = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    kind: Kind
    start: int
    end: int

    @property
    def separates(self) -> bool:
        return self.kind in {Kind.MARK, Kind.OPEN, Kind.CLOSE}

    @property
    def telling(self) -> bool:
        """A number, time or identifier: something a claim may not bring along on its own."""
        return self.kind in {Kind.NUMBER, Kind.TIME, Kind.IDENTIFIER}


def fold(text: str) -> str:
    """NFKC, lower case, `n't` as `not`, no `T` between date and time, `.` before milliseconds, single white space."""
    folded = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")
    folded = "\n".join(" ".join(line.split()) for line in folded.splitlines())
    folded = _NOT.sub(r" not", folded.replace("can't", "can not").replace("won't", "will not"))
    folded = _COMMA_MS.sub(r"\1.\2", _DATE_T.sub(r"\1 ", folded))
    return _UNIT_GAP.sub("", folded)


@lru_cache(maxsize=512)
def tokenize(text: str) -> tuple[Token, ...]:
    """Tokens of the folded text, in order; `start` and `end` are offsets into `fold(text)`."""
    return tuple(_token(match) for match in _TOKEN.finditer(fold(text)))


def _token(match: re.Match[str]) -> Token:
    text = match.group()
    kind = {
        "cjk": Kind.CJK,
        "open": Kind.OPEN,
        "close": Kind.CLOSE,
        "mark": Kind.MARK,
        "number": Kind.NUMBER,
        "word": Kind.WORD,
        "tag": Kind.IDENTIFIER,
    }[str(match.lastgroup)]
    if kind is Kind.NUMBER:
        if _TIME.match(text):
            kind = Kind.TIME
        elif _SEPARATED.match(text):
            text = text.replace(",", "")
    elif kind is Kind.WORD and _is_identifier(text):
        kind = Kind.IDENTIFIER
    return Token(text, kind, match.start(), match.end())


def _is_identifier(word: str) -> bool:
    return any(c.isdigit() or c in "_./:@$-(" for c in word)


def words(text: str) -> frozenset[str]:
    """The comparable words of a text for ranking: parts of identifiers and CamelCase too, short ones left out."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    parts = re.findall(rf"[a-z][a-z0-9]+|[{CJK}]{{2}}|\d{{3,}}", f"{split} {text}".lower())
    return frozenset(singular(part) for part in parts if len(part) > 2 or not part.isascii()) - COMMON


def character_pairs(text: str) -> frozenset[str]:
    """All pairs of neighbouring CJK characters: where no spaces tell words apart, two texts on a matter share some."""
    return frozenset(re.findall(rf"(?=([{CJK}]{{2}}))", text))


def singular(word: str) -> str:
    if len(word) > 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def is_chinese(text: str) -> bool:
    """Whether a person who wrote this reads Chinese: at least two CJK characters, and not a mere name among words."""
    found = len(re.findall(rf"[{CJK}]", text))
    return found >= 2 and found * 4 >= len(re.findall(r"[A-Za-z]+", text))


def joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


COMMON = frozenset(
    """the and for are was were has have had this that these those with from into not but all any can will its our your
    you when what why how which who does did been being more most than then there their they them here also only just
    over under per out off about after before since between within during above below high low too very now last first
    http https www com alert alerts firing service severity warning critical summary description info error
    warn""".split()
)
