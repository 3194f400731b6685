import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gatekeeper.types import EvidenceStatus
from runs.errors import ToolFailed, ToolRejected
from runs.tools.alerts import QueryAlerts
from runs.tools.http import Server
from tests.runs.tools.context import call
from tests.runs.tools.http_server import Answer, serve


def alert(name: str, severity: str | None, since: str, **labels: str) -> dict[str, Any]:
    marked = {"severity": severity} if severity else {}
    return {
        "labels": {"alertname": name, **marked, **labels},
        "annotations": {"summary": f"{name} happens", "description": "Look at redis://:s3cret@cache"},
        "startsAt": since,
        "status": {"state": "active", "inhibitedBy": [], "silencedBy": []},
    }


ALERTS = [
    alert("Minor", "info", "2026-11-12T08:00:00.000Z", service="a"),
    alert("Younger", "critical", "2026-11-12T10:05:00.123456789Z", service="b"),
    alert("Older", "critical", "2026-11-12T10:00:00Z", service="a"),
    alert("Unrated", None, "not a time"),
]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as opened:
        yield opened


async def test_active_alerts_are_told_the_most_severe_and_oldest_first(client: httpx.AsyncClient) -> None:
    with serve(lambda seen: Answer(json.dumps(ALERTS).encode())) as running:
        result = await call(QueryAlerts(Server("Alertmanager", running.url, client, 10)))
    assert [row["alertname"] for row in result.output["alerts"]] == ["Older", "Younger", "Minor", "Unrated"]
    assert result.evidence_refs[0].text == (
        "Older (critical) is active since 2026-11-12T10:00:00Z on service=a: Older happens. "
        "Look at redis://:[redacted]@cache."
    )
    assert result.output["alerts"][1]["starts_at"] == "2026-11-12T10:05:00.123Z"
    assert result.output["alerts"][3]["starts_at"] is None
    assert dict(httpx.URL(running.seen[0].path).params) == {
        "active": "true",
        "silenced": "false",
        "inhibited": "false",
        "unprocessed": "true",
    }


async def test_labels_narrow_and_nothing_left_says_how_many_were_looked_at(client: httpx.AsyncClient) -> None:
    with serve(lambda seen: Answer(json.dumps(ALERTS).encode())) as running:
        tool = QueryAlerts(Server("Alertmanager", running.url, client, 10))
        some = await call(tool, match=["service=a", 'severity = "critical"'])
        none = await call(tool, match=["service=zzz"])
    assert [row["alertname"] for row in some.output["alerts"]] == ["Older"]
    assert none.status is EvidenceStatus.NO_EVIDENCE
    assert none.evidence_refs[0].text == (
        "query_alerts found no active alert with service=zzz at 2026-11-12T10:10:00Z: 4 active alerts were looked at."
    )


@pytest.mark.parametrize("matcher", ["service", "service=~a.*", "se rvice=a", "=a"])
async def test_only_equality_is_understood(client: httpx.AsyncClient, matcher: str) -> None:
    with pytest.raises(ToolRejected):
        await call(QueryAlerts(Server("Alertmanager", "http://127.0.0.1:9", client, 1)), match=[matcher])


async def test_prometheus_alone_answers_with_pending_ones_too(client: httpx.AsyncClient) -> None:
    rows = [
        {"labels": {"alertname": "A"}, "state": "pending", "activeAt": "2026-11-12T10:00:00Z", "value": "1e+00"},
        {"labels": {"alertname": "B"}, "annotations": {}, "state": "firing", "activeAt": "2026-11-12T09:00:00Z"},
    ]
    body = json.dumps({"status": "success", "data": {"alerts": rows}}).encode()
    with serve(lambda seen: Answer(body)) as running:
        result = await call(QueryAlerts(Server("Prometheus", running.url, client, 10), prometheus=True))
    assert running.seen[0].path == "/api/v1/alerts"
    assert [row["text"] for row in result.output["alerts"]] == [
        "B is firing since 2026-11-12T09:00:00Z",
        "A is pending since 2026-11-12T10:00:00Z",
    ]


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'[{"labels": {}}]', b'[{"labels": [], "status": {"state": "x"}}]'])
async def test_another_shape_is_a_failure_not_an_absence(client: httpx.AsyncClient, body: bytes) -> None:
    with serve(lambda seen: Answer(body)) as running, pytest.raises(ToolFailed) as error:
        await call(QueryAlerts(Server("Alertmanager", running.url, client, 10)))
    assert error.value.error_code == "BAD_ANSWER"
