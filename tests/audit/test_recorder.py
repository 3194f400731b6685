import asyncio
import threading
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from audit import chain
from audit.append import Item, Outcome
from audit.models import AgentReasoning, AgentStep, ModelCallRow, ToolInvocation, TraceEvent, TraceHead
from audit.recorder import Group, LedgerRecorder, RecordRefused, _commit_once
from runs.errors import LeaseLost
from runs.harness.events import Emission, EventType, Frame, RoutingDecision
from runs.models import DiagnosisRun
from runs.observers import RunRef
from tests.audit import emissions
from tests.audit.recording import finished_run, ref, running

pytestmark = pytest.mark.django_db(transaction=True)


async def observe(recorder: LedgerRecorder, run: DiagnosisRun, *told: Emission) -> Any:
    for emission in told:
        recorder.observe(ref(run), emission)
    return await recorder.settle(ref(run))


def sequence(run: DiagnosisRun) -> list[int]:
    return list(TraceEvent.objects.filter(run=run).order_by("sequence_no").values_list("sequence_no", flat=True))


async def test_everything_observed_is_on_record_once_settled() -> None:
    run = await sync_to_async(running)()
    settled = await observe(LedgerRecorder(), run, *emissions.small_run())
    assert settled.complete
    assert settled.unrecorded_invocations == frozenset()
    assert await sync_to_async(sequence)(run) == [1, 2, 3, 4, 5, 6]
    step = await AgentStep.objects.aget(run=run)
    assert (step.status, step.token_count, step.tool_plan[0]["tool_name"]) == ("COMPLETED", 120, "query_logs")
    assert await ModelCallRow.objects.filter(run=run).acount() == 2
    assert (await AgentReasoning.objects.aget(run=run)).thought == "The pool looks full."
    assert (await ToolInvocation.objects.aget(run=run)).invocation_id == "inv_aaaaaa"
    head = await TraceHead.objects.aget(run=run)
    assert (head.sequence_no, head.events, head.steps, head.tool_invocations, head.model_calls) == (6, 6, 1, 1, 2)


async def test_frames_are_chained_from_the_genesis_of_their_run() -> None:
    run = await sync_to_async(running)()
    await observe(LedgerRecorder(), run, *emissions.small_run())
    previous = chain.genesis(run.id)
    async for frame in TraceEvent.objects.filter(run=run).order_by("sequence_no").values():
        assert frame["previous_hash"] == previous
        assert frame["hash"] == chain.frame_hash(previous, frame)
        previous = frame["hash"]


async def test_the_step_of_one_group_may_be_closed_in_a_later_one() -> None:
    run, recorder = await sync_to_async(running)(), LedgerRecorder()
    for emission in emissions.small_run():
        assert (await observe(recorder, run, emission)).complete
    assert (await AgentStep.objects.aget(run=run)).status == "COMPLETED"


def test_the_terminal_frame_closes_the_record() -> None:
    run = finished_run()
    head = TraceHead.objects.get(run=run)
    assert head.closed
    assert (run.trace_event_count, run.trace_head_hash) == (8, head.hash)
    with pytest.raises(RecordRefused, match="closed"), transaction.atomic():
        LedgerRecorder().write(RunRef(run.id, run.session_id, None), emissions.routing())
    assert sequence(run) == list(range(1, 9))


def test_sequences_have_no_gap_whoever_appends() -> None:
    run = running()
    recorder, errors = LedgerRecorder(), []

    def append_many(writer: int) -> None:
        try:
            for number in range(10):
                with transaction.atomic():
                    recorder.write(ref(run), emissions.routing(writer * 10 + number))
        except Exception as error:  # noqa: BLE001 (a thread's error must reach the test)
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=append_many, args=[writer]) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sequence(run) == list(range(1, 81))


async def test_an_attempt_that_lost_its_lease_writes_nothing_more() -> None:
    run, recorder = await sync_to_async(running)(), LedgerRecorder()
    await observe(recorder, run, emissions.routing())
    await DiagnosisRun.objects.filter(id=run.id).aupdate(lease_token="lease-2")
    with pytest.raises(LeaseLost):
        await observe(recorder, run, emissions.opened())
    assert await sync_to_async(sequence)(run) == [1]
    run.lease_token = "lease-2"
    assert (await observe(recorder, run, emissions.opened())).complete
    assert await sync_to_async(sequence)(run) == [1, 2]


async def test_an_emission_the_database_refuses_is_dropped_alone_and_named() -> None:
    run, other = await sync_to_async(running)(), await sync_to_async(running)()
    recorder = LedgerRecorder()
    bad = emissions.invoked("inv_bad", success=False)  # OK and not a success: a CHECK refuses it
    recorder.observe(ref(other), emissions.routing())
    settled = await observe(recorder, run, emissions.opened(), bad, emissions.invoked("inv_good"))
    assert not settled.complete
    assert settled.unrecorded_invocations == {"inv_bad"}
    assert await sync_to_async(sequence)(run) == [1, 2]
    assert await ToolInvocation.objects.filter(run=run).acount() == 1
    assert (await recorder.settle(ref(other))).complete


class Unreadable:
    def __getattribute__(self, name: str) -> Any:
        raise LookupError(name)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(emissions.closed("stp_never_opened"), id="closes a step that was never opened"),
        pytest.param(emissions.invoked("inv_bad", output={"a": object()}), id="output that is no JSON"),
        pytest.param(Emission(None, (Unreadable(),)), id="a record that raises what nobody expects"),
        pytest.param(
            Emission(
                Frame(
                    EventType.ROUTING_DECISION,
                    RoutingDecision.model_construct(intent="x" * 201, source="MODEL"),
                    "",
                    emissions.AT,
                )
            ),
            id="a detail of 201 characters",
        ),
        pytest.param(
            Emission(
                Frame(EventType.RUN_STARTED, RoutingDecision(intent="DIAGNOSIS", source="MODEL"), "", emissions.AT)
            ),
            id="details of another event type",
        ),
    ],
)
async def test_an_emission_that_cannot_be_recorded_leaves_the_others_alone(bad: Emission) -> None:
    run = await sync_to_async(running)()
    settled = await observe(LedgerRecorder(), run, emissions.routing(), bad, emissions.routing(1))
    assert not settled.complete
    assert await sync_to_async(sequence)(run) == [1, 2]


async def test_a_call_of_a_step_that_is_closed_is_refused() -> None:
    run, recorder = await sync_to_async(running)(), LedgerRecorder()
    await observe(recorder, run, *emissions.small_run())
    settled = await observe(recorder, run, Emission(None, (emissions.call(attempt=3),)))
    assert not settled.complete
    assert await ModelCallRow.objects.filter(run=run).acount() == 2


async def test_text_that_postgresql_refuses_is_cleaned() -> None:
    run = await sync_to_async(running)()
    odd = emissions.invoked(
        output_preview="a\x00b", output={"line\x00": ["\ud800", float("nan"), float("inf"), 10**400]}
    )
    assert (await observe(LedgerRecorder(), run, odd)).complete
    row = await ToolInvocation.objects.aget(run=run)
    assert row.output_preview == "a\ufffdb"
    assert row.output == {"line\ufffd": ["\ufffd", "NaN", "Infinity", str(10**400)]}


async def test_a_run_goes_on_without_its_ledger_and_its_record_is_called_incomplete() -> None:
    run, recorder = await sync_to_async(running)(), LedgerRecorder(patience=0.2)
    await sync_to_async(rename)("diagnosis_trace_head", "away")
    try:
        recorder.observe(ref(run), emissions.routing())
        settled = await recorder.settle(ref(run))
    finally:
        await sync_to_async(rename)("away", "diagnosis_trace_head")
    assert not settled.complete


def rename(table: str, to: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {to}")


async def test_a_lock_that_is_not_given_delays_the_record_and_loses_nothing() -> None:
    run, recorder = await sync_to_async(running)(), LedgerRecorder(patience=0.2)
    await observe(recorder, run, emissions.routing())
    release, held = threading.Event(), threading.Event()

    thread = threading.Thread(target=hold_head, args=[run, held, release])
    thread.start()
    await asyncio.to_thread(held.wait)
    recorder.observe(ref(run), emissions.invoked())
    settled = await recorder.settle(ref(run))
    assert not settled.complete
    assert settled.unrecorded_invocations == {"inv_aaaaaa"}
    release.set()
    await asyncio.to_thread(thread.join)
    assert (await LedgerRecorder.settle(recorder, ref(run))).complete
    assert await sync_to_async(sequence)(run) == [1, 2]


async def test_a_connection_lost_in_the_middle_of_a_group_loses_nothing() -> None:
    run, recorder = await sync_to_async(running)(), LedgerRecorder()
    await observe(recorder, run, emissions.routing())
    release, held = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold_head, args=[run, held, release])
    thread.start()
    await asyncio.to_thread(held.wait)
    recorder.observe(ref(run), emissions.opened())
    await asyncio.to_thread(terminate_who_waits_for_a_lock)
    release.set()
    assert (await recorder.settle(ref(run))).complete
    await asyncio.to_thread(thread.join)
    assert await sync_to_async(sequence)(run) == [1, 2]


def hold_head(run: DiagnosisRun, held: threading.Event, release: threading.Event) -> None:
    with transaction.atomic():
        TraceHead.objects.select_for_update().get(run=run)
        held.set()
        release.wait(10)
    connections.close_all()


def terminate_who_waits_for_a_lock() -> None:
    """Wait until the recorder waits for the head, then end its connection as an administrator would."""
    count = 0
    while not count:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            (count,) = cursor.fetchone()
        time.sleep(0.02)
    connections.close_all()


def test_a_group_whose_answer_was_lost_is_not_recorded_twice() -> None:
    run = running()
    group = Group([Item(ref(run), emissions.routing())])
    assert _commit_once(group) == [Outcome.RECORDED]
    assert _commit_once(group) == [Outcome.RECORDED]
    assert sequence(run) == [1]


async def test_a_full_queue_drops_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.recorder.QUEUE_LIMIT", 2)
    run = await sync_to_async(running)()
    settled = await observe(LedgerRecorder(), run, *(emissions.routing(n) for n in range(3)))
    assert not settled.complete
    assert await sync_to_async(sequence)(run) == [1, 2]
