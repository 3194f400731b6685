"""Words of a text, for ranking and for exact hints.

Lower case; an identifier gives itself and its parts (`NodeFilesystemFull` → nodefilesystemfull, node,
filesystem, full; `max_pool-size` → itself and max, pool, size); Chinese, Japanese and Korean runs give
character bigrams; English words lose their plainest endings.
"""

import re
from collections.abc import Iterator

_RUN = re.compile(r"[A-Za-z0-9]+(?:[_.\-/:][A-Za-z0-9]+)*|[\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LONGEST = 80
_STOP = frozenset(
    "a an and any are as at be been being but by can could did do does for from had has have how if in into is it its "
    "may more no not of on or our so such than that the their then there these this those to was we were what when "
    "where which while who why will with would you your".split()
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def words(text: str) -> list[str]:
    """The ranking words of `text`, in order, with repeats. `{{ … }}` templates are left out."""
    return [word for word in _words(_TEMPLATE.sub(" ", text)) if word not in _STOP]


def identifier_parts(name: str) -> list[str]:
    """The parts of a CamelCase or joined name, lower case: `KubePodCrashLooping` → kube, pod, crash, looping."""
    return [part.lower() for part in _PART.findall(name)]


def _words(text: str) -> Iterator[str]:
    for match in _RUN.finditer(text):
        run = match[0]
        if not run.isascii():
            yield from (run[i : i + 2] for i in range(len(run) - 1)) if len(run) > 1 else (run,)
            continue
        parts = identifier_parts(run)
        if len(run) <= _LONGEST and (len(parts) > 1 or not parts):
            yield run.lower()
        yield from map(stem, parts)


def stem(word: str) -> str:
    """Plural and verb endings off, only where enough of the word remains. Not linguistics: both sides get the same."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    for ending in ("ings", "ing", "edly", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return _single(word[: -len(ending)])
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return _no_e(word[:-1])
    return _no_e(word)


def _single(word: str) -> str:
    """`throttl`, `stopp` → `stop`: a doubled consonant before an ending was one."""
    doubled = word[-1] == word[-2] and word[-1] not in "aeiouls"
    return word[:-1] if doubled else word


def _no_e(word: str) -> str:
    return word[:-1] if len(word) > 5 and word.endswith("e") else word
