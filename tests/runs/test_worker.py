"""The driver on a real worker loop: real rows, a kernel of the test's own."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django.fixtures import Settings

from gatekeeper.types import Intent
from runs import lifecycle, live, tasks
from runs.errors import CancelReason, ConfigurationError, FailureCode, ModelRefused, RunCancelled
from runs.harness.events import Emission, EventType, Frame, RoutingDecision, RunStarted
from runs.harness.run import Conclusion, Emitted, Kit, RunInput, Settled, Spending
from runs.models import DiagnosisRun
from runs.orm import run_in_orm
from runs.worker import WorkerLoop
from tests.factories import RunFactory, conclusion, now, withheld
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db(transaction=True)

Drive = Callable[[RunInput, Kit], Awaitable[Conclusion]]
WAIT_S = 10.0


@pytest.fixture
def serve(told: Told) -> Iterator[Callable[[Drive], WorkerLoop]]:
    """Starts worker loops, and ends them with the test."""
    call_command("sync_rules", verbosity=0)
    call_command("sync_prompts", verbosity=0)
    loops: list[WorkerLoop] = []

    def start(drive: Drive) -> WorkerLoop:
        loops.append(WorkerLoop(announce=False, drive=drive))
        loops[-1].start()
        return loops[-1]

    yield start
    for loop in loops:
        loop.close()


class Kernel:
    """Says that it has begun, then works until it is cancelled or told how to end."""

    def __init__(self, end: Conclusion | None = None) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()
        self.end = end
        self.runs: list[RunInput] = []
        self.kits: list[Kit] = []

    async def __call__(self, run: RunInput, kit: Kit) -> Conclusion:
        self.runs.append(run)
        self.kits.append(kit)
        self.begun.set()
        try:
            if self.end is None:
                await asyncio.Event().wait()
                raise AssertionError
            return self.end
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def raising(error: Exception) -> Drive:
    async def drive(_run: RunInput, _kit: Kit) -> Conclusion:
        raise error

    return drive


def row(run_id: str) -> DiagnosisRun:
    return DiagnosisRun.objects.get(id=run_id)


def in_background(loop: WorkerLoop, run_id: str) -> threading.Thread:
    thread = threading.Thread(target=loop.drive, args=[run_id])
    thread.start()
    return thread


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


def ended(thread: threading.Thread) -> None:
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_run_is_driven_to_its_end_with_everything_it_needs(serve: Any, told: Told) -> None:
    kernel = Kernel(conclusion(emitted=Emitted()))
    run_id = RunFactory().id
    assert serve(kernel).drive(run_id)
    stored = row(run_id)
    assert (stored.status, stored.attempts) == ("SUCCESS", 1)
    assert stored.published_result["sourceDocuments"]
    assert stored.rule_set_version == 1
    assert stored.prompt_set_version.startswith("aiops-prompts-v")
    assert stored.model
    kit = kernel.kits[0]
    assert "lookup_knowledge" in kit.tools
    assert set(kit.breakers) == set(kit.tools)
    assert kit.prompts
    assert told.events(run_id) == ["RUN_FINISHED"]


def test_a_run_that_is_gone_is_nobodys(serve: Any) -> None:
    loop = serve(Kernel(conclusion()))
    assert not loop.drive("run_none")
    assert not loop.drive(RunFactory(failed=True).id)


def test_what_the_kernel_spends_and_emits_is_on_the_row(serve: Any, told: Told) -> None:
    def frame(event: EventType, details: Any) -> Emission:
        return Emission(Frame(event_type=event, details=details, summary="s", at=now()))

    async def drive(run: RunInput, kit: Kit) -> Conclusion:
        started = RunStarted(
            trigger=run.trigger, attempt=run.attempt, model="m", prompt_set_version="p", rule_set_version=1
        )
        kit.emit(frame(EventType.RUN_STARTED, started))
        for _ in range(3):
            kit.spend(Spending(model_calls=1, input_tokens=10))
            await asyncio.sleep(0.01)
        kit.emit(frame(EventType.ROUTING_DECISION, RoutingDecision(intent="KNOWLEDGE_QUERY", source="MODEL")))
        await kit.mark_intent(Intent.KNOWLEDGE_QUERY)
        assert (await run_in_orm(row, run.run_id)).intent == "KNOWLEDGE_QUERY"
        assert await kit.settle() == Settled(complete=True)
        return withheld(intent=Intent.KNOWLEDGE_QUERY, emitted=Emitted(events=2))

    run_id = RunFactory().id
    serve(drive).drive(run_id)
    stored = row(run_id)
    assert (stored.model_calls, stored.input_tokens, stored.intent) == (3, 30, "KNOWLEDGE_QUERY")
    assert stored.emitted == {"1": asdict(Emitted(events=2)), "others": {"events": 1}}
    assert [emission.frame.event_type for emission in told.observed if emission.frame] == [
        EventType.RUN_STARTED,
        EventType.ROUTING_DECISION,
    ]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ModelRefused("no", error_code="UNAUTHORIZED"), "FAILED", FailureCode.MODEL_REFUSED),
        (ConfigurationError("wrong"), "FAILED", FailureCode.CONFIGURATION),
        (RuntimeError("a bug"), "FAILED", FailureCode.INTERNAL),
        (RunCancelled(CancelReason.CLIENT_DISCONNECTED), "CANCELLED", CancelReason.CLIENT_DISCONNECTED),
    ],
)
def test_an_error_of_the_kernel_becomes_an_outcome(serve: Any, error: Exception, status: str, reason: str) -> None:
    run_id = RunFactory().id
    serve(raising(error)).drive(run_id)
    stored = row(run_id)
    assert (stored.status, stored.failure_code or stored.cancel_reason) == (status, reason)
    assert "a bug" not in str(stored.safe_content)


def test_a_missing_rule_set_fails_the_run_as_configuration(told: Told) -> None:
    loop = WorkerLoop(announce=False, drive=Kernel(conclusion()))
    loop.start()
    try:
        run_id = RunFactory().id
        loop.drive(run_id)
    finally:
        loop.close()
    assert row(run_id).failure_code == "CONFIGURATION"


def test_a_cancel_request_reaches_the_model_call_in_flight(serve: Any) -> None:
    kernel = Kernel()
    run_id = RunFactory().id
    thread = in_background(serve(kernel), run_id)
    assert kernel.begun.wait(WAIT_S)
    asked = time.monotonic()
    lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
    ended(thread)
    assert kernel.cancelled.is_set()
    assert time.monotonic() - asked < WAIT_S
    assert row(run_id).cancel_reason == "USER_REQUESTED"


def test_a_lost_cancel_message_is_made_up_for_by_the_heartbeat(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CANCEL", "nobody-listens-here")
    kernel = Kernel()
    loop = serve(kernel)
    monkeypatch.undo()
    run_id = RunFactory().id
    thread = in_background(loop, run_id)
    assert kernel.begun.wait(WAIT_S)
    lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED)
    ended(thread)
    assert row(run_id).status == "CANCELLED"


def test_the_deadline_cancels_counting_from_the_first_attempt(serve: Any) -> None:
    kernel = Kernel()
    run_id = RunFactory(started_at=now() - timedelta(seconds=299.5)).id
    serve(kernel).drive(run_id)
    assert kernel.cancelled.is_set()
    assert row(run_id).cancel_reason == "DEADLINE"


def test_a_lost_lease_stops_the_work_and_writes_nothing(serve: Any, told: Told) -> None:
    kernel = Kernel()
    run_id = RunFactory().id
    thread = in_background(serve(kernel), run_id)
    assert kernel.begun.wait(WAIT_S)
    DiagnosisRun.objects.filter(id=run_id).update(lease_token="another")
    ended(thread)
    assert kernel.cancelled.is_set()
    assert (row(run_id).status, row(run_id).lease_token) == ("RUNNING", "another")
    assert told.events(run_id) == []


@pytest.mark.parametrize(
    ("trigger", "status", "reason"), [("ALERT", "QUEUED", None), ("CHAT", "CANCELLED", "SHUTDOWN")]
)
def test_a_shutdown_hands_held_runs_back(serve: Any, trigger: str, status: str, reason: str | None) -> None:
    kernel = Kernel()
    loop = serve(kernel)
    run_id, later = RunFactory(trigger=trigger).id, RunFactory().id
    thread = in_background(loop, run_id)
    assert kernel.begun.wait(WAIT_S)
    loop.begin_shutdown()
    ended(thread)
    assert (row(run_id).status, row(run_id).cancel_reason) == (status, reason)
    assert not loop.drive(later)
    assert row(later).status == "QUEUED"


def outside_the_pool() -> dict[str, Any]:
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in ("dbname", "user", "password", "host", "port") if parameters.get(name)}


def test_connections_that_break_lose_no_spending_and_no_end(serve: Any) -> None:
    outside = psycopg.connect(**outside_the_pool(), autocommit=True)

    def break_all_others() -> None:
        outside.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    async def drive(_run: RunInput, kit: Kit) -> Conclusion:
        for _ in range(3):
            await asyncio.to_thread(break_all_others)
            kit.spend(Spending(model_calls=1))
            await asyncio.sleep(0.05)
        await asyncio.to_thread(break_all_others)
        return withheld()

    run_id = RunFactory().id
    serve(drive).drive(run_id)
    # This thread's connection and the pool's idle ones are broken too.
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    outside.close()
    stored = row(run_id)
    assert (stored.status, stored.model_calls) == ("DEGRADED", 3)


def test_many_runs_share_one_loop(serve: Any) -> None:
    threads_seen = set()

    async def drive(_run: RunInput, _kit: Kit) -> Conclusion:
        threads_seen.add(threading.get_ident())
        await asyncio.sleep(0.05)
        return withheld()

    loop = serve(drive)
    run_ids = [RunFactory().id for _ in range(12)]
    for thread in [in_background(loop, run_id) for run_id in run_ids]:
        ended(thread)
    assert set(DiagnosisRun.objects.values_list("status", flat=True)) == {"DEGRADED"}
    assert len(threads_seen) == 1


def test_lost_runs_are_looked_for_also_when_every_thread_is_taken(
    serve: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "GRACE_AFTER_START", timedelta(0))
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"worker_concurrency": 1})
    kernel = Kernel()
    loop = serve(kernel)
    thread = in_background(loop, RunFactory().id)
    assert kernel.begun.wait(WAIT_S)
    lost = RunFactory(running=True, heartbeat_at=now() - timedelta(minutes=1))
    until(lambda: row(lost.id).status == "QUEUED")
    loop.begin_shutdown()
    ended(thread)


def test_a_worker_is_announced_while_it_serves(told: Told, settings: Settings) -> None:
    loop = WorkerLoop(announce=True, drive=Kernel(conclusion()))
    loop.start()
    give_up = time.monotonic() + WAIT_S
    while not live.workers() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert live.workers() == [loop.name]
    loop.close()
    assert live.workers() == []
