"""What stands beside the strongest error: a second family, standing errors, slow statements, other alerts. Pure."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import log10

from runs.llm.offline.brief import Situation
from runs.llm.offline.evidence import AlertFact, LogFact, shape
from runs.llm.offline.names import mentions, names_of
from runs.llm.offline.selection import LEAD, SEVERITY, Scored, is_fresh, owns, rare_words
from runs.llm.offline.tokens import words

APART = timedelta(minutes=1)
MIN_COUNT = 5
MIN_SHARED = 1
SLOW = re.compile(r"Query_time: ")
_SNAKE = re.compile(r"(?<![\w.-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w-])")


def second_family(found: Sequence[Scored], situation: Situation) -> Scored | None:
    """An error that begins in the window too, shares no telling word with the strongest and has its own beginning.

    What begins together with the strongest error is taken for a consequence of it, and not for a second matter.
    """
    if not found or not _is_error(found[0].fact) or found[0].fact.first is None:
        return None
    strongest, first = found[0], found[0].fact.first
    rare = words(strongest.fact.ref.text) & rare_words([strongest], situation)
    for other in found[1:]:
        begun = other.fact.first
        if not (other.fresh and begun and _is_error(other.fact) and other.fact.count >= MIN_COUNT):
            continue
        if abs(begun - first) >= APART and not words(other.fact.ref.text) & rare:
            return other
    return None


def standing(facts: Iterable[LogFact], found: Sequence[Scored], situation: Situation, begin: datetime) -> list[Scored]:
    """Errors and warnings of others that were there before the trouble and still are, and are about the same thing.

    They name what the strongest error names, and share a telling word with it. Being constant they may be why: what
    ran out in the end was not renewed for long.
    """
    strongest = [s for s in found[:1] if _is_error(s.fact)]
    names = names_of([s.fact for s in strongest], situation.service)
    rare = rare_words(strongest, situation) - words(" ".join(names))
    kept: dict[str, Scored] = {}
    for fact in facts:
        message = fact.line.message
        if owns(fact, situation) or is_fresh(fact, situation, begin) or SEVERITY.get(fact.level, 0) == 0:
            continue
        if fact.count < 2 or fact.last is None or fact.last < situation.onset - APART * MIN_COUNT:
            continue
        shared = len(words(message) & rare)
        if shared >= MIN_SHARED and mentions(message, names):
            kept.setdefault(shape(message), Scored(fact, float(shared + SEVERITY[fact.level]), False))
    return sorted(kept.values(), key=lambda s: (-s.score, s.fact.line.message))


def slow_statements(
    facts: Iterable[LogFact], found: Sequence[Scored], situation: Situation, begin: datetime
) -> list[Scored]:
    """Statements in a slow query log that began to be slow with the trouble and speak of a table the errors name."""
    tables = identifiers(found)
    slow: dict[str, Scored] = {}
    for fact in facts:
        if SLOW.match(fact.line.message) and fact.count > 1 and is_fresh(fact, situation, begin):
            named = sum(mentions(fact.ref.text, [table]) for table in tables)
            if named:
                slow.setdefault(shape(fact.line.message), Scored(fact, named + log10(fact.count), True))
    return sorted(slow.values(), key=lambda s: (-s.score, s.fact.line.message))


def is_widespread(facts: Iterable[AlertFact], situation: Situation) -> bool:
    """Whether two or more other alerts began at about the same time: what they share may be named by none of them."""
    start = situation.started_at
    if start is None:
        return False
    together = {
        fact.alert_name
        for fact in facts
        if fact.alert_name != situation.alert_name and fact.starts_at and abs(fact.starts_at - start) <= LEAD
    }
    return len(together) >= 2


def identifiers(found: Sequence[Scored]) -> list[str]:
    """Names of tables, fields and the like in the strongest errors, the most frequent first."""
    named = [name.lower() for scored in found[:3] for name in _SNAKE.findall(scored.fact.line.message)]
    return sorted(dict.fromkeys(named), key=lambda name: -named.count(name))


def _is_error(fact: LogFact) -> bool:
    return SEVERITY.get(fact.level, 0) >= SEVERITY["ERROR"]
