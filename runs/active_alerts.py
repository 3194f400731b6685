"""The alerts that are active now, as a notice: from Alertmanager, else from Prometheus, else from the recording.

`runs.tools.alerts` asks the same servers for a run's evidence. Here each alert is read as one that came in by itself,
with the fingerprint, times and address that its server gives it.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from runs.alertpayload import MAX_ALERTS, IncomingAlert, Notice, read_alert
from runs.errors import RunError, ToolFailed
from runs.tools.http import Params, Server
from runs.tools.recorded import BASE_URL, client_of, load_recording
from runs.tools.registry import Sources, new_client

TIMEOUT_S = 10.0
ALERTMANAGER: tuple[str, Params] = (
    "/api/v2/alerts",
    [("active", "true"), ("silenced", "false"), ("inhibited", "false"), ("unprocessed", "true")],
)
PROMETHEUS: tuple[str, Params] = ("/api/v1/alerts", ())


class NoSource(RunError):
    """No server is set that could be asked."""


@dataclass(frozen=True, slots=True)
class Source:
    server: Server
    prometheus: bool


def _source(sources: Sources, client: httpx.AsyncClient) -> Source:
    if sources.recorded_evidence is not None:
        return Source(Server("The recording", BASE_URL, client, TIMEOUT_S), prometheus=False)
    if sources.alertmanager_url is not None:
        return Source(Server("Alertmanager", sources.alertmanager_url, client, TIMEOUT_S), prometheus=False)
    if sources.prometheus_url is not None:
        return Source(Server("Prometheus", sources.prometheus_url, client, TIMEOUT_S), prometheus=True)
    raise NoSource("Neither ALERTMANAGER_URL nor PROMETHEUS_URL is set: send the alert in the body.")


async def active_alerts(sources: Sources) -> Notice:
    """What is firing and not silenced there, the most severe first.

    Raises `NoSource`, `ToolFailed` or `ToolRejected` where the source cannot tell, `ConfigurationError` for a wrong
    recording.
    """
    async with _client(sources) as client:
        source = _source(sources, client)
        path, params = PROMETHEUS if source.prometheus else ALERTMANAGER
        answer = await source.server.get(path, params)
    try:
        alerts = list(_from_prometheus(answer) if source.prometheus else _from_alertmanager(answer))
    except (KeyError, TypeError, AttributeError) as error:
        title = source.server.title
        raise ToolFailed(f"{title} answered in a form that is not its own.", error_code="BAD_ANSWER") from error
    return Notice(group_key="", alerts=tuple(sorted(alerts, key=lambda alert: alert.urgency)[:MAX_ALERTS]))


@asynccontextmanager
async def _client(sources: Sources) -> AsyncIterator[httpx.AsyncClient]:
    recorded = sources.recorded_evidence
    client = new_client() if recorded is None else client_of(load_recording(recorded))
    try:
        yield client
    finally:
        await client.aclose()


def _from_alertmanager(answer: Any) -> Iterator[IncomingAlert]:
    for row in _objects(answer):
        if row["status"]["state"] in {"active", "unprocessed"}:
            yield _alert(row, row.get("startsAt"))


def _from_prometheus(answer: Any) -> Iterator[IncomingAlert]:
    for row in _objects(answer["data"]["alerts"]):
        if row["state"] == "firing":
            yield _alert(row, row.get("activeAt"))


def _objects(rows: Any) -> list[Mapping[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError("not a list of objects")
    return rows


def _alert(row: Mapping[str, Any], starts_at: Any) -> IncomingAlert:
    """`status` is an object there, and all of them fire."""
    if not all(isinstance(row.get(part), dict | None) for part in ("labels", "annotations")):
        raise TypeError("labels and annotations are objects")
    return read_alert({**row, "status": "firing", "startsAt": starts_at, "endsAt": None}, {})
