"""The pages of chat: starting a conversation, its turns, and what is done with them, as plain forms."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from runs import chat, lifecycle
from runs.access import Caller
from runs.errors import CancelReason
from runs.models import ChatSession, DiagnosisRun
from tests.factories import AlertFactory, RunFactory, SessionFactory, UserFactory, now, published

pytestmark = pytest.mark.django_db


@pytest.fixture
def casey() -> User:
    return UserFactory.create(username="casey")


@pytest.fixture
def browser(casey: User) -> Client:
    client = Client()
    client.force_login(casey)
    return client


def session_of(person: User, **values: Any) -> ChatSession:
    session: ChatSession = SessionFactory.create(owner=person, title="Why is checkout slow?", **values)
    return session


def turn_in(session: ChatSession, **values: Any) -> DiagnosisRun:
    run: DiagnosisRun = RunFactory.create(
        session=session, trigger="CHAT", subject={"version": 1}, **{"query": "Why is checkout slow?", **values}
    )
    return run


def told_by(answer: Any) -> str:
    text: str = answer.content.decode().split("<main")[-1]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


# ---- asking ---------------------------------------------------------------------------------------------------


def test_a_question_opens_a_conversation_that_belongs_to_who_asked(browser: Client, casey: User) -> None:
    answer = browser.post("/chat/", {"query": "Why is checkout slow?\r\nSince noon."})
    run = DiagnosisRun.objects.select_related("session").get()
    assert (answer.status_code, answer["Location"]) == (302, f"/chat/{run.session_id}/#turn-{run.id}")
    assert (run.session.owner_id, run.requested_by_id, run.trigger) == (casey.pk, casey.pk, "CHAT")
    assert run.query == "Why is checkout slow?\nSince noon."
    assert "Why is checkout slow?" in told_by(browser.get(f"/chat/{run.session_id}/"))


def test_the_next_question_joins_its_conversation(browser: Client, casey: User) -> None:
    session = session_of(casey)
    first = turn_in(session, success=True, queued_at=now() - timedelta(minutes=2))
    browser.post(f"/chat/{session.id}/", {"query": "And yesterday?"})
    told = browser.get(f"/chat/{session.id}/").content.decode()
    last = DiagnosisRun.objects.exclude(id=first.id).get()
    assert last.session_id == session.id
    assert told.index(f'id="turn-{first.id}"') < told.index(f'id="turn-{last.id}"')


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("", "There is nothing to ask yet"),
        (" \n ", "There is nothing to ask yet"),
        ("连" * 2001, "The question is too long"),
        ("a\0b", "characters that cannot be stored"),
    ],
)
@pytest.mark.parametrize("of", ["new", "old"])
def test_a_question_that_cannot_be_is_refused_and_stays_where_it_was_typed(
    browser: Client, casey: User, question: str, why: str, of: str
) -> None:
    session = session_of(casey)
    earlier = turn_in(session, success=True)
    answer = browser.post("/chat/" if of == "new" else f"/chat/{session.id}/", {"query": question})
    assert answer.status_code == 422
    assert told_by(answer).count(why) == 1
    assert re.search(r"<textarea[^>]*aria-invalid[^>]*>([^<]*)", answer.content.decode())[1] == question  # type: ignore[index]
    assert DiagnosisRun.objects.get() == earlier


def test_2000_characters_are_counted_as_a_person_counts_them(browser: Client) -> None:
    question = "连接\r\n" * 666 + "🔥🔥"
    assert browser.post("/chat/", {"query": question}).status_code == 302
    assert len(DiagnosisRun.objects.get().query) == 2000


def test_a_cancelled_failed_or_withheld_turn_is_asked_again(browser: Client, casey: User) -> None:
    session = session_of(casey)
    failed = turn_in(session, failed=True, query="Why?")
    answer = browser.post(f"/chat/{session.id}/turns/{failed.id}/again/")
    again = DiagnosisRun.objects.exclude(id=failed.id).get()
    assert (again.query, again.session_id, again.status) == ("Why?", session.id, "QUEUED")
    assert answer["Location"] == f"/chat/{session.id}/#turn-{again.id}"


def test_a_turn_with_an_answer_is_not_asked_again(browser: Client, casey: User) -> None:
    session = session_of(casey)
    answered = turn_in(session, success=True)
    answer = browser.post(f"/chat/{session.id}/turns/{answered.id}/again/", follow=True)
    assert "Nothing was sent." in told_by(answer)
    assert DiagnosisRun.objects.count() == 1


def test_a_form_that_is_sent_twice_asks_once(browser: Client) -> None:
    given = re.search(r'name="run" value="(run_\w{16})"', browser.get("/chat/").content.decode())
    assert given
    first, second = (browser.post("/chat/", {"query": "Why?", "run": given[1]}) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert DiagnosisRun.objects.get().id == given[1]


@pytest.mark.parametrize("run_id", ["run_x", "run_" + "u" * 16, "'", "run_0000000000000000\n"])
def test_an_id_that_is_none_is_not_taken(browser: Client, run_id: str) -> None:
    browser.post("/chat/", {"query": "Why?", "run": run_id})
    assert DiagnosisRun.objects.get().id != run_id


# ---- what a turn says -----------------------------------------------------------------------------------------


def test_an_answer_has_each_statement_linked_to_its_proof(browser: Client, casey: User) -> None:
    session = session_of(casey)
    run = turn_in(session, success=True)
    page = browser.get(f"/chat/{session.id}/")
    for words in (published().conclusion, published().statements[1].text, published().limitations[0], "Pass"):
        assert words in told_by(page)
    linked = re.findall(rf'href="(/runs/{run.id}/#proof-\d)"', page.content.decode())
    assert linked == [f"/runs/{run.id}/#proof-1", f"/runs/{run.id}/#proof-2"]
    shown = browser.get(f"/runs/{run.id}/").content.decode()
    assert [f'id="proof-{number}"' in shown for number in (1, 2)] == [True, True]


def test_a_turn_that_runs_shows_where_it_is_and_can_be_cancelled(browser: Client, casey: User) -> None:
    session = session_of(casey)
    run = turn_in(session, running=True)
    page = browser.get(f"/chat/{session.id}/").content.decode()
    assert f'data-watch="/api/runs/{run.id}/events"' in page
    assert f'action="/chat/{session.id}/turns/{run.id}/cancel/"' in page


def test_low_confidence_and_talk_say_so(browser: Client, casey: User) -> None:
    session = session_of(casey)
    low = published().model_dump(mode="json", by_alias=True) | {"confidence": "LOW"}
    turn_in(session, success=True, release_decision="RELEASED_LOW_CONFIDENCE", published_result=low)
    assert "Low confidence." in told_by(browser.get(f"/chat/{session.id}/"))
    talk = session_of(casey, id="talk")
    turn_in(talk, success=True, intent="SYSTEM_CHAT")
    assert "no evidence stands behind it" in told_by(browser.get("/chat/talk/"))


def test_withheld_words_never_show(browser: Client, casey: User) -> None:
    session = session_of(casey)
    turn_in(
        session,
        status="DEGRADED",
        outcome="DEGRADED",
        release_decision="WITHHELD",
        verdict="REJECT",
        safe_content={"headline": "No answer could be released", "reason": "It fell.", "lookedAt": ["query_logs: 3"]},
        self_evaluation={"executor_structured_output": "SECRET draft"},
        attempts=1,
        started_at=now(),
        finished_at=now(),
    )
    told = told_by(browser.get(f"/chat/{session.id}/"))
    for words in ("No answer could be released", "It fell.", "query_logs: 3", "Ask again"):
        assert words in told
    assert "SECRET" not in told


# ---- cancelling -----------------------------------------------------------------------------------------------


def test_cancelling_says_what_happened(browser: Client, casey: User) -> None:
    session = session_of(casey)
    waits, runs, ended = turn_in(session), turn_in(session, running=True), turn_in(session, success=True)
    cancelled = turn_in(session)
    lifecycle.request_cancel(cancelled.id, CancelReason.USER_REQUESTED)
    for run, words in (
        (waits, "It was cancelled before it began."),
        (runs, "It is being cancelled"),
        (ended, "It was too late to cancel"),
        (cancelled, "Cancelling had been asked for before."),
    ):
        path = f"/chat/{session.id}/turns/{run.id}/cancel/"
        assert words in told_by(browser.post(path, follow=True))
        said = browser.post(path, headers={"HX-Request": "true", "HX-Target": f"turn-{run.id}"})
        assert f'id="turn-{run.id}"' in said.content.decode()
    waits.refresh_from_db()
    assert waits.cancel_reason == "USER_REQUESTED"


def test_what_acts_unseen_in_a_question_or_an_answer_is_shown_by_its_number(browser: Client, casey: User) -> None:
    hostile = "<script>alert(1)</script> \u202egnp.exe\x1b[31m"
    session = session_of(casey)
    ChatSession.objects.filter(id=session.id).update(title=hostile)
    answer = published().model_dump(mode="json", by_alias=True) | {"conclusion": hostile, "scope": hostile}
    turn_in(session, success=True, query=hostile, published_result=answer)
    for path in (f"/chat/{session.id}/", "/chat/"):
        page = browser.get(path).content.decode()
        assert "<script>alert" not in page
        assert "\u202e" not in page
        assert "⟦U+202E⟧" in page


# ---- whose ----------------------------------------------------------------------------------------------------


def test_conversations_of_others_are_not_there_for_anybody(browser: Client, casey: User) -> None:
    session = session_of(UserFactory(username="robin"))
    run = turn_in(session, failed=True)
    boss = Client()
    boss.force_login(UserFactory(is_superuser=True))
    for client in (browser, boss):
        for path in ("", f"turns/{run.id}/"):
            assert client.get(f"/chat/{session.id}/{path}").status_code == 404
        for path in ("", "clear/", f"turns/{run.id}/cancel/", f"turns/{run.id}/again/"):
            assert client.post(f"/chat/{session.id}/{path}", {"query": "Hm?"}).status_code == 404
        mine = session_of(User.objects.get(pk=client.session["_auth_user_id"]), id=f"mine-{client.session.session_key}")
        assert client.post(f"/chat/{mine.id}/turns/{run.id}/cancel/").status_code == 404
        assert "Why is checkout slow?" not in told_by(client.get("/chat/"))
    assert DiagnosisRun.objects.count() == 1


@pytest.mark.parametrize("path", ["/chat/", "/chat/some/", "/chat/some/turns/run_x/"])
def test_strangers_are_asked_to_sign_in(path: str) -> None:
    assert Client().get(path)["Location"] == f"/sign-in/?next={path}"


@pytest.mark.parametrize("path", ["/chat/none/", "/chat/none/turns/run_x/", "/chat/..%2f/", "/chat/%20/"])
def test_what_is_not_there_is_not_found(browser: Client, path: str) -> None:
    assert browser.get(path).status_code == 404


# ---- memory ---------------------------------------------------------------------------------------------------


def test_clearing_shows_where_the_memory_ends(browser: Client, casey: User) -> None:
    session = session_of(casey)
    turn_in(session, success=True, query="First")
    told = told_by(browser.post(f"/chat/{session.id}/clear/", follow=True))
    assert "Cleared: later questions know nothing" in told
    chat.ask(Caller(user=casey), "Second", session.id)
    told = told_by(browser.get(f"/chat/{session.id}/"))
    assert told.index("First") < told.index("The memory was cleared here.") < told.index("Second")


# ---- old conversations ----------------------------------------------------------------------------------------


def titles(answer: Any) -> list[str]:
    return [unescape(each) for each in re.findall(r"data-row>([^<]*)</a>", answer.content.decode())]


def test_old_conversations_are_listed_with_their_last_state(browser: Client, casey: User) -> None:
    for n in range(3):
        session = session_of(casey, id=f"s{n}", updated_at=now() - timedelta(hours=n))
        turn_in(session, success=True, queued_at=now() - timedelta(hours=5))
        turn_in(session, failed=True)
        ChatSession.objects.filter(id=session.id).update(title=f"Question {n}")
    page = browser.get("/chat/")
    assert titles(page) == ["Question 0", "Question 1", "Question 2"]
    assert told_by(page).count("Failed") == 3


def test_search_finds_words_of_my_questions_and_published_conclusions(browser: Client, casey: User) -> None:
    one, two = session_of(casey, id="one"), session_of(casey, id="two")
    turn_in(one, query="结账服务为什么慢", failed=True)
    turn_in(two, success=True)
    for words, found in (("结账服务", ["one"]), ("POOL exhausted", ["two"]), ("nothing like it", []), ("%", [])):
        page = browser.get("/chat/", {"q": words}).content.decode()
        assert re.findall(r'href="/chat/(\w+)/[^"]*" data-row', page) == found


def test_the_list_goes_on_without_gap_or_repeat(browser: Client, casey: User) -> None:
    same = now()
    for n in range(45):
        turn_in(session_of(casey, id=f"s{n:02}", updated_at=same), failed=True)
    seen, path = [], "/chat/"
    while path:
        page = browser.get(path).content.decode()
        seen += re.findall(r'href="/chat/(s\d\d)/[^"]*" data-row', page)
        more = re.search(r'id="older"><a href="([^"]+)"', page)
        path = unescape(more[1]) if more else ""
    assert seen == [f"s{n:02}" for n in reversed(range(45))]


@pytest.mark.parametrize("before", ["x", "é", "MjAyNg", "a" * 500])
def test_a_place_that_is_none_is_a_bad_request(browser: Client, casey: User, before: str) -> None:
    session = session_of(casey)
    assert browser.get("/chat/", {"before": before}).status_code == 400
    assert browser.get(f"/chat/{session.id}/", {"before": before}).status_code == 400


def test_a_long_conversation_comes_page_by_page(browser: Client, casey: User) -> None:
    session = session_of(casey)
    for n in range(25):
        turn_in(session, failed=True, query=f"Question {n:02}", queued_at=now() - timedelta(minutes=60 - n))
    page = browser.get(f"/chat/{session.id}/")
    assert re.findall(r"You asked: Question (\d\d)", told_by(page)) == [f"{n:02}" for n in range(5, 25)]
    earlier = re.search(r'href="([^"]+before=[^"]+)"', page.content.decode())
    assert earlier
    told = told_by(browser.get(unescape(earlier[1])))
    assert re.findall(r"You asked: Question (\d\d)", told) == [f"{n:02}" for n in range(5)]


def test_a_found_turn_is_shown_where_it_stands_in_a_long_conversation(browser: Client, casey: User) -> None:
    session = session_of(casey)
    for n in range(25):
        turn_in(session, failed=True, query=f"Question {n:02}", queued_at=now() - timedelta(minutes=60 - n))
    found = re.search(r'href="(/chat/[^"]+)" data-row', browser.get("/chat/?q=Question+02").content.decode())
    assert found
    page = browser.get(unescape(found[1]))
    assert re.findall(r"You asked: Question (\d\d)", told_by(page)) == ["00", "01", "02"]
    assert "To the newest turns" in told_by(page)
    for odd in ("run_none", "'"):
        assert "Question 24" in told_by(browser.get(f"/chat/{session.id}/", {"at": odd}))


def test_pages_ask_the_database_as_often_for_many_as_for_one(
    browser: Client, casey: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    session = session_of(casey)
    turn_in(session, failed=True)
    for n in range(15):
        turn_in(session, success=True)
        turn_in(session_of(casey, id=f"s{n}"), failed=True)
    # Session and person are two of them.
    with django_assert_max_num_queries(6):
        browser.get(f"/chat/{session.id}/")
    with django_assert_max_num_queries(6):
        browser.get("/chat/")


# ---- suggestions ----------------------------------------------------------------------------------------------


def test_first_questions_come_from_alerts_and_runbooks_and_nowhere_else(browser: Client) -> None:
    assert "data-suggestion" not in browser.get("/chat/").content.decode()
    AlertFactory(alert_name="<b>Pool</b>", labels={"service": "checkout-api"})
    AlertFactory(alert_name="Over", status="RESOLVED")
    page = browser.get("/chat/").content.decode()
    found = re.findall(r'<a href="/chat/\?ask=([^"]+)" data-suggestion>([^<]+)</a>', page)
    assert [unescape(words) for _href, words in found] == ["Why is <b>Pool</b> firing on checkout-api?"]
    prefilled = browser.get(f"/chat/?ask={found[0][0]}").content.decode()
    assert "Why is &lt;b&gt;Pool&lt;/b&gt; firing on checkout-api?</textarea>" in prefilled


def test_a_question_brings_the_turns_along_that_another_window_asked(browser: Client, casey: User) -> None:
    session = session_of(casey, cleared_at=now() - timedelta(minutes=15))
    shown, between, mine = (
        turn_in(session, failed=True, query=name, queued_at=now() - timedelta(minutes=age))
        for name, age in (("Shown", 20), ("Between", 10), ("Mine", 5))
    )
    headers = {"HX-Request": "true", "HX-Target": "turns"}
    for after, expected in ((shown, [between, mine]), (between, [mine]), (mine, [])):
        answer = browser.get(f"/chat/{session.id}/turns/{mine.id}/?after={after.id}", headers=headers)
        page = answer.content.decode()
        assert re.findall(r'id="turn-([^"]+)"', page) == [run.id for run in expected]
        assert "The memory was cleared here." not in page
