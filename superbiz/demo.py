"""The demo: the bundled incident through the real webhook, followed live, reported in the terminal."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
from asgiref.sync import sync_to_async
from rich.console import Console
from rich.text import Text

from runs.report import text_report
from runs.tokens import create_token
from superbiz.env import BASE_DIR

INCIDENT = BASE_DIR / "eval" / "incidents" / "pool-exhausted"
FOLLOW_S = 120.0
SCOPES = ("alerts:write", "runs:read")
LOUD = frozenset({"FAILED", "TIMEOUT", "REJECTED", "REJECT", "WITHHELD", "CANCELLED"})


class DemoFailed(Exception):
    """The demo could not be carried through; the message is one line for the person at the terminal."""


async def run_demo(base_url: str) -> int:
    """Post the incident, follow its run, print the report. Returns the exit code: 0 released, 3 withheld, 1 failed."""
    console = Console(highlight=False, soft_wrap=True)
    token = await sync_to_async(create_token)(f"demo-{secrets.token_hex(4)}", SCOPES)
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=30.0) as client:
            run = await _post(client)
            console.print(f"\nAlert [bold]{run['alertName']}[/] was taken in as {run['runId']}.\n")
            await asyncio.wait_for(_follow(client, run["runId"], console), FOLLOW_S)
            finished = await _get(client, f"/api/runs/{run['runId']}")
    except (httpx.HTTPError, TimeoutError, DemoFailed) as error:
        console.print(f"The demo did not finish: {str(error) or type(error).__name__}", style="bold red")
        return 1
    console.print("\n" + text_report({**finished, "url": base_url + finished["url"]}), markup=False)
    return {"SUCCESS": 0, "DEGRADED": 3}.get(finished["outcome"] or "", 1)


async def _post(client: httpx.AsyncClient) -> dict[str, Any]:
    """Each demo is an alert of its own, so that it is not taken for a repeat of the last one."""
    body = json.loads((INCIDENT / "alert.json").read_text(encoding="utf-8"))
    for alert in body["alerts"]:
        alert["fingerprint"] = secrets.token_hex(8)
    answer = await client.post("/api/alerts/alertmanager", json=body)
    if answer.status_code != httpx.codes.ACCEPTED or not answer.json()["runs"]:
        raise DemoFailed(f"the webhook answered {answer.status_code}")
    run: dict[str, Any] = answer.json()["runs"][0]
    return run


async def _get(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get(path)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


async def _follow(client: httpx.AsyncClient, run_id: str, console: Console) -> None:
    async for event in _events(client, run_id):
        if event["eventType"] == "AGENT_MODEL_STEP" and event["status"] == "STARTED":
            continue
        style = "bold red" if event["status"] in LOUD else ""
        took = f"{event['durationMs']} ms" if event["durationMs"] is not None else ""
        console.print(Text(f"{event['sequenceNo']:>4}  {event['phase']:<9} {took:>8}  {event['summary']}", style=style))


async def _events(client: httpx.AsyncClient, run_id: str) -> AsyncIterator[dict[str, Any]]:
    """The run's timeline as it grows, to its end; a dropped connection is taken up where it stood."""
    after = 0
    while True:
        async with client.stream("GET", f"/api/runs/{run_id}/events", params={"after": after}) as stream:
            stream.raise_for_status()
            kind = ""
            async for line in stream.aiter_lines():
                name, _, value = line.partition(":")
                if name == "event":
                    kind = value.strip()
                    if kind == "done":
                        return
                elif name == "data" and kind == "event":
                    event = json.loads(value)
                    after = event["sequenceNo"]
                    yield event
