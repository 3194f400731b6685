import json
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from runs.models import DiagnosisRun
from runs.models.token import Scope
from tests.factories import RunFactory, TokenFactory, UserFactory
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db
HOOK = "/api/alerts/alertmanager"
BODY = {"alerts": [{"labels": {"alertname": "HighErrorRate"}, "fingerprint": "aa"}]}


@pytest.fixture
def client() -> Client:
    """A machine with every scope."""
    TokenFactory(secret="machine", scopes=Scope.values)
    return Client(headers={"Authorization": "Bearer machine"})


def post(client: Client, body: Any, path: str = HOOK) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, raw, content_type="application/json")


# ---- alerts ---------------------------------------------------------------------------------------------------


def test_an_alert_is_answered_with_its_run(client: Client) -> None:
    answer = post(client, BODY)
    run = DiagnosisRun.objects.get()
    assert (answer.status_code, answer.json()) == (
        202,
        {
            "accepted": 1,
            "deduplicated": 0,
            "resolved": 0,
            "ignored": 0,
            "runs": [
                {
                    "runId": run.id,
                    "sessionId": "alert-aa",
                    "alertName": "HighErrorRate",
                    "url": f"http://testserver/runs/{run.id}/",
                }
            ],
        },
    )
    assert run.requested_by_token is not None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "BAD_JSON"),
        (b"{", 400, "BAD_JSON"),
        (b'{"alerts": "\0"}', 400, "BAD_JSON"),
        (b"[" * 50_000, 400, "BAD_JSON"),
        (b'{"alerts":' * 50_000, 400, "BAD_JSON"),
        (b"[]", 422, "BAD_BODY"),
        (b'{"alerts": 3}', 422, "BAD_BODY"),
        (b'{"alerts": [3, {"labels": "x"}]}', 422, "BAD_BODY"),
        (b" " * (1024 * 1024 + 1), 413, "BODY_TOO_LARGE"),
    ],
    ids=["empty", "cut", "nul", "nested", "nested-objects", "list", "number", "no alert in it", "large"],
)
def test_a_bad_body_is_told_in_the_api_s_shape(client: Client, body: bytes, status: int, code: str) -> None:
    answer = post(client, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert set(answer.json()) == {"code", "message"}


@pytest.mark.parametrize("sender", ["alertmanager", "grafana"])
def test_one_unreadable_alert_takes_no_other_with_it(client: Client, sender: str) -> None:
    body = {"alerts": [3, *BODY["alerts"], {"labels": "x"}]}
    answer = post(client, body, f"/api/alerts/{sender}")
    told = answer.json()
    assert (answer.status_code, told["accepted"], len(told["runs"])) == (202, 1, 1)
    assert told["unreadable"] == [
        {"index": 0, "message": "An alert must be an object."},
        {"index": 2, "message": "An alert's labels and annotations must be objects."},
    ]


def test_alerts_need_their_scope(client: Client) -> None:
    TokenFactory(secret="reader", scopes=["runs:read"])
    assert Client().post(HOOK).status_code == 401
    refused = Client().post(HOOK, headers={"Authorization": "Bearer reader"})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


# ---- runs -----------------------------------------------------------------------------------------------------

RUN_KEYS = {
    "runId", "sessionId", "trigger", "intent", "status", "outcome", "verdict", "releaseDecision", "failureCode",
    "cancelReason", "query", "publishedResult", "safeContent", "selfEvaluation", "ruleSetVersion", "promptSetVersion",
    "model", "tokens", "costUsd", "modelCalls", "toolCalls", "queuedAt", "startedAt", "finishedAt", "url",
}  # fmt: skip


def test_a_run_is_shown_whole(client: Client) -> None:
    run = RunFactory(success=True, input_tokens=3, output_tokens=4)
    shown = client.get(f"/api/runs/{run.id}").json()
    assert set(shown) == RUN_KEYS
    assert shown["tokens"] == {"input": 3, "output": 4, "total": 7}
    assert shown["publishedResult"]["claims"][0]["evidence"][0]["sourceInvocationId"] == "inv_aaaaaa"
    assert (shown["outcome"], shown["failureCode"], shown["costUsd"]) == ("SUCCESS", None, None)


@pytest.mark.parametrize(("run_id", "status"), [("run_none", 404), ("%00", 400), ("run_%00", 400)])
def test_an_unknown_run_is_not_found(client: Client, run_id: str, status: int) -> None:
    answer = client.get(f"/api/runs/{run_id}")
    assert (answer.status_code, set(answer.json())) == (status, {"code", "message"})


def test_the_list_is_paged_without_gap_or_repeat(client: Client) -> None:
    runs = [RunFactory().id for _ in range(5)]
    DiagnosisRun.objects.filter(id__in=runs[:2]).update(queued_at=DiagnosisRun.objects.get(id=runs[2]).queued_at)
    seen, cursor = [], ""
    while cursor is not None:
        page = client.get("/api/runs", {"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["runId"] for item in page["items"]]
        cursor = page["nextCursor"]
    assert sorted(seen) == sorted(runs)
    assert len(seen) == 5


def test_the_list_is_filtered(client: Client) -> None:
    chat, failed = RunFactory(trigger="CHAT", subject={"version": 1}), RunFactory(failed=True)

    def found(**query: str) -> set[str]:
        return {item["runId"] for item in client.get("/api/runs", query).json()["items"]}

    assert found(trigger="CHAT") == {chat.id}
    assert found(outcome="FAILED") == {failed.id}
    assert found(status="QUEUED") == {chat.id}
    assert found(alertName="HighErrorRate") == {failed.id}
    assert found(sessionId=chat.session_id) == {chat.id}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"status": "PAUSED"}, 422),
        ({"limit": "0"}, 422),
        ({"limit": "x"}, 422),
        ({"outcme": "FAILED"}, 422),
        ({"cursor": "x"}, 400),
        ({"cursor": "MjAyNiBydW4="}, 400),
    ],
)
def test_a_bad_filter_is_refused(client: Client, query: dict[str, str], status: int) -> None:
    answer = client.get("/api/runs", query)
    assert answer.status_code == status
    assert answer.json()["code"] in {"VALIDATION_FAILED", "UNKNOWN_FILTER", "BAD_CURSOR"}


def test_cancelling_is_accepted_again_and_again(client: Client, told: Told) -> None:
    run = RunFactory()
    for _ in range(2):
        answer = client.post(f"/api/runs/{run.id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "CANCELLED")
    run.refresh_from_db()
    assert run.cancel_reason == "USER_REQUESTED"


def test_cancelling_what_ended_otherwise_tells_how(client: Client) -> None:
    run = RunFactory(failed=True)
    answer = client.post(f"/api/runs/{run.id}/cancel")
    assert answer.status_code == 409
    assert answer.json()["details"] == {"runId": run.id, "outcome": "FAILED"}


def test_people_only_see_and_cancel_what_is_theirs() -> None:
    client = Client()
    client.force_login(UserFactory())
    theirs = RunFactory(session__owner=UserFactory())
    shared = RunFactory()
    assert [item["runId"] for item in client.get("/api/runs").json()["items"]] == [shared.id]
    assert client.get(f"/api/runs/{theirs.id}").status_code == 404
    assert client.post(f"/api/runs/{theirs.id}/cancel").status_code == 404


def test_the_list_takes_the_filters_and_orders_of_the_page(client: Client) -> None:
    failed = RunFactory(failed=True, trigger="CHAT", query="为什么延迟？")
    answered = RunFactory(success=True, input_tokens=7)
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"verdict": "PASS", "intent": "DIAGNOSIS"}, {answered.id}),
        ({"label": ["service=checkout-api", "alertname=HighErrorRate"]}, {failed.id, answered.id}),
        ({"label": "service=other"}, set()),
        ({"q": "延迟"}, {failed.id}),
        ({"q": "pool", "sort": "most-tokens"}, {answered.id}),
        ({"who": "nobody"}, set()),
        ({"until": "2001-01-01T00:00:00Z"}, set()),
    ]
    for asked, want in cases:
        answer = client.get("/api/runs", asked)
        assert answer.status_code == 200, answer.content
        assert {item["runId"] for item in answer.json()["items"]} == want, asked
    for wrong in ({"label": "nonsense"}, {"since": "2031-03-04T05:06"}, {"verdict": "X"}, {"sort": "x"}):
        assert client.get("/api/runs", wrong).status_code == 422, wrong
    first = client.get("/api/runs", {"sort": "longest", "limit": 1}).json()
    second = client.get("/api/runs", {"sort": "longest", "limit": 1, "cursor": first["nextCursor"]}).json()
    assert {item["runId"] for item in (*first["items"], *second["items"])} == {failed.id, answered.id}
    assert client.get("/api/runs", {"cursor": first["nextCursor"]}).json()["code"] == "BAD_CURSOR"


# ---- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "/api/nothing", 404, "NOT_FOUND"),
        ("get", "/api/", 404, "NOT_FOUND"),
        ("delete", "/api/runs", 405, "METHOD_NOT_ALLOWED"),
        ("get", HOOK, 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_every_error_has_one_shape(client: Client, method: str, path: str, status: int, code: str) -> None:
    answer = getattr(client, method)(path)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/json")
    assert answer.json()["code"] == code


def test_a_wrong_host_is_told_as_json(client: Client) -> None:
    answer = client.get("/api/runs", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")


def test_a_crash_tells_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    monkeypatch.setattr("runs.api.filtered", crash)
    answer = client.get("/api/runs")
    assert (answer.status_code, answer.json()) == (
        500,
        {"code": "INTERNAL", "message": "Something unexpected went wrong."},
    )


def test_a_database_that_is_away_is_worth_another_try(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("connection to /var/run failed")

    monkeypatch.setattr("runs.api.filtered", away)
    answer = client.get("/api/runs")
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert "/var/run" not in answer.content.decode()


def test_the_docs_need_no_other_host() -> None:
    page = Client().get("/api/docs")
    assert page.status_code == 200
    assert "://" not in page.content.decode().replace("http://www.w3.org", "")
    assert "/static/ninja/swagger-ui-bundle.js" in page.content.decode()
    assert Client().get("/static/ninja/swagger-ui-bundle.js").status_code == 200
    assert 'data-api-csrf="true"' in page.content.decode()
    spec = Client().get("/api/openapi.json").json()
    assert {"/api/alerts/alertmanager", "/api/runs", "/api/runs/{run_id}"} <= set(spec["paths"])
