from datetime import UTC, datetime, timedelta

import pytest

from runs.errors import ToolRejected
from runs.tools.timewindow import Window, format_time, parse_duration, parse_instant, resolve_window

NOW = datetime(2026, 11, 12, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-12T10:00:00Z"),
        (" NOW ", "2026-11-12T10:00:00Z"),
        ("-15", "2026-11-12T09:59:45Z"),
        ("-15m", "2026-11-12T09:45:00Z"),
        ("now-1h30m", "2026-11-12T08:30:00Z"),
        ("now - 90s", "2026-11-12T09:58:30Z"),
        ("+5m", "2026-11-12T10:05:00Z"),
        ("-2d", "2026-11-10T10:00:00Z"),
        ("2026-11-12T09:00:00Z", "2026-11-12T09:00:00Z"),
        ("2026-11-12T09:00:00.250Z", "2026-11-12T09:00:00.250Z"),
        ("2026-11-12 09:00:00,250", "2026-11-12T09:00:00.250Z"),
        ("2026-11-12T09:00:00", "2026-11-12T09:00:00Z"),
        ("2026-11-12T10:00:00+01:00", "2026-11-12T09:00:00Z"),
        ("2026-11-12", "2026-11-12T00:00:00Z"),
        ("1794474000", "2026-11-12T09:00:00Z"),
        ("1794474000250", "2026-11-12T09:00:00.250Z"),
    ],
)
def test_times_are_read_as_people_write_them(text: str, expected: str) -> None:
    assert format_time(parse_instant(text, NOW)) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "-15x", "2026-13-01", "10:00", "9" * 40, "-" + "9" * 30 + "d"])
def test_an_unreadable_time_is_answered_with_a_sentence(text: str) -> None:
    with pytest.raises(ToolRejected) as error:
        parse_instant(text, NOW)
    assert error.value.error_code in {"BAD_TIME", "BAD_DURATION"}
    assert len(error.value.safe_message) < 200


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1h30m", 5400), ("500ms", 0.5), ("60", 60), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["0s", "0", "soon", "400d", "m5"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ToolRejected):
        parse_duration(text)


def test_a_window_has_defaults_counted_from_its_end() -> None:
    hour = timedelta(hours=1)
    assert resolve_window(None, None, NOW, default=hour) == Window(NOW - hour, NOW)
    assert resolve_window(None, "-1h", NOW, default=hour) == Window(NOW - 2 * hour, NOW - hour)
    assert resolve_window("-10m", None, NOW, default=hour).seconds == 600


@pytest.mark.parametrize(("start", "end"), [("now", "now"), ("-5m", "-10m"), ("-40d", "now")])
def test_a_window_that_is_none_is_refused(start: str, end: str) -> None:
    with pytest.raises(ToolRejected) as error:
        resolve_window(start, end, NOW, default=timedelta(hours=1), longest=timedelta(days=31))
    assert error.value.error_code == "BAD_WINDOW"
