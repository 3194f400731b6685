"""What a turn is told of those before it: bounded, only what was released, of its own session, since it was cleared."""

from datetime import timedelta
from typing import Any

import pytest

from runs import lifecycle
from runs.harness.memory import MAX_TURNS, NOTHING_REMEMBERED, TURN_QUERY_CHARS, Turn
from runs.harness.run import Subject
from runs.models import ChatSession, DiagnosisRun
from runs.recall import MAX_STATEMENTS, memory_of, previous_of, seen_documents
from tests.factories import RunFactory, SessionFactory, now, published

pytestmark = pytest.mark.django_db

QUESTION = Subject().model_dump(mode="json")
SAFE = {"headline": "h", "reason": "the draft said 42", "lookedAt": []}


@pytest.fixture
def session() -> ChatSession:
    return SessionFactory()


def turn(session: ChatSession, query: str, minutes_ago: int = 0, **columns: Any) -> DiagnosisRun:
    columns = {"trigger": "CHAT", "subject": QUESTION, "intent": "DIAGNOSIS"} | columns
    return RunFactory(session=session, query=query, queued_at=now() - timedelta(minutes=minutes_ago), **columns)


WITHHELD = {
    "status": "DEGRADED", "outcome": "DEGRADED", "verdict": "REJECT", "release_decision": "WITHHELD",
    "safe_content": SAFE, "self_evaluation": {"verifier_evaluation": {"executor_structured_output": "the draft"}},
    "finished_at": now(),
}  # fmt: skip
CANCELLED = {
    "status": "CANCELLED", "outcome": "CANCELLED", "cancel_reason": "USER_REQUESTED", "safe_content": SAFE,
    "finished_at": now(),
}  # fmt: skip


def test_the_first_turn_remembers_nothing(session: ChatSession) -> None:
    assert memory_of(turn(session, "why?")) == NOTHING_REMEMBERED


def test_what_was_released_is_remembered_without_ids_and_quotations(session: ChatSession) -> None:
    turn(session, "why is checkout slow?", 5, success=True)
    memory = memory_of(turn(session, "and now?"))
    assert memory.turns == (Turn("DIAGNOSIS", "why is checkout slow?"),)
    assert memory.previous is not None
    assert memory.previous.conclusion == "The connection pool of checkout-api is exhausted."
    assert memory.previous.documents == ("Database connection pool exhausted",)
    told = str(memory)
    for raw in ("inv_aaaaaa", "inv_bbbbbb", "$.lines", "total=10, active=10", "query_logs"):
        assert raw not in told


def test_an_id_of_a_tool_call_in_released_words_is_left_out() -> None:
    stored = published().model_dump(mode="json", by_alias=True) | {"conclusion": "As inv_k7q2mf shows, it is full."}
    assert previous_of(stored, "DIAGNOSIS").conclusion == "As (a tool call) shows, it is full."


NOTHING_RELEASED = {"withheld": WITHHELD, "failed": {"failed": True}, "cancelled": CANCELLED}


@pytest.mark.parametrize("end", NOTHING_RELEASED.values(), ids=NOTHING_RELEASED.keys())
def test_turns_without_a_release_leave_the_question_alone(session: ChatSession, end: dict[str, Any]) -> None:
    turn(session, "why?", 5, **end)
    memory = memory_of(turn(session, "and now?"))
    assert memory.turns == (Turn("DIAGNOSIS", "why?"),)
    assert memory.previous is None
    assert "draft" not in str(memory)


def test_who_got_no_answer_still_speaks_of_the_one_before(session: ChatSession) -> None:
    turn(session, "why?", 9, success=True)
    turn(session, "and?", 5, **CANCELLED)
    turn(session, "thanks", 4, success=True, intent="SYSTEM_CHAT")
    assert memory_of(turn(session, "which is worst?")).previous is not None
    turn(session, "and yesterday?", 3, **WITHHELD)
    assert memory_of(turn(session, "which is worst?")).previous is None


def test_six_turns_of_200_characters_are_remembered_the_oldest_first(session: ChatSession) -> None:
    for minutes in range(9, 0, -1):
        turn(session, f"{minutes} " + "why? " * 90, minutes, success=True)
    turns = memory_of(turn(session, "and now?")).turns
    assert [told.query[0] for told in turns] == ["6", "5", "4", "3", "2", "1"]
    assert len(turns) == MAX_TURNS
    assert all(len(told.query) == TURN_QUERY_CHARS for told in turns)


def test_an_answer_is_remembered_in_part() -> None:
    stored = published().model_dump(mode="json", by_alias=True)
    stored |= {"conclusion": "x " * 1000, "statements": [{"text": "y" * 900, "claimIds": ["c1"]}] * 30}
    told = previous_of(stored, "DIAGNOSIS")
    assert (len(told.conclusion), len(told.statements), len(told.statements[0])) == (1000, MAX_STATEMENTS, 300)


def test_turns_still_at_work_turns_asked_later_and_other_sessions_are_not_remembered(session: ChatSession) -> None:
    turn(session, "still at work", 5, running=True)
    turn(session, "not routed", 5, **CANCELLED | {"intent": None})
    turn(SessionFactory(), "another session", 5, success=True)
    asked = turn(session, "and now?", 2)
    turn(session, "asked later", 1, success=True)
    assert memory_of(asked) == NOTHING_REMEMBERED


def test_a_cleared_session_is_forgotten_and_its_runs_stay(session: ChatSession) -> None:
    before = turn(session, "why?", 5, success=True)
    in_flight = turn(session, "asked before it was cleared", 1, running=True)
    lifecycle.clear_session(session.id)
    in_flight.refresh_from_db()
    assert DiagnosisRun.objects.get(id=before.id).published_result is not None
    after = turn(session, "and now?")
    assert memory_of(after) == NOTHING_REMEMBERED
    assert seen_documents(after) == frozenset()


def test_a_claim_hands_a_question_its_memory_and_an_alert_none(session: ChatSession) -> None:
    turn(session, "why?", 5, success=True)
    question = lifecycle.claim(turn(session, "and now?", intent=None).id, "worker")
    alert = lifecycle.claim(RunFactory(session=session).id, "worker")
    assert question is not None
    assert alert is not None
    assert [told.query for told in question.run.memory.turns] == ["why?"]
    assert alert.run.memory == NOTHING_REMEMBERED
    assert alert.run.seen_documents == question.run.seen_documents == {"connection-pool-exhausted"}
