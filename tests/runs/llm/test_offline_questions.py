"""How the offline model takes a question: what it follows up on, its time, its matter; and how it is routed then."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gatekeeper.types import Intent
from runs.llm.offline.brief import situation
from runs.llm.offline.questions import asks_for_the_worst, matter_of, meant, window_of
from runs.llm.offline.router import route

NOW = datetime(2026, 11, 12, 10, 10, tzinfo=UTC)
DIAGNOSED = [{"intent": "DIAGNOSIS", "query": "Why is checkout slow?"}]
LOOKED_UP = [{"intent": "KNOWLEDGE_QUERY", "query": "What is consumer lag?"}]
TALKED = [{"intent": "SYSTEM_CHAT", "query": "hello"}]
ANSWER = {
    "statements": ["Log: HikariPool-1 gave no connection", "The runbook advises: Roll back."],
    "documents": ["Pool exhausted"],
    "conclusion": "The pool is used up.",
}

FOLLOWED = {
    "another time": ("and yesterday?", DIAGNOSED, "Why is checkout slow and yesterday?"),
    "another time, in Chinese": ("昨天呢？", DIAGNOSED, "Why is checkout slow 昨天呢？"),
    "one of them": ("which of these is worst?", DIAGNOSED, "Why is checkout slow which of these is worst?"),
    "one of them, in Chinese": ("其中哪个最严重？", DIAGNOSED, "Why is checkout slow 其中哪个最严重？"),
    "what it is": ("since when does it fail?", DIAGNOSED, "Why is checkout slow since when does it fail?"),
    "a follow-up of a follow-up": (
        "and the day before?",
        [*DIAGNOSED, {"intent": "DIAGNOSIS", "query": "and yesterday?"}],
        "Why is checkout slow and the day before?",
    ),
    "talk between": ("and yesterday?", [*DIAGNOSED, *TALKED], "Why is checkout slow and yesterday?"),
    "a time after a look into documents": (
        "how about the last 2 hours?",
        [*DIAGNOSED, {"intent": "KNOWLEDGE_QUERY", "query": "How is a pool sized?"}],
        "Why is checkout slow how about the last 2 hours?",
    ),
}


@pytest.mark.parametrize(("query", "history", "text"), FOLLOWED.values(), ids=FOLLOWED.keys())
def test_a_follow_up_is_read_with_the_question_it_follows(query: str, history: list[Any], text: str) -> None:
    told = meant({"query": query, "history": history})
    assert (told.text, told.follows) == (text, True)


STANDING_ALONE = {
    "nothing was asked before": ("and yesterday?", []),
    "only talk was": ("and yesterday?", TALKED),
    "a question of its own": ("Why is payment-gateway down?", DIAGNOSED),
    "a long one": ("and " + "why does the nightly export of invoices stop half way through " * 3, DIAGNOSED),
}


@pytest.mark.parametrize(("query", "history"), STANDING_ALONE.values(), ids=STANDING_ALONE.keys())
def test_other_questions_stand_alone(query: str, history: list[Any]) -> None:
    told = meant({"query": query, "history": history, "previous": ANSWER})
    assert (told.text, told.follows, told.subject) == (query, False, "")


def test_it_is_what_was_released_and_what_to_do_about_it_what_was_advised() -> None:
    payload = {"history": DIAGNOSED, "previous": ANSWER}
    assert meant(payload | {"query": "is it still there?"}).subject == "Log: HikariPool-1 gave no connection"
    assert meant(payload | {"query": "how do I fix it?"}).subject == "Pool exhausted Roll back."
    assert meant(payload | {"query": "怎么处理？"}).subject == "Pool exhausted Roll back."


ROUTED = {
    "and yesterday?": (DIAGNOSED, Intent.DIAGNOSIS),
    "which of these is worst?": (DIAGNOSED, Intent.DIAGNOSIS),
    "and what about rebalancing?": (LOOKED_UP, Intent.KNOWLEDGE_QUERY),
    "what should I do about it?": (DIAGNOSED, Intent.KNOWLEDGE_QUERY),
    "昨天呢？": (DIAGNOSED, Intent.DIAGNOSIS),
    "那该怎么办？": (DIAGNOSED, Intent.KNOWLEDGE_QUERY),
    "thanks": (DIAGNOSED, Intent.SYSTEM_CHAT),
    "why is search-api failing?": (LOOKED_UP, Intent.DIAGNOSIS),
    "how about the last hour?": ([*DIAGNOSED, *LOOKED_UP], Intent.DIAGNOSIS),
}


@pytest.mark.parametrize(("query", "case"), ROUTED.items())
def test_follow_ups_are_routed_as_what_they_follow(query: str, case: tuple[list[Any], Intent]) -> None:
    history, intent = case
    assert route(query, history) is intent


WINDOWS = {
    "and yesterday?": ("2026-11-11T00:00", "2026-11-12T00:00"),
    "昨天呢": ("2026-11-11T00:00", "2026-11-12T00:00"),
    "errors in the last 15 minutes": ("2026-11-12T09:55", "2026-11-12T10:10"),
    "过去2小时的错误": ("2026-11-12T08:10", "2026-11-12T10:10"),
    "what changed today?": ("2026-11-12T00:00", "2026-11-12T10:10"),
    "what happened an hour ago": ("2026-11-12T08:40", "2026-11-12T09:40"),
    "in the last 900 days": ("2026-11-05T10:10", "2026-11-12T10:10"),
}


@pytest.mark.parametrize(("query", "window"), WINDOWS.items())
def test_the_time_that_a_question_names_is_searched(query: str, window: tuple[str, str]) -> None:
    found = window_of(query, NOW)
    assert found is not None
    assert tuple(moment.isoformat()[:16] for moment in found) == window


def test_a_question_without_a_time_keeps_the_window_it_was_given() -> None:
    assert window_of("Why is checkout slow?", NOW) is None
    window = {"start": "2026-11-12T09:40:00Z", "end": "2026-11-12T10:10:00Z"}
    now = situation({"query": "Why is checkout slow?", "now": "2026-11-12T10:10:00Z", "window": window})
    assert (now.start.minute, now.end) == (40, NOW)


MATTERS = {
    "what does the runbook say about a full disk?": "full disk",
    "How do I renew a TLS certificate": "renew TLS certificate",
    "磁盘满了怎么办？": "磁盘满",
    "what is that?": "what is that?",
}


@pytest.mark.parametrize(("query", "matter"), MATTERS.items())
def test_documents_are_asked_for_the_matter(query: str, matter: str) -> None:
    assert matter_of(query) == matter


def test_the_language_is_that_of_the_question_as_it_was_asked() -> None:
    assert situation({"query": "昨天呢？", "history": DIAGNOSED}).chinese
    chinese = [{"intent": "DIAGNOSIS", "query": "为什么订单服务很慢，而且一直在报错？"}]
    assert not situation({"query": "and yesterday?", "history": chinese}).chinese


def test_the_worst_is_asked_for() -> None:
    assert asks_for_the_worst("which is the most severe?")
    assert asks_for_the_worst("哪个最严重")
    assert not asks_for_the_worst("why is it slow?")
