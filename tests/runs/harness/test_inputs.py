"""What the roles are told: the alert, the window worth looking at, an excerpt where it stands."""

from datetime import timedelta
from typing import Any

import pytest

from runs.harness import context, inputs
from runs.harness.gating import input_texts
from runs.harness.run import AlertSubject, Subject
from runs.llm.scripted import user_input
from tests.runs.harness.world import ALERT, EXECUTOR, NOW, PLANNER, world


def situation(**alert: Any) -> dict[str, Any]:
    told, _ = world(subject=Subject(alert=ALERT.model_copy(update=alert)))
    return inputs.situation(context.begin(told.run(), told.kit()))


def test_the_window_lies_around_the_onset_and_ends_now_at_the_latest() -> None:
    assert situation()["window"] == {"start": "2026-11-17T10:12:00Z", "end": "2026-11-17T10:50:00Z"}
    early = situation(starts_at=NOW - timedelta(hours=5))
    assert early["window"] == {"start": "2026-11-17T05:20:00Z", "end": "2026-11-17T06:05:00Z"}


@pytest.mark.parametrize("starts_at", [None, NOW + timedelta(hours=1)])
def test_an_onset_that_is_missing_or_to_come_is_now(starts_at: Any) -> None:
    assert situation(starts_at=starts_at)["window"] == {"start": "2026-11-17T10:20:00Z", "end": "2026-11-17T10:50:00Z"}


async def test_planner_and_executor_are_told_the_alert_and_the_others_of_its_group() -> None:
    told, brain = world(subject=Subject(alert=ALERT, others=[AlertSubject(alertname="DiskFillingUp")]))
    await told.drive()
    for request in (brain.asked(PLANNER)[0], brain.asked(EXECUTOR)[0]):
        message = user_input(request)
        assert message["alert"]["labels"] == {"service": "checkout-api", "alertname": "CheckoutLatencyHigh"}
        assert [alert["alertname"] for alert in message["other_alerts"]] == ["DiskFillingUp"]
        assert message["query"] == "Why is checkout-api slow?"
    assert {tool["name"] for tool in user_input(brain.asked(PLANNER)[0])["tools"]} == {"query_logs", "lookup_knowledge"}


def test_all_that_came_in_supports_a_claims_words() -> None:
    told, _ = world(subject=Subject(alert=ALERT, others=[AlertSubject(alertname="DiskFillingUp")]))
    texts = input_texts(context.begin(told.run(), told.kit()))
    for text in (
        "Why is checkout-api slow?",
        "CheckoutLatencyHigh",
        "p99 of checkout-api is above 2s",
        "DiskFillingUp",
    ):
        assert text in texts
    assert "2026-11-17T10:42:00Z" in texts
    assert "" not in texts


LONG = "\n\n".join(["first " * 100, "second paragraph: the pool ran dry", "third " * 100])


@pytest.mark.parametrize(
    ("name", "text", "excerpt", "expected"),
    [
        ("a short text is shown whole", "a line of the log", "line", "a line of the log"),
        ("the paragraph of the excerpt", LONG, "the pool ran dry", "second paragraph: the pool ran dry"),
        ("the first paragraph", LONG, "first first", ("first " * 100)),
        ("the last paragraph", LONG, "third third", ("third " * 100)),
    ],
)
def test_the_context_of_an_excerpt(name: str, text: str, excerpt: str, expected: str) -> None:
    assert inputs.context_of(text, excerpt) == expected


@pytest.mark.parametrize("excerpt", ["needle in a long line", "needle  in a\tlong line", "ｎｅｅｄｌｅ in a long line"])
def test_in_a_long_paragraph_the_context_holds_the_excerpt(excerpt: str) -> None:
    text = "x " * 2_000 + "needle in a long line" + " y" * 2_000
    shown = inputs.context_of(text, excerpt)
    assert "needle in a long line" in shown
    assert len(shown) <= inputs.CONTEXT_CHARS
