"""Times and windows as a model writes them, resolved against a reference time.

Accepted: `now`, `-15m`, `now-1h30m`, ISO 8601 (without a zone: UTC), Unix seconds or milliseconds.
What cannot be read is a `ToolRejected` that says what can: the model corrects itself.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runs.errors import ToolRejected

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_RELATIVE = re.compile(r"(?:now)?\s*([+-])\s*(\S+)")
_EPOCH = re.compile(r"\d{9,10}(?:\.\d+)?|\d{13}")
_LONGEST = timedelta(days=366)
_LONGEST_TEXT = 60


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end`, both included; both aware, UTC."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def __str__(self) -> str:
        return f"{format_time(self.start)} to {format_time(self.end)}"

    def as_json(self) -> dict[str, str]:
        return {"start": format_time(self.start), "end": format_time(self.end)}


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with `Z`; milliseconds only where there are some."""
    moment = moment.astimezone(UTC)
    digits = f".{moment.microsecond // 1000:03d}" if moment.microsecond >= 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{digits}Z"


def format_clock(moment: datetime) -> str:
    """The time of day alone, `10:02:11Z`."""
    return f"{moment.astimezone(UTC):%H:%M:%S}Z"


def parse_duration(text: str) -> timedelta:
    """`30s`, `5m`, `1h30m`, or plain seconds. Raises `ToolRejected`."""
    text = text.strip().lower()
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", text):
        seconds = float(text)
    elif len(text) <= _LONGEST_TEXT and _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    else:
        raise ToolRejected("A duration cannot be read; write one such as 30s, 15m or 1h30m.", error_code="BAD_DURATION")
    if not 0 < seconds <= _LONGEST.total_seconds():
        raise ToolRejected("A duration must be longer than 0 and at most a year.", error_code="BAD_DURATION")
    return timedelta(seconds=seconds)


def parse_instant(text: str, now: datetime) -> datetime:
    """One moment, aware, UTC. Raises `ToolRejected`."""
    text = text.strip()
    if text.lower() == "now":
        return now.astimezone(UTC)
    relative = _RELATIVE.fullmatch(text.lower())
    if relative:
        shift = parse_duration(relative[2])
        return (now + shift if relative[1] == "+" else now - shift).astimezone(UTC)
    try:
        if _EPOCH.fullmatch(text):
            number = float(text)
            return datetime.fromtimestamp(number / 1000 if len(text) == 13 else number, UTC)
        moment = datetime.fromisoformat(text.replace(",", "."))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ToolRejected(
            "A time cannot be read; write ISO 8601 such as 2026-01-31T10:00:00Z, or -15m, or now.",
            error_code="BAD_TIME",
        ) from error


def resolve_window(
    start: str | None, end: str | None, now: datetime, *, default: timedelta, longest: timedelta = _LONGEST
) -> Window:
    """The window of a call. Without `end`: now. Without `start`: `default` before the end. Raises `ToolRejected`."""
    last = parse_instant(end, now) if end else now.astimezone(UTC)
    first = parse_instant(start, now) if start else last - default
    if first >= last:
        raise ToolRejected(
            f"The window's start {format_time(first)} is not before its end {format_time(last)}.",
            error_code="BAD_WINDOW",
        )
    if last - first > longest:
        raise ToolRejected(
            f"The window is longer than {longest.days} days; ask for a shorter one.", error_code="BAD_WINDOW"
        )
    return Window(first, last)
