"""Two runs side by side: what is told of them, how they are chosen, what is never told."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.models import ReasoningAccess
from audit.pages.comparison import Call, Called, Statements, compare, pair_calls, pair_statements
from audit.pruning import prune_batch
from runs.access import Caller
from runs.models import DiagnosisRun
from runs.pages.words import Tone
from tests.audit.test_pages import part, reader_of_reasoning, signed_in
from tests.audit.told_runs import GATE_EVENT, opening, told_run, two_runs
from tests.factories import RunFactory, SessionFactory, UserFactory, now

pytestmark = pytest.mark.django_db


def address(a: DiagnosisRun | str, b: DiagnosisRun | str) -> str:
    return f"/runs/compare/?a={getattr(a, 'id', a)}&b={getattr(b, 'id', b)}"


# ---- what is told ---------------------------------------------------------------------------------------------


def test_what_differs_is_named_first_and_marked() -> None:
    a, b = two_runs()
    told = compare(Caller(user=UserFactory.create()), a, b)
    assert [str(label) for label in told.differs] == ["Rule set", "Prompt chat_verifier"]
    prompts = {str(fact.label): (fact.a.text, fact.b.text, fact.differs) for fact in told.facts}
    assert prompts["Prompt chat_verifier"] == ("chat-verifier-v1", "chat-verifier-v2", True)
    assert prompts["Prompt executor"] == ("executor-v1", "executor-v1", False)
    assert told.same_subject


def test_tool_calls_are_the_same_by_tool_and_arguments() -> None:
    a, b = two_runs()
    told = compare(Caller(user=UserFactory.create()), a, b)
    lines = [
        (pair.arguments, pair.a and (pair.a.status, pair.a.evidence), pair.b and (pair.b.status, pair.b.evidence))
        for pair in told.calls
    ]
    common = 'any_of: ["HikariPool"], service: checkout-api'
    assert lines == [
        (common, ("OK", 1), ("NO_EVIDENCE", 0)),
        (common, ("NO_EVIDENCE", 0), None),
        ("service: billing-api", None, ("OK", 1)),
    ]
    assert told.calls_in_both == 1


def test_statements_stand_in_both_or_in_one() -> None:
    a, b = two_runs()
    told = compare(Caller(user=UserFactory.create()), a, b)
    assert told.statements == Statements(
        both=("The pool is exhausted: 10 of 10 connections are active.",),
        only_a=("No deployment was found in the window.",),
        only_b=("Nobody deployed anything.",),
    )


def test_phases_stand_side_by_side_with_their_durations() -> None:
    a, b = two_runs()
    told = compare(Caller(user=UserFactory.create()), a, b)
    assert len(told.phases) == 7
    tools = next(pair for pair in told.phases if str(pair.words) == "Tools")
    assert (tools.a.events, tools.a.took_ms) == (tools.b.events, tools.b.took_ms) == (2, 62)


def test_the_page_shows_all_of_it_and_links_to_both_runs() -> None:
    a, b = two_runs()
    text = signed_in().get(address(a, b)).content.decode()
    for words in (
        "Differs:", "Rule set, Prompt chat_verifier.", "chat-verifier-v2", "1 in both, 1 only in A, 1 only in B",
        "Nobody deployed anything.", "service: billing-api", "1 of 3 in both", "not called", "GK005_EXCERPT_SUPPORTED",
        "Tokens", "Cost", "unknown", "Duration", "Semantic",
    ):  # fmt: skip
        assert words in text, words
    assert f'href="/runs/{a.id}/"' in text
    assert f"/runs/{b.id}/?event=5#panel" in text
    assert "admin/" not in text.split("<main", 1)[1]


def test_staff_find_prompts_and_rules_in_the_admin() -> None:
    a, b = two_runs()
    permissions = ["view_prompt", "view_ruleset"]
    text = signed_in(is_staff=True, permissions=permissions).get(address(a, b)).content.decode()
    assert 'href="/admin/prompts/prompt/chat_verifier/versions/2/"' in text
    assert 'href="/admin/gatekeeper/ruleset/number/2/"' in text


def test_two_of_a_kind_say_that_nothing_differs() -> None:
    text = signed_in().get(address(told_run(), told_run())).content.decode()
    assert "Ended the same, with the same model, prompts and rules." in text
    assert "compare-differs" not in text


def test_runs_about_different_things_are_said_to_be() -> None:
    other = RunFactory.create(failed=True, query="Why <b>me</b>?", subject={"version": 1})
    text = signed_in().get(address(told_run(), other)).content.decode()
    assert "These runs were not asked the same" in text
    assert "Why &lt;b&gt;me&lt;/b&gt;?" in text


def test_while_a_run_goes_the_page_follows_and_afterwards_it_rests() -> None:
    a, b = told_run(), opening()
    client = signed_in()
    assert 'hx-trigger="every 3s"' in client.get(address(a, b)).content.decode()
    answer = part(client, address(a, told_run()), "comparison").content.decode()
    assert "<html" not in answer
    assert "every 3s" not in answer


# ---- what is never told ---------------------------------------------------------------------------------------


def test_no_text_of_a_removed_claim_for_anybody_and_the_way_to_it_only_for_readers() -> None:
    a, b = two_runs()
    text = signed_in(is_staff=True).get(address(a, b)).content.decode()
    assert "<code>c9</code>" in text
    assert "SECRET" not in text
    assert "restricted/" not in text
    text = signed_in(reader_of_reasoning()).get(address(a, b)).content.decode()
    assert "SECRET" not in text
    assert f"/runs/{a.id}/events/{GATE_EVENT + 1}/restricted/" in text
    assert not ReasoningAccess.objects.exists()


@pytest.mark.parametrize("hidden_is", ["a", "b"])
def test_a_hidden_run_is_told_as_none_at_all(hidden_is: str) -> None:
    shown, hidden = told_run(), told_run(session=SessionFactory.create(owner=UserFactory.create()))
    pair = (hidden, shown) if hidden_is == "a" else (shown, hidden)
    none = ("run_none", shown) if hidden_is == "a" else (shown, "run_none")
    client = signed_in()
    there, not_there = client.get(address(*pair)), client.get(address(*none))
    assert there.status_code == not_there.status_code == 404
    told = there.content.decode().replace(hidden.id, "run_none")
    assert told.split("<main", 1)[1] == not_there.content.decode().split("<main", 1)[1]
    assert signed_in(permissions=["see_all_sessions"]).get(address(*pair)).status_code == 200


# ---- choosing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", ["", "?a=run_x", "?a=run_x&b=run_y"])
def test_who_is_not_signed_in_is_sent_to_sign_in(rest: str) -> None:
    response = Client().get(f"/runs/compare/{rest}")
    assert response["Location"].startswith("/sign-in/?next=/runs/compare/")


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 200, "Compare two runs"),
        ("a=&b=", 200, "Compare two runs"),
        ("a=RUN", 200, "Runs of the same alert or conversation"),
        ("b=RUN", 200, "Compare two runs"),
        ("a=RUN&b=RUN", 400, "That is the same run twice."),
        ("a=RUN&b=run_none", 404, "There is no run run_none that you may see."),
        ("a=%00&b=%F0%9F%92%A9", 400, ""),
        ("a=run_none&b=" + "x" * 5000, 404, "There is no run"),
        ("a=<script>&b=RUN", 404, "&lt;script&gt;"),
        ("run=RUN", 400, "Two runs are compared; 1 were chosen."),
        ("run=RUN&run=run_2&run=run_3", 400, "Two runs are compared; 3 were chosen."),
    ],
)
def test_bad_and_missing_ids_get_a_page_that_says_so(query: str, status: int, said: str) -> None:
    run = told_run()
    response = signed_in().get(f"/runs/compare/?{query.replace('RUN', run.id)}")
    assert response.status_code == status
    assert said in response.content.decode()


def test_what_the_list_sends_becomes_the_older_beside_the_newer() -> None:
    response = signed_in().get("/runs/compare/?run=run_new&run=run_old")
    assert response["Location"] == "/runs/compare/?a=run_old&b=run_new"


def test_a_pruned_run_is_said_to_be_removed() -> None:
    old, new = told_run(), told_run()
    DiagnosisRun.objects.filter(id=new.id).update(finished_at=now() + timedelta(days=1))
    prune_batch(now(), by="tests", reason="old")
    response = signed_in().get(address(old, new))
    assert response.status_code == 404
    assert f"The records of {old.id} were removed" in response.content.decode()


def test_of_one_run_those_of_its_alert_are_offered() -> None:
    session = SessionFactory.create(id="alert-00000000000000aa")
    run = told_run(session=session)
    near, far = RunFactory.create(success=True, session=session), RunFactory.create(success=True)
    text = signed_in().get(f"/runs/compare/?a={run.id}").content.decode()
    assert f"/runs/compare/?a={near.id}&amp;b={run.id}" in text
    assert far.id not in text


def test_the_run_page_and_the_list_lead_here() -> None:
    client, run = signed_in(), told_run()
    going = opening()
    assert f"/runs/compare/?a={run.id}" in client.get(f"/runs/{run.id}/").content.decode()
    text = client.get("/").content.decode()
    assert 'action="/runs/compare/"' in text
    assert f'form="compare" name="run" value="{run.id}"' in text
    assert f'name="run" value="{going.id}"' not in text


# ---- cost -----------------------------------------------------------------------------------------------------


def test_a_comparison_takes_the_same_few_queries_whatever_the_runs_hold() -> None:
    reader = Caller(user=reader_of_reasoning())
    small, big = (RunFactory.create(failed=True), RunFactory.create(failed=True)), two_runs()
    assert reader.may("reasoning:read")
    for pair in (small, big):
        with CaptureQueriesContext(connection) as captured:
            compare(reader, *pair)
        assert len(captured) == 5


CALL = Call(status="OK", tone=Tone.NORMAL, evidence=1, duration_ms=1, sequence_no=1)


def test_equal_calls_are_paired_one_by_one() -> None:
    def called(*names: str) -> list[Called]:
        return [((name, "{}"), replace(CALL, sequence_no=number)) for number, name in enumerate(names, start=1)]

    pairs = pair_calls(called("x", "y", "x"), called("x", "z", "z"))
    assert [(pair.tool, pair.a and pair.a.sequence_no, pair.b and pair.b.sequence_no) for pair in pairs] == [
        ("x", 1, 1),
        ("y", 2, None),
        ("x", 3, None),
        ("z", None, 2),
        ("z", None, 3),
    ]


def test_a_sentence_said_twice_is_in_both_as_often_as_both_said_it() -> None:
    assert pair_statements(["s", "t", "s"], ["s", "u"]) == Statements(("s",), ("t", "s"), ("u",))
