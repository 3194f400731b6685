"""Whoever stops a question reaches the call in flight, and the model's server sees the abandoned request close."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.e2e.outside import details_of, event_types, evidence_of, make_callers, read_events
from tests.e2e.recovering import EXECUTOR, WORKER, Site, recovery_site
from tests.e2e.test_recovery_phases import second_worker
from tests.servers.openai_compatible import Answer, Hang
from tests.superbiz.instance import PATIENCE_S


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("chat-cancel") / "var"
    with recovery_site(folder, SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted")) as site:
        api = make_callers(site.instance, {"chat": ["chat:write", "runs:read", "runs:cancel"]})["chat"]
        yield replace(site, api=api)


def hang(site: Site, schema: str = EXECUTOR) -> int:
    """Have this role's next request hang; how many it had asked before."""
    site.server.script(schema, Hang())
    return len(site.server.asked_by(schema))


def ask(site: Site) -> str:
    answer = site.api.post("/api/chat", {"query": "Why is checkout slow?"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["runId"])


def ask_and_hang(site: Site, schema: str = EXECUTOR) -> str:
    before = hang(site, schema)
    run_id = ask(site)
    site.server.wait_until(lambda server: len(server.asked_by(schema)) > before, PATIENCE_S)
    return run_id


def check_cancelled(site: Site, run_id: str, reason: str) -> dict[str, Any]:
    run = site.api.ended(run_id)
    assert (run["status"], run["cancelReason"], run["failureCode"]) == ("CANCELLED", reason, None)
    assert run["publishedResult"] is None
    trace = site.api.trace(run)
    assert event_types(trace).count("RUN_FINISHED") == 1
    site.check_ended_once(run)
    return trace


@pytest.mark.parametrize("schema", ["router_intent", "chat_plan", EXECUTOR, "verifier_evaluation", "composer_output"])
def test_the_api_cancels_a_question_in_every_call(site: Site, schema: str) -> None:
    run_id = ask_and_hang(site, schema)
    gone = len(site.server.disconnects)
    assert site.api.post(f"/api/runs/{run_id}/cancel").status_code == 202
    site.server.wait_until(lambda server: server.disconnects[gone:] == [schema], PATIENCE_S)
    check_cancelled(site, run_id, "USER_REQUESTED")


def raw_stream(site: Site) -> tuple[socket.socket, str]:
    """A socket that has read the stream as far as the run's id."""
    body = json.dumps({"query": "Why is checkout slow?"}).encode()
    head = (
        f"POST /api/chat_stream HTTP/1.1\r\nHost: 127.0.0.1:{site.instance.port}\r\n"
        f"Authorization: {site.api.http.headers['Authorization']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", site.instance.port), timeout=PATIENCE_S)
    connection.sendall(head.encode() + body)
    read = b""
    while b"\n\n" not in read.partition(b"event: metadata")[2]:
        read += connection.recv(65536)
    data = read.partition(b"data: ")[2].partition(b"\n")[0]
    return connection, str(json.loads(data)["runId"])


def test_a_client_that_goes_away_cancels_its_question(site: Site) -> None:
    before = hang(site)
    connection, run_id = raw_stream(site)
    site.server.wait_until(lambda server: len(server.asked_by(EXECUTOR)) > before, PATIENCE_S)
    gone = len(site.server.disconnects)
    connection.close()
    site.server.wait_until(lambda server: server.disconnects[gone:] == [EXECUTOR], PATIENCE_S)
    trace = check_cancelled(site, run_id, "CLIENT_DISCONNECTED")
    assert details_of(trace, "RUN_CANCEL_REQUESTED") == [{"reason": "CLIENT_DISCONNECTED", "requestedBy": None}]


def test_a_client_that_goes_away_while_its_question_waits_cancels_it(site: Site) -> None:
    worker = site.pid_of(WORKER)
    os.kill(worker, signal.SIGSTOP)
    try:
        connection, run_id = raw_stream(site)
        connection.close()
        run = site.api.ended(run_id)
    finally:
        os.kill(worker, signal.SIGCONT)
    assert (run["status"], run["cancelReason"]) == ("CANCELLED", "CLIENT_DISCONNECTED")


def test_who_watches_or_waits_cancels_nothing_by_going_away(site: Site) -> None:
    before = hang(site)
    with pytest.raises(httpx.ReadTimeout):
        site.api.http.post("/api/chat", params={"wait": 60}, json={"query": "Why is checkout slow?"}, timeout=2.0)
    site.server.wait_until(lambda server: len(server.asked_by(EXECUTOR)) > before, PATIENCE_S)
    run_id = site.api.found("/api/runs", trigger="CHAT", limit=1)["items"][0]["runId"]
    with pytest.raises(httpx.ReadTimeout):
        site.api.http.get(f"/api/runs/{run_id}/events", timeout=1.0)
    assert site.api.run(run_id)["status"] == "RUNNING"
    site.api.post(f"/api/runs/{run_id}/cancel")
    check_cancelled(site, run_id, "USER_REQUESTED")


# What a cancel request leaves behind where Redis lost its message: the mark on the row.
MARK = """
from django.utils.timezone import now
from runs.models import DiagnosisRun
marked = DiagnosisRun.objects.filter(id={run_id!r}, status="RUNNING")
print(marked.update(cancel_requested_at=now(), cancel_requested_reason="USER_REQUESTED"))
"""


def test_a_lost_broadcast_is_made_up_for_by_the_heartbeat(site: Site) -> None:
    run_id = ask_and_hang(site)
    gone = len(site.server.disconnects)
    done = site.instance.manage("shell", "-c", MARK.format(run_id=run_id))
    assert done.stdout.split()[-1:] == ["1"], done.stderr
    site.server.wait_until(lambda server: len(server.disconnects) > gone, PATIENCE_S)
    run = site.api.ended(run_id)
    assert (run["status"], run["cancelReason"]) == ("CANCELLED", "USER_REQUESTED")


def test_shutting_the_worker_down_ends_a_question(site: Site) -> None:
    run_id = ask_and_hang(site)
    gone = len(site.server.disconnects)
    os.kill(site.pid_of(WORKER), signal.SIGTERM)
    site.server.wait_until(lambda server: len(server.disconnects) > gone, PATIENCE_S)
    check_cancelled(site, run_id, "SHUTDOWN")
    site.wait_until_ready()


def test_a_killed_worker_fails_its_question(site: Site) -> None:
    run_id = ask_and_hang(site)
    os.kill(site.pid_of(WORKER), signal.SIGKILL)
    run = site.api.ended(run_id)
    assert (run["status"], run["failureCode"]) == ("FAILED", "WORKER_LOST")
    site.wait_until_ready()


def test_two_workers_hold_questions_and_each_is_reached(site: Site) -> None:
    with second_worker(site):
        before = len(site.server.asked_by(EXECUTOR))
        site.server.always(Hang(), schema=EXECUTOR)
        try:
            run_ids = [ask(site) for _ in range(6)]
            site.server.wait_until(lambda server: len(server.asked_by(EXECUTOR)) == before + 6, PATIENCE_S)
            gone = len(site.server.disconnects)
            for run_id in run_ids:
                assert site.api.post(f"/api/runs/{run_id}/cancel").status_code == 202
            site.server.wait_until(lambda server: server.disconnects[gone:] == [EXECUTOR] * 6, PATIENCE_S)
        finally:
            site.server.always(site.server.brain, schema=EXECUTOR)
    for run_id in run_ids:
        check_cancelled(site, run_id, "USER_REQUESTED")


VIOLATIONS: dict[str, Callable[[], Any]] = {
    "a field more": lambda: {"intent": "DIAGNOSIS", "reason": "it is slow"},
    "prose": lambda: Answer("It is a DIAGNOSIS."),
}


@pytest.mark.parametrize("said", VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_a_router_outside_its_contract_is_on_record(site: Site, said: Callable[[], Any]) -> None:
    site.server.script("router_intent", said())
    run = site.api.ended(ask(site))
    assert (run["status"], run["intent"]) == ("SUCCESS", "DIAGNOSIS")
    (decision,) = details_of(site.api.trace(run), "ROUTING_DECISION")
    assert decision["source"] == "FALLBACK"
    assert decision["violation"]


def test_no_word_that_was_not_released_is_streamed(site: Site) -> None:
    secret = "UNRELEASED-WORDS"

    def rambling(question: Any) -> Answer:
        return Answer(f"{secret}: I think it is the database.", thinking=f"{secret}-THOUGHT")

    site.server.script("chat_plan", rambling)
    site.server.always(rambling, schema=EXECUTOR)
    try:
        answer = site.api.post("/api/chat_stream", {"query": "Why is checkout slow?"})
    finally:
        site.server.always(site.server.brain, schema=EXECUTOR)
    sent = list(read_events(answer.text))
    assert [sent[0].event, sent[-2].event, sent[-1].event] == ["metadata", "result", "done"]
    assert sent[-2].data["status"] == "DEGRADED"
    assert secret not in answer.text


def test_the_deadline_cancels_a_question(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("chat-deadline") / "var"
    settings = {"SUPERBIZ_RUN_DEADLINE_S": "4", "SUPERBIZ_RECORDED_EVIDENCE": evidence_of("pool-exhausted")}
    with recovery_site(folder, **settings) as site:
        api = make_callers(site.instance, {"chat": ["chat:write", "runs:read"]})["chat"]
        site = replace(site, api=api)
        site.server.always(Hang(), schema="verifier_evaluation")
        run_id = ask(site)
        site.server.wait_until(lambda server: "verifier_evaluation" in server.disconnects, PATIENCE_S)
        run = site.api.ended(run_id)
        assert (run["status"], run["cancelReason"]) == ("CANCELLED", "DEADLINE")
