"""The offline composer: a conclusion of a few sentences, the claims as statements, where it looked, what is missing.

It restates; it adds no fact. Every number, code and name in what it writes stands in an allowed claim. It names no
cause: it says what the evidence points to, and what came before. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gatekeeper.types import ClaimKind, EvidenceStatus
from runs.harness.wire import ComposedStatement, ComposerOutput
from runs.llm.offline.brief import AllowedClaim, Deliberation, Looked
from runs.llm.offline.loglines import cut_at_mark
from runs.llm.offline.selection import CHANGE, CHANGE_REACH, CHANGED_VALUE
from runs.llm.offline.verifier import FRAME

QUOTE_CHARS = 300
STATEMENT_CHARS = 1000
HALF_A_DAY_S = 12 * 3600
_COUNTED = re.compile(
    r"^(?P<count>\d[\d,]* lines?) like this (?P<when>(?:between|at) .+?(?:Z|\d{2})): (?P<rest>.+)$", re.DOTALL
)
_LEVELED = re.compile(r"^(?P<when>\S+(?: \d{2}:\S+)?(?: UTC)?:? )?(?P<level>[A-Za-z]{3,8}): (?P<rest>.+)$", re.DOTALL)
_STAMPED = re.compile(r"^(?P<when>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}\S*?): (?P<rest>.+)$", re.DOTALL)
_CLOCK = re.compile(r"(?<!\d)(\d{2}:\d{2}:\d{2})")
_ZULU = re.compile(r"(?<!\d)\d{2}:\d{2}:\d{2}Z")
_DATED_ZULU = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_STRONG = re.compile(r"\b(?:ERROR|FATAL|SEVERE|CRITICAL|PANIC)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sorted:
    """The allowed claims by what they are about, each list in the order in which the executor ranked them."""

    symptoms: tuple[AllowedClaim, ...] = ()
    changes: tuple[AllowedClaim, ...] = ()
    metrics: tuple[AllowedClaim, ...] = ()
    alerts: tuple[AllowedClaim, ...] = ()
    advice: tuple[AllowedClaim, ...] = ()
    negatives: tuple[AllowedClaim, ...] = ()

    @property
    def in_reading_order(self) -> tuple[AllowedClaim, ...]:
        """What fails, what changed, what moved with it, what to do, what was not found."""
        return (*self.symptoms, *self.changes, *self.metrics, *self.alerts, *self.advice, *self.negatives)

    @property
    def notable(self) -> bool:
        """Whether something was found: log lines, changes, or a metric that was put forward as a decisive fact."""
        return bool(self.symptoms or self.changes or any(claim.critical for claim in self.metrics))


@dataclass(frozen=True, slots=True)
class Phrases:
    """All that the composer says in words of its own."""

    points_to: str
    before: str
    also_changed: str
    and_then: str
    expression: str
    metrics: str
    advice: str
    only_advice: str
    nothing: str
    nothing_left: str
    looked_at: str
    asked: str
    times: str
    failed: str
    empty: str
    offline: str
    stop: str
    sources: dict[str, str] = field(default_factory=dict)
    other_source: str = ""


ENGLISH = Phrases(
    points_to="The evidence points to this in the logs: {0}",
    before="Before that, the log records a change: {0}",
    also_changed="The log also records a change: {0}",
    and_then="; and: ",
    expression="the alert's expression, ",
    metrics="The metrics show: {0}",
    advice="The runbook advises: {0}",
    only_advice="The runbooks say: {0}",
    nothing="These queries found nothing notable in the window that they searched. This is not proof of absence: "
    "another source, query or time may show what these did not.",
    nothing_left="There is no claim that could be stated from the evidence.",
    looked_at="Looked at: {0}.",
    asked="Asked: {0}",
    times="The evidence quoted here is of {0} to {1}.",
    failed="A query of {0} did not succeed; what it would have shown is unknown.",
    empty="A query of {0} found nothing; that is no proof of absence.",
    offline="Written by the built-in offline model from quotations; it weighs no causes, so judge yourself "
    "how these facts relate.",
    stop=". ",
    sources={
        "query_logs": "logs",
        "query_metrics": "metrics",
        "query_alerts": "active alerts",
        "lookup_knowledge": "runbooks",
        "query_mysql": "the database",
        "get_current_time": "the clock",
    },
    other_source="a connected tool",
)
CHINESE = Phrases(
    points_to="证据指向日志中的这一现象：{0}",
    before="在此之前，日志记录了一次变更：{0}",
    also_changed="日志还记录了一次变更：{0}",
    and_then="；以及：",
    expression="告警表达式 ",
    metrics="指标显示：{0}",
    advice="运行手册建议：{0}",
    only_advice="运行手册的说明：{0}",
    nothing="这些查询在所查的时间范围内没有发现值得注意的内容。这并不证明不存在问题：其他来源、查询或时间可能显示不同的情况。",
    nothing_left="没有可以依据证据陈述的内容。",
    looked_at="查看了：{0}。",
    asked="问题：{0}",
    times="所引证据的时间为 {0} 至 {1}。",
    failed="对{0}的一次查询没有成功，其结果未知。",
    empty="对{0}的一次查询没有返回内容，这并不证明不存在。",
    offline="由内置离线模型根据原文引用生成；它不判断因果，请自行判断这些事实之间的联系。",
    stop="。",
    sources={
        "query_logs": "日志",
        "query_metrics": "指标",
        "query_alerts": "当前告警",
        "lookup_knowledge": "运行手册",
        "query_mysql": "数据库",
        "get_current_time": "时钟",
    },
    other_source="已接入的工具",
)


def compose(deliberation: Deliberation) -> ComposerOutput:
    phrases = CHINESE if deliberation.chinese else ENGLISH
    found = sort_claims(deliberation.claims)
    return ComposerOutput(
        conclusion=conclusion(found, phrases),
        scope=_scope(deliberation, phrases),
        statements=[
            ComposedStatement(text=claim.claim_text[:STATEMENT_CHARS], claim_ids=[claim.claim_id])
            for claim in found.in_reading_order
            if claim.claim_text
        ],
        limitations=_limitations(deliberation, phrases),
    )


def sort_claims(claims: Sequence[AllowedClaim]) -> Sorted:
    groups: dict[str, list[AllowedClaim]] = {}
    for claim in claims:
        groups.setdefault(_about(claim), []).append(claim)
    return Sorted(**{name: tuple(sorted(group, key=lambda c: not c.critical)) for name, group in groups.items()})


def _about(claim: AllowedClaim) -> str:
    if claim.kind is ClaimKind.NEGATIVE_OBSERVATION:
        return "negatives"
    if claim.kind is ClaimKind.GUIDANCE:
        return "advice"
    tools = {item.tool_name for item in claim.evidence}
    if tools == {"query_metrics"}:
        return "metrics"
    if tools == {"query_alerts"}:
        return "alerts"
    changed = CHANGE.search(claim.claim_text) or CHANGED_VALUE.search(claim.claim_text)
    return "changes" if changed and not _STRONG.search(claim.claim_text) else "symptoms"


def conclusion(found: Sorted, phrases: Phrases) -> str:
    """At most three sentences: what fails (or what the metrics show), what changed before, what the runbook advises.

    A second symptom that was put forward as decisive too is a matter of its own: it is named beside the first.
    """
    if not found.notable:
        if found.negatives or found.metrics or found.alerts:
            return phrases.nothing
        if found.advice:
            said = phrases.and_then.join(quoted(claim, phrases).rstrip(".。") for claim in found.advice[:2])
            return _sentence(phrases.only_advice, said, phrases).strip()
        return phrases.nothing_left
    parts: list[str] = []
    symptom = found.symptoms[0] if found.symptoms else None
    decisive = [claim for claim in found.symptoms[1:2] if claim.critical]
    if symptom is not None:
        said = phrases.and_then.join(quoted(claim, phrases).rstrip(".。") for claim in [symptom, *decisive])
        parts.append(_sentence(phrases.points_to, said, phrases))
    elif found.metrics:
        parts.append(_sentence(phrases.metrics, quoted(found.metrics[0], phrases), phrases))
    if found.changes:
        before = [c for c in found.changes if symptom is not None and _is_before(c.claim_text, symptom.claim_text)]
        told = sorted(before[:2], key=_clock_of) or found.changes[:1]
        said = phrases.and_then.join(quoted(claim, phrases) for claim in told)
        parts.append(_sentence(phrases.before if before else phrases.also_changed, said, phrases))
    if found.advice:
        given = found.advice[: 1 + len(decisive)]
        said = phrases.and_then.join(quoted(claim, phrases).rstrip(".。") for claim in given)
        parts.append(_sentence(phrases.advice, said, phrases))
    return "".join(parts).strip()


def _sentence(frame: str, said: str, phrases: Phrases) -> str:
    stop = "" if said.endswith((".", "!", "?", "。", "！", "？")) else phrases.stop.strip()
    return f"{frame.format(said)}{stop}{' ' if phrases.stop.endswith(' ') else ''}"


def quoted(claim: AllowedClaim, phrases: Phrases) -> str:
    """The claim without its frame: the message first, how often and when after it."""
    text = FRAME.sub("", claim.claim_text)
    if {item.tool_name for item in claim.evidence} == {"query_metrics"}:
        text = cut_at_mark(text.split("; ", 1)[0], QUOTE_CHARS)
        return f"{phrases.expression}{text}" if text.startswith("{") else text
    when = ""
    counted = _COUNTED.match(text)
    if counted:
        when, text = f" ({counted['count']} {counted['when']})", counted["rest"]
    leveled = _LEVELED.match(text)
    if leveled:
        stamp = (leveled["when"] or "").strip().removesuffix(":")
        when, text = when or (f" ({stamp})" if _CLOCK.search(stamp) else ""), leveled["rest"]
    elif stamped := _STAMPED.match(text):
        when, text = when or f" ({stamped['when']})", stamped["rest"]
    return f"{cut_at_mark(text, QUOTE_CHARS)}{when}"


def _is_before(earlier: str, later: str) -> bool:
    """Whether the first time of day in one claim lies before the first in the other, by hours and not by a day."""
    first, second = _CLOCK.search(earlier), _CLOCK.search(later)
    dates = [set(_DATE.findall(text)) for text in (earlier, later)]
    if first is None or second is None or (all(dates) and dates[0].isdisjoint(dates[1])):
        return False
    return 0 < _seconds(second.group(1)) - _seconds(first.group(1)) <= CHANGE_REACH.total_seconds()


def _clock_of(claim: AllowedClaim) -> str:
    """The first time of day in a claim, to the millisecond where it has them; they sort as text."""
    found = re.search(r"\d{2}:\d{2}:\d{2}[.,\d]*", claim.claim_text)
    return found.group() if found else ""


def _seconds(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def _scope(deliberation: Deliberation, phrases: Phrases) -> str:
    sources = _names(deliberation.looked, phrases)
    asked = [phrases.asked.format(" ".join(deliberation.query.split())[:400])] if deliberation.query.strip() else []
    looked = [phrases.looked_at.format(_listed(sources, phrases))] if sources else []
    return " ".join([*looked, *_times(deliberation, phrases), *asked])


def _times(deliberation: Deliberation, phrases: Phrases) -> list[str]:
    """From when to when the claims' times reach: times of day, or dated ones where midnight may lie between."""
    texts = [claim.claim_text for claim in deliberation.claims]
    times = sorted({clock for text in texts for clock in _ZULU.findall(text)})
    if times and _seconds(times[-1][:8]) - _seconds(times[0][:8]) > HALF_A_DAY_S:
        times = sorted({moment for text in texts for moment in _DATED_ZULU.findall(text)})
    return [phrases.times.format(times[0], times[-1])] if len(times) > 1 else []


def _listed(names: Sequence[str], phrases: Phrases) -> str:
    return ("、" if phrases is CHINESE else ", ").join(names)


def _names(looked: Sequence[Looked], phrases: Phrases) -> list[str]:
    return list(dict.fromkeys(phrases.sources.get(item.tool_name, phrases.other_source) for item in looked))


def _limitations(deliberation: Deliberation, phrases: Phrases) -> list[str]:
    failed = [
        item
        for item in deliberation.looked
        if item.status in set(EvidenceStatus) and EvidenceStatus(item.status).failed
    ]
    empty = [item for item in deliberation.looked if item.status == EvidenceStatus.NO_EVIDENCE]
    said = [phrases.failed.format(name) for name in _names(failed, phrases)]
    said += [phrases.empty.format(name) for name in _names(empty, phrases)]
    return [*said[:10], phrases.offline]
