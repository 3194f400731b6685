"""Who read reasoning, on the run's page for those who watch over it; and that each way to a text leaves a reading."""

import re

import pytest

from audit.models import ReasoningAccess
from audit.pages.readingsview import SHOWN
from audit.readings import record_access
from runs.access import Caller
from tests.audit.test_pages import page_of, part, reader_of_reasoning, restricted_page, signed_in
from tests.audit.told_runs import FRAMES, GATE_EVENT, STEP_EVENT, told_run
from tests.factories import TokenFactory, UserFactory

pytestmark = pytest.mark.django_db
AUDITOR = {"permissions": ["view_reasoningaccess"]}
LINE = re.compile(r"<li>(<time .*?</time>) <strong>(.*?)</strong> (.*?)</li>")


def test_an_auditor_sees_who_read_what_and_when_and_never_the_text() -> None:
    run = told_run()
    reader = reader_of_reasoning()
    signed_in(reader).get(restricted_page(run, STEP_EVENT))
    part(signed_in(reader), restricted_page(run, GATE_EVENT), "restricted")
    record_access(Caller(token=TokenFactory.create(name="nightly")), run.id, "reasoning")
    text = signed_in(**AUDITOR).get(page_of(run)).content.decode()
    lines = LINE.findall(text)
    assert [(who, what) for _when, who, what in lines] == [
        ("token:nightly", "reasoning"),
        (reader.username, "drafts and judges’ reasons"),
        (reader.username, "reasoning"),
    ]
    for (when, _who, _what), reading in zip(lines, ReasoningAccess.objects.order_by("-sequence_no"), strict=True):
        assert f'datetime="{reading.at.isoformat()}"' in when
    assert "Restricted texts were read 3 times" in text
    assert "SECRET" not in text
    assert "/admin/audit/reasoningaccess/" not in text
    staff = signed_in(is_staff=True, **AUDITOR).get(page_of(run)).content.decode()
    assert f'href="/admin/audit/reasoningaccess/?q={run.id}"' in staff


def test_others_are_not_told_who_read_what_not_even_the_readers() -> None:
    run = told_run()
    reader = reader_of_reasoning()
    signed_in(reader).get(restricted_page(run, STEP_EVENT))
    for client in (signed_in(reader), signed_in(is_staff=True), signed_in(permissions=["see_all_sessions"])):
        text = client.get(page_of(run)).content.decode()
        assert 'id="readings"' not in text
        assert "Restricted texts were read" not in text


def test_that_nobody_read_it_is_said_too() -> None:
    text = signed_in(**AUDITOR).get(page_of(told_run())).content.decode()
    assert "Nobody has read the restricted texts of this run." in text


def test_of_many_readings_the_newest_are_listed_and_all_are_counted() -> None:
    run, caller = told_run(), Caller(user=UserFactory.create(username="<b>ada</b>"))
    for _ in range(SHOWN + 2):
        record_access(caller, run.id, "reasoning")
    text = signed_in(**AUDITOR).get(page_of(run)).content.decode()
    assert f"Restricted texts were read {SHOWN + 2} times" in text
    assert len(LINE.findall(text)) == SHOWN
    assert "Only the newest are listed." in text
    assert "<b>ada</b>" not in text


@pytest.mark.parametrize("number", range(1, FRAMES + 1))
def test_no_cache_keeps_what_every_event_has_restricted_and_each_look_is_a_reading(number: int) -> None:
    run = told_run()
    client = signed_in(reader_of_reasoning())
    answers = [client.get(restricted_page(run, number)), part(client, restricted_page(run, number), "restricted")]
    assert [answer["Cache-Control"] for answer in answers] == ["no-store"] * 2
    assert ReasoningAccess.objects.filter(run=run).count() == 2
    client.head(restricted_page(run, number))
    assert ReasoningAccess.objects.filter(run=run).count() == 3
