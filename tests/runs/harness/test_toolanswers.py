"""What a model is shown of a tool's result: whole, or cut with a mark, and always valid JSON."""

import json
from typing import Any

import pytest

from gatekeeper.types import EvidenceRef
from runs.harness.toolanswers import CUT_MARK, MAX_REF_CHARS, answer_text, cap_json
from runs.harness.wire import ToolAnswer, ToolAnswerError


def refs(count: int, size: int, char: str = "x") -> list[EvidenceRef]:
    return [EvidenceRef(f"$.lines[{n}].text", char * size) for n in range(count)]


def answer(
    output: Any, evidence: list[EvidenceRef], limit: int = 4_000
) -> tuple[ToolAnswer, frozenset[str], bool, int]:
    text, shown, cut = answer_text("inv_aaaaaa", "query_logs", "OK", output, evidence, None, limit)
    return ToolAnswer.model_validate_json(text), shown, cut, len(text)


def test_a_small_result_is_shown_whole() -> None:
    parsed, shown, cut, _ = answer({"lines": ["a"]}, refs(3, 20))
    assert (parsed.output, parsed.truncated, cut) == ({"lines": ["a"]}, False, False)
    assert shown == {f"$.lines[{n}].text" for n in range(3)}
    assert [ref.text for ref in parsed.evidence_refs] == ["x" * 20] * 3


@pytest.mark.parametrize(
    ("output", "evidence"),
    [
        pytest.param({}, refs(500, 100), id="many refs"),
        pytest.param({}, refs(500, 100, "\x01"), id="refs that grow when escaped"),
        pytest.param({"lines": [{"text": "y" * 100}] * 500}, refs(1, 10), id="a long list"),
        pytest.param({"text": "z" * 100_000}, refs(1, 10), id="a long text"),
        pytest.param({f"key{n}": n for n in range(5_000)}, refs(1, 10), id="many keys"),
        pytest.param([[["deep"] * 50] * 50] * 50, refs(0, 0), id="lists in lists"),
        pytest.param("w" * 100_000, [], id="no object"),
    ],
)
def test_a_large_result_is_cut_to_about_the_limit_and_stays_json(output: Any, evidence: list[EvidenceRef]) -> None:
    parsed, shown, cut, length = answer(output, evidence)
    assert cut
    assert parsed.truncated
    assert length < 4_000 * 1.5
    assert shown == {ref.raw_path for ref in parsed.evidence_refs}


def test_the_refs_shown_are_the_first_ones() -> None:
    _, shown, _, _ = answer({}, refs(500, 100))
    assert 0 < len(shown) < 500
    assert shown == {f"$.lines[{n}].text" for n in range(len(shown))}


def test_one_ref_is_always_shown_but_not_more_of_it_than_fits() -> None:
    parsed, shown, cut, _ = answer({}, refs(2, MAX_REF_CHARS + 1))
    assert shown == {"$.lines[0].text"}
    assert cut
    assert parsed.evidence_refs[0].text == "x" * MAX_REF_CHARS + CUT_MARK


def test_an_error_is_told_with_its_code() -> None:
    error = ToolAnswerError(code="TIMEOUT", message="No answer within 20 seconds.")
    text, shown, cut = answer_text("inv_aaaaaa", "query_logs", "TIMEOUT", None, (), error, 2_000)
    assert json.loads(text) == {
        "invocation_id": "inv_aaaaaa",
        "tool_name": "query_logs",
        "status": "TIMEOUT",
        "evidence_refs": [],
        "output": None,
        "truncated": False,
        "error": {"code": "TIMEOUT", "message": "No answer within 20 seconds.", "details": None},
    }
    assert (shown, cut) == (frozenset(), False)


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"a": [1, {"b": "c"}]}, "汉字" * 10])
def test_what_fits_is_left_alone(value: Any) -> None:
    assert cap_json(value, 100) == (value, False)


def test_lists_lose_their_tails_and_say_how_much() -> None:
    small, cut = cap_json({"rows": [{"id": n, "note": "n" * 20} for n in range(200)]}, 3_000)
    assert cut
    assert small["rows"][0] == {"id": 0, "note": "n" * 20}
    assert small["rows"][-1] == f"…[{200 - (len(small['rows']) - 1)} more cut]"


def test_texts_lose_their_tails_with_a_mark() -> None:
    small, _ = cap_json({"text": "abc" * 2_000}, 1_500)
    assert small["text"].endswith(CUT_MARK)
    assert ("abc" * 2_000).startswith(small["text"].removesuffix(CUT_MARK))


def test_what_cannot_be_cut_smaller_is_left_out_with_a_word() -> None:
    assert cap_json({f"key{n}": n for n in range(1_000)}, 500) == (
        {"cut": "the output is longer than 500 characters"},
        True,
    )
