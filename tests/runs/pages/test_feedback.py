"""Rating an answer: who may, one of each person, changed and taken back with its history, and found in the list."""

import re
import threading
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from runs import feedback
from runs.models import DiagnosisRun, RunFeedback
from runs.models.feedback import Rating
from tests.factories import RunFactory, SessionFactory, UserFactory, now

pytestmark = pytest.mark.django_db


@pytest.fixture
def casey() -> User:
    return UserFactory.create(username="casey")


@pytest.fixture
def browser(casey: User) -> Client:
    client = Client()
    client.force_login(casey)
    return client


@pytest.fixture
def run() -> DiagnosisRun:
    made: DiagnosisRun = RunFactory.create(success=True)
    return made


def told_by(answer: Any) -> str:
    text: str = answer.content.decode().split("<main")[-1]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def rate(client: Client, run: DiagnosisRun, rating: str, note: str = "", **more: Any) -> Any:
    return client.post(f"/runs/{run.id}/feedback/", {"rating": rating, "note": note, "back": "run"}, **more)


def holding(run: DiagnosisRun) -> list[tuple[str, str, str]]:
    rows = RunFeedback.objects.filter(run=run, replaced_at__isnull=True).order_by("id")
    return list(rows.values_list("person_name", "rating", "note"))


def test_who_sees_a_run_rates_it_from_its_page(browser: Client, run: DiagnosisRun) -> None:
    assert f'action="/runs/{run.id}/feedback/"' in browser.get(f"/runs/{run.id}/").content.decode()
    answer = rate(browser, run, "wrong", "The pool was\r\nfull because of <b>jobs</b>.")
    assert answer["Location"] == f"/runs/{run.id}/#feedback-{run.id}"
    assert holding(run) == [("casey", "wrong", "The pool was\nfull because of <b>jobs</b>.")]
    page = browser.get(f"/runs/{run.id}/").content.decode()
    assert re.search(r'value="wrong" aria-pressed="true"', page)
    assert "&lt;b&gt;jobs" in page


def test_others_see_who_said_what(browser: Client, run: DiagnosisRun) -> None:
    rate(browser, run, "wrong", "It was the disk.")
    other = Client()
    other.force_login(UserFactory(username="robin"))
    told = told_by(other.get(f"/runs/{run.id}/"))
    assert "casey: wrong" in told
    assert "It was the disk." in told
    rate(other, run, "useful")
    assert holding(run) == [("casey", "wrong", "It was the disk."), ("robin", "useful", "")]


def test_a_rating_is_changed_and_taken_back_and_its_history_kept(browser: Client, run: DiagnosisRun) -> None:
    rate(browser, run, "wrong", "Hm.")
    rate(browser, run, "useful", "No, it was right.")
    assert holding(run) == [("casey", "useful", "No, it was right.")]
    rate(browser, run, "none")
    assert holding(run) == []
    told = told_by(browser.get(f"/runs/{run.id}/feedback/"))
    assert told.index("No, it was right.") < told.index("Hm.")
    assert RunFeedback.objects.filter(run=run, replaced_at__isnull=False).count() == 2


def test_the_same_again_leaves_no_trace(browser: Client, run: DiagnosisRun) -> None:
    rate(browser, run, "useful")
    rate(browser, run, "useful")
    assert RunFeedback.objects.count() == 1


def test_from_its_conversation_it_leads_back_there(browser: Client, casey: User) -> None:
    long_ago = now() - timedelta(hours=1)
    run = RunFactory(session=SessionFactory(owner=casey), trigger="CHAT", success=True, queued_at=long_ago)
    for _ in range(21):
        RunFactory(session=run.session, trigger="CHAT", success=True)
    answer = browser.post(f"/runs/{run.id}/feedback/", {"rating": "useful", "back": "chat"})
    address, _, place = answer["Location"].partition("#")
    assert f'id="{place}"' in browser.get(address).content.decode(), "the turn is not on that page"
    assert f'action="/runs/{run.id}/feedback/"' in browser.get(address).content.decode()


def test_a_part_of_the_page_is_answered_with_that_part(browser: Client, run: DiagnosisRun) -> None:
    asked = {"HX-Request": "true", "HX-Target": f"feedback-{run.id}"}
    answer = rate(browser, run, "useful", headers=asked).content.decode()
    assert answer.lstrip().startswith('<div class="feedback"')
    assert "Saved." in answer
    answer = rate(browser, run, "wrong", "x" * 1001, headers=asked).content.decode()
    assert "too long" in answer
    assert "x" * 1001 in answer


def test_a_note_that_is_too_long_is_refused_and_stays(browser: Client, run: DiagnosisRun) -> None:
    answer = rate(browser, run, "wrong", "错" * 1001)
    assert answer.status_code == 422
    assert "错" * 1001 in told_by(answer)
    assert holding(run) == []
    assert rate(browser, run, "wrong", "错" * 1000).status_code == 302
    assert holding(run) == [("casey", "wrong", "错" * 1000)]


def test_what_cannot_be_stored_is_replaced_and_secrets_are_masked(browser: Client, run: DiagnosisRun) -> None:
    rate(browser, run, "wrong", "a\0b postgres://shop:hunter2@db/shop")
    note = holding(run)[0][2]
    assert note.startswith("a\ufffdb ")
    assert "hunter2" not in note


@pytest.mark.parametrize("rating", ["", "USEFUL", "great", "useful\0"])
def test_what_is_no_rating_is_a_bad_request(browser: Client, run: DiagnosisRun, rating: str) -> None:
    assert rate(browser, run, rating).status_code == 400
    assert holding(run) == []


def test_a_run_that_goes_cannot_be_rated_yet(browser: Client) -> None:
    run = RunFactory(running=True)
    assert "/feedback/" not in browser.get(f"/runs/{run.id}/").content.decode()
    answer = rate(browser, run, "useful")
    assert (answer.status_code, holding(run)) == (422, [])


def test_who_does_not_see_a_run_does_not_rate_it(browser: Client) -> None:
    run = RunFactory(session=SessionFactory(owner=UserFactory()), success=True)
    assert rate(browser, run, "wrong").status_code == 404
    assert browser.get(f"/runs/{run.id}/feedback/").status_code == 404
    assert rate(Client(), run, "wrong")["Location"].startswith("/sign-in/")
    assert holding(run) == []


def test_the_list_is_filtered_by_what_holds(browser: Client, run: DiagnosisRun) -> None:
    useful = RunFactory(success=True)
    rate(browser, run, "wrong")
    rate(browser, useful, "wrong")
    rate(browser, useful, "useful")
    for query, found in (("feedback=wrong", {run.id}), ("feedback=useful", {useful.id}), ("", {run.id, useful.id})):
        page = browser.get(f"/?{query}").content.decode()
        assert set(re.findall(r'href="/runs/(run_\w+)/[^"]*" data-row', page)) == found
    assert "was left out" in told_by(browser.get("/?feedback=great"))


def test_a_person_who_is_gone_leaves_the_name(run: DiagnosisRun) -> None:
    gone = UserFactory(username="gone")
    feedback.rate(run, person_id=gone.pk, person_name="gone", rating=Rating.WRONG, note="")
    gone.delete()
    assert holding(run) == [("gone", "wrong", "")]


@pytest.mark.django_db(transaction=True)
def test_two_ratings_at_once_leave_one(run: DiagnosisRun, casey: User) -> None:
    ready = threading.Barrier(4)

    def one(number: int) -> None:
        try:
            ready.wait()
            feedback.rate(
                run, person_id=casey.pk, person_name="casey", rating=Rating.USEFUL, note=f"from window {number}"
            )
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(holding(run)) == 1
    assert RunFeedback.objects.count() == 4
