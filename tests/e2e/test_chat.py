"""Questions over HTTP on a running instance with the offline model: answers, refusals, sessions, memory, the stream."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.e2e.outside import (
    Outside,
    SentEvent,
    browser_of,
    check_record,
    details_of,
    event_types,
    evidence_of,
    make_callers,
    read_events,
    sent,
    verify_ledger,
)
from tests.e2e.test_contract import RUN_KEYS, check_error
from tests.superbiz.instance import Instance, running, with_tables

ROWS_OF_MEMORY = """
from runs.models import DiagnosisRun
from runs.recall import memory_of
print(memory_of(DiagnosisRun.objects.get(id={run_id!r})))
"""


@dataclass(frozen=True)
class Site:
    instance: Instance
    api: Outside
    """A token with chat:write, runs:read, runs:cancel."""
    reader: Outside
    nobody: Outside


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    instance = with_tables(tmp_path_factory.mktemp("chat") / "var")
    with running(instance, SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted")) as up:
        up.sign_in_link()
        tokens = {"api": ["chat:write", "runs:read", "runs:cancel"], "reader": ["runs:read"]}
        people = {name: (False, ["view_"]) for name in ("ada", "bob")}
        callers = make_callers(instance, tokens, people)
        yield Site(instance, **callers, nobody=Outside(instance.url))


def finished(site: Site, query: str, session_id: str | None = None) -> dict[str, Any]:
    """The run that a question ended in."""
    body = {"query": query} | ({"sessionId": session_id} if session_id else {})
    answer = site.api.http.post("/api/chat", params={"wait": 60}, json=body)
    assert answer.status_code == 200, answer.text
    run: dict[str, Any] = answer.json()
    return run


def signed_in_post(browser: httpx.Client, path: str, body: Any) -> httpx.Response:
    headers = {"X-CSRFToken": browser.cookies["superbiz_csrf"], "Referer": str(browser.base_url)}
    return browser.post(path, json=body, headers=headers)


# ---- answers --------------------------------------------------------------------------------------------------


def test_a_question_is_accepted_and_its_run_found_by_its_id(site: Site) -> None:
    answer = site.api.post("/api/chat", {"query": "Why is checkout slow?"})
    assert answer.status_code == 202, answer.text
    told = answer.json()
    assert set(told) == {"runId", "sessionId", "url"}
    run = site.api.ended(told["runId"])
    assert (run["trigger"], run["intent"], run["status"]) == ("CHAT", "DIAGNOSIS", "SUCCESS")
    assert run["query"] == run["publishedResult"]["query"] == "Why is checkout slow?"
    assert "HikariPool-1 - Connection is not available" in run["publishedResult"]["conclusion"]
    assert run["promptSetVersion"].startswith("chat-prompts-")
    trace = site.api.trace(run)
    check_record(trace)
    verify_ledger(site.instance, run["runId"])
    (routing,) = details_of(trace, "ROUTING_DECISION")
    assert (routing["intent"], routing["source"], routing["violation"]) == ("DIAGNOSIS", "MODEL", None)
    assert "AIOPS_RULE_EVALUATION" not in event_types(trace)


def test_who_waits_gets_the_finished_run(site: Site) -> None:
    run = finished(site, "What should I do when a disk fills up?")
    assert set(run) == RUN_KEYS
    assert (run["intent"], run["status"]) == ("KNOWLEDGE_QUERY", "SUCCESS")
    assert {call["toolName"] for call in site.api.trace(run)["toolInvocations"]} == {"lookup_knowledge"}
    assert [document["documentId"] for document in run["publishedResult"]["sourceDocuments"]] == ["disk-filling-up"]


def test_talk_says_that_it_is_talk(site: Site) -> None:
    run = finished(site, "hello")
    assert (run["intent"], run["status"], run["verdict"]) == ("SYSTEM_CHAT", "SUCCESS", None)
    assert run["publishedResult"]["claims"] == []
    assert "no evidence stands behind it" in run["publishedResult"]["scope"]
    assert (run["modelCalls"], run["toolCalls"]) == (2, 0)
    with browser_of(site.instance, "ada") as browser:
        assert "This is not a diagnosis: no evidence stands behind it." in browser.get(run["url"]).text


def test_who_waits_too_short_is_told_where_to_look(site: Site) -> None:
    answer = site.api.http.post("/api/chat", params={"wait": 0.001}, json={"query": "Why is checkout slow?"})
    assert answer.status_code == 202, answer.text
    assert site.api.ended(answer.json()["runId"])["status"] == "SUCCESS"


# ---- refusals -------------------------------------------------------------------------------------------------

REFUSED = {
    "no query": {},
    "an empty one": {"query": ""},
    "only spaces": {"query": " \n\t"},
    "2001 characters": {"query": "x" * 2001},
    "a number": {"query": 5},
    "a NUL": {"query": "a\0b"},
    "half a character": b'{"query": "a\\ud800b"}',
    "an unknown field": {"query": "hi", "session": "s"},
    "a bad session": {"query": "hi", "sessionId": "-x"},
    "a session with a newline": {"query": "hi", "sessionId": "x\n"},
    "65 characters of session": {"query": "hi", "sessionId": "x" * 65},
    "a session of alerts": {"query": "hi", "sessionId": "alert-0000000000000001"},
    "a list": [],
}


@pytest.mark.parametrize("path", ["/api/chat", "/api/chat_stream"])
@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_question_is_refused(site: Site, path: str, body: Any) -> None:
    check_error(site.api.post(path, body), 422)


@pytest.mark.parametrize("path", ["/api/chat", "/api/chat_stream", "/api/sessions/s1/clear"])
def test_asking_needs_a_caller_with_the_scope(site: Site, path: str) -> None:
    check_error(site.nobody.post(path, {"query": "hi"}), 401, "UNAUTHENTICATED")
    check_error(site.reader.post(path, {"query": "hi"}), 403, "FORBIDDEN")
    with browser_of(site.instance, "ada") as browser:
        check_error(browser.post(path, json={"query": "hi"}), 403, "CSRF_FAILED")


def test_other_refusals_have_the_same_shape(site: Site) -> None:
    check_error(site.api.post("/api/chat", b'{"query": '), 400, "BAD_JSON")
    check_error(site.api.post("/api/chat", b'{"query": "' + b"x" * 1_100_000 + b'"}'), 413)
    check_error(site.api.get("/api/chat"), 405)
    check_error(site.api.get("/api/chat_stream"), 405)
    for wait in ("121", "-1", "soon"):
        check_error(site.api.http.post("/api/chat", params={"wait": wait}, json={"query": "hi"}), 422)


def test_2000_characters_are_asked_as_they_are(site: Site) -> None:
    query = ("磁盘满了怎么办？" * 250)[:2000]
    assert finished(site, query)["query"] == query


def test_secrets_in_a_question_are_masked_before_they_are_kept(site: Site) -> None:
    run = finished(site, "Why does postgres://shop:hunter2@db/shop refuse checkout-api?")
    assert "hunter2" not in json.dumps([run, site.api.trace(run)])


# ---- sessions -------------------------------------------------------------------------------------------------


def test_a_session_is_its_owners(site: Site) -> None:
    with browser_of(site.instance, "ada") as ada, browser_of(site.instance, "bob") as bob:
        answer = signed_in_post(ada, "/api/chat", {"query": "hello", "sessionId": "ada-1"})
        assert answer.status_code == 202, answer.text
        told = answer.json()
        for refused in (
            signed_in_post(bob, "/api/chat", {"query": "and now?", "sessionId": "ada-1"}),
            signed_in_post(bob, "/api/chat_stream", {"query": "and now?", "sessionId": "ada-1"}),
            signed_in_post(bob, "/api/sessions/ada-1/clear", {}),
        ):
            check_error(refused, 404, "SESSION_NOT_FOUND")
        for path in (f"/api/runs/{told['runId']}", f"/api/runs/{told['runId']}/events", "/api/diagnosis/ada-1/trace"):
            check_error(bob.get(path), 404)
        assert [run["runId"] for run in ada.get("/api/runs?sessionId=ada-1").json()["items"]] == [told["runId"]]
        assert bob.get("/api/runs?sessionId=ada-1").json()["items"] == []
    # A token may read it and speaks for no person.
    check_error(site.api.post("/api/chat", {"query": "and now?", "sessionId": "ada-1"}), 403, "FORBIDDEN")
    check_error(site.api.post("/api/sessions/ada-1/clear"), 403, "FORBIDDEN")
    assert len(site.api.found("/api/runs", sessionId="ada-1")["items"]) == 1


def remembered(site: Site, run: dict[str, Any]) -> str:
    done = site.instance.manage("shell", "-c", ROWS_OF_MEMORY.format(run_id=run["runId"]))
    return done.stdout


def test_a_follow_up_is_understood_from_the_turn_before(site: Site) -> None:
    first = finished(site, "Why is checkout slow?", "follow-1")
    second = finished(site, "what should I do about it?", "follow-1")
    assert (second["intent"], second["status"]) == ("KNOWLEDGE_QUERY", "SUCCESS")
    assert "roll back" in json.dumps(second["publishedResult"])
    said = remembered(site, second)
    assert "HikariPool-1" in said
    assert not any(call["invocationId"] in said for call in site.api.trace(first)["toolInvocations"])


def test_a_cleared_session_is_a_new_conversation_and_keeps_its_record(site: Site) -> None:
    first = finished(site, "Why is checkout slow?", "clear-1")
    answer = site.api.post("/api/sessions/clear-1/clear")
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"sessionId", "clearedAt"}
    second = finished(site, "hello", "clear-1")
    assert "turns=()" in remembered(site, second)
    assert site.api.run(first["runId"]) == first
    check_record(site.api.trace(first))
    check_error(site.api.post("/api/sessions/nobodys/clear"), 404, "SESSION_NOT_FOUND")
    check_error(site.api.post("/api/sessions/a%00b/clear"), 400)


# ---- the stream -----------------------------------------------------------------------------------------------


def streamed(site: Site, query: str) -> list[SentEvent]:
    answer = site.api.post("/api/chat_stream", {"query": query})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert "no-store" in answer.headers["cache-control"]
    return list(read_events(answer.text))


def told_of(event: dict[str, Any]) -> dict[str, Any]:
    """An event but for its time, which the two tell to another precision."""
    return event | {"createdAt": event["createdAt"][:19]}


@pytest.mark.parametrize("query", ["hello", "Why is checkout slow?", "What does the runbook say about DNS failures?"])
def test_the_stream_tells_who_then_what_then_the_result(site: Site, query: str) -> None:
    first, *events, result, done = streamed(site, query)
    assert (first.event, result.event, done.event) == ("metadata", "result", "done")
    assert set(first.data) == {"runId", "sessionId", "url"}
    assert {event.event for event in events} == {"event"}
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    run = site.api.run(first.data["runId"])
    assert [told_of(event.data) for event in events] == [told_of(frame) for frame in site.api.trace(run)["timeline"]]
    assert result.data["publishedResult"] == run["publishedResult"]
    assert set(result.data) == RUN_KEYS
    assert run["status"] == "SUCCESS"


# ---- the page -------------------------------------------------------------------------------------------------


def answered_page(site: Site, browser: httpx.Client, page: httpx.Response) -> str:
    """The conversation's page once the last of its turns has ended."""
    run_ids = re.findall(r'id="turn-(run_\w+)"', page.text)
    site.api.ended(run_ids[-1])
    return browser.get(page.url.path).text


def test_the_page_asks_answers_and_leads_to_the_proof_as_a_plain_form(site: Site) -> None:
    with browser_of(site.instance, "ada") as browser:
        began = sent(browser, browser.get("/chat/").text, "/chat/", query="Why is checkout-api failing?")
        assert began.status_code == 200
        page = answered_page(site, browser, began)
        assert "HikariPool-1 - Connection is not available" in page
        run_id, proof = re.findall(r'href="/runs/(run_\w+)/#(proof-\d+)"', page)[0]
        assert f'id="{proof}"' in browser.get(f"/runs/{run_id}/").text
        sent(browser, page, f"/runs/{run_id}/feedback/", rating="wrong", note="It was the disk.", back="chat")
        assert "It was the disk." in browser.get(f"/runs/{run_id}/feedback/").text
        assert run_id in browser.get("/?feedback=wrong").text
        on = sent(browser, page, began.url.path, query="And yesterday?")
        assert on.url.path == began.url.path
        assert answered_page(site, browser, on).count("<article") == 2
        assert began.url.path in browser.get("/chat/?q=HikariPool").text
        sent(browser, page, f"{began.url.path}clear/")
        assert "The memory was cleared here." in browser.get(began.url.path).text
    with browser_of(site.instance, "bob") as other:
        assert other.get(began.url.path).status_code == 404
        assert began.url.path not in other.get("/chat/").text
        assert sent(other, other.get("/chat/").text, began.url.path, query="Hm?").status_code == 404


def test_the_page_refuses_what_the_api_refuses(site: Site) -> None:
    with browser_of(site.instance, "ada") as browser:
        page = browser.get("/chat/").text
        for words in ("", "x" * 2001, "连" * 2001):
            assert sent(browser, page, "/chat/", query=words).status_code == 422
        assert browser.post("/chat/", data={"query": "Why?"}).status_code == 403


# ---- searching ------------------------------------------------------------------------------------------------


def test_similar_passages_are_found(site: Site) -> None:
    answer = site.reader.post("/api/search/similar", {"query": "disk filling up, no space left on device", "topK": 3})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert set(found) == {"l0", "hits"}
    assert 1 <= len(found["hits"]) <= 3
    for hit in found["hits"]:
        assert set(hit) == {"documentId", "chunkId", "title", "text", "score", "relevanceLevel"}
    assert found["hits"][0]["documentId"] == "disk-filling-up"
    assert {"documentId", "kind", "matched"} == set(found["l0"][0])


@pytest.mark.parametrize(
    "body", [{}, {"query": ""}, {"query": "x" * 1001}, {"query": "a\0"}, {"query": "x", "topK": 0}, {"query": 1}]
)
def test_what_cannot_be_searched_is_refused(site: Site, body: Any) -> None:
    check_error(site.reader.post("/api/search/similar", body), 422)


def test_searching_needs_a_caller(site: Site) -> None:
    check_error(site.nobody.post("/api/search/similar", {"query": "x"}), 401)
