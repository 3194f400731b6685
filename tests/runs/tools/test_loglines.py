from datetime import UTC, datetime

import pytest

from runs.tools.loglines import Level, head_of, level_of, speaks_of, template_of

REFERENCE = datetime(2026, 11, 12, 12, 0, 0, tzinfo=UTC).timestamp()
TEN = datetime(2026, 11, 12, 10, 4, 11, tzinfo=UTC).timestamp()

LINES = [
    ("2026-11-12T10:04:11Z INFO ready", TEN, Level.INFO),
    ("2026-11-12T10:04:11.123Z  WARN 1 --- [app] slow", TEN + 0.123, Level.WARN),
    ("2026-11-12T11:04:11+01:00 ERROR [main] boom", TEN, Level.ERROR),
    ("2026-11-12T05:04:11-0500 [error] boom", TEN, Level.ERROR),
    ("2026-11-12 10:04:11,123 ERROR app: boom", TEN + 0.123, Level.ERROR),
    ("[2026-11-12 10:04:11,123] WARNING in views: x", TEN + 0.123, Level.WARN),
    ("2026-11-12 10:04:11.123 UTC [77] FATAL:  too many clients", TEN + 0.123, Level.FATAL),
    ("2026-11-12 10:04:11.123 UTC [77] LOG:  checkpoint", TEN + 0.123, Level.INFO),
    ("2026/11/12 10:04:11 [error] 31#31: *7 upstream timed out", TEN, Level.ERROR),
    ('time=2026-11-12T10:04:11Z level=warn msg="disk"', TEN, Level.WARN),
    ('10.0.0.1 - - [12/Nov/2026:10:04:11 +0000] "GET / HTTP/1.1" 502 157 "-" "curl"', TEN, Level.ERROR),
    ('10.0.0.1 - - [12/Nov/2026:11:04:11 +0100] "GET / HTTP/1.1" 404 157', TEN, Level.WARN),
    ('10.0.0.1 - - [12/Nov/2026:10:04:11 +0000] "GET /500 HTTP/1.1" 200 502', TEN, Level.INFO),
    ("Nov 12 10:04:11 node-1 kernel: Out of memory: Killed process 99", TEN, Level.ERROR),
    ("<34>Nov 12 10:04:11 node-1 su: ok", TEN, None),
    ("E1112 10:04:11.123456       1 reflector.go:12] watch failed", TEN + 0.123456, Level.ERROR),
    ("[Thu Nov 12 10:04:11.123456 2026] [core:error] [pid 7] x", TEN + 0.123456, Level.ERROR),
    ("1:M 12 Nov 2026 10:04:11.123 * Background saving", TEN + 0.123, None),
    ("1794477851.500 tcp_miss/200", TEN + 0.5, None),
    ("2026-11-12T10:04:11.123456789Z stderr F plain", TEN + 0.123456789, None),
    ('{"ts":1794477851.5,"level":"error","msg":"x"}', TEN + 0.5, Level.ERROR),
    ('{"time":1794477851500,"level":50,"msg":"x"}', TEN + 0.5, Level.ERROR),
    ('{"level":40,"time":1794477851500}', TEN + 0.5, Level.WARN),
    ('{"@timestamp":"2026-11-12T10:04:11.000Z","log.level":"WARN","message":"x"}', TEN, Level.WARN),
    ('{"@timestamp":"2026-11-12T10:04:11Z","log":{"level":"error"},"message":"x"}', TEN, Level.ERROR),
    ('{"timestamp":"2026-11-12 10:04:11,123","severity":"CRITICAL"}', TEN + 0.123, Level.FATAL),
    ('{"log":"ERROR boom\\n","stream":"stderr","time":"2026-11-12T10:04:11Z"}', TEN, Level.ERROR),
    ('{"not json', None, None),
    ("plain text", None, None),
    ("Traceback (most recent call last):", None, Level.ERROR),
    ("2026-13-45 10:04:11 ERROR no such day", None, Level.ERROR),
    ("version 2026-11-12-rc1 built", None, None),
    ("information about errors", None, None),
]


@pytest.mark.parametrize(("line", "time", "level"), LINES, ids=[line[0][:40] for line in LINES])
def test_time_and_level_of_a_line(line: str, time: float | None, level: Level | None) -> None:
    head = head_of(line.encode(), REFERENCE)
    assert head.time == (None if time is None else pytest.approx(time, abs=1e-4))
    assert level_of(head, line.encode()) is level


def test_a_date_without_year_is_the_latest_one_that_is_not_in_the_future() -> None:
    january = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    head = head_of(b"Dec 31 23:59:59 node-1 cron[1]: x", january)
    assert head.time == datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "speaks"),
    [
        ('{"service":"checkout-api","msg":"x"}', True),
        ('{"kubernetes":{"labels":{"app":"checkout-api"}}}', True),
        ('{"service":"cart","msg":"call to checkout-api"}', False),
        ("2026-11-12T10:00:00Z service=checkout-api x", True),
        ("Nov 12 10:04:11 node-1 checkout-api[12]: x", True),
        ("2026-11-12T10:00:00Z WARN --- [checkout-api] x", True),
        ("2026-11-12T10:00:00Z cart: call to checkout-api failed", False),
    ],
)
def test_a_service_is_named_by_a_field_not_by_any_mention(line: str, speaks: bool) -> None:
    assert speaks_of("checkout-api", head_of(line.encode(), REFERENCE), line) is speaks


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("took 30004ms trace=eb774175cfe6", "took 30005ms trace=a64121c81914", True),
        ("[nio-8080-exec-4] pool empty", "[ o-8080-exec-117] pool empty", True),
        ("user 'ann' from 10.0.0.1", "user 'bob' from 10.0.0.22", True),
        ("order 7f9c24e8-3b12-4a1e-9c55-0242ac120002 sent", "order 00000000-3b12-4a1e-9c55-0242ac120099 sent", True),
        ('msg="connection refused" n=1', 'msg="disk is full" n=2', False),
        ("low stock sku=CAP-NVY left=4", "low stock sku=SOCK-3PK left=2", True),
        ("failed reason=timeout", "failed reason=refused", False),
        ("pool empty", "pool full", False),
    ],
)
def test_lines_that_differ_in_numbers_and_ids_share_a_template(one: str, other: str, same: bool) -> None:
    assert (template_of(Level.WARN, one) == template_of(Level.WARN, other)) is same


def test_the_level_is_part_of_the_template() -> None:
    assert template_of(Level.WARN, "x") != template_of(Level.ERROR, "x")
