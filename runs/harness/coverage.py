"""How much of a sentence stands in the texts that it may rest on. Pure; no model, no dictionary.

Figures, codes and names are held to account elsewhere (`gatekeeper.terms`); here it is the ordinary words. Function
words and the few words of a report's own frame ("the evidence shows", "a query found") carry nothing. Of the rest,
English words are compared by a light stem, Chinese ones by pairs of characters. A sentence holds when all
of them (`LEAST`) stand in its texts.
This is a sieve for inventions, not a proof: what a sentence does with known words is the verifier's question.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from gatekeeper.terms import Source, Term, terms, unsupported_terms
from gatekeeper.text import fold, legible

LEAST = 1.0
"""Share of a sentence's words. One new word is enough to say the opposite: "fell", "failed", "hardly"."""
_SHORTEST_SHARED_START = 5
# What is longer is no word, and its starts would fill the memory.
_LONGEST_WORD = 40

_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[;。！？；])\s*|\n+")
# Scripts without spaces between words: Chinese characters, kana and hangul.
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"(?:(?![{_UNSPACED}])[^\\W\\d_])+(?:['’][a-z]+)?")
_HAN_RUN = re.compile(f"[{_UNSPACED}]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FUNCTION = frozenset(
    """a an the this that these those it its they them their he she we us our you your i my one ones own such same other
    others another each every all any some both either neither many much more most few less least several and or but
    nor so yet if then than as of in on at by for from to into onto with without within over under above below between
    among across through during about against around near per via until till up down out off away be is am are was were
    been being do does did done doing have has had having can could may might must shall should will would not no never
    none nothing there here where when what which who whom whose why how also too very just only even still already
    again once now first second third next last later earlier before after while because since therefore hence thus
    however although though whether both s t d ll re ve m don doesn didn isn aren wasn weren won cannot itself
    themselves yourself two three rather ms sec secs second seconds millisecond milliseconds minutes hour hours day days
    percent byte bytes kb mb gb tb rather quite long like get got gets go went goes come came make made take took taken
    """.split()
)
_FRAME = frozenset(
    """evidence point show shown find found runbook advise advice suggest recommend log line entry metric alert alarm
    expression query search look see seen saw tool source record recording report claim quote quotation quoted read say
    said state tell told mention indicate note observe happen occur result return run give gave time window minute
    moment period part value data sample series document passage knowledge cause reason lead relate follow
    analysis diagnosis incident issue problem likely probably possible possibly perhaps appear seem known unknown clear
    judge judgement weigh write written built offline model fact checked check examine cover list succeed succeeded
    proof prove absence empty notable limit limitation scope conclusion statement ask asked include contain hold
    active clock change built-in tool exist different situation expression report summary overall window
    """.split()
)
_IRREGULAR = {
    **dict.fromkeys(("ran", "running"), "run"),
    **dict.fromkeys(("rose", "risen"), "rise"),
    **dict.fromkeys(("fell", "fallen"), "fall"),
    **dict.fromkeys(("began", "begun"), "begin"),
    **dict.fromkeys(("lost", "losing"), "lose"),
    **dict.fromkeys(("held",), "hold"),
    **dict.fromkeys(("kept",), "keep"),
    **dict.fromkeys(("sent",), "send"),
    **dict.fromkeys(("left",), "leave"),
    **dict.fromkeys(("shut",), "shut"),
    **dict.fromkeys(("grew", "grown"), "grow"),
    **dict.fromkeys(("broke", "broken"), "break"),
}
# Words between which a report may choose freely.
_ALIKE = (
    ("fail", "failure", "error", "fault", "exception"),
    ("slow", "latency", "delay", "lag"),
    ("rise", "grow", "increase", "climb"),
    ("fall", "drop", "decrease", "decline"),
    ("start", "begin"),
    ("stop", "end", "finish"),
    ("exhaust", "deplete", "drain"),
    ("wait", "pend", "queue"),
    ("restart", "reboot"),
    ("database", "db", "mysql", "sql", "postgres", "postgresql"),
    ("configure", "config", "setting"),
    ("deploy", "rollout", "release"),
    ("request", "call"),
)
_HAN_FUNCTION = re.compile(
    "范围内|以及|日志中|中的|并且|而且|因为|由于|所以|因此|但是|已经|正在|其中|之前|之后|此前|此后|当时|期间|同时|可能|没有|不能|无法|一个|这个|该"
    "|证据|指向|显示|表明|说明|日志|指标|告警|运行手册|手册|建议|查询|搜索|发现|返回|结果|记录|报告|结论|范围|来源|数据|时间|原因|问题"
    "|值得注意|内容|所查|不存在|存在|其他|不同|情况|查看|依据|陈述|所引|成功|未知|内置|离线|模型|根据|原文|引用|生成"
    "|判断|因果|自行|这些|这一|事实|之间|联系|现象|变更|表达式|当前|时钟|已接入|工具|证明|可以|这并|注意|此次|一次|记载|所示"
    "|毫秒|微秒|秒|分钟|小时|字节|[的了在是和与及或对为以被将已也都其并而从到于由这那有个着把给就又再还不没无未时约至达只仅此在各条次行个项位每等均请查它他她们]"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of the texts that something may rest on."""

    stems: frozenset[str]
    starts: frozenset[str]
    pairs: frozenset[str]
    characters: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        return _vocabulary(tuple(texts))

    def has(self, word: str) -> bool:
        """Whether a stem stands here; a longer form of the same word counts as it."""
        if word in self.stems or word in self.starts:
            return True
        return any(word[:n] in self.stems for n in range(_SHORTEST_SHARED_START, min(len(word), _LONGEST_WORD)))


# A release asks for those of its few dozen claims again with every sentence.
@lru_cache(maxsize=256)
def _vocabulary(texts: tuple[str, ...]) -> Vocabulary:
    stems: set[str] = set()
    pairs: set[str] = set()
    characters: set[str] = set()
    for text in texts:
        read = legible(fold(text))
        stems.update(stem(part) for word in _WORD.findall(read) for part in _parts(word))
        for run in _HAN_RUN.findall(read):
            pairs.update(_pairs(run))
            characters.update(run)
    starts = {word[:n] for word in stems for n in range(_SHORTEST_SHARED_START, min(len(word), _LONGEST_WORD) + 1)}
    return Vocabulary(frozenset(stems), frozenset(starts), frozenset(pairs), frozenset(characters))


def unsupported(text: str, sources: Iterable[str]) -> list[Term]:
    """The numbers, codes and identifiers of a text that none of the sources has."""
    read = fold(text)
    if next(terms(read), None) is None:
        return []
    return unsupported_terms(read, [_source(source) for source in sources])


@lru_cache(maxsize=256)
def _source(text: str) -> Source:
    return Source(fold(text))


def sentences(text: str) -> list[str]:
    """The sentences, each with the white space after it, so that together they are the text."""
    ends = [*(found.end() for found in _SENTENCES.finditer(text)), len(text)]
    starts = [0, *ends]
    return [text[start:end] for start, end in zip(starts, ends, strict=False) if text[start:end]]


def holds(sentence: str, known: Vocabulary) -> bool:
    """Whether a sentence is made of what `known` has. One that only frames, or only has figures and names, is."""
    return _share(legible(fold(sentence)), known)[0] >= LEAST


def only_frames(sentence: str) -> bool:
    """Whether a sentence has nothing but function words, a report's frame, figures and names."""
    return _share(legible(fold(sentence)), _NOTHING)[1] == 0


def coverage(sentence: str, known: Vocabulary) -> float:
    """The share, in [0, 1], of a sentence's content words that `known` has; 1 where it has none."""
    return _share(legible(fold(sentence)), known)[0]


def _share(read: str, known: Vocabulary) -> tuple[float, float]:
    """The share of the content words that `known` has, and how many there are; a Chinese character is half a word."""
    bare = list(read)
    for term in terms(read):
        bare[term.start : term.end] = " " * (term.end - term.start)
    text = "".join(bare)
    words = [word.lower() for word in _WORD.findall(text)]
    found = [known.has(stem(word)) for word in words if len(word) > 1 and word not in _FUNCTION and not _frames(word)]
    characters = [held for run in _HAN_RUN.findall(text) for held in _held_characters(run, known)]
    total = len(found) + len(characters) / 2
    return ((sum(found) + sum(characters) / 2) / total if total else 1.0), total


def _held_characters(run: str, known: Vocabulary) -> list[bool]:
    """For each character that carries something, whether it stands in a pair of neighbours that `known` has."""
    held = [False] * len(run)
    for n, pair in enumerate(_pairs(run)):
        if pair in known.pairs:
            held[n] = held[n + 1] = True
    if len(run) == 1:
        held[0] = run in known.characters
    idle = {n for found in _HAN_FUNCTION.finditer(run) for n in range(*found.span())}
    return [each for n, each in enumerate(held) if n not in idle]


def _frames(plain: str) -> bool:
    return plain in _FRAME or stem(plain) in _FRAME_STEMS


def _pairs(run: str) -> list[str]:
    return [run[n : n + 2] for n in range(len(run) - 1)]


def _parts(word: str) -> list[str]:
    """A word, and the words that it is joined of: `HikariPool` also has `pool`."""
    humps = _HUMP.split(word)
    return [word, *humps] if len(humps) > 1 else [word]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The word without its commonest endings, or the first of the words that are alike. Rough, and meant to be."""
    bare = _without_ending(word)
    return _FIRST_ALIKE.get(bare, bare)


def _without_ending(word: str) -> str:
    plain = re.sub(r"['’]\w+$", "", word.lower())
    plain = _IRREGULAR.get(plain, plain)
    for ending in ("ations", "ation", "ions", "ings", "ion", "ing", "ities", "ity", "ness", "ment", "ies", "ied", "ly"):
        if plain.endswith(ending) and len(plain) - len(ending) >= 4:
            plain = plain.removesuffix(ending)
            break
    else:
        for ending in ("ed", "es", "s", "e", "y"):
            if plain.endswith(ending) and len(plain) - len(ending) >= 3 and not plain.endswith("ss"):
                plain = plain.removesuffix(ending)
                break
    if len(plain) > 4 and plain[-1] == plain[-2] and plain[-1] in "bdgmnprt":
        plain = plain[:-1]
    return plain.removesuffix("e") if len(plain) > 4 else plain


_FIRST_ALIKE = {_without_ending(word): _without_ending(group[0]) for group in _ALIKE for word in group}
_NOTHING = Vocabulary.of(())
_FRAME_STEMS = frozenset(map(stem, _FRAME))
