"""Which tools to call with what: a first look from the alert's labels, then what that look calls for. Pure.

Runbooks are looked up once, in the second look, where telemetry comes first: a document is given once in a run, so the
question that it answers should name the error that was found and not the alert alone.
"""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from runs.harness.ports import ToolCall, ToolSpec
from runs.llm.offline.brief import Situation, iso
from runs.llm.offline.evidence import Answer
from runs.llm.offline.families import identifiers
from runs.llm.offline.loglines import compact_json
from runs.llm.offline.questions import matter_of
from runs.llm.offline.selection import (
    CHANGE_REACH,
    LEAD,
    SEVERITY,
    Scored,
    bare,
    onset_of,
    quiet_until,
    rare_words,
    stem,
)
from runs.llm.offline.tokens import words

BEFORE = timedelta(minutes=60)
ASKED_FOR = "cause fix roll back"
_ASKS_HOW = re.compile(r"\bhow\b|\bfix\b|\bshould\b|\bdo\b|怎么|如何|处理|解决|排查", re.IGNORECASE)
METRICS_BEFORE = timedelta(minutes=30)
MAX_SAME_TOOL = 6
MAX_SECOND_LOOK_WORDS = 6
MAX_NAMES = 2
MAX_LINES = 4
"""Few single lines: patterns stand for all matches, and an answer is cut at its end."""
CHANGE_TERMS = (
    "deploy", "release", "roll", "migrat", "upgrade", "alter table", "create index", "config", "values diff",
    "feature flag", "restart", "scaled", "changed", "reloaded", "template", "applied", "updated", "set to",
    "switched on", "enabled",
)  # fmt: skip
CHINESE_CHANGE_TERMS = ("发布", "部署", "变更", "重启", "迁移")

Wanted = tuple[str, dict[str, Any]]


def first_look(situation: Situation) -> list[Wanted]:
    """The service's warnings and errors, its metrics with the alert's own expression, active alerts."""
    window = {"start": iso(looked_from(situation)), "end": iso(situation.end)}
    metrics = {"start": iso(metrics_from(situation)), "end": iso(situation.end)}
    logs: dict[str, Any] = {"level": "WARN", "limit": MAX_LINES, **window}
    if situation.service:
        logs["service"] = situation.service
    wanted: list[Wanted] = [("query_logs", logs)]
    wanted += [("query_metrics", {"query": query, **metrics}) for query in _metric_queries(situation)]
    wanted.append(("query_alerts", {}))
    return wanted


def metrics_from(situation: Situation) -> datetime:
    """Shorter than for logs: the tool itself tells what was usual in an equal span before."""
    return situation.started_at - METRICS_BEFORE if situation.started_at else situation.start


def knowledge_look(situation: Situation, found: Sequence[Scored] = ()) -> Wanted:
    """The runbook for the strongest error, or for the alert or question where there is none."""
    asked = f"{situation.alert_name} {situation.summary}" if situation.has_alert else _matter(situation)
    if found:
        asked = f"{situation.alert_name} {found[0].fact.line.message}"
    wants_advice = situation.has_alert or found or _ASKS_HOW.search(situation.query)
    asked = f"{asked.strip()[:300]} {ASKED_FOR}" if wants_advice else asked.strip()[:300]
    return ("lookup_knowledge", {"query": asked, "top_k": 8})


def _matter(situation: Situation) -> str:
    """What a question wants looked up: its telling words; where it points back, what was found before and its own."""
    if not situation.subject:
        return matter_of(situation.query)
    own = matter_of(situation.asked)
    return situation.subject if own == situation.asked else f"{situation.subject} {own}"


def looked_from(situation: Situation) -> datetime:
    """The start of the searched window: far enough before the alert to tell what is new from what always was."""
    return min(situation.start, (situation.started_at or situation.end) - BEFORE)


def second_look(
    situation: Situation,
    found: Sequence[Scored],
    lasting: Sequence[Scored],
    others: Iterable[str],
    family: str | None,
) -> list[Wanted]:
    """The runbook; changes before the onset; who else speaks of the errors; siblings of the metric that moved most.

    `lasting` errors were there before: how often they came then is asked for.
    """
    begin, end = iso(looked_from(situation)), iso(situation.end)
    onset = onset_of(found, situation)
    wanted = [knowledge_look(situation, found or lasting)]
    quiet = quiet_until(situation)
    if lasting and quiet is not None:
        wanted.append(_errors_only(situation, begin, iso(quiet)))
    elif not found:
        wanted.append(_errors_only(situation, begin, end))
    wanted.append(_changes_of(stem(situation.service) or situation.service, onset, situation))
    if found or lasting:
        spoken = _spoken(found or lasting, situation)
        if spoken:
            near = iso(onset - LEAD - timedelta(minutes=10))
            wanted.append(("query_logs", {"any_of": spoken, "start": near, "end": end, "limit": MAX_LINES}))
    selector = _selector(situation)
    if family and selector:
        sibling = f'{{__name__=~"{family}.+",{selector[1:]}'
        wanted.append(("query_metrics", {"query": sibling, "start": iso(metrics_from(situation)), "end": end}))
    for name in list(others)[:1]:
        wanted.append(
            ("query_logs", {"service": name, "level": "WARN", "start": begin, "end": end, "limit": MAX_LINES})
        )
    return wanted


def _spoken(found: Sequence[Scored], situation: Situation) -> list[str]:
    """The rare words of the errors, the strongest error's first; ids of single requests say nothing elsewhere."""
    rare = rare_words(found, situation)
    words_in_order = [
        word
        for scored in found[:3]
        for word in sorted(words(scored.fact.line.message) & rare, key=lambda word: (-len(word), word))
        if not any(c.isdigit() for c in word)
    ]
    return list(dict.fromkeys(words_in_order))[:MAX_SECOND_LOOK_WORDS]


def third_look(
    situation: Situation, found: Sequence[Scored], names: Sequence[str], second: Scored | None, *, widespread: bool
) -> list[Wanted]:
    """What a second family of errors calls for; lines of any level on the tables and fields that the errors name;
    changes of what the chosen error lines name beside the service, and of anything where much fails at once."""
    onset = onset_of(found, situation)
    wanted: list[Wanted] = []
    if second is not None:
        spoken = _spoken([second], situation)
        near, end = iso(onset - LEAD - timedelta(minutes=10)), iso(situation.end)
        wanted = [knowledge_look(situation, [second])]
        wanted += [("query_logs", {"any_of": spoken, "start": near, "end": end, "limit": MAX_LINES})] if spoken else []
    if tables := identifiers(found)[:MAX_SECOND_LOOK_WORDS]:
        near, end = iso(onset - LEAD - timedelta(minutes=10)), iso(situation.end)
        wanted.append(("query_logs", {"any_of": tables, "start": near, "end": end, "limit": MAX_LINES}))
    wanted += [_changes_of(name, onset, situation) for name in names[:MAX_NAMES]]
    return [*wanted, _changes_of(None, onset, situation)] if widespread else wanted


def _changes_of(name: str | None, onset: datetime, situation: Situation) -> Wanted:
    """A deployer's log names the service in its text, not in its path: the name is asked for as a word."""
    wanted: dict[str, Any] = {
        "any_of": list(CHANGE_TERMS + (CHINESE_CHANGE_TERMS if situation.chinese else ())),
        "start": iso(onset - CHANGE_REACH),
        "end": iso(min(situation.end, onset + timedelta(minutes=2))),
        "limit": MAX_LINES,
    }
    return ("query_logs", wanted | ({"text": name} if name else {}))


def _errors_only(situation: Situation, begin: str, end: str) -> Wanted:
    wanted: dict[str, Any] = {"level": "ERROR", "start": begin, "end": end}
    if situation.service:
        wanted["service"] = situation.service
    return ("query_logs", wanted)


def _metric_queries(situation: Situation) -> list[str]:
    queries = []
    if situation.expression:
        queries += [bare(situation.expression), situation.expression]
    selector = _selector(situation)
    if selector:
        queries.append(selector)
    return list(dict.fromkeys(queries))


def _selector(situation: Situation) -> str | None:
    labels = situation.labels
    for names in (
        ("service",),
        ("app",),
        ("application",),
        ("job", "instance"),
        ("instance",),
        ("namespace", "pod"),
        ("job",),
    ):
        if all(labels.get(name) for name in names):
            return _matchers({name: labels[name] for name in names})
    return _matchers({"service": situation.service}) if situation.service else None


def _matchers(labels: dict[str, str]) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items()) + "}"


def tool_calls(
    wanted: Sequence[Wanted], offered: Sequence[ToolSpec], earlier: Sequence[Answer], turn: int
) -> tuple[ToolCall, ...]:
    """The wanted calls that can be made: offered tools, arguments they know, nothing twice, none too often."""
    specs = {spec.name: spec for spec in offered}
    asked = {(a.tool_name, compact_json(dict(a.arguments))) for a in earlier if not a.status.failed}
    used = {name: sum(answer.tool_name == name for answer in earlier) for name in specs}
    calls: list[ToolCall] = []
    for name, arguments in wanted:
        if name not in specs or used[name] >= MAX_SAME_TOOL:
            continue
        known = specs[name].parameters.get("properties")
        text = compact_json({k: v for k, v in arguments.items() if not isinstance(known, dict) or k in known})
        if (name, text) not in asked:
            asked.add((name, text))
            used[name] += 1
            calls.append(ToolCall(call_id=f"call_{turn}_{len(calls) + 1}", name=name, arguments=text))
    return tuple(calls)


def named_services(found: Sequence[Scored], known: Iterable[str], own: str | None) -> list[str]:
    """Other services that the strongest errors name, in order of first mention."""
    text = " ".join(s.fact.line.message for s in found[:4] if s.fact.level in SEVERITY).lower()
    names = {name.lower() for name in known if name and name != own and len(name) > 3}
    return sorted((name for name in names if name in text), key=lambda name: (text.index(name), name))
