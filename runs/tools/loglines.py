"""Reading one log line: its time, its level, the service it speaks of, and the template it is an instance of.

Works on bytes until a line is worth decoding, because most lines of a big file are looked at and left.
Times without a zone are UTC. Lines are JSON objects or plain text; formats known: ISO 8601 and its
relatives (`2026-01-31 10:04:11,123`, `2026/01/31 10:04:11`), common log format, syslog (RFC 3164), klog,
Apache and Redis dates, Unix seconds or milliseconds.
"""

import calendar
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any


class Level(IntEnum):
    """Ordered; the numbers are pino's, so that a numeric level needs no table."""

    TRACE = 10
    DEBUG = 20
    INFO = 30
    WARN = 40
    ERROR = 50
    FATAL = 60


_NAMES: dict[str, Level] = {
    **dict.fromkeys(("trace", "finest", "finer", "verbose"), Level.TRACE),
    **dict.fromkeys(("debug", "fine", "dbg"), Level.DEBUG),
    **dict.fromkeys(("info", "information", "informational", "notice", "inf", "log", "config"), Level.INFO),
    **dict.fromkeys(("warn", "warning", "wrn"), Level.WARN),
    **dict.fromkeys(("error", "err", "severe", "eror"), Level.ERROR),
    **dict.fromkeys(("fatal", "crit", "critical", "panic", "alert", "emerg", "emergency", "dpanic"), Level.FATAL),
}
LEVEL_NAMES = tuple(level.name for level in Level)


def level_named(name: str) -> Level | None:
    return _NAMES.get(name.lower())


@dataclass(frozen=True, slots=True)
class Head:
    """The envelope of a log event's first line: `time` in Unix seconds, and the fields of a JSON line."""

    time: float | None
    fields: Mapping[str, Any] | None


_MONTHS = {name.lower().encode(): number for number, name in enumerate(calendar.month_abbr) if name}
_TIME_SEARCH_BYTES = 120
_TIME = re.compile(
    rb"(?P<iso>(?<![\d-])(\d{4})[-/](\d\d)[-/](\d\d)[T_ ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    rb"(?:\s?(Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?)"
    rb"|(?P<clf>\[(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\])"
    rb"|(?P<klog>^[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}))"
    rb"|(?P<syslog>^(?:<\d{1,3}>)?([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) )"
    rb"|(?P<asctime>\b[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))? (\d{4})\b)"
    rb"|(?P<dmy>\b(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?)"
    rb"|(?P<epoch>^\[?(1\d{9})(?:\.(\d{1,9}))?\b(?!-))"
)


def time_of(line: bytes, reference: float) -> float | None:
    """The time a plain line states near its beginning. `reference` (Unix s) gives a year to formats without one."""
    match = _TIME.search(line, 0, _TIME_SEARCH_BYTES)
    if match is None:
        return None
    kind = match.lastgroup
    index = match.re.groupindex[kind or "iso"]
    g = match.group
    try:
        if kind == "iso":
            year, month, day, hour, minute, second, fraction, zone = g(*range(index + 1, index + 9))
            return _unix(int(year), int(month), int(day), hour, minute, second, fraction) - _offset(zone)
        if kind == "clf":
            day, month, year, hour, minute, second, zone = g(*range(index + 1, index + 8))
            return _unix(int(year), _MONTHS[month.lower()], int(day), hour, minute, second, None) - _offset(zone)
        if kind == "klog":
            month, day, hour, minute, second, fraction = g(*range(index + 1, index + 7))
            return _without_year(int(month), int(day), hour, minute, second, fraction, reference)
        if kind == "syslog":
            month, day, hour, minute, second = g(*range(index + 1, index + 6))
            return _without_year(_MONTHS[month.lower()], int(day), hour, minute, second, None, reference)
        if kind == "asctime":
            month, day, hour, minute, second, fraction, year = g(*range(index + 1, index + 8))
            return _unix(int(year), _MONTHS[month.lower()], int(day), hour, minute, second, fraction)
        if kind == "dmy":
            day, month, year, hour, minute, second, fraction = g(*range(index + 1, index + 8))
            return _unix(int(year), _MONTHS[month.lower()], int(day), hour, minute, second, fraction)
        seconds, fraction = g(index + 1, index + 2)
        return int(seconds) + _fraction(fraction)
    except (KeyError, ValueError):
        return None  # digits in the shape of a date that no calendar has


@functools.lru_cache(maxsize=4096)
def _day(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()


def _unix(year: int, month: int, day: int, hour: bytes, minute: bytes, second: bytes, fraction: bytes | None) -> float:
    return _day(year, month, day) + int(hour) * 3600 + int(minute) * 60 + int(second) + _fraction(fraction)


def _fraction(digits: bytes | None) -> float:
    return int(digits) / 10 ** len(digits) if digits else 0.0


def _offset(zone: bytes | None) -> int:
    if zone is None or zone in {b"Z", b"UTC", b"GMT"}:
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -seconds if zone[:1] == b"-" else seconds


def _without_year(
    month: int, day: int, hour: bytes, minute: bytes, second: bytes, fraction: bytes | None, reference: float
) -> float:
    """The latest such moment that is not more than a day after `reference`."""
    year = datetime.fromtimestamp(reference, UTC).year
    for candidate in (year + 1, year, year - 1):
        if (month, day) == (2, 29) and not calendar.isleap(candidate):
            continue
        moment = _unix(candidate, month, day, hour, minute, second, fraction)
        if moment <= reference + 86_400:
            return moment
    raise ValueError("no year fits")


_TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "asctime", "t", "eventTime", "@t")
_LEVEL_KEYS = ("level", "severity", "lvl", "log.level", "levelname", "loglevel", "log_level", "@l", "severity_text")
_MESSAGE_KEYS = ("message", "msg", "log", "event", "@m", "error", "body")
_SERVICE_KEYS = (
    "service", "service.name", "service_name", "app", "application", "component", "container", "container_name",
    "pod", "job", "name", "source", "host", "hostname", "kubernetes", "resource", "labels", "logger",
)  # fmt: skip


def head_of(line: bytes, reference: float) -> Head:
    """Time and (for a JSON line) the fields of a line that may begin an event."""
    if line[:1] == b"{":
        fields = _object(line)
        if fields is not None:
            return Head(_json_time(fields, reference), fields)
    return Head(time_of(line, reference), None)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None  # a line that only looks like JSON is read as text
    return value if isinstance(value, dict) else None


def _pick(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = fields.get(key)
        if value is None and "." in key:
            outer, inner = key.split(".", 1)
            nested = fields.get(outer)
            value = nested.get(inner) if isinstance(nested, dict) else None
        if value is not None and value != "":
            return value
    return None


def _json_time(fields: Mapping[str, Any], reference: float) -> float | None:
    for key in _TIME_KEYS:
        value = fields.get(key)
        if isinstance(value, str):
            found = time_of(value.encode("utf-8", "replace"), reference)
            if found is None and value.isdigit() and len(value) in {10, 13}:
                found = _number_time(float(value))
            if found is not None:
                return found
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = _number_time(float(value))
            if found is not None:
                return found
    return None


def _number_time(value: float) -> float | None:
    """Unix seconds, milliseconds, microseconds or nanoseconds, told apart by their size (years 2001 to 2286)."""
    for scale in (1.0, 1e3, 1e6, 1e9):
        if 1e9 <= value / scale < 1e10:
            return value / scale
    return None


def _json_level(fields: Mapping[str, Any]) -> Level | None:
    value = _pick(fields, _LEVEL_KEYS)
    if isinstance(value, str):
        return _NAMES.get(value.strip().lower())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Level(max(10, min(60, int(value) // 10 * 10)))
    inner = fields.get("log")
    return _text_level(inner.encode("utf-8", "replace")) if isinstance(inner, str) else None


_LEVEL_SEARCH_BYTES = 240
_LEVEL = re.compile(
    rb"(?:^|[\s\[(|<:\"])(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|SEVERE|FATAL|CRIT(?:ICAL)?|PANIC|ALERT"
    rb"|EMERG(?:ENCY)?|LOG|FINE)(?=[\s\]):|>,\"]|$)"
    rb"|\b(?:level|lvl|severity)\"?[=:]\s?\"?([A-Za-z]+)"
    rb"|[\[(<](?:[a-z_0-9]+:)?(trace|debug|info|notice|warn|warning|error|err|crit|critical|alert|emerg|fatal)[\])>]"
    rb"|^([IWEF])\d{4} \d\d:\d\d:\d\d\."
    rb"|\" ([1-5]\d\d) (?:\d+|-)(?: |$)"
    rb"|^(?:\S+ \S+ \S+ |\S+ )?(Traceback \(most recent call last\)|panic: |Exception in thread |Caused by: )"
    rb"|(\bOOMKilled\b|\bOut of memory\b|\bOutOfMemoryError\b|\bsegfault\b)"
)
_KLOG = {b"I": Level.INFO, b"W": Level.WARN, b"E": Level.ERROR, b"F": Level.FATAL}


def level_of(head: Head, line: bytes) -> Level | None:
    """The level an event states. A plain one under a head without level that carries a stack trace is an ERROR."""
    if head.fields is not None:
        return _json_level(head.fields)
    level = _text_level(line)
    if level is None and (b"\nTraceback (most" in line or b"\nCaused by: " in line):
        return Level.ERROR
    return level


def _text_level(line: bytes) -> Level | None:
    """The level a plain line states. An access-log line has its status: 5xx ERROR, 4xx WARN, else INFO."""
    match = _LEVEL.search(line, 0, _LEVEL_SEARCH_BYTES)
    if match is None:
        return None
    word, keyed, bracketed, klog, status, crash, out_of_memory = match.groups()
    name = word or keyed or bracketed
    if name:
        return _NAMES.get(name.decode("ascii").lower())
    if klog:
        return _KLOG[klog]
    if status:
        return Level.ERROR if status[:1] == b"5" else Level.WARN if status[:1] == b"4" else Level.INFO
    return Level.ERROR if crash or out_of_memory else None


_CONTINUATION = re.compile(rb"[ \t]|Caused by: |\.\.\. \d+ more|Traceback \(|During handling of|\}|\]|\)")


def continues(line: bytes) -> bool:
    """Whether a line without a time of its own plainly belongs to the one before it."""
    return _CONTINUATION.match(line) is not None


def speaks_of(service: str, head: Head, text: str) -> bool:
    """Whether a JSON field or a `service=`-like word of an event names `service` (lower case)."""
    if head.fields is not None:
        return any(_names(service, head.fields.get(key)) for key in _SERVICE_KEYS)
    return _service_pattern(service).search(text[:400]) is not None


def _names(service: str, value: Any) -> bool:
    if isinstance(value, str):
        return service in value.lower()
    if isinstance(value, dict):
        return any(_names(service, member) for member in value.values())
    return False


@functools.lru_cache(maxsize=64)
def _service_pattern(service: str) -> re.Pattern[str]:
    name = re.escape(service)
    return re.compile(
        rf"\b(?:service|svc|app|application|component|container|pod|job)[\w.]*[=:]\s?\"?[\w./-]*{name}"
        rf"|(?:^|\s){name}[\w.-]*(?:\[\d+\])?:"
        rf"|[\[(]{name}[\w.-]*[\])]",
        re.IGNORECASE,
    )


def message_of(head: Head, text: str) -> str:
    """What an event says without its envelope: the message of a JSON line, else the first line."""
    if head.fields is not None:
        message = _pick(head.fields, _MESSAGE_KEYS)
        if isinstance(message, str):
            return message
    return text.split("\n", 1)[0]


_TEMPLATE_CHARS = 300
_VARIABLE = re.compile(
    r"\b(?!(?:msg|message|error|err|event|reason|cause|type|exception|code|status|state|level)=)"
    r"[A-Za-z_.]{1,40}=[^\s,;\"']+"
    r"|\"[^\"\s]{1,200}\"|'[^'\s]{1,200}'"
    r"|\[\s*[^\[\]\s]*\d[^\[\]\s]*\]"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b"
    r"|\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{6,}\b"
    r"|(?<![A-Za-z])\d[\d.,:TZ/+_-]*"
    r"|(?<=[A-Za-z_-])\d{2,}"
)


def template_of(level: Level | None, message: str) -> str:
    """The message with everything that varies between its like replaced: numbers, ids, quoted values."""
    masked = _without_variables(message[:_TEMPLATE_CHARS].translate(_ANY_DIGIT))
    return f"{level.name if level else '-'} {masked}"


# Which digit it is never matters, so lines that differ in numbers alone are worked out once.
_ANY_DIGIT = str.maketrans("123456789", "000000000")


@functools.lru_cache(maxsize=4096)
def _without_variables(message: str) -> str:
    return _VARIABLE.sub("#", message)
