"""Reading one log line as a person does: past its head, to the message. All results are verbatim spans of the line."""

import json
import re
from dataclasses import dataclass

MESSAGE_CHARS = 260
_PREFIX = re.compile(r"^(?P<prefix>\d[\d,]* lines? like this[^:\n]*(?::\d{2}(?::\d{2})?[^:\n]*)*): (?=\S)")
_STAMP = re.compile(
    r"\[?(?P<stamp>\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?"
    r"|[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2})\]?\s*"
)
_LEVEL = re.compile(
    r"[\[(<]?(?P<level>(?i:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|SEVERE|CRIT(?:ICAL)?|FATAL|PANIC|LOG))\s*[\])>]?:?(?=[\s\[])\s*"
)
_NOISE = (
    re.compile(r"std(?:out|err) [FP]\s+"),
    re.compile(r"[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d+\s+\d+ [\w./-]+:\d+\]\s*"),
    re.compile(r"\d+ ---\s+"),
    re.compile(r"\[[^\]\n]{0,80}\]\s*"),
    re.compile(r"(?:[\w$\[\]/]+\.)[\w.$\[\]/]+\s*(?:: | - |(?<=\]): )\s*"),
    re.compile(r"[A-Z]\w+\$\w+\s+: "),
    re.compile(r"[\w$-]+\s+: (?=\S)"),
    re.compile(r"[-:]\s+"),
)
_JSON_TEXT = re.compile(r'"(?:msg|message|log|event|error|err)"\s*:\s*"((?:[^"\\]|\\.)+)"')
_JSON_STAMP = re.compile(r'"(?:ts|time|timestamp|@timestamp)"\s*:\s*"([^"]+)"')
_JSON_LEVEL = re.compile(r'"(?:level|lvl|severity|log\.level)"\s*:\s*"(\w+)"')
_SLOW_STATEMENT = re.compile(r"^# Time: (?P<stamp>\S+)\n(?:# .*\n)*?# (?P<message>Query_time: [\s\S]+)")
"""An entry of MySQL's slow query log: its telling part comes after a head of two lines."""
_CAUSED_BY = re.compile(r"^\s*Caused by: .+$", re.MULTILINE)
_MARKS = re.compile(r"[.;,:!?)\]。；，：！？）](?=\s|$)|[。；，：！？]| (?=[\[({-])")


@dataclass(frozen=True, slots=True)
class Read:
    """`prefix` is the count and times that `patterns` put before a sample; all but it come from the line itself."""

    prefix: str
    stamp: str
    level: str
    message: str
    cause: str


def read(text: str) -> Read:
    found = _PREFIX.match(text)
    prefix = found["prefix"] if found else ""
    line = text[found.end() :] if found else text
    causes = _CAUSED_BY.findall(line)
    if slow := _SLOW_STATEMENT.match(line):
        stamp, level, message = slow["stamp"], "", slow["message"]
    elif line.startswith("{") and _JSON_TEXT.search(line):
        stamp, level, message = _read_json(line)
    else:
        stamp, level, message = _read_plain(line)
    cause = cut_at_mark(causes[-1].strip(), MESSAGE_CHARS) if causes else ""
    return Read(prefix=prefix, stamp=stamp, level=level, message=cut_at_mark(message, MESSAGE_CHARS), cause=cause)


def _read_json(line: str) -> tuple[str, str, str]:
    """The message of a JSON line, as it stands there. An error text in a field of its own says more than the event."""
    texts = _JSON_TEXT.findall(line)
    message = max(texts, key=len) if len(texts) > 1 and len(texts[0]) < 25 else texts[0]
    return _first(_JSON_STAMP, line), _first(_JSON_LEVEL, line), message


def _first(pattern: re.Pattern[str], line: str) -> str:
    found = pattern.search(line)
    return found.group(1) if found else ""


def _read_plain(line: str) -> tuple[str, str, str]:
    line = line.split("\n", 1)[0].rstrip()
    stamp = level = ""
    at = 0
    moved = True
    while moved and at < len(line):
        moved = False
        for pattern in (_STAMP, _LEVEL, *_NOISE):
            found = pattern.match(line, at)
            if found is None or found.end() == at or found.end() >= len(line):
                continue
            if pattern is _STAMP:
                stamp = stamp or found["stamp"]
            elif pattern is _LEVEL:
                if level:
                    continue
                level = found["level"]
            at, moved = found.end(), True
            break
    return stamp, level, line[at:]


def cut_at_mark(text: str, limit: int) -> str:
    """At most `limit` characters, ending where a clause ends, so that what is left says nothing else."""
    text = text.strip()
    if len(text) <= limit:
        return text
    ends = [found.start() for found in _MARKS.finditer(text, 0, limit) if found.start() > limit // 4]
    return (text[: ends[-1]] if ends else text[:limit].rsplit(" ", 1)[0]).strip()


def compact_json(value: object) -> str:
    """JSON with sorted keys: the same arguments always give the same text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
