"""Questions taken in: what is kept, in whose session, what is refused."""

from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User

from runs import chat, ids
from runs.access import ApiError, Caller
from runs.models import ApiToken, ChatSession, DiagnosisRun
from tests.factories import SessionFactory, TokenFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    user: User = UserFactory(username="ada")
    return user


@pytest.fixture
def token() -> ApiToken:
    made: ApiToken = TokenFactory(scopes=["chat:write"])
    return made


def test_a_question_waits_as_a_run_of_its_session(ada: User) -> None:
    asked = chat.ask(Caller(user=ada), "  Why is checkout slow?\n")
    run = DiagnosisRun.objects.select_related("session").get(id=asked.run_id)
    assert (run.status, run.trigger, run.query) == ("QUEUED", "CHAT", "Why is checkout slow?")
    assert (run.requested_by, run.subject["alert"]) == (ada, None)
    assert (run.session.owner, run.session.title) == (ada, "Why is checkout slow?")
    assert run.session_id.startswith("chat-")


def test_a_token_opens_sessions_that_are_nobodys(token: ApiToken) -> None:
    asked = chat.ask(Caller(token=token), "hello", "ticket-4711")
    session = ChatSession.objects.get(id="ticket-4711")
    assert (asked.session_id, session.owner) == ("ticket-4711", None)
    assert DiagnosisRun.objects.get(id=asked.run_id).requested_by_token == token


@dataclass(frozen=True)
class Case:
    query: str = "hello"
    session_id: str | None = None
    code: str = ""


REFUSED = {
    "empty": Case("", code="QUERY_EMPTY"),
    "blank": Case(" \n ", code="QUERY_EMPTY"),
    "nothing to be seen": Case("\u200b\u2060\u3164 \u2800", code="QUERY_EMPTY"),
    "too long": Case("x" * 2001, code="QUERY_TOO_LONG"),
    "a NUL": Case("a\0", code="QUERY_NOT_TEXT"),
    "half a character": Case("\ud800", code="QUERY_NOT_TEXT"),
    "a slash": Case(session_id="a/b", code="SESSION_ID_INVALID"),
    "a line end": Case(session_id="a\n", code="SESSION_ID_INVALID"),
    "nothing": Case(session_id="", code="SESSION_ID_INVALID"),
    "an alert's": Case(session_id="alert-00", code="SESSION_ID_RESERVED"),
    "a rehearsal's": Case(session_id="rehearsal-00", code="SESSION_ID_RESERVED"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_asked_is_refused_and_leaves_nothing(ada: User, case: Case) -> None:
    with pytest.raises(ApiError) as refused:
        chat.ask(Caller(user=ada), case.query, case.session_id)
    assert (refused.value.status, refused.value.code) == (422, case.code)
    assert not DiagnosisRun.objects.exists()
    assert not ChatSession.objects.exists()


def test_a_session_of_an_alert_that_exists_may_be_asked_about(ada: User) -> None:
    SessionFactory(id="alert-00000000000000aa")
    assert chat.ask(Caller(user=ada), "what should I do?", "alert-00000000000000aa")


def test_nobody_speaks_in_another_persons_session(ada: User, token: ApiToken) -> None:
    mine = SessionFactory(owner=ada)
    others = {
        "another person": (Caller(user=UserFactory()), 404),
        "a superuser, who may read it": (Caller(user=UserFactory(is_superuser=True)), 403),
        "a token, which may read it": (Caller(token=token), 403),
    }
    for caller, status in others.values():
        for act in (lambda who: chat.ask(who, "and now?", mine.id), lambda who: chat.clear(who, mine.id)):
            with pytest.raises(ApiError) as refused:
                act(caller)
            assert refused.value.status == status
    mine.refresh_from_db()
    assert mine.cleared_at is None
    assert not DiagnosisRun.objects.exists()
    assert chat.ask(Caller(user=ada), "and now?", mine.id).session_id == mine.id


def test_a_secret_in_a_question_is_masked_before_it_is_kept(ada: User) -> None:
    asked = chat.ask(Caller(user=ada), "Why is postgres://shop:hunter2@db/shop refused?")
    run = DiagnosisRun.objects.select_related("session").get(id=asked.run_id)
    assert "hunter2" not in run.query + run.session.title


def test_a_form_that_is_sent_twice_asks_once(ada: User) -> None:
    given = ids.run_id()
    first = chat.ask(Caller(user=ada), " Why? ", run_id=given)
    assert first.run_id == given
    assert chat.ask(Caller(user=ada), "Why?", run_id=given) == first
    assert (DiagnosisRun.objects.count(), ChatSession.objects.count()) == (1, 1)


def test_an_id_that_is_taken_for_something_else_loses_no_question(ada: User) -> None:
    given = chat.ask(Caller(user=ada), "Why?", run_id=ids.run_id()).run_id
    other = chat.ask(Caller(user=ada), "Where?", run_id=given)
    stranger = chat.ask(Caller(user=UserFactory()), "Why?", run_id=given)
    elsewhere = chat.ask(Caller(user=ada), "Why?", "another", run_id=given)
    assert len({given, other.run_id, stranger.run_id, elsewhere.run_id}) == 4


def test_a_program_may_ask_again_when_the_answer_was_lost(token: ApiToken) -> None:
    given = ids.run_id()
    first = chat.ask(Caller(token=token), "Why?", "mine", run_id=given)
    assert chat.ask(Caller(token=token), "Why?", "mine", run_id=given) == first
    assert DiagnosisRun.objects.count() == 1
