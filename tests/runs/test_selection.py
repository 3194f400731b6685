"""Which runs are chosen, and that paging through them neither skips nor repeats any."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runs.models import DiagnosisRun
from runs.searching import decoded, searchable, wanted_words
from runs.selection import BadCursor, Order, Selection, chosen, cursor_after, cursor_at, newer, ordered, read_cursor
from tests.factories import RunFactory, TokenFactory, UserFactory, subject

pytestmark = pytest.mark.django_db
NOON = datetime(2031, 3, 4, 12, tzinfo=UTC)


def alert(name: str, **labels: str) -> dict[str, Any]:
    about = subject().model_dump(mode="json")
    about["alert"] |= {"alertname": name, "labels": {"alertname": name, **labels}}
    return about


def answered(conclusion: str, **changes: Any) -> DiagnosisRun:
    run = RunFactory.build(success=True)
    return RunFactory.create(
        success=True, published_result=run.published_result | {"conclusion": conclusion}, **changes
    )


def found(**asked: Any) -> set[str]:
    return set(chosen(DiagnosisRun.objects.all(), Selection(**asked)).values_list("id", flat=True))


# ---- filters ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """`want`: numbers of the runs below."""

    asked: dict[str, Any]
    want: set[int]


CASES = [
    Case({}, {0, 1, 2, 3}),
    Case({"status": "QUEUED"}, {0}),
    Case({"outcome": "FAILED"}, {1}),
    Case({"outcome": "SUCCESS"}, {2, 3}),
    Case({"verdict": "PASS"}, {2, 3}),
    Case({"intent": "DIAGNOSIS"}, {2, 3}),
    Case({"trigger": "CHAT"}, {1}),
    Case({"alert_name": "DiskFull"}, {0}),
    Case({"alert_name": "Disk"}, set()),
    Case({"labels": (("cluster", "eu-1"),)}, {0, 2}),
    Case({"labels": (("cluster", "eu-1"), ("service", "a%b_c"))}, {2}),
    Case({"labels": (("cluster", "eu"),)}, set()),
    Case({"since": NOON + timedelta(hours=1)}, {1, 2, 3}),
    Case({"until": NOON + timedelta(hours=1)}, {0}),
    Case({"since": NOON + timedelta(hours=1), "until": NOON + timedelta(hours=3)}, {1, 2}),
    Case({"who": "mei"}, {1}),
    Case({"who": "ALERTMANAGER"}, {2}),
    Case({"who": "nobody"}, set()),
    Case({"words": "DISK"}, {0}),
    Case({"words": "pool exhausted"}, {2}),
    Case({"words": "exhausted pool"}, {2}),
    Case({"words": "pool disk"}, set()),
    Case({"words": "100%"}, {2}),
    Case({"words": "_"}, set()),
    Case({"words": "延迟"}, {1}),
    Case({"words": "迟"}, {1}),
    Case({"words": "延 迟"}, {1}),
    Case({"words": "慢延"}, set()),
    Case({"words": "ｐａｙｍｅｎｔ"}, {3}),
    Case({"words": "café"}, {3}),
    Case({"words": "caf", "trigger": "ALERT"}, {3}),
    Case({"words": "\0disk\0"}, {0}),
    Case({"who": "\0"}, set()),
    Case({"alert_name": "\0"}, set()),
    Case({"labels": (("cluster", "\0"),)}, set()),
]


@pytest.fixture
def runs() -> list[DiagnosisRun]:
    hours = [NOON + timedelta(hours=n) for n in range(4)]
    disk = alert("DiskFull", cluster="eu-1", service="orders")
    return [
        RunFactory.create(subject=disk, query="DiskFull on orders", queued_at=hours[0]),
        RunFactory.create(
            failed=True,
            trigger="CHAT",
            subject={"version": 1},
            query="checkout 的延迟为什么上升？",
            requested_by=UserFactory.create(username="mei"),
            queued_at=hours[1],
        ),
        answered(
            "The pool is exhausted at 100% of 10.",
            subject=alert("Latency", cluster="eu-1", service="a%b_c"),
            requested_by_token=TokenFactory.create(name="alertmanager"),
            queued_at=hours[2],
        ),
        answered("Nothing but cafés and payment.", queued_at=hours[3]),
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.asked))
def test_runs_are_chosen_by_every_filter(runs: list[DiagnosisRun], case: Case) -> None:
    assert found(**case.asked) == {runs[number].id for number in case.want}


def test_the_beginning_of_a_run_id_finds_the_run(runs: list[DiagnosisRun]) -> None:
    run_id = runs[2].id
    for words in (run_id, run_id[:-1], run_id.upper(), f" {run_id} "):
        assert run_id in found(words=words)
    assert found(words=run_id) == {run_id}
    assert found(words="run_zzzzzzzz") == set()


@pytest.mark.parametrize(
    "text",
    [
        "Pool 10/10 100%_",
        "HikariPool-1 的连接池耗尽",
        "ＦＵＬＬ　width",
        "Ünïcode İstanbul ẞ",
        "a😀b",
        "מימין \u202e",
        "x~y",
    ],
)
def test_the_database_writes_what_is_searched_as_python_writes_what_is_searched_for(text: str) -> None:
    run = RunFactory.create(query=text, subject={"version": 1})
    run.refresh_from_db()
    assert run.search_text.split("\n")[0] == searchable(text)
    for word in text.split():
        assert run.id in found(words=word)


def test_escapes_of_json_are_read_as_the_characters_they_stand_for() -> None:
    assert decoded(r"\u4f60\u597d x\u00e9 \ud83d\ude00 \ud83d \u12") == "你好 xé 😀 \ufffd \\u12"
    assert len(wanted_words("a b c d e f g h i j")) == 8


# ---- order and place --------------------------------------------------------------------------------------------


def walk(order: Order, size: int = 4, between: Callable[[], object] = lambda: None) -> list[str]:
    """All pages, `between` done after each."""
    seen: list[str] = []
    cursor = None
    while True:
        page = list(ordered(DiagnosisRun.objects.all(), order, cursor)[:size])
        seen += [run.id for run in page]
        if len(page) < size:
            return seen
        cursor = cursor_after(page[-1], order)
        between()


def ended(number: int, **changes: Any) -> DiagnosisRun:
    """Several share their moment, their duration and their tokens."""
    at = NOON + timedelta(seconds=number // 3)
    values = {"queued_at": at, "started_at": at, "finished_at": at + timedelta(milliseconds=10 * (number % 4))}
    return RunFactory.create(failed=True, **(values | {"input_tokens": number % 5} | changes))


@pytest.mark.parametrize("order", list(Order))
def test_pages_neither_skip_nor_repeat_while_runs_arrive_and_end(order: Order) -> None:
    made = [ended(number).id for number in range(17)]
    going = RunFactory.create(running=True, queued_at=NOON)
    arrived = iter(range(1_000))

    def meanwhile() -> None:
        number = next(arrived)
        ended(number, queued_at=NOON + timedelta(days=1 if number % 2 else -1))
        DiagnosisRun.objects.filter(id=going.id).update(input_tokens=number)

    seen = walk(order, between=meanwhile)
    assert len(seen) == len(set(seen))
    assert set(made) <= set(seen)
    assert (going.id in seen) is not order.ended_only


@pytest.mark.parametrize("order", list(Order))
def test_orders_and_their_reverse(order: Order) -> None:
    runs = {run.id: run for run in [ended(number) for number in range(12)]}
    for run in runs.values():
        run.refresh_from_db()
    keys = [(getattr(runs[run_id], order.column), run_id) for run_id in walk(order)]
    assert keys == sorted(keys, reverse=order.falling)
    assert len(keys) == 12


@pytest.mark.parametrize(
    "cursor", ["", "nonsense", "é", "AAAA", "bm9wZSBydW5fMQ", "MjAzMS0wMy0wNFQxMjowMDowMCBydW5fMQ", "a" * 300]
)
def test_a_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    for order in (Order.NEWEST, Order.LONGEST):
        with pytest.raises(BadCursor):
            read_cursor(cursor, order)


def test_a_cursor_of_another_order_is_refused() -> None:
    run = ended(1)
    run.refresh_from_db()
    with pytest.raises(BadCursor):
        read_cursor(cursor_after(run, Order.LONGEST), Order.NEWEST)
    with pytest.raises(BadCursor):
        read_cursor(cursor_after(run, Order.NEWEST), Order.LONGEST)


def test_newer_runs_are_those_after_the_place() -> None:
    first, same, later = ended(3), ended(4), ended(9)
    low, high = sorted([first, same], key=lambda run: run.id)
    everything = DiagnosisRun.objects.all()
    assert set(newer(everything, cursor_after(low))) == {high, later}
    assert set(newer(everything, cursor_at(NOON))) == {first, same, later}


# ---- what the database derives ----------------------------------------------------------------------------------


def claim(kind: str, tool: str) -> dict[str, Any]:
    evidence = [{"sourceInvocationId": "inv_a", "toolName": tool, "rawPath": "$.x", "evidenceExcerpt": "x"}]
    return {"claimId": "c1", "kind": kind, "claimText": "x", "evidence": evidence}


def drafted(kind: str, *, critical: bool) -> dict[str, Any]:
    draft = {"claims": [{"claim_id": "c1", "kind": kind, "critical": critical}]}
    return {"verifier_evaluation": {"executor_structured_output": draft}}


NEGATIVE, LOGS = claim("negative_observation", "query_logs"), claim("observation", "query_logs")
METRIC, ALERTS, ADVICE = (
    claim("observation", "query_metrics"),
    claim("observation", "query_alerts"),
    claim("guidance", "lookup_knowledge"),
)


@pytest.mark.parametrize(
    ("claims", "kept", "want"),
    [
        ([NEGATIVE], None, True),
        ([NEGATIVE, METRIC, ALERTS, ADVICE], drafted("observation", critical=False), True),
        ([METRIC], {}, True),
        ([METRIC], drafted("observation", critical=True), False),
        ([NEGATIVE], drafted("negative_observation", critical=True), True),
        ([NEGATIVE, LOGS], None, False),
        ([ADVICE], None, False),
        ([], None, False),
    ],
)
def test_nothing_notable_is_said_only_where_nothing_but_empty_searches_and_neutral_facts_was_released(
    claims: list[dict[str, Any]], kept: dict[str, Any] | None, want: bool
) -> None:
    result = RunFactory.build(success=True).published_result | {"claims": claims}
    run = RunFactory.create(success=True, published_result=result, self_evaluation=kept)
    talk = RunFactory.create(success=True, published_result=result, self_evaluation=kept, intent="SYSTEM_CHAT")
    for each in (run, talk):
        each.refresh_from_db()
    assert (run.nothing_notable, talk.nothing_notable) == (want, False)


def test_duration_and_tokens_are_final_or_not_there() -> None:
    going = RunFactory.create(running=True, input_tokens=5, output_tokens=6)
    done = ended(3, input_tokens=5, output_tokens=6)
    for run in (going, done):
        run.refresh_from_db()
    assert (going.took_ms, going.total_tokens) == (None, None)
    assert (done.took_ms, done.total_tokens) == (30, 11)
