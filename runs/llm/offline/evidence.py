"""What the tools answered, read from tool messages into facts that can be ranked and quoted. Pure.

Every fact holds the `Ref` it comes from: only refs that stand in a tool message are ever cited.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gatekeeper.types import NO_EVIDENCE_PATH, EvidenceStatus, Relevance
from runs.harness.ports import AssistantMessage, Message, ToolMessage
from runs.llm.offline.brief import objects, parse_time
from runs.llm.offline.loglines import Read, read
from runs.llm.offline.summaries import Movement, movement

_SEGMENT = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Ref:
    """One citable text. `owner` is the JSON object of the output that holds it, `{}` where it was cut away."""

    invocation_id: str
    tool_name: str
    raw_path: str
    text: str
    owner: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One tool call and what came back. `arguments` as the call had them."""

    invocation_id: str
    tool_name: str
    status: EvidenceStatus
    arguments: Mapping[str, Any]
    output: Mapping[str, Any]
    refs: tuple[Ref, ...]

    @property
    def nothing(self) -> Ref | None:
        found = [ref for ref in self.refs if ref.raw_path == NO_EVIDENCE_PATH]
        return found[0] if found and self.status is EvidenceStatus.NO_EVIDENCE else None


@dataclass(frozen=True, slots=True)
class LogFact:
    """A line, or a pattern of lines alike. Times are aware, UTC; `count` is 1 for a single line.

    `asked` is the service that the query was restricted to, if any: all its lines are about that service.
    """

    ref: Ref
    line: Read
    level: str
    first: datetime | None
    last: datetime | None
    count: int
    file: str
    asked: str


@dataclass(frozen=True, slots=True)
class MetricFact:
    """One series: what its summary says, and the query it answers."""

    ref: Ref
    moved: Movement
    query: str

    @property
    def name(self) -> str:
        return self.moved.name

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.moved.labels)


@dataclass(frozen=True, slots=True)
class AlertFact:
    ref: Ref
    alert_name: str
    severity: str
    labels: Mapping[str, str]
    starts_at: datetime | None


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a runbook. `position` is its place among the hits, best first."""

    ref: Ref
    title: str
    section: str
    relevance: Relevance
    position: int


def answers(messages: Sequence[Message]) -> list[Answer]:
    """The tool answers of a conversation, in order; an answer that is no JSON object gives nothing."""
    asked = {
        call.call_id: _arguments(call.arguments)
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    read_all = [_answer(m, asked.get(m.call_id, {})) for m in messages if isinstance(m, ToolMessage)]
    return [answer for answer in read_all if answer is not None]


def usable(found: Iterable[Answer]) -> list[Answer]:
    """Answers that hold evidence: of what failed, nothing is ever cited."""
    return [answer for answer in found if not answer.status.failed]


def _answer(message: ToolMessage, arguments: Mapping[str, Any]) -> Answer | None:
    try:
        body = json.loads(message.content)
    except ValueError:
        return None
    if not isinstance(body, dict) or body.get("status") not in set(EvidenceStatus):
        return None
    output = body.get("output")
    output = output if isinstance(output, dict) else {}
    invocation_id, tool_name = str(body.get("invocation_id") or ""), str(body.get("tool_name") or message.tool_name)
    refs = tuple(
        Ref(invocation_id, tool_name, ref["raw_path"], ref["text"], owner_of(output, ref["raw_path"]))
        for ref in objects(body.get("evidence_refs"))
        if isinstance(ref.get("raw_path"), str) and isinstance(ref.get("text"), str) and ref["text"].strip()
    )
    return Answer(invocation_id, tool_name, EvidenceStatus(body["status"]), arguments, output, refs)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        read_arguments = json.loads(text)
    except ValueError:
        return {}
    return read_arguments if isinstance(read_arguments, dict) else {}


def owner_of(output: Mapping[str, Any], raw_path: str) -> Mapping[str, Any]:
    """The object that holds the value at `raw_path`: `$.lines[3].text` → the fourth line."""
    here: Any = output
    for name, index in _SEGMENT.findall(raw_path.removeprefix("$"))[:-1]:
        if name and isinstance(here, dict):
            here = here.get(name)
        elif index and isinstance(here, list) and int(index) < len(here):
            here = here[int(index)]
        else:
            return {}
    return here if isinstance(here, dict) else {}


# ---- facts -----------------------------------------------------------------------------------


def log_facts(answer: Answer) -> list[LogFact]:
    """Patterns of several lines, and single lines that no such pattern stands for."""
    lines = [_line_fact(ref, answer) for ref in answer.refs if ref.raw_path.startswith("$.lines[")]
    file_of = {shape(fact.line.message): fact.file for fact in lines if fact.file}
    patterns = [_pattern_fact(ref, answer, file_of) for ref in answer.refs if ref.raw_path.startswith("$.patterns[")]
    repeated = [fact for fact in patterns if fact.count > 1]
    covered = {shape(fact.line.message) for fact in repeated}
    singles: dict[str, LogFact] = {}
    for fact in lines:
        if shape(fact.line.message) not in covered:
            singles.setdefault(f"{fact.first} {fact.line.message}", fact)
    shown = {fact.line.message for fact in singles.values()}
    only_patterns = [fact for fact in patterns if fact.count == 1 and fact.line.message not in shown]
    return [*repeated, *singles.values(), *only_patterns]


def _line_fact(ref: Ref, answer: Answer) -> LogFact:
    line = read(ref.text)
    moment = parse_time(ref.owner.get("time")) or parse_time(line.stamp.removesuffix(" UTC"))
    return LogFact(
        ref=ref,
        line=line,
        level=str(ref.owner.get("level") or line.level).upper(),
        first=moment,
        last=moment,
        count=1,
        file=str(ref.owner.get("file") or ""),
        asked=str(answer.arguments.get("service") or ""),
    )


def _pattern_fact(ref: Ref, answer: Answer, file_of: Mapping[str, str]) -> LogFact:
    """Count and times stand in the text too, for the case that the object beside it was cut away."""
    line = read(ref.text)
    first, last = _span(line, answer)
    counted = re.match(r"\d[\d,]*", line.prefix)
    return LogFact(
        ref=ref,
        line=line,
        level=str(ref.owner.get("level") or line.level).upper(),
        first=parse_time(ref.owner.get("first")) or first,
        last=parse_time(ref.owner.get("last")) or last,
        count=int(counted.group().replace(",", "")) if counted else 1,
        file=file_of.get(shape(line.message), ""),
        asked=str(answer.arguments.get("service") or ""),
    )


def _span(line: Read, answer: Answer) -> tuple[datetime | None, datetime | None]:
    """The times of `N lines like this between A and B`; a time of day alone is of the sample's day, or the query's."""
    day = parse_time(line.stamp.removesuffix(" UTC")) or parse_time(answer.arguments.get("end"))
    times = []
    for word in re.findall(r"\S*\d{2}:\d{2}:\d{2}\S*", line.prefix):
        moment = parse_time(word) if "-" in word else None
        if moment is None and day is not None:
            moment = parse_time(f"{day:%Y-%m-%d}T{word}")
        if moment is not None:
            times.append(moment)
    return (times[0], times[-1]) if times else (None, None)


def shape(message: str) -> str:
    """A message with its numbers and ids masked: lines of one shape say the same thing."""
    masked = re.sub(r"\b[0-9a-f]{8,}\b|\b\w*\d\w*\b", "#", message.lower())
    return re.sub(r"\s+", " ", masked)[:160]


def metric_facts(answer: Answer) -> list[MetricFact]:
    read_all = [(ref, movement(ref.text)) for ref in answer.refs if ref.raw_path.startswith("$.series[")]
    query = str(answer.arguments.get("query") or "")
    return [MetricFact(ref, moved, query) for ref, moved in read_all if moved is not None]


def alert_facts(answer: Answer) -> list[AlertFact]:
    return [
        AlertFact(
            ref=ref,
            alert_name=str(ref.owner.get("alertname") or ""),
            severity=str(ref.owner.get("severity") or ""),
            labels={str(k): str(v) for k, v in labels.items()}
            if isinstance(labels := ref.owner.get("labels"), dict)
            else {},
            starts_at=parse_time(ref.owner.get("starts_at")),
        )
        for ref in answer.refs
        if ref.raw_path.startswith("$.alerts[")
    ]


def passages(answer: Answer) -> list[Passage]:
    found = []
    for position, ref in enumerate(answer.refs):
        if ref.raw_path != NO_EVIDENCE_PATH:
            relevance = ref.owner.get("relevance") or ref.owner.get("relevanceLevel")
            found.append(
                Passage(
                    ref=ref,
                    title=str(ref.owner.get("title") or ""),
                    section=str(ref.owner.get("section") or ""),
                    relevance=Relevance(relevance) if relevance in set(Relevance) else Relevance.REFERENCE,
                    position=position,
                )
            )
    return found
