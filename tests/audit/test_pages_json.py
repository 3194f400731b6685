"""A JSON value as a tree: exact, bounded, harmless; charts and log lines made from tool output."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from audit.pages.chart import chart_of
from audit.pages.jsonhtml import MOST_CHARS, MOST_NODES, json_tree
from audit.pages.loglines import log_lines
from audit.trace import Invocation
from tests.audit.emissions import at


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**53 + 1, "9007199254740993"),
        (10**300, str(10**300)),
        (-0.1, "-0.1"),
        ("你好", '"你好"'),
        (r"\u4f60\u597d", '"你好"'),
        ('say "no"\n', r'"say \"no\"\n"'),
        ("a\u202eb", '"a⟦U+202E⟧b"'),
        ("a\x00b", '"a⟦U+0000⟧b"'),
        ("\x1b[31mred\x1b[0m", '"red"'),
        (None, "null"),
        (True, "true"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_a_value_is_shown_as_it_is_on_record(value: Any, shown: str) -> None:
    tree = json_tree(value)
    assert text_of(tree.html) == shown
    assert not tree.cut


def test_nothing_in_it_is_markup() -> None:
    html = json_tree({"<script>": "<img src=x onerror=alert(1)>", "a&b": ["</details>"]}).html
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("</details>") == 2


def test_objects_and_arrays_fold() -> None:
    html = json_tree({"a": {"b": [1, 2]}, "long": list(range(31))}).html
    assert html.count("<details") == 4
    assert html.count('<details class="json-node" open') == 3
    assert "31 items" in html


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = {"in": [value]}
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(200),
        list(range(100_000)),
        {str(n): n for n in range(100_000)},
        "x" * 20_000_000,
        [["y" * 500] * 1000] * 40,
        [[[0] * 100] * 100] * 200,
    ],
)
def test_what_is_too_much_is_cut_and_says_so(value: Any) -> None:
    tree = json_tree(value)
    assert tree.cut
    assert len(text_of(tree.html)) < 2 * MOST_CHARS
    assert tree.html.count("<div") <= 2 * MOST_NODES


def test_a_long_text_may_be_cut_between_any_two_of_its_characters() -> None:
    html = json_tree("你" * 90_000).html
    assert "你你" in html
    assert "86000 characters more" in html


# ---- charts ---------------------------------------------------------------------------------------------------


def invocation(tool: str, output: Any) -> Invocation:
    return Invocation(
        id=1,
        invocation_id="inv_aaaaaa",
        run_id="run_1",
        session_id="s",
        step_id="stp_1",
        tool_name=tool,
        source_kind="TELEMETRY",
        input_params={},
        output=output,
        output_preview="",
        evidence_status="OK",
        evidence_refs=[],
        retrieval_layer=None,
        l0_match_count=None,
        l1_match_count=None,
        retrieval_details={},
        relevance_level=None,
        dedup_reason=None,
        duration_ms=1,
        success=True,
        error_code=None,
        error_message=None,
        truncated=False,
        started_at=at(0),
    )


def series(*points: Any, name: str = "up") -> dict[str, Any]:
    return {"metric": {"__name__": name, "pod": "a"}, "summary": f"{name}: 1 at 08:00 (last)", "points": list(points)}


def test_a_series_is_drawn_from_its_lowest_to_its_highest_value_with_its_numbers_beside_it() -> None:
    output = {"series": [series([0, 9007199254740993], [60, 9007199254740995]), series([0, 1], [60, 1], name="flat")]}
    chart = chart_of(invocation("query_metrics", output), {"$.series[1].summary": ["c1"]})
    assert chart is not None
    (cited,), (other,) = chart.cited, chart.others
    assert cited.name == "flat pod=a"
    assert cited.cited_by == ("c1",)
    assert cited.lines == ("6.0,50.0 594.0,50.0",)
    assert other.lines == ("6.0,94.0 594.0,6.0",)
    assert (other.low, other.high, other.last) == ("9007199254740993", "9007199254740995", "9007199254740995")
    assert [point.value for point in other.points] == ["9007199254740993", "9007199254740995"]


def test_a_line_is_broken_where_there_is_no_number() -> None:
    output = {"series": [series([0, 1], [60, None], [120, "+Inf"], [180, 3], [240, 2])]}
    chart = chart_of(invocation("query_metrics", output), {})
    assert chart is not None
    (only,) = chart.others
    assert len(only.lines) == 1
    assert only.dots == (("6.0", "94.0"),)
    assert [point.value for point in only.points] == ["1", "null", "+Inf", "3", "2"]
    assert (only.low, only.high) == ("1", "3")


@pytest.mark.parametrize(
    "output",
    [
        None,
        [],
        {"series": []},
        {"series": "x"},
        {"series": [1, {"points": "x"}, {"points": [1, [1], ["a", 1], [True, 1], [float("inf"), 2]]}]},
    ],
)
def test_where_there_is_nothing_to_draw_nothing_is_drawn(output: Any) -> None:
    assert chart_of(invocation("query_metrics", output), {}) is None


def test_other_tools_and_endless_answers_are_bounded() -> None:
    output = {"series": [series([0, 10**400], [60, 1])] * 50}
    assert chart_of(invocation("query_logs", output), {}) is None
    chart = chart_of(invocation("query_metrics", output), {})
    assert chart is not None
    assert len(chart.others) == 20
    assert chart.left_out == 30
    assert all(each.dots for each in chart.others)


# ---- log lines ------------------------------------------------------------------------------------------------


def test_lines_stand_in_their_order_with_what_is_cited_marked() -> None:
    lines = [
        {"file": "a.log", "line_no": 7, "time": "2026-01-31T08:00:00Z", "level": "ERROR", "text": "the pool is empty"},
        {"file": "a.log", "line_no": None, "time": None, "level": None, "text": "started"},
    ]
    found = log_lines(invocation("query_logs", {"lines": lines}), {"$.lines[0].text": [("c1", "pool is")]})
    assert found is not None
    first, second = found.lines
    assert (first.place, first.level, first.cited_by, first.loud) == ("a.log:7", "ERROR", ("c1",), True)
    assert [(piece.text, piece.marked) for piece in first.text.pieces] == [
        ("the ", False),
        ("pool is", True),
        (" empty", False),
    ]
    assert (second.place, second.cited_by) == ("a.log", ())


def test_more_lines_than_are_shown_are_counted() -> None:
    found = log_lines(invocation("query_logs", {"lines": [{"text": "x"}] * 250}), {})
    assert found is not None
    assert found.left_out == 50
    assert log_lines(invocation("query_logs", {"lines": []}), {}) is None
    assert log_lines(replace(invocation("query_metrics", None)), {}) is None
