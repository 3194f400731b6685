"""The pages of runs, over Django's client: who sees what, in how many queries, and what hostile text does there."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.views.defaults import server_error

from audit.models import ReasoningAccess
from audit.pages.runlist import PAGE
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now
from tests.audit.told_runs import (
    EXCERPT,
    FRAMES,
    GATE_EVENT,
    RELEASE_EVENT,
    RULES_EVENT,
    SEMANTIC_EVENT,
    STEP_EVENT,
    TOOL_EVENT,
    finish,
    opening,
    told_run,
)
from tests.factories import RunFactory, SessionFactory, UserFactory

pytestmark = pytest.mark.django_db


def signed_in(user: User | None = None, **traits: Any) -> Client:
    client = Client()
    client.force_login(user or UserFactory.create(**traits))
    return client


def reader_of_reasoning() -> User:
    user = UserFactory.create()
    user.user_permissions.add(Permission.objects.get(codename="read_reasoning"))
    return user


def part(client: Client, address: str, target: str) -> Any:
    """What htmx is given for the element `target`."""
    return client.get(address, headers={"HX-Request": "true", "HX-Target": target})


def page_of(run: DiagnosisRun, rest: str = "") -> str:
    return f"/runs/{run.id}/{rest}"


def restricted_page(run: DiagnosisRun, sequence_no: int) -> str:
    return page_of(run, f"events/{sequence_no}/restricted/")


# ---- who sees what --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", ["", "?event=5", "events/5/restricted/"])
def test_who_is_not_signed_in_is_sent_to_sign_in(rest: str) -> None:
    run = told_run()
    response = Client().get(page_of(run, rest))
    assert response.status_code == 302
    assert response["Location"].startswith("/sign-in/?next=/runs/")
    assert Client().get("/")["Location"] == "/sign-in/?next=/"


def test_a_part_of_a_page_never_becomes_the_sign_in_page() -> None:
    run = told_run()
    response = Client().get(
        page_of(run, "?event=5"),
        headers={"HX-Request": "true", "HX-Target": "panel", "HX-Current-URL": f"http://testserver{page_of(run)}"},
    )
    assert response["HX-Redirect"] == f"/sign-in/?next=/runs/{run.id}/"
    assert response.content == b""


def test_who_is_not_signed_in_cannot_cancel() -> None:
    run = opening()
    assert Client().post(page_of(run, "cancel/")).status_code == 302
    run.refresh_from_db()
    assert run.cancel_requested_at is None


def test_a_run_of_somebody_elses_conversation_is_not_there_except_for_who_sees_all() -> None:
    run = told_run(session=SessionFactory.create(owner=UserFactory.create()))
    stranger = signed_in()
    for rest in ("", "?event=5", "events/5/restricted/"):
        assert stranger.get(page_of(run, rest)).status_code == 404
    assert stranger.post(page_of(run, "cancel/")).status_code == 404
    assert run.id not in stranger.get("/").content.decode()
    assert run.id not in stranger.get(f"/runs/watched/?id={run.id}").content.decode()
    assert signed_in(is_staff=True).get(page_of(run)).status_code == 404
    operator = signed_in(permissions=["see_all_sessions"])
    assert operator.get(page_of(run)).status_code == 200
    assert run.id in operator.get("/").content.decode()
    assert signed_in(run.session.owner).get(page_of(run)).status_code == 200


def test_without_the_permission_no_response_holds_a_restricted_text() -> None:
    run = told_run()
    client = signed_in(is_staff=True)
    addresses = ["/", "/?q=High", page_of(run), *(page_of(run, f"?event={number}") for number in range(1, FRAMES + 1))]
    for address in addresses:
        for response in (client.get(address), part(client, address, "panel"), part(client, address, "run")):
            assert response.status_code == 200
            text = response.content.decode()
            assert "SECRET" not in text
            assert "restricted/" not in text
    for number in range(1, FRAMES + 1):
        for response in (
            client.get(restricted_page(run, number)),
            part(client, restricted_page(run, number), "restricted"),
        ):
            assert response.status_code == 403
            assert "SECRET" not in response.content.decode()
    assert not ReasoningAccess.objects.exists()


def test_with_the_permission_restricted_texts_still_stand_only_on_their_own_pages() -> None:
    run = told_run()
    client = signed_in(reader_of_reasoning())
    for number in range(1, FRAMES + 1):
        assert "SECRET" not in client.get(page_of(run, f"?event={number}")).content.decode()
    assert not ReasoningAccess.objects.exists()


@pytest.mark.parametrize(
    ("sequence_no", "what", "text"),
    [
        (STEP_EVENT, "reasoning", "SECRET thought"),
        (STEP_EVENT, "reasoning", "SECRET text"),
        (GATE_EVENT, "self_evaluation", "SECRET claim: the disk is full"),
        (GATE_EVENT + 1, "self_evaluation", "SECRET claim: 10 of 10"),
        (SEMANTIC_EVENT, "self_evaluation", "SECRET rationale"),
        (RULES_EVENT, "self_evaluation", "SECRET reason"),
        (RELEASE_EVENT, "self_evaluation", "SECRET conclusion"),
    ],
)
def test_reading_a_restricted_text_is_recorded_and_never_cached(sequence_no: int, what: str, text: str) -> None:
    run = told_run()
    user = reader_of_reasoning()
    client = signed_in(user)
    assert f"events/{sequence_no}/restricted/" in client.get(page_of(run, f"?event={sequence_no}")).content.decode()
    whole, partial = (
        client.get(restricted_page(run, sequence_no)),
        part(client, restricted_page(run, sequence_no), "restricted"),
    )
    for response in (whole, partial):
        assert response.status_code == 200
        assert response["Cache-Control"] == "no-store"
        assert text in response.content.decode()
    assert "<html" in whole.content.decode()
    assert "<html" not in partial.content.decode()
    reads = list(ReasoningAccess.objects.values_list("run_id", "reader", "what"))
    assert reads == [(run.id, user.username, what)] * 2


def test_an_event_that_is_not_there_is_404() -> None:
    run = told_run()
    client = signed_in(reader_of_reasoning())
    for number in ("99", "0", "-1", "x", "99999999999999999999", "²"):
        assert client.get(page_of(run, f"?event={number}")).status_code == 404
    assert client.get(restricted_page(run, 99)).status_code == 404
    assert client.get(restricted_page(run, 99999999999999999999)).status_code == 404
    assert client.get("/runs/run_%00/").status_code == 400


# ---- one run --------------------------------------------------------------------------------------------------


def test_the_answer_stands_before_the_timeline_with_its_proof() -> None:
    run = told_run()
    text = signed_in().get(page_of(run)).content.decode()
    assert text.index("The connection pool of checkout-api is exhausted.") < text.index('id="timeline"')
    assert f"<mark>{EXCERPT}</mark>" in text
    assert "<mark>query_logs found nothing for &#x27;deploy&#x27;</mark>" in text
    assert f"?event={TOOL_EVENT}#ref-0" in text
    assert "GK005_EXCERPT_SUPPORTED" in text
    assert "the claim follows from its evidence" in text
    assert "check every hash" in text


def test_every_event_renders_whole_and_as_a_panel() -> None:
    run = told_run()
    client = signed_in()
    for number in range(1, FRAMES + 1):
        whole = client.get(page_of(run, f"?event={number}")).content.decode()
        panel = part(client, page_of(run, f"?event={number}"), "panel").content.decode()
        assert f'data-panel="{number}"' in whole
        assert f'data-panel="{number}"' in panel
        assert "<html" not in panel
        assert re.search(rf'event={number}#panel"[^>]*aria-current="true"', whole)


def test_a_tool_call_shows_its_arguments_and_the_cited_span_in_its_source() -> None:
    run = told_run()
    panel = part(signed_in(), page_of(run, f"?event={TOOL_EVENT}"), "panel").content.decode()
    assert '"service"</span>: <span class="json-text">"checkout-api"' in panel
    assert '<ol class="loglines"' in panel
    assert f"<mark>{EXCERPT}</mark>" in panel
    assert 'id="ref-0"' in panel
    assert "cited by" in panel


def test_a_gate_shows_which_rule_removed_which_claim_without_its_text() -> None:
    run = told_run()
    panel = part(signed_in(), page_of(run, f"?event={GATE_EVENT}"), "panel").content.decode()
    assert "c9" in panel
    assert "removed" in panel
    assert "GK005_EXCERPT_SUPPORTED" in panel


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script> total=10, active=10, idle=0, waiting=61",
        "\u202ereversed\u202c total=10, active=10, idle=0, waiting=61",
        "\x1b[31mred\x1b[0m total=10,\t active=10,   idle=0, waiting=61",
        "\x1b]0;title\x07\u200b total=10, active=10, idle=0, waiting=61",
        "x" * 2_000_000 + " total=10, active=10, idle=0, waiting=61",
    ],
)
def test_hostile_evidence_is_shown_and_does_nothing(hostile: str) -> None:
    ref = {"raw_path": "$.lines[0].text", "text": hostile, "shown": True, "relevance": None}
    run = told_run(
        {"evidence_refs": (ref,), "output": {"lines": [{"text": hostile}] * 5}, "output_preview": hostile[:500]}
    )
    client = signed_in()
    for response in (client.get(page_of(run)), part(client, page_of(run, f"?event={TOOL_EVENT}"), "panel")):
        text = response.content.decode()
        assert response.status_code == 200
        assert "<script>alert" not in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069]", text)
        assert len(text) < 500_000
    assert "<mark>" in client.get(page_of(run)).content.decode()


def test_a_deeply_nested_or_broad_output_is_cut_with_a_note() -> None:
    deep: Any = "end"
    for _ in range(200):
        deep = [deep]
    run = told_run({"output": {"deep": deep, "broad": list(range(100_000))}})
    text = part(signed_in(), page_of(run, f"?event={TOOL_EVENT}"), "panel").content.decode()
    assert "Cut here" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {
                "status": "FAILED",
                "failure_code": "MODEL_UNAVAILABLE",
                "safe_content": {"headline": "No model.", "reason": "It was away.", "lookedAt": ["query_logs"]},
            },
            ["Failed", "No model.", "It was away.", "MODEL_UNAVAILABLE", "query_logs"],
        ),
        (
            {
                "status": "CANCELLED",
                "cancel_reason": "DEADLINE",
                "safe_content": {"headline": "Cancelled.", "reason": "", "lookedAt": []},
            },
            ["Cancelled", "DEADLINE", "at its deadline"],
        ),
        (
            {
                "status": "DEGRADED",
                "release_decision": "WITHHELD",
                "verdict": "REJECT",
                "safe_content": {"headline": "Nothing could be said.", "reason": "No claim stood.", "lookedAt": []},
            },
            ["Withheld", "Nothing could be said.", "No claim stood.", "Rejected"],
        ),
    ],
)
def test_a_run_without_an_answer_says_why(changes: dict[str, Any], said: list[str]) -> None:
    now = datetime.now(UTC)
    run = RunFactory.create(outcome=changes["status"], started_at=now, finished_at=now, **changes)
    text = signed_in().get(page_of(run)).content.decode()
    for words in said:
        assert words in text


def test_a_record_with_a_gap_is_said_loudly() -> None:
    run = opening()
    append_now(run, [emissions.released()])
    finish(run)
    text = signed_in().get(page_of(run)).content.decode()
    assert "Record incomplete." in text
    assert "whole, chain valid" not in text


def test_general_talk_is_marked_and_claims_no_proof() -> None:
    said = {"query": "hello", "conclusion": "Hello.", "scope": "", "confidence": "NORMAL", "claims": []}
    said |= {"statements": [{"text": "I diagnose alerts.", "claimIds": []}], "limitations": [], "sourceDocuments": []}
    run = RunFactory.create(success=True, intent="SYSTEM_CHAT", trigger="CHAT", published_result=said)
    text = signed_in().get(page_of(run)).content.decode()
    assert "This is not a diagnosis" in text
    assert "I diagnose alerts." in text
    assert "Why?" not in text
    assert "This is not a diagnosis" not in signed_in().get(page_of(told_run())).content.decode()


def test_unknown_cost_is_said_to_be_unknown() -> None:
    assert "unknown" in signed_in().get(page_of(told_run())).content.decode()
    assert "$0.0000" not in signed_in().get(page_of(told_run())).content.decode()


def test_cancelling_asks_the_lifecycle_and_says_when_it_was_too_late() -> None:
    client = signed_in(permissions=["cancel_any_run"])
    run = opening()
    assert "Cancel run" in client.get(page_of(run)).content.decode()
    assert client.get(page_of(run, "cancel/")).status_code == 405
    assert "Cancellation requested:" in client.post(page_of(run, "cancel/"), follow=True).content.decode()
    run.refresh_from_db()
    assert run.cancel_requested_reason == "USER_REQUESTED"
    assert "Cancelling" in client.get(page_of(run)).content.decode()
    assert "had been asked for before" in client.post(page_of(run, "cancel/"), follow=True).content.decode()
    ended = told_run()
    too_late = client.post(page_of(ended, "cancel/"), follow=True).content.decode()
    assert "had ended before it could be cancelled: Answered." in too_late
    assert "Cancel run" not in client.get(page_of(ended)).content.decode()
    waits = RunFactory.create()
    assert "cancelled before it had started" in client.post(page_of(waits, "cancel/"), follow=True).content.decode()
    assert "was cancelled already" in client.post(page_of(waits, "cancel/"), follow=True).content.decode()


def test_who_may_see_a_run_and_not_cancel_it_finds_no_button() -> None:
    client, run = signed_in(), opening()
    assert "Cancel run" not in client.get(page_of(run)).content.decode()
    assert client.post(page_of(run, "cancel/")).status_code == 403
    run.refresh_from_db()
    assert run.cancel_requested_at is None


def test_cancelling_needs_the_csrf_token() -> None:
    run = opening()
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory.create())
    response = client.post(page_of(run, "cancel/"))
    assert response.status_code == 403
    assert "The form has expired" in response.content.decode()


def test_a_run_that_goes_refreshes_itself_also_without_a_script() -> None:
    run = opening()
    text = signed_in().get(page_of(run)).content.decode()
    assert '<noscript><meta http-equiv="refresh"' in text
    assert f'data-live="/runs/{run.id}/live/" data-query="" data-after="3"' in text
    assert "js/live.js" in text
    finish(run)
    assert "js/live.js" not in signed_in().get(page_of(run)).content.decode()


# ---- cost and headers -----------------------------------------------------------------------------------------


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def test_a_page_takes_the_same_number_of_queries_whatever_it_shows() -> None:
    client = signed_in(is_staff=True)
    small = opening()
    run = told_run()
    client.get("/")
    few = queries(client, "/")
    for _ in range(PAGE):
        RunFactory.create()
    assert queries(client, "/") == few <= 12
    append_now(small, [emissions.opened(f"stp_{n}", n) for n in range(2, 30)])
    finish(small)
    call_command("sync_rules", verbosity=0)
    client.get(page_of(run))
    assert queries(client, page_of(small)) == queries(client, page_of(run)) <= 10


def test_pages_are_private_and_vary_by_what_htmx_asks_for() -> None:
    response = signed_in().get(page_of(told_run()))
    assert response["Cache-Control"] == "private, no-cache"
    assert "HX-Target" in response["Vary"]
    policy = response["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy


def test_no_page_needs_an_inline_script_or_style() -> None:
    run = told_run()
    client = signed_in(reader_of_reasoning())
    for address in ("/", page_of(run), page_of(run, "?event=5"), restricted_page(run, STEP_EVENT), "/runs/none/"):
        text = client.get(address).content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", text), address


def test_the_page_of_a_crash_needs_neither_request_nor_database(django_db_blocker: Any) -> None:
    with django_db_blocker.block():
        text = server_error(RequestFactory().get("/")).content.decode()
    assert "Something went wrong" in text
    assert "Go to the runs" in text


def test_error_pages_say_what_to_do() -> None:
    client = signed_in()
    assert "Go to the runs" in client.get("/no/such/page").content.decode()
    assert "Go back and try again" in client.get("/runs/new/?after=nonsense").content.decode()
