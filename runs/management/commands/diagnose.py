"""One alert payload in, one report out."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.status import Status

from runs import alertpayload, intake, lifecycle, live, tasks
from runs.alertpayload import BadPayload, Notice
from runs.errors import CancelReason
from runs.models import Alert, DiagnosisRun
from runs.models.run import RunStatus, Trigger
from runs.report import run_json, text_report
from runs.worker import WorkerLoop

BODY_LIMIT = 1024 * 1024
LOOK_EVERY_S = 0.2
CANCEL_WAIT_S = 8.0
CANCELLED_BY_KEY = 130
MEANS = frozenset(
    "prometheus_url alertmanager_url loki_url elasticsearch_url log_dir mysql_url mcp_config recorded_evidence".split()
)
EXIT_CODES = {RunStatus.SUCCESS: 0, RunStatus.DEGRADED: 3, RunStatus.FAILED: 1, RunStatus.CANCELLED: CANCELLED_BY_KEY}


class Command(BaseCommand):
    help = (
        "Diagnose one alert payload (Alertmanager's webhook body, or a single alert) and print the report. Exit code: "
        "0 released, 3 withheld, 1 failed, 130 cancelled, 2 bad input. Workers that serve take the run; where there "
        "are none, or this command is given a model or evidence sources of its own, it is driven here. Ctrl-C "
        "cancels it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="a JSON file, or - for standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        notice = read_payload(options["file"])
        served = not _own_means() and _workers_serve()
        hand_over = tasks.enqueue if served else _keep
        # A person who asks again wants another run, not the last one.
        sender = intake.Sender(source=Alert.Source.CLI, trigger=Trigger.MANUAL, window=timedelta(0))
        received = intake.receive(notice, sender, hand_over)
        if not received.runs:
            raise CommandError("The payload holds no firing alert to diagnose.", returncode=2)
        run_id = received.runs[0].run_id
        with Console(stderr=True).status(run_id) as status, contextlib.nullcontext() if served else _driving(run_id):
            run = _wait_for(run_id, status)
        self.stdout.write(text_report(run_json(run, f"http://127.0.0.1:{settings.SUPERBIZ.port}/runs/{run_id}/")))
        sys.exit(EXIT_CODES[RunStatus(run.status)])


def read_payload(name: str) -> Notice:
    """Raises `CommandError` where the payload cannot be read."""
    try:
        body = sys.stdin.buffer.read(BODY_LIMIT + 1) if name == "-" else _read_file(Path(name))
        if len(body) > BODY_LIMIT:
            raise CommandError("The payload is larger than 1 MiB.", returncode=2)
        return alertpayload.read_notice(_as_notice(alertpayload.read_json(body)))
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}.", returncode=2) from error
    except BadPayload as error:
        raise CommandError(f"{name}: {error.message}", returncode=2) from error


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(BODY_LIMIT + 1)


def _as_notice(value: Any) -> Any:
    """A single alert, or a list of alerts, counts as a body that holds just them."""
    if isinstance(value, list):
        return {"alerts": value}
    if isinstance(value, dict) and "alerts" not in value and "labels" in value:
        return {"alerts": [value]}
    return value


def _own_means() -> bool:
    """Whether the environment of this command names a model or sources: those of the workers may be others."""
    return any(name in MEANS or name.startswith("llm") for name in settings.SUPERBIZ.model_fields_set)


def _workers_serve() -> bool:
    try:
        return bool(live.workers())
    except (redis.RedisError, OSError):
        return False


def _keep(_run_ids: object) -> None:
    """The run is driven here: there is nobody to hand it to."""


@contextlib.contextmanager
def _driving(run_id: str) -> Iterator[None]:
    """Drive the run in this process, beside whoever waits for it."""
    loop = WorkerLoop(announce=False)
    loop.start()
    thread = threading.Thread(target=loop.drive, args=[run_id], daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.close()
        thread.join(CANCEL_WAIT_S)


def _wait_for(run_id: str, status: Status) -> DiagnosisRun:
    """The run once it has ended. Ctrl-C asks for its cancellation and goes on waiting, for a bounded time."""
    try:
        return _until_ended(run_id, status, give_up_at=None)
    except (KeyboardInterrupt, SystemExit):
        status.update("cancelling")
        lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED, "command line")
        return _until_ended(run_id, status, give_up_at=time.monotonic() + CANCEL_WAIT_S)


def _until_ended(run_id: str, status: Status, give_up_at: float | None) -> DiagnosisRun:
    begun = time.monotonic()
    while True:
        run = DiagnosisRun.objects.get(id=run_id)
        if run.is_terminal:
            return run
        if give_up_at is not None and time.monotonic() > give_up_at:
            sys.exit(CANCELLED_BY_KEY)
        seconds = time.monotonic() - begun
        calls = f"{run.model_calls} model calls, {run.tool_calls} tool calls"
        status.update(f"{run_id} {run.status.lower()}, {seconds:.0f} s, {calls}")
        time.sleep(LOOK_EVERY_S)
