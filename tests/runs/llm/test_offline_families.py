"""Which errors beside the strongest are a matter of their own, which standing ones belong to it, and which do not."""

from datetime import UTC, datetime

import pytest

from runs.llm.offline.brief import Situation
from runs.llm.offline.calls import third_look
from runs.llm.offline.evidence import AlertFact, LogFact, Ref
from runs.llm.offline.families import identifiers, is_widespread, second_family, slow_statements, standing
from runs.llm.offline.loglines import read
from runs.llm.offline.selection import Scored

BEGIN = datetime(2026, 11, 12, 9, 4, tzinfo=UTC)
NOW = Situation(
    "CheckoutHighErrorRate",
    datetime(2026, 11, 12, 10, 10, tzinfo=UTC),
    BEGIN,
    datetime(2026, 11, 12, 10, 10, tzinfo=UTC),
    "CheckoutHighErrorRate",
    {"service": "checkout-api"},
    started_at=datetime(2026, 11, 12, 10, 4, tzinfo=UTC),
)
SLOW = (
    "# Time: 2026-11-12T09:58:00.1Z\n# User@Host: app[app] @  [10.0.0.7]  Id: 7\n"
    "# Query_time: 6.1  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 900111\nSELECT a FROM cart_items WHERE id = 7;"
)


def fact(message: str, first: str, *, level: str = "ERROR", count: int = 40, file: str = "") -> LogFact:
    begun = datetime.fromisoformat(f"2026-11-12T{first}Z")
    line = read(message)
    return LogFact(
        Ref("inv_1", "query_logs", "$.patterns[0].text", message, {}), line, level, begun, NOW.end, count, file, ""
    )


def scored(*facts: LogFact) -> list[Scored]:
    return [Scored(each, 5.0, True) for each in facts]


QUOTA = fact("fare partner refused: quota exceeded", "10:00:00")


@pytest.mark.parametrize(
    ("other", "apart"),
    [
        (fact("cache rejects writes: maxmemory reached", "09:55:00"), True),
        (fact("cache rejects writes: maxmemory reached", "10:00:20"), False),
        (fact("answered 503: partner refused", "09:55:00"), False),
        (fact("cache rejects writes: maxmemory reached", "09:55:00", level="WARN"), False),
        (fact("cache rejects writes: maxmemory reached", "09:55:00", count=2), False),
    ],
    ids=["of its own", "begins together", "shares a word", "a warning", "rare"],
)
def test_a_second_family_has_its_own_beginning_and_words(other: LogFact, apart: bool) -> None:
    assert second_family(scored(QUOTA, other), NOW) == (scored(other)[0] if apart else None)


EXPIRED = fact("call to stock-engine failed: certificate expired", "10:00:00")


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (fact("renewal of stock-engine-tls failed: certificate issuer not ready", "09:04:30", level="WARN"), True),
        (fact("renewal of mail-engine-tls failed: certificate issuer not ready", "09:04:30"), False),
        (fact("stock-engine answers slowly", "09:04:30"), False),
        (fact("renewal of stock-engine-tls: certificate is fine", "09:04:30", level="INFO"), False),
        (fact("checkout-api: certificate of stock-engine ends soon", "09:04:30"), False),
    ],
    ids=["same thing", "another thing", "no shared word", "no warning", "the service's own"],
)
def test_a_standing_error_is_kept_where_it_is_about_what_the_strongest_names(other: LogFact, kept: bool) -> None:
    assert [s.fact for s in standing([other], scored(EXPIRED), NOW, BEGIN)] == ([other] if kept else [])


@pytest.mark.parametrize(
    ("error", "first", "kept"),
    [
        ("reading cart_items timed out", "09:58:00", True),
        ("reading cart_items timed out", "09:04:30", False),
        ("reading order_items timed out", "09:58:00", False),
    ],
    ids=["same table", "slow before too", "another table"],
)
def test_a_slow_statement_is_kept_where_it_reads_the_table_that_fails(error: str, first: str, kept: bool) -> None:
    slow = fact(SLOW, first, level="")
    assert [s.fact for s in slow_statements([slow], scored(fact(error, "09:58:30")), NOW, BEGIN)] == (
        [slow] if kept else []
    )


def test_identifiers_are_names_with_underscores_the_most_frequent_first() -> None:
    lines = scored(fact("member_id=7: cart_items", "10:00:00"), fact("slow: cart_items", "10:00:00"))
    assert identifiers(lines) == ["cart_items", "member_id"]


def alert(name: str, start: str | None) -> AlertFact:
    started = datetime.fromisoformat(f"2026-11-12T{start}Z") if start else None
    return AlertFact(Ref("inv_1", "query_alerts", "$.alerts[0].text", name, {}), name, "critical", {}, started)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([("CartErrors", "10:05:00"), ("MailErrors", "10:01:00")], True),
        ([("CartErrors", "10:05:00"), ("CartErrors", "10:06:00")], False),
        ([("CartErrors", "10:05:00"), ("CheckoutHighErrorRate", "10:04:00")], False),
        ([("CartErrors", "10:05:00"), ("DiskFillingUp", "04:00:00"), ("Unknown", None)], False),
    ],
    ids=["two others", "one twice", "itself", "long before"],
)
def test_trouble_is_widespread_when_two_other_alerts_begin_with_it(
    others: list[tuple[str, str | None]], expected: bool
) -> None:
    assert is_widespread([alert(*other) for other in others], NOW) is expected


@pytest.mark.parametrize("widespread", [True, False])
def test_the_third_look_asks_for_changes_by_name_and_of_anything_only_where_much_fails(widespread: bool) -> None:
    wanted = third_look(NOW, scored(QUOTA), ["stock-api", "redis-main", "mail-relay"], None, widespread=widespread)
    assert [arguments.get("text") for _, arguments in wanted] == ["stock-api", "redis-main", *([None] * widespread)]
    assert all("changed" in arguments["any_of"] for _, arguments in wanted)


def test_the_third_look_follows_a_second_family_and_the_tables_that_errors_name() -> None:
    second = fact("reading cart_items: maxmemory reached", "09:55:00")
    wanted = third_look(NOW, scored(QUOTA, second), [], scored(second)[0], widespread=False)
    assert [name for name, _ in wanted] == ["lookup_knowledge", "query_logs", "query_logs"]
    assert "maxmemory" in wanted[0][1]["query"]
    assert "maxmemory" in wanted[1][1]["any_of"]
    assert wanted[2][1]["any_of"] == ["cart_items"]
