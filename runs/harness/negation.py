"""Whether a sentence denies something where its sources deny nothing. Pure.

"The pool is exhausted" and "the pool is not exhausted" share every other word: a report that adds the "not" says the
opposite with the words of its evidence.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from gatekeeper.text import fold, legible
from runs.harness.coverage import stem

# "no connection" may be said of `idle=0`; "is not exhausted" may not.
_QUANTITY = re.compile(r"\b(?:no|none|nothing|nobody|without|zero)\b|没有|无(?![论管线误])|零", re.IGNORECASE)
_DENIAL = re.compile(
    r"\b(?:not|never|cannot|neither|nor)\b|n['’]t\b"
    r"|不(?![断仅但久同过管])|(?<!有)没(?!有)|未(?!来|知)|并非|绝非|从未",
    re.IGNORECASE,
)
# What a source may say instead: that something failed, is missing or is closed to someone.
_LIKE_DENIAL = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure|ures)?|refus\w+|den(?:y|ied|ies)|reject\w*|unable|un(?:available|reachable|ready|healthy)"
    r"|invalid|missing|lack(?:s|ed|ing)?|lost|absent|time[ds]?\s+out|time(?:out|outs)|expired|exhausted|down|stopped)\b"
    r"|失败|拒绝|缺少|缺失|超时|丢失|过期|耗尽|无法|停止",
    re.IGNORECASE,
)
_ZERO = re.compile(r"(?<![\w.:-])0(?![\w.:-])")
# Not to know, or not to have looked, denies nothing.
_OF_KNOWLEDGE = re.compile(
    r"(?:\b(?:not?|never|cannot|without)\b|n['’]t\b)\s+(?:\w+\s+){0,3}?"
    r"(?:proof|prove\w*|known?|clear|certain|sure|shown?|establish\w*|confirm\w*|look\w*|search\w*|examin\w*|check(?:s|ed|ing)?"
    r"|enough|sufficient|tell|say|mean|imply|determin\w*|rul\w+|exclud\w+|assess\w*|evidence)\b"
    r"|(?:不|未|没有|无法|不能|尚未)(?:足以|能够?|曾|完全)?"
    r"(?:证明|说明|确定|确认|证实|查看|检查|搜索|查询|清楚|明确|知|表明|意味|排除|判断)",
    re.IGNORECASE,
)


@lru_cache(maxsize=4_096)
def denies(text: str) -> bool:
    """Whether a text denies something, or counts nothing; not to know, or not to have looked, denies nothing."""
    said = _OF_KNOWLEDGE.sub(" ", legible(fold(text)))
    return _DENIAL.search(said) is not None or _QUANTITY.search(said) is not None


@lru_cache(maxsize=4_096)
def like_denial(text: str) -> bool:
    """Whether a text says that something failed, is missing or is closed to someone."""
    return _LIKE_DENIAL.search(legible(fold(text))) is not None


@lru_cache(maxsize=4_096)
def of_knowledge(text: str) -> bool:
    """Whether a text says what is not known, or was not looked at."""
    return _OF_KNOWLEDGE.search(legible(fold(text))) is not None


def adds_negation(sentence: str, sources: Iterable[str]) -> bool:
    """Whether `sentence` denies something, and no source denies anything, nor says what comes to a denial."""
    said = _OF_KNOWLEDGE.sub(" ", legible(fold(sentence)))
    denies, counts = _DENIAL.search(said) is not None, _QUANTITY.search(said) is not None
    if not denies and not counts:
        return False
    known = [legible(fold(source)) for source in sources]
    if any(_DENIAL.search(text) or _QUANTITY.search(text) for text in known):
        return False
    if counts and not denies and any(_ZERO.search(text) for text in known):
        return False
    # "Could not connect" for "connection refused", but not "was not refused".
    told = {stem(match.group()) for text in known for match in _LIKE_DENIAL.finditer(text)}
    return not told or any(stem(match.group()) in told for match in _LIKE_DENIAL.finditer(said))
