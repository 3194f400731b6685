"""A running SuperBiz as other programs and people meet it: over HTTP and through its commands."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from superbiz.env import BASE_DIR
from tests.superbiz.instance import PATIENCE_S, Instance

INCIDENTS = BASE_DIR / "eval" / "incidents"
HOOK = "/api/alerts/alertmanager"
TERMINAL = {"SUCCESS", "DEGRADED", "FAILED", "CANCELLED"}
PASSWORD = "correct horse battery staple"


def evidence_of(slug: str) -> str:
    return str(INCIDENTS / slug / "evidence")


def alert_body(slug: str) -> dict[str, Any]:
    """A bundled incident's webhook body."""
    body: dict[str, Any] = json.loads((INCIDENTS / slug / "alert.json").read_text(encoding="utf-8"))
    return body


def alert_of(slug: str, fingerprint: str, **labels: str) -> dict[str, Any]:
    """A bundled incident's alert as one that has not been seen before."""
    alert: dict[str, Any] = alert_body(slug)["alerts"][0]
    return alert | {"fingerprint": fingerprint, "labels": alert["labels"] | labels}


@dataclass(frozen=True)
class SentEvent:
    """One server-sent event."""

    id: int | None
    event: str
    data: Any


def read_events(text: str) -> Iterator[SentEvent]:
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        if "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield SentEvent(number, fields["event"], json.loads(fields["data"]))


class Outside:
    """A caller with a token, or nobody where there is none."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.http.get(path, params=query)

    def post(self, path: str, body: Any = None) -> httpx.Response:
        if isinstance(body, bytes):
            return self.http.post(path, content=body, headers={"Content-Type": "application/json"})
        return self.http.post(path, json=body)

    def found(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that must be 200."""
        answer = self.get(path, **query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def send(self, *alerts: Mapping[str, Any]) -> dict[str, Any]:
        """Post alerts as one group; what the webhook said."""
        answer = self.post(HOOK, {"version": "4", "status": "firing", "alerts": list(alerts)})
        assert answer.status_code == 202, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def start(self, alert: Mapping[str, Any]) -> str:
        """Post a new alert; the id of the run that it starts."""
        (started,) = self.send(alert)["runs"]
        return str(started["runId"])

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.found(f"/api/runs/{run_id}")
        return found

    def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for the run's end."""
        deadline = time.monotonic() + PATIENCE_S
        while (run := self.run(run_id))["status"] not in TERMINAL:
            assert time.monotonic() < deadline, f"{run_id} is still {run['status']}"
            time.sleep(0.1)
        return run

    def trace(self, run: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.found(f"/api/diagnosis/{run['sessionId']}/trace", runId=run["runId"])
        return found

    def events(self, run_id: str, headers: Mapping[str, str] | None = None, **query: Any) -> list[SentEvent]:
        """The run's stream to its end."""
        answer = self.http.get(f"/api/runs/{run_id}/events", params=query, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(read_events(answer.text))


def check_record(trace: Mapping[str, Any]) -> None:
    """What holds of the trace of every run that has ended: whole, in order, chained, its references resolve."""
    timeline = trace["timeline"]
    assert [event["sequenceNo"] for event in timeline] == list(range(1, len(timeline) + 1))
    steps = {step["id"] for step in trace["steps"]}
    calls = {call["invocationId"]: call["stepId"] for call in trace["toolInvocations"]}
    for event in timeline:
        assert event["stepId"] in steps | {None}
        if event["invocationId"] is not None:
            assert calls[event["invocationId"]] == event["stepId"]
    assert set(calls.values()) <= steps
    assert [event["eventType"] for event in timeline].count("RUN_FINISHED") == 1
    assert timeline[-1]["eventType"] == "RUN_FINISHED"
    summary = trace["summary"]
    assert summary["complete"] is True, summary
    assert summary["chainValid"] is True, summary
    assert summary["tokens"]["consistent"] is True, summary
    for part in ("events", "steps", "toolInvocations", "modelCalls"):
        assert summary[part]["emitted"] == summary[part]["persisted"] == summary[part]["returned"], part


def event_types(trace: Mapping[str, Any]) -> list[str]:
    return [event["eventType"] for event in trace["timeline"]]


def details_of(trace: Mapping[str, Any], event_type: str) -> list[dict[str, Any]]:
    return [event["details"] for event in trace["timeline"] if event["eventType"] == event_type]


# ---- who calls ------------------------------------------------------------------------------------------------

MAKE_CALLERS = """
import json, sys
from django.contrib.auth.models import Permission, User
from runs.tokens import create_token
wanted = json.loads({wanted!r})
for name, (staff, permissions) in wanted["people"].items():
    user = User.objects.create_user(name, password={password!r}, is_staff=staff)
    user.user_permissions.set(p for p in Permission.objects.all() if p.codename.startswith(tuple(permissions)))
print(json.dumps({{name: create_token(name, scopes) for name, scopes in wanted["tokens"].items()}}))
"""


def make_callers(
    instance: Instance,
    tokens: Mapping[str, list[str]],
    people: Mapping[str, tuple[bool, list[str]]] | None = None,
) -> dict[str, Outside]:
    """Callers by token name. `people`: by name, whether they are staff and how their permissions' names begin."""
    wanted = json.dumps({"tokens": tokens, "people": people or {}})
    done = instance.manage("shell", "-c", MAKE_CALLERS.format(wanted=wanted, password=PASSWORD))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout.splitlines()[-1])
    return {name: Outside(instance.url, token) for name, token in made.items()}


@contextmanager
def browser_of(instance: Instance, name: str) -> Iterator[httpx.Client]:
    """The browser of a person who has signed in with their password."""
    with httpx.Client(base_url=instance.url, timeout=PATIENCE_S, follow_redirects=True) as browser:
        form = browser.get("/sign-in/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)
        assert token, form.text
        given = {"csrfmiddlewaretoken": token[1], "username": name, "password": PASSWORD}
        answer = browser.post("/sign-in/", data=given, headers={"Referer": f"{instance.url}/sign-in/"})
        assert answer.url.path != "/sign-in/", answer.text
        yield browser


def sent(browser: httpx.Client, page: str, path: str, **fields: str) -> httpx.Response:
    """A form of the page, filled in and sent without any script; where it led."""
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token, page
    form = {"csrfmiddlewaretoken": token[1], **fields}
    return browser.post(path, data=form, headers={"Referer": str(browser.base_url)})


def verify_ledger(instance: Instance, run_id: str) -> None:
    done = instance.manage("verify_ledger", run_id)
    assert done.returncode == 0, done.stdout + done.stderr
