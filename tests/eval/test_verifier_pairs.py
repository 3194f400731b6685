"""The verifier's pairs are what they claim to be, and are counted as they should."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from eval.verifier import (
    BATCH,
    QUESTIONS,
    SUPPORTED_CATEGORIES,
    BadPairs,
    Category,
    Figures,
    Judged,
    Pair,
    Share,
    batches,
    category_figures,
    judge,
    read_pairs,
    read_reply,
    request_of,
    split_figures,
)
from gatekeeper.types import NO_EVIDENCE_PATH, ClaimKind
from runs.harness.ports import UserMessage
from runs.llm.offline import OfflineModel

DOCS = Path(__file__).parents[2] / "docs" / "evaluation.md"
PAIRS = read_pairs()
GOOD = {
    "id": "en-1",
    "lang": "en",
    "kind": "observation",
    "category": "quote",
    "supported": True,
    "claim": "disk is full",
    "excerpt": "disk is full",
}


def test_there_are_enough_pairs_of_every_category_in_both_languages() -> None:
    counted = Counter((pair.category, pair.lang) for pair in PAIRS)
    assert len(PAIRS) >= 320
    assert min(counted[category, language] for category in get_args(Category) for language in QUESTIONS) >= 12
    assert abs(sum(pair.lang == "en" for pair in PAIRS) / len(PAIRS) - 0.5) < 0.05


def test_every_category_and_the_number_of_pairs_are_documented() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert f"hold {len(PAIRS)} hand-made pairs" in page
    documented = re.findall(r"^\| `(\w+)` \| (yes|no) \|", page, re.MULTILINE)
    assert dict(documented) == {
        category: "yes" if category in SUPPORTED_CATEGORIES else "no" for category in get_args(Category)
    }


def test_at_least_a_third_is_held_out_of_both_languages_by_whole_excerpts() -> None:
    for language in QUESTIONS:
        of_language = [pair for pair in PAIRS if pair.lang == language]
        assert sum(pair.held_out for pair in of_language) >= len(of_language) / 3
    seen = {pair.excerpt for pair in PAIRS if not pair.held_out}
    assert not seen & {pair.excerpt for pair in PAIRS if pair.held_out}


def test_chinese_pairs_are_chinese_and_english_ones_are_not() -> None:
    for pair in PAIRS:
        # A quoted key such as `read_only=true` is the same in both.
        chinese = any("\u4e00" <= char <= "\u9fff" for char in pair.claim + pair.excerpt)
        assert chinese == (pair.lang == "zh"), pair.id


def test_no_pair_comes_twice() -> None:
    counted = Counter((pair.claim, pair.excerpt) for pair in PAIRS)
    assert [key for key, count in counted.items() if count > 1] == []


def test_a_claim_that_is_not_supported_is_never_its_whole_excerpt() -> None:
    assert [pair.id for pair in PAIRS if not pair.supported and pair.claim == pair.excerpt] == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"category": "wrong_number"}, "cannot be supported=True"),
        ({"supported": False}, "cannot be supported=False"),
        ({"context": "another line"}, "does not hold the excerpt"),
        ({"lang": "de"}, "Input should be"),
        ({"claim": ""}, "at least 1 character"),
        ({"note": "x"}, "Extra inputs"),
    ],
)
def test_a_bad_pair_is_named_by_its_line(tmp_path: Path, change: dict[str, object], told: str) -> None:
    file = tmp_path / "verifier_pairs.en.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in (GOOD, GOOD | {"id": "en-2"} | change)))
    with pytest.raises(BadPairs, match=r"verifier_pairs\.en\.jsonl:2: .*" + told):
        read_pairs(tmp_path)


def test_an_id_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "verifier_pairs.en.jsonl").write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n")
    with pytest.raises(BadPairs, match="en-1 is taken"):
        read_pairs(tmp_path)
    with pytest.raises(BadPairs, match="holds no"):
        read_pairs(tmp_path / "nothing")


def test_every_pair_is_asked_once_and_languages_are_not_mixed() -> None:
    asked = list(batches(PAIRS))
    assert sorted(pair.id for batch in asked for pair in batch) == sorted(pair.id for pair in PAIRS)
    assert all(len({pair.lang for pair in batch}) == 1 and len(batch) <= BATCH for batch in asked)


def test_the_model_is_told_what_a_run_tells_it_and_not_the_answer() -> None:
    negative = next(pair for pair in PAIRS if pair.kind is ClaimKind.NEGATIVE_OBSERVATION)
    cut = next(pair for pair in PAIRS if pair.context)
    request = request_of([negative, cut], "the prompt")
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    told = json.loads(message.text)
    assert set(told) == {"query", "claims", "tool_trace_summary"}
    first, second = told["claims"]
    assert set(first) == {"claim_id", "kind", "claim_text", "critical", "evidence"}
    assert first["evidence"][0]["raw_path"] == NO_EVIDENCE_PATH
    assert second["evidence"][0]["context"] == cut.context
    assert "supported" not in message.text
    assert "category" not in message.text


def reply(*checks: tuple[str, bool]) -> str:
    return json.dumps(
        {
            "verdict": "LOW_CONFID",
            "groundedness_score": 0.5,
            "critical_fact_count": 0,
            "claim_checks": [{"claim_id": id_, "supported": said, "reason": "read"} for id_, said in checks],
            "facts_checked": [],
            "rationale": "",
        }
    )


RIGHT = Pair.model_validate(GOOD)
WRONG = Pair.model_validate(GOOD | {"id": "en-2", "category": "wrong_number", "supported": False, "held_out": True})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (reply(("en-1", True), ("en-2", False)), [True, False]),
        (reply(("en-2", True), ("en-1", False), ("en-9", True)), [False, True]),
        (reply(("en-1", True)), [True, None]),
        (reply(("en-1", True), ("en-2", True), ("en-2", True)), [True, None]),
        ("I think all of it is fine.", [None, None]),
        (None, [None, None]),
    ],
)
def test_only_a_pair_checked_exactly_once_counts_as_judged(text: str | None, said: list[bool | None]) -> None:
    assert [judged.supported for judged in read_reply(text, [RIGHT, WRONG])] == said


def test_figures_count_false_support_and_recall_apart() -> None:
    judged = [Judged(RIGHT, True), Judged(RIGHT, None), Judged(WRONG, True), Judged(WRONG, False), Judged(WRONG, None)]
    assert Figures.of(judged) == Figures(Share(1, 3), Share(1, 2), 2)
    assert [row.wrong for row in judged] == [False, True, True, False, False]
    splits = split_figures(judged)
    assert splits["en"] == Figures(Share(0, 0), Share(1, 2), 1)
    assert splits["en held out"] == Figures(Share(1, 3), Share(0, 0), 1)
    assert splits["all"] == Figures.of(judged)
    assert category_figures(judged)["wrong_number en"].false_support == Share(1, 3)
    assert category_figures(judged)["quote en"].recall == Share(1, 2)


async def test_the_offline_verifier_keeps_to_the_aim() -> None:
    figures = split_figures(await judge(OfflineModel(), PAIRS))
    for key, each in figures.items():
        assert each.not_judged == 0, key
        assert each.false_support.rate <= 0.02, key
        assert each.recall.rate >= 0.6, key
