"""Runs that go on while a browser looks: a real worker loop in a thread of the test, and what comes to it."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from audit.models import RulePreview
from audit.tasks import preview_rules
from runs.harness.pipeline import drive as drive_pipeline
from runs.harness.run import Conclusion, Kit, RunInput
from runs.incidents import incident
from runs.models import DiagnosisRun
from runs.worker import WorkerLoop
from superbiz.env import BASE_DIR
from tests.factories import RunFactory

WAIT_S = 20.0
INCIDENT = "pool-exhausted"
STEP = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
NAMED = re.compile(r"\*\*(.+?)\*\*")


class Worker:
    """A real worker loop that takes whatever waits, with the offline model. `hold` keeps runs at their start."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.held = threading.Event()
        self._over = threading.Event()
        self._loop = WorkerLoop(announce=False, drive=self._drive)
        self._thread = threading.Thread(target=self._serve, name="test-worker", daemon=True)

    async def _drive(self, run: RunInput, kit: Kit) -> Conclusion:
        while self.hold.is_set():
            self.held.set()
            await asyncio.sleep(0.01)
        return await drive_pipeline(run, kit)

    def _serve(self) -> None:
        try:
            while not self._over.wait(0.05):
                for run_id in DiagnosisRun.objects.filter(status="QUEUED").values_list("id", flat=True):
                    threading.Thread(target=self._loop.drive, args=[run_id]).start()
                for preview in RulePreview.objects.filter(status="QUEUED"):
                    preview_rules(preview.pk)
        finally:
            connections.close_all()

    @contextmanager
    def serving(self) -> Iterator["Worker"]:
        self._loop.start()
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join(WAIT_S)
            self._loop.close()


def alert_comes_in(**changes: Any) -> str:
    subject = incident(INCIDENT).subject.model_dump(mode="json")
    run: DiagnosisRun = RunFactory.create(subject=subject, query="CheckoutHighErrorRate on checkout-api", **changes)
    return run.id


def ended(run_id: str) -> DiagnosisRun:
    give_up = time.monotonic() + WAIT_S
    while not (run := DiagnosisRun.objects.get(id=run_id)).is_terminal:
        assert time.monotonic() < give_up, "the run never ended"
        time.sleep(0.05)
    return run


def steps_of(heading: str) -> list[str]:
    text = (BASE_DIR / "docs" / "steering.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return STEP.findall(section)
