"""From the commit of an event to its row on the screen of somebody who watches the run, in a real browser.

The web process and Chromium run beside this process, which records the frames of a run one by one, as a worker does.
The page notes when each row has been painted; both clocks are this machine's.
"""

import asyncio
import os
import random
import shutil
import statistics
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ledger
from bench.apart import measure_apart, program, report
from bench.figures import Figure
from runs.harness.events import Emission
from superbiz.embedded import EmbeddedServers
from superbiz.env import Env

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from runs.observers import RunRef

AIM_MS = 200
PAUSE_S = (0.05, 0.15)
READY_WITHIN_S = 30
SETTLE_S = 2.0
# When a row came to be seen: two frames after it was put there, the first of them has been painted.
WATCH = """
    window.painted = {};
    new MutationObserver((changes) => {
        for (const change of changes) {
            for (const row of change.addedNodes) {
                if (row.id?.startsWith("event-")) {
                    requestAnimationFrame(() => requestAnimationFrame(() => {
                        window.painted[row.id.slice(6)] = performance.timeOrigin + performance.now();
                    }));
                }
            }
        }
    }).observe(document.getElementById("timeline"), {childList: true});
"""


def _wait_until_serving(base: str) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(f"{base}/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > until:
                raise RuntimeError("The web process does not answer.") from error
            time.sleep(0.1)


def _record(run: "RunRef", emission: Emission) -> float:
    """Record one frame and ring, as the recorder does. Returns when its commit began, in the pages' milliseconds."""
    from django.db import transaction

    from audit.recorder import LedgerRecorder
    from runs.live import publish_changed

    with transaction.atomic():
        LedgerRecorder().write(run, emission)
        began = time.time() * 1_000
    publish_changed([run.run_id])
    return began


def _watched(page: "Page", base: str, run: "RunRef", emissions: list[Emission]) -> list[float]:
    """Milliseconds from each commit to the painted row."""
    from superbiz.signin import issue_link

    page.goto(issue_link(base))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("#run-list")
    page.goto(f"{base}/runs/{run.run_id}/")
    page.evaluate(WATCH)
    page.wait_for_timeout(SETTLE_S * 1_000)
    shown = page.locator("#timeline > li").count()
    rng = random.Random(7)
    committed: dict[str, float] = {}
    for number, emission in enumerate(emissions, start=shown + 1):
        committed[str(number)] = _record(run, emission)
        time.sleep(rng.uniform(*PAUSE_S))
    page.wait_for_timeout(SETTLE_S * 1_000)
    painted: dict[str, float] = page.evaluate("window.painted")
    if painted.keys() != committed.keys():
        raise RuntimeError(f"{len(committed)} events were recorded and {len(painted)} came on the page.")
    return [painted[number] - committed[number] for number in committed]


def measure(env: Env, _servers: EmbeddedServers) -> list[Figure]:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise RuntimeError("Debian's chromium is not installed.")
    from playwright.sync_api import sync_playwright

    (run,) = ledger.claimed(ledger.queue_runs(1))
    emissions = [each for each in asyncio.run(ledger.emissions_of_a_run()) if each.frame is not None]
    base = f"http://127.0.0.1:{env.port}"
    log = Path(os.environ["SUPERBIZ_VAR"]) / "web.log"
    # Playwright's loop stays open in this thread; Django takes that for async code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with program([sys.executable, "-m", "superbiz.web"], os.environ, log), sync_playwright() as playwright:
        _wait_until_serving(base)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        took = _watched(browser.new_page(), base, run, emissions)
        browser.close()
    return [
        Figure("live: from commit to screen", statistics.quantiles(took, n=20)[-1], "ms p95", aim=AIM_MS),
        Figure("live: from commit to screen, median", statistics.median(took), "ms"),
    ]


def run() -> list[Figure]:
    return measure_apart("bench.live")


if __name__ == "__main__":
    report(measure)
