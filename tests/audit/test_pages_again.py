"""The button that asks a run again, and the links between the two runs."""

import re
from typing import Any

import pytest
from django.test import Client

from audit.pruning import prune_batch
from runs.models import DiagnosisRun
from tests.audit.test_pages import page_of, signed_in
from tests.audit.told_runs import opening, told_run
from tests.factories import AlertFactory, RunFactory, SessionFactory, UserFactory, now

pytestmark = pytest.mark.django_db


def told_of_alert() -> DiagnosisRun:
    return told_run(alert=AlertFactory.create(fingerprint="00000000000000aa"))


def press(client: Client, run: DiagnosisRun, **data: str) -> Any:
    return client.post(page_of(run, "again/"), data, follow=True)


def test_the_button_starts_a_run_and_shows_it_with_links_both_ways() -> None:
    run, client = told_of_alert(), signed_in(permissions=["submit_alerts"])
    page = client.get(page_of(run)).content.decode()
    assert f'action="/runs/{run.id}/again/"' in page
    assert '<input type="hidden" name="seen" value="">' in page
    response = press(client, run, seen="")
    new = run.asked_again.get()
    assert response.redirect_chain == [(page_of(new), 302)]
    text = response.content.decode()
    assert "The same was asked again: this is the new run." in text
    assert "Run again of" in text
    assert f'href="/runs/{run.id}/"' in text
    page = client.get(page_of(run)).content.decode()
    assert "Run again as" in page
    assert f'href="/runs/{new.id}/"' in page
    assert f'<input type="hidden" name="seen" value="{new.id}">' in page


def test_the_list_marks_which_run_asks_another_again() -> None:
    run, client = told_of_alert(), signed_in(permissions=["submit_alerts"])
    press(client, run)
    rows = dict(re.findall(r'<tr id="row-(\w+)"(.*?)</tr>', client.get("/").content.decode(), re.DOTALL))
    assert '<span class="tag">run again</span>' in rows[run.asked_again.get().id]
    assert "run again" not in rows[run.id]


def test_a_second_press_of_the_same_page_shows_the_first_ones_run() -> None:
    run, client = told_of_alert(), signed_in(permissions=["submit_alerts"])
    press(client, run, seen="")
    response = press(client, run, seen="")
    assert "It had been asked again already" in response.content.decode()
    assert response.redirect_chain == [(page_of(run.asked_again.get()), 302)]


def test_who_may_not_start_such_a_run_finds_no_button() -> None:
    run, client = told_of_alert(), signed_in()
    assert "again/" not in client.get(page_of(run)).content.decode()
    assert press(client, run).status_code == 403
    assert not run.asked_again.exists()


def test_a_question_is_asked_again_by_its_owner_and_is_not_there_for_others() -> None:
    owner = UserFactory.create()
    run = RunFactory.create(
        success=True, trigger="CHAT", query="Why?", subject={"version": 1}, session=SessionFactory.create(owner=owner)
    )
    assert press(signed_in(), run).status_code == 404
    assert press(signed_in(permissions=["see_all_sessions"]), run).status_code == 403
    assert press(signed_in(owner), run).status_code == 200
    assert run.asked_again.get().requested_by == owner


def test_a_question_that_would_be_refused_today_is_told_to_be() -> None:
    owner = UserFactory.create()
    session = SessionFactory.create(owner=owner)
    run = RunFactory.create(success=True, trigger="CHAT", query="\u200b", subject={"version": 1}, session=session)
    response = press(signed_in(owner), run)
    assert "It could not be asked again: The question is empty." in response.content.decode()
    assert response.redirect_chain == [(page_of(run), 302)]
    assert not run.asked_again.exists()


def test_a_run_that_goes_is_not_asked_again() -> None:
    run, client = opening(alert=AlertFactory.create()), signed_in(permissions=["submit_alerts"])
    assert "again/" not in client.get(page_of(run)).content.decode()
    assert "The run goes on still: nothing was started." in press(client, run).content.decode()
    assert not run.asked_again.exists()


def test_it_takes_a_form_of_this_site() -> None:
    run = told_of_alert()
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory.create(permissions=["submit_alerts"]))
    assert press(client, run).status_code == 403
    assert client.get(page_of(run, "again/")).status_code == 405
    assert not run.asked_again.exists()


def test_the_link_outlives_the_run_that_was_asked_again() -> None:
    run, client = told_of_alert(), signed_in(permissions=["submit_alerts"])
    press(client, run)
    new = run.asked_again.get()
    assert prune_batch(now(), by="tests", reason="old") == [run.id]
    text = client.get(page_of(new)).content.decode()
    assert f'href="/runs/{run.id}/"' in text
    assert client.get(page_of(run)).status_code == 410


def test_of_many_runs_again_the_newest_are_shown_and_the_first_is_never_left_out() -> None:
    first = told_of_alert()
    run = RunFactory.create(success=True, trigger="MANUAL", again_of=first)
    later = [RunFactory.create(trigger="MANUAL", again_of=run) for _ in range(8)]
    text = signed_in().get(page_of(run)).content.decode()
    assert f'href="/runs/{first.id}/"' in text
    assert [each.id for each in later if f"/runs/{each.id}/" in text] == [each.id for each in later[-5:]]
    assert "Older ones stand in its session" in text
