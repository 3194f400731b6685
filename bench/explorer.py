"""The explorer on `bench.seeding`'s data: how long the server takes for the run list and for pages of runs.

Requests go through Django's client in this process, middleware and session included, as a person without permissions;
no network. Each figure is the 95th percentile over requests for different pages of the list.
"""

import gc
import re
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench import seeding
from bench.apart import measure_apart, report
from bench.figures import Figure
from bench.runpages import time_run_pages
from superbiz.embedded import EmbeddedServers
from superbiz.env import Env

AIM_MS = 40
REPEATS = 4
PAGES = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """A way to ask for the list. `headers`: those of htmx asking for the rows alone."""

    name: str
    query: Mapping[str, str]


def filters(newest: str, oldest: str) -> list[Asked]:
    """Each filter alone, the common and the rare value where that differs, the orders, and three filters combined."""
    one = {
        "status": {"status": "FAILED"},
        "status, rare": {"status": "RUNNING"},
        "outcome": {"outcome": "DEGRADED"},
        "verdict": {"verdict": "LOW_CONFID"},
        "intent": {"intent": "KNOWLEDGE_QUERY"},
        "trigger": {"trigger": "EVAL"},
        "trigger, all of them other people's": {"trigger": "CHAT"},
        "alert name": {"alert": "HighErrorRate"},
        "label": {"label": "service=ledger-worker"},
        "labels, rare": {"label": "service=cart-api cluster=ap-1 severity=info"},
        "time": {"since": oldest, "until": newest},
        "who": {"who": "mei"},
        "who, a token": {"who": "alertmanager"},
        "session": {"session": "alert-0000000000000003"},
        "search, common word": {"q": "connection"},
        "search, rare word": {"q": "mce"},
        "search, two words": {"q": "certificate checkout"},
        "search, Chinese": {"q": "证书"},
        "search, no match": {"q": "xylophone"},
        "search, run id": {"q": seeding.LONG_RUN},
        "needs attention": {"view": "attention"},
        "longest first": {"sort": "longest"},
        "fewest tokens first": {"sort": "fewest-tokens"},
    }
    three = {
        "status, trigger, time": {"status": "FAILED", "trigger": "MANUAL", "since": oldest},
        "verdict, label, search": {"verdict": "LOW_CONFID", "label": "cluster=eu-1", "q": "deadlock"},
        "alert, verdict, longest": {"alert": "QueueBacklog", "verdict": "PASS", "sort": "longest"},
        "attention, label, search": {"view": "attention", "label": "severity=critical", "q": "证书"},
        "who, status, search": {"who": "ines", "status": "DEGRADED", "q": "slow"},
        "no match": {"trigger": "EVAL", "verdict": "REJECT", "q": "xylophone"},
    }
    return [
        Asked("no filter", {}),
        *(Asked(name, query) for name, query in one.items()),
        *(Asked(f"three: {name}", query) for name, query in three.items()),
    ]


class Reader:
    """A signed-in person who asks for the rows as the page does."""

    def __init__(self) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        self.client = Client(headers={"host": "localhost"})
        user, _ = User.objects.get_or_create(username="bench-reader")
        self.client.force_login(user)

    def rows(self, query: Mapping[str, str] | str) -> tuple[float, str]:
        """Milliseconds, and what came."""
        headers = {"HX-Request": "true", "HX-Target": "run-list"}
        started = time.perf_counter()
        if isinstance(query, str):
            answer = self.client.get(f"/?{query}", headers=headers)
        else:
            answer = self.client.get("/", dict(query), headers=headers)
        took = (time.perf_counter() - started) * 1_000
        if answer.status_code != 200:
            raise RuntimeError(f"The list answered {answer.status_code} to {query!r}.")
        return took, answer.content.decode()

    def pages(self, query: Mapping[str, str]) -> Iterator[float]:
        """The first pages of the list, each several times."""
        asked: Mapping[str, str] | str = query
        for _ in range(PAGES):
            for _ in range(REPEATS):
                took, text = self.rows(asked)
                yield took
            older = re.search(r'id="older".*?href="/\?([^"]+)"', text, re.DOTALL)
            if not older:
                return
            asked = older[1].replace("&amp;", "&")

    def queries(self, query: Mapping[str, str]) -> int:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as captured:
            self.rows(query)
        return len(captured)

    def figures(self, query: Mapping[str, str]) -> float:
        started = time.perf_counter()
        self.client.get("/runs/figures/", dict(query), headers={"HX-Request": "true", "HX-Target": "figures"})
        return (time.perf_counter() - started) * 1_000


def p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]


def time_list() -> list[Figure]:
    from django.db.models import Max, Min

    from runs.models import DiagnosisRun

    span: dict[str, Any] = DiagnosisRun.objects.aggregate(first=Min("queued_at"), last=Max("queued_at"))
    middle = span["first"] + (span["last"] - span["first"]) / 2
    reader = Reader()
    reader.rows({})
    figures = []
    for asked in filters(span["last"].isoformat(), middle.isoformat()):
        took = p95(list(reader.pages(asked.query)))
        figures.append(Figure(f"explorer: run list, {asked.name}", took, "ms p95", aim=AIM_MS))
    figures.append(Figure("explorer: run list, queries a page", reader.queries({}), "queries"))
    figures.append(Figure("explorer: figures of all runs", statistics.median(map(reader.figures, [{}] * 5)), "ms"))
    return figures


def measure(_env: Env, _servers: EmbeddedServers) -> list[Figure]:
    seeding.ensure_filled()
    # As the web process does before it serves.
    gc.collect()
    gc.freeze()
    return [*time_list(), *time_run_pages(Reader().client, p95)]


def run() -> list[Figure]:
    seeding.prepare_folder()
    return measure_apart("bench.explorer", SUPERBIZ_VAR=str(seeding.FOLDER))


if __name__ == "__main__":
    report(measure)
