"""Choosing among noise: which log lines, changes, series, alerts and passages are worth a claim. Pure.

What counts, in this order: severity; that it begins with the trouble and not before; that it speaks of the alert's
service or of what that service's errors name; that a change came before. Loudness counts little, and nothing of another
service is taken up for being loud alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log10

from gatekeeper.types import Relevance
from runs.llm.offline.brief import SERVICE_LABELS, Situation
from runs.llm.offline.evidence import AlertFact, LogFact, MetricFact, Passage, shape
from runs.llm.offline.names import mentions
from runs.llm.offline.summaries import change
from runs.llm.offline.tokens import joined, words

SEVERITY = {"FATAL": 6, "PANIC": 6, "CRITICAL": 6, "SEVERE": 5, "ERROR": 5, "WARN": 2, "WARNING": 2}
LEAD = timedelta(minutes=20)
"""How long before the alert its trouble may have begun: rules wait (`for:`), rates average."""
RISE = 4
CHANGE_REACH = timedelta(hours=6)
_COMBINED = re.compile(r"\b(?:and|or|unless)\b")
MIN_CHANGE = 0.3
SUFFIXES = re.compile(
    r"-(?:api|service|svc|server|app|worker|web|backend|frontend|gateway|deployment|prod|production)$"
)

CHANGE = re.compile(
    r"""\b(?:deploy(?:s|ed|ing|ment)?|roll(?:ed|ing)?[\s-]?(?:out|back)|rollout|rollback|releas(?:e|ed|ing)|upgrad(?:e|ed|ing)
    |migrat(?:e|ed|ing|ion|ions)|alter\s+table|create\s+(?:unique\s+)?index|drop\s+(?:table|index|column)|helm|argocd|kubectl
    |config(?:uration)?\s+(?:map|change[ds]?|update[ds]?|reload(?:ed)?|applied|diff)|(?:values|config)\s+diff|feature[\s_-]?flags?
    |reload(?:ed|ing)|restart(?:ed|ing)|scal(?:ed|ing)\s+(?:up|down|to|from)|failover|rotat(?:ed|ing)\s+(?:key|secret|cert\w*)|starting\s+\w*application)\b
    |变更|发布|上线|部署|回滚|升级|迁移|重启|扩容|缩容|配置(?:更新|变更|修改)""",
    re.IGNORECASE | re.VERBOSE,
)
CHANGED_VALUE = re.compile(
    r"->|=>|→|\bfrom\s+\S+\s+to\s+\S+|\bchanges?\b|\bchanged\b|从.{1,30}(?:改为|到)", re.IGNORECASE
)
_FAILURE_WORDS = re.compile(
    r"\b(?:fail\w*|error\w*|exception|time(?:d)?[\s-]?out\w*|refused|unavailable|not available|exhausted|denied"
    r"|reset|deadlock\w*|lock\w*|oom\w*|killed|panic|crash\w*|no space|expired|evict\w*|overflow|too many|exceed\w*"
    r"|cancel\w*|abort\w*|reject\w*|unreachable|waiting|still\s+running|blocked|5\d\d)\b",
    re.IGNORECASE,
)
_GENERIC = words(
    """request requests response error errors failed failure exception timeout timed call calls called service
    server client message process processing connection connected total active status code value null true false java
    python http level thread trace method path post get put delete finished started answered attempt retry retrying
    after line lines like running statement database user name data due could"""
)
_SATURATION = words(
    """pending waiting wait queue queued active busy used usage limit max errors error failed failures timeout timeouts
    latency duration lag evicted evictions restarts throttled oom blocked locks lock deadlock rejected dropped
    unavailable available connections saturation backlog expired free"""
)
_ACTION = re.compile(
    r"fix|mitigat|remed|resol|recover|action|step|check|cause|diagnos|do first|处理|修复|恢复|步骤|检查|原因",
    re.IGNORECASE,
)
FIXES = re.compile(r"fix|mitigat|remed|resol|recover|do first|处理|修复|恢复", re.IGNORECASE)
_BACKGROUND = re.compile(
    r"symptom|overview|background|escalat|reference|see also|not to do|症状|背景|概述|升级", re.IGNORECASE
)
_RESOURCES = re.compile(
    r"cpu|memory|mem_|load\d|load_|node_|heap|gc_|_gc|goroutines|threads?$|disk|filesystem|network", re.IGNORECASE
)
_BOOKKEEPING = re.compile(
    r"^(?:ALERTS|scrape_|prometheus_|process_start|go_info|.*_info$|.*_created$|.*_bucket$|.*_sum$)"
)
_ERROR_SERIES = re.compile(
    r"error|fail|timeout|reject|5\d\d|5xx|dropped|evict|restart|oom|denied|cancel", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A fact with its weight; `fresh`: it began with the trouble."""

    fact: LogFact
    score: float
    fresh: bool


# ---- logs ------------------------------------------------------------------------------------


def symptoms(facts: Iterable[LogFact], situation: Situation, begin: datetime, usual: Mapping[str, int]) -> list[Scored]:
    """Error and warning lines of the alert's service, the most telling first. `begin` is the searched window's start.

    What is as frequent before as after is background and left out, whatever its level. `usual` counts error lines by
    shape up to `quiet_until`: an error that was seen before, but became many times as frequent, is a symptom too.
    """
    scored = []
    for fact in facts:
        severity = SEVERITY.get(fact.level, 0)
        failing = bool(_FAILURE_WORDS.search(fact.line.message))
        fresh = is_fresh(fact, situation, begin)
        if severity == 0 or not (fresh or has_risen(fact, situation, begin, usual)):
            continue
        if len(words(fact.line.message)) < 3 and not failing:
            continue
        shared = len(words(fact.line.message) & situation.terms)
        score = severity + log10(max(fact.count, 1)) + min(shared, 3) * 0.7
        score += 1.5 if failing else 0
        score += 1.0 if owns(fact, situation) else -2.0
        score -= 3.0 if CHANGE.search(fact.line.message) and severity < SEVERITY["ERROR"] else 0
        scored.append(Scored(fact, score, fresh))
    scored.sort(key=lambda s: (-s.score, s.fact.line.message))
    distinct = _distinct(scored)
    return distinct if situation.service is not None else _of_one_piece(distinct, situation)


def _of_one_piece(scored: Sequence[Scored], situation: Situation) -> list[Scored]:
    """Where no service is known, a line has to belong to the alert, the question or the strongest error."""
    if situation.has_alert:
        return [s for s in scored if words(s.fact.ref.text) & situation.named]
    rare = rare_words(scored[:1], situation) | situation.terms
    return [s for i, s in enumerate(scored) if i == 0 or words(s.fact.line.message) & rare]


def is_fresh(fact: LogFact, situation: Situation, begin: datetime) -> bool:
    """Whether it begins near the alert's start and not before; without an alert: not from the window's start on."""
    if fact.first is None:
        return False
    if situation.started_at is not None:
        return fact.first >= max(begin + timedelta(minutes=5), situation.started_at - LEAD)
    reach = situation.end - begin
    return fact.first >= begin + reach * 0.2 or SEVERITY.get(fact.level, 0) >= SEVERITY["ERROR"]


def quiet_until(situation: Situation) -> datetime | None:
    """Up to when things can be taken as usual: well before the alert. None without one."""
    return situation.started_at - LEAD if situation.started_at else None


def has_risen(fact: LogFact, situation: Situation, begin: datetime, usual: Mapping[str, int]) -> bool:
    """Whether an error that was there before came at least `RISE` times as often since."""
    quiet, key = quiet_until(situation), shape(fact.line.message)
    if quiet is None or key not in usual or not begin < quiet < situation.end:
        return False
    later = fact.count - usual[key]
    rate_before = usual[key] / (quiet - begin).total_seconds()
    return later >= 5 and later / (situation.end - quiet).total_seconds() >= RISE * rate_before


def lasting_errors(facts: Iterable[LogFact], situation: Situation, begin: datetime) -> list[Scored]:
    """Errors of the service that were there before and still are, the most frequent first: have they risen?"""
    lasting = [
        Scored(fact, float(fact.count), False)
        for fact in facts
        if SEVERITY.get(fact.level, 0) >= SEVERITY["ERROR"]
        and owns(fact, situation)
        and not is_fresh(fact, situation, begin)
        and fact.last is not None
        and fact.last >= situation.onset - timedelta(minutes=5)
    ]
    return sorted(lasting, key=lambda s: (-s.score, s.fact.line.message))


def onset_of(found: Sequence[Scored], situation: Situation) -> datetime:
    """When the trouble began, as far as the errors tell: the first of the strongest lines, else the alert's start."""
    errors = [s.fact for s in found[:3] if s.fresh and SEVERITY.get(s.fact.level, 0) >= SEVERITY["ERROR"]]
    firsts = [fact.first for fact in errors if fact.first is not None]
    return min([*firsts, situation.onset])


def owns(fact: LogFact, situation: Situation) -> bool:
    """Whether the line is about the alert's service: its file or its text names it. Without a service all lines are."""
    service = (situation.service or "").lower()
    return not service or fact.asked.lower() == service or service in f"{fact.file} {fact.ref.text}".lower()


def elsewhere(
    facts: Iterable[LogFact],
    found: Sequence[Scored],
    changed: Sequence[Scored],
    situation: Situation,
    begin: datetime,
) -> list[Scored]:
    """Lines of other components that begin with the trouble and share the rare words of its errors or changes."""
    rare = rare_words(found, situation) | rare_words(changed[:2], situation)
    known = {shape(s.fact.line.message) for s in [*found, *changed]}
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
    return _distinct(scored, [*found, *changed])


def rare_words(found: Sequence[Scored], situation: Situation) -> frozenset[str]:
    """The words of the strongest errors that are not everybody's: what else speaks of them may belong to them."""
    return words(joined(s.fact.line.message for s in found[:3])) - _GENERIC - words(situation.service or "")


def changes(
    facts: Iterable[LogFact], found: Sequence[Scored], situation: Situation, names: Sequence[str] = ()
) -> list[Scored]:
    """Deployments, configuration changes, migrations, restarts before the trouble that concern the alert's service.

    Or that concern something in `names`: what the errors and those who speak of them name.
    """
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
        affinity = affinity or (1.0 if CHANGED_VALUE.search(text) and mentions(text, names) else 0.0)
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
    return (
        name is not None
        and re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", f"{fact.file} {fact.ref.text}".lower()) is not None
    )


def _distinct(scored: Iterable[Scored], beside: Iterable[Scored] = ()) -> list[Scored]:
    """Without what repeats a better one, or something that is told beside."""
    kept: list[Scored] = []
    told = [words(shape(other.fact.line.message)) for other in beside]
    seen: list[frozenset[str]] = []
    for candidate in scored:
        said = words(shape(candidate.fact.line.message))
        repeats = any(len(said & other) >= 0.7 * len(said) for other in told)
        repeats = repeats or any(len(said & other) >= 0.7 * min(len(said), len(other)) for other in seen)
        if said and not repeats:
            kept.append(candidate)
            seen.append(said)
    return kept


# ---- metrics ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """How far a series has left what was usual (see `summaries.change`), and how much it tells."""

    fact: MetricFact
    size: float
    score: float


def moved(facts: Iterable[MetricFact], found: Sequence[Scored], situation: Situation) -> list[Change]:
    """Series of the alert's service that left what was usual for them, the most telling first."""
    related = words(joined(s.fact.line.message for s in found[:3])) | situation.terms
    out = []
    for fact in _unique(facts, situation):
        size = change(fact.moved, telling=_tells_of_errors(fact))
        if size < MIN_CHANGE:
            continue
        about = words(f"{fact.name} {' '.join(fact.labels.values())}" if fact.name else fact.query)
        weight = 1.0 + min(len(about & related), 3) + (1.5 if about & _SATURATION else 0)
        if _RESOURCES.search(fact.name) and not (words(fact.name) & situation.terms):
            weight -= 2.5
        if _is_the_alerts_own(fact, situation):
            weight += 4.0
        out.append(Change(fact, size, weight + min(size, 4.0) * 0.5))
    out.sort(key=lambda c: (-c.score, c.fact.ref.text))
    return _one_per_metric(out)


def saturated(facts: Iterable[MetricFact], situation: Situation) -> list[tuple[MetricFact, MetricFact]]:
    """(used, limit) pairs of the alert's service where the use stands at its limit: `x_active` at `x_max`."""
    unique = [fact for fact in _unique(facts, situation) if fact.name and not fact.moved.gone]
    by_key = {(fact.name, fact.moved.labels): fact for fact in unique}
    pairs = []
    for fact in unique:
        for limit_name in _limit_names(fact.name):
            limit = by_key.get((limit_name, fact.moved.labels))
            if limit is not None and fact.moved.last >= limit.moved.last > 0:
                pairs.append((fact, limit))
    return sorted(pairs, key=lambda pair: pair[0].ref.text)


def _limit_names(name: str) -> list[str]:
    found = re.fullmatch(r"(.+?)_(?:active|used|in_use|busy|current|open)((?:_[a-z]+)?)", name)
    return [f"{found[1]}_{limit}{found[2]}" for limit in ("max", "limit", "capacity")] if found else []


def steady(facts: Iterable[MetricFact], situation: Situation) -> list[MetricFact]:
    """Series that tell the alert's own quantity and did not change: for a report that found nothing."""
    calm = [
        fact
        for fact in _unique(facts, situation)
        if change(fact.moved, telling=False) < MIN_CHANGE and not fact.moved.counter and not fact.moved.gone
    ]
    own = [fact for fact in calm if _is_the_alerts_own(fact, situation)]
    related = [(len(words(fact.name) & (situation.terms | _SATURATION)), fact) for fact in calm]
    best = [(shared, fact) for shared, fact in related if shared and not _RESOURCES.search(fact.name)]
    best.sort(key=lambda item: (-item[0], item[1].ref.text))
    return (own or [fact for _, fact in best])[:2]


def concerns(fact: MetricFact, situation: Situation) -> bool:
    """Whether a series is about the alert's service: by label, or because the query itself asked for that service."""
    service = situation.service
    if _BOOKKEEPING.match(fact.name):
        return False
    if service is None:
        return True
    labels = fact.labels
    if any(labels.get(label) == service for label in (*SERVICE_LABELS, "job", "container")):
        return True
    if any(labels.get(label, service) != service for label in SERVICE_LABELS):
        return False
    return labels.get("pod", "").startswith(f"{service}-") or f'"{service}"' in fact.query


def family_prefix(changed: Sequence[Change]) -> str | None:
    """`hikaricp_connections_` of the gauge that moved most: its siblings tell limit and use."""
    for candidate in changed:
        parts = candidate.fact.name.split("_")
        if len(parts) >= 3 and not candidate.fact.moved.counter and not _RESOURCES.search(candidate.fact.name):
            return "_".join(parts[:2]) + "_"
    return None


def _unique(facts: Iterable[MetricFact], situation: Situation) -> list[MetricFact]:
    """Each series of the service once, whatever query it came from."""
    kept: dict[str, MetricFact] = {}
    for fact in facts:
        if concerns(fact, situation):
            kept.setdefault(f"{fact.name or bare(fact.query)} {fact.moved.labels}", fact)
    return list(kept.values())


def _tells_of_errors(fact: MetricFact) -> bool:
    return _ERROR_SERIES.search(f"{fact.name or fact.query} {' '.join(fact.labels.values())}") is not None


def _one_per_metric(changes_found: Iterable[Change]) -> list[Change]:
    kept: dict[str, Change] = {}
    for found in changes_found:
        kept.setdefault(found.fact.name, found)
    return list(kept.values())


def bare(expression: str) -> str:
    """An alert's expression without its threshold: `rate(x[5m]) > 0.05` → `rate(x[5m])`. Itself where it has none."""
    found = re.fullmatch(r"(?s)(.+?)\s*(?:[<>]=?|[!=]=)\s*(?:bool\s+)?-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\s*", expression)
    if found is None or _COMBINED.search(expression) or found.group(1).count("(") != found.group(1).count(")"):
        return expression
    return found.group(1)


def _is_the_alerts_own(fact: MetricFact, situation: Situation) -> bool:
    expression = situation.expression
    return expression is not None and "".join(bare(fact.query).split()) == "".join(bare(expression).split())


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


def advice(found: Iterable[Passage], wanted: frozenset[str], *, explain: bool = False) -> list[tuple[Passage, float]]:
    """Passages that fit what was seen, best first. REFERENCE-level ones are too weak to advise on.

    `explain`: the question is what something is, not what to do about it.
    """
    weight = {Relevance.PRECISE: 4.0, Relevance.HIGHLY_RELEVANT: 2.5}
    ranked: dict[str, tuple[Passage, float]] = {}
    for passage in found:
        if passage.relevance in weight:
            said = words(f"{passage.title} {passage.section} {passage.ref.text}")
            score = weight[passage.relevance] + min(len(said & wanted), 8) * 0.5 - passage.position * 0.1
            score += min(len(words(passage.title) & wanted), 4)
            acts = 2.0 if _ACTION.search(passage.section) else 0.0
            tells = 3.0 if _BACKGROUND.search(passage.section) or not passage.section else 0.0
            score += tells - acts if explain else acts - tells
            ranked.setdefault(passage.ref.text, (passage, score))
    return sorted(ranked.values(), key=lambda item: (-item[1], item[0].ref.text))
