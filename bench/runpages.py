"""The pages of single runs on `bench.seeding`'s data: the first page, all of a long timeline, details, the JSON.

As in `bench.explorer`, requests go through Django's client in this process, as a person without permissions.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bench import seeding
from bench.figures import Figure

if TYPE_CHECKING:
    from django.test import Client

LONG_AIM_MS, LONG_AIM_KB, ALL_AIM_S = 40, 150, 1.0
DETAILS_AIM_MS = 15
SHORT_AIM_MS = 10
REPEATS = 40
# Events of every kind, from the start, the middle and the end of the long run.
DETAILS = (*range(1, 40, 4), *range(5_001, 5_040, 4), *range(9_961, 10_000, 4))

ROW = re.compile(r'<li class="event ')

Ask = Callable[[str, Mapping[str, str]], tuple[float, str]]
Spread = Callable[[list[float]], float]


def asker(client: "Client") -> Ask:
    def ask(address: str, headers: Mapping[str, str]) -> tuple[float, str]:
        """Milliseconds, and what came."""
        started = time.perf_counter()
        answer = client.get(address, headers=dict(headers))
        took = (time.perf_counter() - started) * 1_000
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}.")
        return took, answer.content.decode()

    return ask


def part(target: str) -> dict[str, str]:
    """Headers of htmx asking for one part of the page."""
    return {"HX-Request": "true", "HX-Target": target}


def repeated(ask: Ask, addresses: Iterable[str], headers: Mapping[str, str]) -> list[float]:
    """Times of all of them, after one request that warms up."""
    wanted = list(addresses)
    ask(wanted[0], headers)
    return [ask(address, headers)[0] for address in wanted]


def all_of(ask: Ask, address: str) -> tuple[float, int]:
    """Seconds and rows of a timeline paged through to its end."""
    started = time.perf_counter()
    _, text = ask(address, {})
    rows = len(ROW.findall(text))
    while more := re.search(r'id="later"><a href="([^"#]+)', text):
        _, text = ask(address + more[1].replace("&amp;", "&"), part("later"))
        rows += len(ROW.findall(text))
    return time.perf_counter() - started, rows


def time_run_pages(client: "Client", p95: Spread) -> list[Figure]:
    ask = asker(client)
    long = f"/runs/{seeding.LONG_RUN}/"
    short = [f"/runs/{run_id}/" for run_id in seeding.SHORT_RUNS]
    traces = [_trace_address(run_id) for run_id in seeding.SHORT_RUNS]
    first = repeated(ask, [long] * REPEATS, {})
    rounds = [all_of(ask, long) for _ in range(3)]
    if any(rows != seeding.LONG_EVENTS for _, rows in rounds):
        raise RuntimeError(f"The pages of the long run held {rounds} rows in so many seconds.")
    seconds = min(seconds for seconds, _ in rounds)
    details = repeated(ask, [f"{long}?event={number}" for number in DETAILS], part("panel"))
    pages = repeated(ask, short * (REPEATS // len(short)), {})
    json = repeated(ask, traces * (REPEATS // len(traces)), {})
    size = len(ask(long, {})[1].encode()) / 1_000
    return [
        Figure("explorer: 10,000-event run, first page", p95(first), "ms p95", aim=LONG_AIM_MS),
        Figure("explorer: 10,000-event run, size of the first page", size, "KB", aim=LONG_AIM_KB),
        Figure("explorer: 10,000-event run, all pages", seconds, "s", aim=ALL_AIM_S),
        Figure("explorer: details of an event", p95(details), "ms p95", aim=DETAILS_AIM_MS),
        Figure("explorer: 15-event run, page", p95(pages), "ms p95", aim=SHORT_AIM_MS),
        Figure("explorer: 15-event run, trace JSON", p95(json), "ms p95", aim=SHORT_AIM_MS),
    ]


def _trace_address(run_id: str) -> str:
    from runs.models import DiagnosisRun

    session_id = DiagnosisRun.objects.values_list("session_id", flat=True).get(id=run_id)
    return f"/api/diagnosis/{session_id}/trace?runId={run_id}"
