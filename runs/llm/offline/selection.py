"""Choosing among noise: which log lines, changes, series, alerts and passages are worth a claim. Pure.

What counts, in this order: severity; that it begins with the trouble and not before; that it speaks of the alert's
service or of what that service's errors name; that a change came before. Loudness counts little, and nothing of another
service is taken up for being loud alone.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log10
from statistics import fmean, pstdev

from gatekeeper.types import Relevance
from runs.llm.offline.brief import SERVICE_LABELS, Situation
from runs.llm.offline.evidence import AlertFact, LogFact, MetricFact, Passage, shape
from runs.llm.offline.tokens import joined, words

SEVERITY = {"FATAL": 6, "PANIC": 6, "CRITICAL": 6, "SEVERE": 5, "ERROR": 5, "WARN": 2, "WARNING": 2}
LEAD = timedelta(minutes=20)
"""How long before the alert its trouble may have begun: rules wait (`for:`), rates average."""
CHANGE_REACH = timedelta(hours=6)
SUFFIXES = re.compile(r"-(?:api|service|svc|server|app|worker|web|backend|frontend|gateway|deployment|prod|production)$")

CHANGE = re.compile(
    r"""\b(?:deploy(?:s|ed|ing|ment)?|roll(?:ed|ing)?[\s-]?(?:out|back)|rollout|rollback|releas(?:e|ed|ing)|upgrad(?:e|ed|ing)
    |migrat(?:e|ed|ing|ion|ions)|alter\s+table|create\s+(?:unique\s+)?index|drop\s+(?:table|index|column)|helm|argocd|kubectl
    |config(?:uration)?\s+(?:map|change[ds]?|update[ds]?|reload(?:ed)?|applied|diff)|(?:values|config)\s+diff|feature[\s_-]?flags?
    |reload(?:ed|ing)|restart(?:ed|ing)|scal(?:ed|ing)\s+(?:up|down|to|from)|failover|rotat(?:ed|ing)\s+(?:key|secret|cert\w*)|starting\s+\w*application)\b
    |变更|发布|上线|部署|回滚|升级|迁移|重启|扩容|缩容|配置(?:更新|变更|修改)""",
    re.IGNORECASE | re.VERBOSE,
)
CHANGED_VALUE = re.compile(r"->|=>|→|\bfrom\s+\S+\s+to\s+\S+|\bchanges?\b|\bchanged\b|从.{1,30}(?:改为|到)", re.IGNORECASE)
_FAILURE_WORDS = re.compile(
    r"\b(?:fail\w*|error\w*|exception|time(?:d)?[\s-]?out\w*|refused|unavailable|not available|exhausted|denied|reset|deadlock\w*|lock\w*"
    r"|oom\w*|killed|panic|crash\w*|no space|expired|evict\w*|overflow|too many|exceed\w*|cancel\w*|abort\w*|reject\w*|unreachable|5\d\d)\b",
    re.IGNORECASE,
)
_GENERIC = words(
    """request requests response error errors failed failure exception timeout timed call calls called service server client
    message process processing connection connected total active status code value null true false java python http level
    thread trace method path post get put delete finished started answered attempt retry retrying after line lines like
    running statement database user name data due could"""
)
_SATURATION = words(
    """pending waiting wait queue queued active busy used usage limit max errors error failed failures timeout timeouts latency
    duration lag evicted evictions restarts throttled oom blocked locks lock deadlock rejected dropped unavailable available
    connections saturation backlog expired free"""
)
_RESOURCES = re.compile(r"cpu|memory|mem_|load\d|load_|node_|heap|gc_|_gc|goroutines|threads?$|disk|filesystem|network", re.IGNORECASE)
_BOOKKEEPING = re.compile(r"^(?:ALERTS|scrape_|prometheus_|process_start|go_info|.*_info$|.*_created$|.*_bucket$|.*_sum$)")
_COUNTER = re.compile(r"_(?:total|count)$")
_ERROR_SERIES = re.compile(r"error|fail|timeout|reject|5\d\d|5xx|dropped|evict|restart|oom|denied|cancel", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scored:
    """A fact with its weight; `fresh`: it began with the trouble."""

    fact: LogFact
    score: float
    fresh: bool


# ---- logs ------------------------------------------------------------------------------------


def symptoms(facts: Iterable[LogFact], situation: Situation, begin: datetime) -> list[Scored]:
    """Error and warning lines of the alert's service, the most telling first. `begin` is the searched window's start.

    What is as frequent before as after is background and left out, whatever its level.
    """
    scored = []
    for fact in facts:
        severity = SEVERITY.get(fact.level, 0)
        if severity == 0 or not is_fresh(fact, situation, begin):
            continue
        shared = len(words(fact.line.message) & situation.terms)
        score = severity + log10(max(fact.count, 1)) + min(shared, 3) * 0.7
        score += 1.5 if _FAILURE_WORDS.search(fact.line.message) else 0
        score += 1.0 if owns(fact, situation) else -2.0
        score -= 2.0 if len(words(fact.line.message)) < 3 else 0
        score -= 3.0 if CHANGE.search(fact.line.message) and severity < SEVERITY["ERROR"] else 0
        scored.append(Scored(fact, score, True))
    scored.sort(key=lambda s: (-s.score, s.fact.line.message))
    return _distinct(scored)


def is_fresh(fact: LogFact, situation: Situation, begin: datetime) -> bool:
    """Whether it begins near the alert's start and not before. In a chat without an alert: not from the window's start on."""
    if fact.first is None:
        return False
    if situation.started_at is not None:
        return fact.first >= max(begin + timedelta(minutes=5), situation.started_at - LEAD)
    reach = situation.end - begin
    return fact.first >= begin + reach * 0.2 or SEVERITY.get(fact.level, 0) >= SEVERITY["ERROR"]


def onset_of(found: Sequence[Scored], situation: Situation) -> datetime:
    """When the trouble began, as far as the errors tell: the first of the strongest lines, else the alert's start."""
    firsts = [s.fact.first for s in found[:3] if s.fact.first and SEVERITY.get(s.fact.level, 0) >= SEVERITY["ERROR"]]
    return min([*firsts, situation.onset])


def owns(fact: LogFact, situation: Situation) -> bool:
    """Whether the line is about the alert's service: its file or its text names it. Without a service all lines are."""
    service = situation.service
    return service is None or service.lower() in f"{fact.file} {fact.ref.text}".lower()


def elsewhere(facts: Iterable[LogFact], found: Sequence[Scored], situation: Situation, begin: datetime) -> list[Scored]:
    """Lines of other components that begin with the trouble and share the errors' rare words, or name the service."""
    rare = rare_words(found, situation)
    known = {shape(s.fact.line.message) for s in found}
    scored = []
    for fact in facts:
        if owns(fact, situation) or shape(fact.line.message) in known or not is_fresh(fact, situation, begin):
            continue
        shared = words(fact.line.message) & rare
        if len(shared) < (1 if _mentions(fact, stem(situation.service)) else 2):
            continue
        if not _FAILURE_WORDS.search(fact.line.message) and fact.level not in SEVERITY:
            continue
        scored.append(Scored(fact, SEVERITY.get(fact.level, 1) + len(shared) + log10(max(fact.count, 1)), True))
    scored.sort(key=lambda s: (-s.score, s.fact.line.message))
    return _distinct(scored)


def rare_words(found: Sequence[Scored], situation: Situation) -> frozenset[str]:
    """The words of the strongest errors that are not everybody's: what else speaks of them may belong to them."""
    return words(joined(s.fact.line.message for s in found[:3])) - _GENERIC - words(situation.service or "")


def changes(facts: Iterable[LogFact], found: Sequence[Scored], situation: Situation) -> list[Scored]:
    """Deployments, configuration changes, migrations, restarts before the trouble that concern the alert's service."""
    onset = onset_of(found, situation)
    rare = rare_words(found, situation)
    named = stem(situation.service)
    scored = []
    for fact in facts:
        text = fact.line.message
        if fact.first is None or fact.count > 12 or not onset - CHANGE_REACH <= fact.first <= onset:
            continue
        if not (CHANGE.search(fact.ref.text) or (CHANGED_VALUE.search(text) and fact.count <= 3)):
            continue
        affinity = 3.0 if owns(fact, situation) else 1.5 if _mentions(fact, named) else 0.0
        shared = len(words(text) & rare)
        if affinity == 0 and shared < 2:
            continue
        before = (onset - fact.first).total_seconds() / 60
        nearness = 2.0 if before <= 20 else 1.0 if before <= 60 else 0.0
        value = 2.0 if CHANGED_VALUE.search(text) else 0.0
        strong = 1.5 if CHANGE.search(text) else 0.0
        scored.append(Scored(fact, affinity + min(shared, 3) * 1.2 + nearness + value + strong, True))
    scored.sort(key=lambda s: (-s.score, s.fact.first or situation.end, s.fact.line.message))
    return _distinct(scored)


def stem(service: str | None) -> str | None:
    """`orders` of `orders-api`: what a service's database, jobs and tables are usually called after."""
    if service is None:
        return None
    short = SUFFIXES.sub("", service.lower())
    return short if len(short) >= 4 else None


def _mentions(fact: LogFact, name: str | None) -> bool:
    return name is not None and re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", f"{fact.file} {fact.ref.text}".lower()) is not None


def _distinct(scored: Iterable[Scored]) -> list[Scored]:
    kept: list[Scored] = []
    seen: list[frozenset[str]] = []
    for candidate in scored:
        said = words(shape(candidate.fact.line.message))
        if all(len(said & other) < 0.7 * min(len(said), len(other)) or not said for other in seen):
            kept.append(candidate)
            seen.append(said)
    return kept


# ---- metrics ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """How a series differs after the onset: `size` is 0 for none, 1 for twice its earlier spread or level, and so on."""

    fact: MetricFact
    size: float
    score: float


def moved(facts: Iterable[MetricFact], found: Sequence[Scored], situation: Situation) -> list[Change]:
    """Series of the alert's service that are different since the trouble began, the most telling first."""
    related = words(joined(s.fact.line.message for s in found[:3])) | situation.terms
    onset = onset_of(found, situation).timestamp()
    unique = _unique(fact for fact in facts if concerns(fact, situation))
    earlier = _before_by_name(unique, onset)
    out = []
    for fact in unique:
        size = _size(fact, earlier[_family(fact)], onset)
        if size < 0.5:
            continue
        about = words(f"{fact.name} {' '.join(fact.labels.values())}" if fact.name else fact.query)
        weight = 1.0 + min(len(about & related), 3) + (1.5 if about & _SATURATION else 0)
        if _RESOURCES.search(fact.name) and not (words(fact.name) & situation.terms):
            weight -= 2.5
        if fact.query and situation.expression and _same_query(fact.query, situation.expression):
            weight += 4.0
        out.append(Change(fact, size, weight + min(size, 4.0) * 0.5))
    out.sort(key=lambda c: (-c.score, c.fact.ref.text))
    return _one_per_metric(out)


def steady(facts: Iterable[MetricFact], situation: Situation) -> list[MetricFact]:
    """Series that tell the alert's own quantity and did not change: for a report that found nothing."""
    onset = situation.onset.timestamp()
    unique = _unique(fact for fact in facts if concerns(fact, situation))
    earlier = _before_by_name(unique, onset)
    calm = [fact for fact in unique if _size(fact, earlier[_family(fact)], onset) < 0.5 and not _COUNTER.search(fact.name)]
    calm = [f for f in calm if situation.expression and _same_query(f.query, situation.expression)] or calm
    calm.sort(key=lambda f: (-len(words(f"{f.name} {f.query}") & (situation.terms | _SATURATION)), f.ref.text))
    return calm[:2]


def concerns(fact: MetricFact, situation: Situation) -> bool:
    """Whether a series is about the alert's service: by label, or because the query itself asked for that service."""
    service = situation.service
    if service is None or _BOOKKEEPING.match(fact.name):
        return service is None and not _BOOKKEEPING.match(fact.name)
    if any(fact.labels.get(label) == service for label in (*SERVICE_LABELS, "job", "container")):
        return True
    if any(fact.labels.get(label, service) != service for label in SERVICE_LABELS):
        return False
    return fact.labels.get("pod", "").startswith(f"{service}-") or f'"{service}"' in fact.query


def _unique(facts: Iterable[MetricFact]) -> list[MetricFact]:
    kept: dict[str, MetricFact] = {}
    for fact in facts:
        key = f"{fact.name or fact.query} {sorted(fact.labels.items())}"
        kept.setdefault(key, fact)
    return list(kept.values())


def _family(fact: MetricFact) -> str:
    """The series that one instance after another carries on: everything but which pod it is."""
    own = {k: v for k, v in fact.labels.items() if k not in {"pod", "instance", "node", "pod_ip", "container_id", "uid"}}
    return f"{fact.name or fact.query} {sorted(own.items())}"


def _before_by_name(facts: Sequence[MetricFact], onset: float) -> Mapping[str, list[float]]:
    """Values before the onset by family; of counters, their steps."""
    earlier: dict[str, list[float]] = defaultdict(list)
    for fact in facts:
        before = [(at, value) for at, value in fact.points if at < onset - 60]
        earlier[_family(fact)] += _steps(before) if _COUNTER.search(fact.name) else [value for _, value in before]
    return earlier


def _steps(points: Sequence[tuple[float, float]]) -> list[float]:
    """Increase a second from one point to the next; a reset counts from zero."""
    return [
        (b - a if b >= a else b) / (at_b - at_a)
        for (at_a, a), (at_b, b) in zip(points, points[1:], strict=False)
        if at_b > at_a
    ]


def _size(fact: MetricFact, earlier: Sequence[float], onset: float) -> float:
    counter = bool(_COUNTER.search(fact.name))
    if counter and not _ERROR_SERIES.search(f"{fact.name} {' '.join(fact.labels.values())}"):
        return 0.0
    later = [(at, value) for at, value in fact.points if at >= onset - 60]
    after = _steps(later) if counter else [value for _, value in later]
    if len(after) < 2:
        return 0.0
    level = fmean(after[len(after) // 2 :])
    if not earlier:
        return min(2.0, log10(1 + abs(level)) + 0.5) if _rose_from_nothing(fact, after) else 0.0
    was, spread = fmean(earlier), pstdev(earlier)
    difference = abs(level - was)
    if difference <= 3 * spread or difference < 0.15 * max(abs(was), abs(level)) or _inside(level, earlier):
        return 0.0
    return min(difference / max(abs(was), spread, 1e-9), 10.0) if was else 10.0


def _rose_from_nothing(fact: MetricFact, after: Sequence[float]) -> bool:
    """A series that appears with the trouble, as error counts by status do, or a threshold expression begins to hold."""
    return max(after) > 0 and bool(_ERROR_SERIES.search(f"{fact.name} {fact.query} {' '.join(fact.labels.values())}"))


def _inside(level: float, earlier: Sequence[float]) -> bool:
    return min(earlier) <= level <= max(earlier)


def _one_per_metric(changes_found: Iterable[Change]) -> list[Change]:
    seen: set[str] = set()
    kept = []
    for change in changes_found:
        key = change.fact.name or "expression"
        if key not in seen:
            seen.add(key)
            kept.append(change)
    return kept


def bare(expression: str) -> str:
    """An alert's expression without its threshold: `rate(x[5m]) > 0.05` → `rate(x[5m])`. Itself where it has none."""
    found = re.fullmatch(r"(?s)(.+?)\s*(?:[<>]=?|[!=]=)\s*(?:bool\s+)?-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\s*", expression)
    if found is None or found.group(1).count("(") != found.group(1).count(")"):
        return expression
    return found.group(1)


def _same_query(query: str, expression: str) -> bool:
    return "".join(bare(query).split()) == "".join(bare(expression).split())


# ---- alerts, knowledge -----------------------------------------------------------------------


def related_alerts(facts: Iterable[AlertFact], found: Sequence[Scored], situation: Situation) -> list[AlertFact]:
    """Other active alerts on the same service, or on something that its errors name."""
    errors = joined(s.fact.line.message for s in found[:3]).lower()
    related = []
    for fact in facts:
        services = [fact.labels[label] for label in SERVICE_LABELS if fact.labels.get(label)]
        same = situation.service is not None and situation.service in services
        named = any(re.search(rf"(?<![\w-]){re.escape(name.lower())}(?![\w-])", errors) for name in services)
        if fact.alert_name != situation.alert_name and (same or named):
            related.append(fact)
    return related


def advice(found: Iterable[Passage], symptoms_found: Sequence[Scored], situation: Situation) -> list[tuple[Passage, float]]:
    """Passages that fit what was seen, best first. REFERENCE-level ones are too weak to advise on."""
    seen = rare_words(symptoms_found, situation) | situation.terms
    weight = {Relevance.PRECISE: 4.0, Relevance.HIGHLY_RELEVANT: 2.5, Relevance.REFERENCE: 0.0}
    ranked: dict[str, tuple[Passage, float]] = {}
    for passage in found:
        if passage.relevance is not Relevance.REFERENCE:
            said = words(f"{passage.title} {passage.section} {passage.ref.text}")
            score = weight[passage.relevance] + min(len(said & seen), 8) * 0.5 - passage.position * 0.1
            score += 1.5 if symptoms_found and words(passage.title) & rare_words(symptoms_found, situation) else 0
            if passage.ref.text not in ranked or ranked[passage.ref.text][1] < score:
                ranked[passage.ref.text] = (passage, score)
    return sorted(ranked.values(), key=lambda item: (-item[1], item[0].ref.text))
