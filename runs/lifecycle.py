"""Every change of a run's state, each one guarded UPDATE: its row count says who won.

    QUEUED ──claim──▶ RUNNING ──finish──▶ SUCCESS | DEGRADED | FAILED | CANCELLED
       ▲                 │
       └── recover, release ──  (a worker was lost or shut down)
       └─ request_cancel of a run that waits ──▶ CANCELLED

All functions are synchronous. The frame of a transition is written in the transition's own transaction, so
there is a frame exactly where a transition happened. `finish` and the other writes of an attempt must match
its lease token: who lost the lease changes nothing. Times of leases are the database's clock.

A worker that does not learn whether its write was committed makes it again: `claim`, `keep_tally` and `finish`
recognise their own earlier try.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Now
from django.utils.crypto import get_random_string

from gatekeeper.types import Intent
from runs import ids, library, live, notices, recall, tally
from runs.conclusions import cancelled, failed, safe_content
from runs.errors import CancelReason, FailureCode
from runs.harness.events import (
    Details,
    Emission,
    EventType,
    Frame,
    RunCancelRequested,
    RunFinished,
    RunRecovered,
)
from runs.harness.memory import NOTHING_REMEMBERED
from runs.harness.run import Conclusion, RunInput, Spending, Spent, Subject
from runs.models import ChatSession, DiagnosisRun, RunNotice
from runs.models.run import RunStatus, Trigger
from runs.observers import RunRef, write_all
from runs.pins import NOTHING_SPECIAL, Order, PinnedPrompts, Rehearsal
from runs.tally import Tally

log = structlog.get_logger(__name__)

STALE_AFTER = timedelta(seconds=10)
ENQUEUE_AGAIN_AFTER = timedelta(seconds=15)
MAX_ATTEMPTS = 2
# Triggers whose runs nobody waits for on an open connection: they may start again on another worker.
RESUMABLE = (Trigger.ALERT, Trigger.MANUAL, Trigger.EVAL)


# ---- being asked for ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that someone or something asks for. `requested_by` and `requested_by_token` are row ids.

    `run_id` where the caller had to know it before: otherwise one is made. `again_of`: the run that is asked again.
    """

    session_id: str
    trigger: str
    query: str
    subject: Subject
    alert_id: int | None = None
    requested_by: int | None = None
    requested_by_token: int | None = None
    run_id: str | None = None
    rehearsal: Rehearsal | None = None
    again_of: str | None = None


def open_session(session_id: str, *, title: str = "", owner_id: int | None = None) -> bool:
    """Make the session unless it exists. Returns whether it was made."""
    now = datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO chat_session (id, title, owner_id, created_at, updated_at) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (id) DO UPDATE SET updated_at = EXCLUDED.updated_at RETURNING (xmax = 0)",
            [session_id, title[:200], owner_id, now, now],
        )
        return bool(cursor.fetchone()[0])


def clear_session(session_id: str) -> datetime:
    """Have later turns know nothing of those so far. The record of those stays. Returns since when."""
    now = datetime.now(UTC)
    ChatSession.objects.filter(id=session_id).update(cleared_at=now)
    return now


def queue_run(request: RunRequest) -> str:
    """Insert the run as QUEUED, inside the caller's transaction, and return its id.

    It counts as enqueued from here on, because the caller hands it to `runs.tasks.enqueue` after the commit; where
    that does not happen, the reaper finds it.
    """
    now = datetime.now(UTC)
    run = DiagnosisRun.objects.create(
        id=request.run_id or ids.run_id(),
        session_id=request.session_id,
        alert_id=request.alert_id,
        trigger=request.trigger,
        query=request.query,
        subject=request.subject.model_dump(mode="json"),
        requested_by_id=request.requested_by,
        requested_by_token_id=request.requested_by_token,
        rehearsal=request.rehearsal.model_dump(mode="json") if request.rehearsal else None,
        again_of_id=request.again_of,
        queued_at=now,
        enqueued_at=now,
    )
    return run.id


def mark_enqueued(run_ids: Iterable[str], *, sent: bool = True) -> None:
    """A message is about to stand for these runs; `sent` False: the broker did not take it after all."""
    waiting = DiagnosisRun.objects.filter(id__in=list(run_ids), status=RunStatus.QUEUED)
    waiting.update(enqueued_at=Now() if sent else None)


def waiting_runs(limit: int = 200) -> list[str]:
    """Ids of runs that wait and that no message in the broker stands for any more, oldest first."""
    return list(
        DiagnosisRun.objects.filter(status=RunStatus.QUEUED)
        .filter(Q(enqueued_at__isnull=True) | Q(enqueued_at__lt=Now() - ENQUEUE_AGAIN_AFTER))
        .order_by("queued_at", "id")
        .values_list("id", flat=True)[:limit]
    )


# ---- an attempt -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that this worker holds now. `tally`: its counters before this start."""

    ref: RunRef
    run: RunInput
    tally: Tally
    order: Order = NOTHING_SPECIAL


@dataclass(frozen=True, slots=True)
class Pins:
    """What an attempt runs with, fixed at its start. `pinned_prompts`: the column's value."""

    model: str
    prompt_set_version: str
    rule_set_version: int
    pinned_prompts: Mapping[str, Any]


def new_lease() -> str:
    return get_random_string(24)


def claim(run_id: str, worker: str, lease: str | None = None) -> Claimed | None:
    """QUEUED → RUNNING under a new lease. None: the run is not there to be claimed.

    Who names the `lease` may ask again after an answer that was lost, and gets what it had won.
    """
    token = lease or new_lease()
    run = DiagnosisRun.objects.filter(id=run_id)
    with transaction.atomic():
        won = run.filter(status=RunStatus.QUEUED).update(
            status=RunStatus.RUNNING,
            attempts=F("attempts") + 1,
            lease_token=token,
            heartbeat_at=Now(),
            started_at=Coalesce(F("started_at"), Now()),
            emitted=tally.next_start(),
        )
        row = run.filter(status=RunStatus.RUNNING, lease_token=token).first()
        if won:
            notices.put(run_id, RunNotice.Occasion.STARTED)
    if row is None:
        return None
    log.info("run claimed" if won else "run claimed before", run_id=run_id, worker=worker, attempt=row.attempts)
    ref = RunRef(run_id=row.id, session_id=row.session_id, lease_token=token)
    return Claimed(ref=ref, run=_run_input(row), tally=_tally_before(row), order=_order(row))


def _order(row: DiagnosisRun) -> Order:
    return Order(
        rehearsal=Rehearsal.model_validate(row.rehearsal) if row.rehearsal else None,
        pinned=PinnedPrompts.model_validate(row.pinned_prompts) if row.pinned_prompts else None,
    )


def _tally_before(row: DiagnosisRun) -> Tally:
    return Tally(
        start=tally.starts(row.emitted),
        spent=Spending(
            model_calls=row.model_calls,
            tool_calls=row.tool_calls,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost_usd=row.cost_usd,
        ),
    )


def _run_input(row: DiagnosisRun) -> RunInput:
    assert row.started_at is not None, "a claim sets it"
    subject = Subject.model_validate(row.subject)
    return RunInput(
        run_id=row.id,
        session_id=row.session_id,
        trigger=row.trigger,
        query=row.query,
        subject=subject,
        attempt=row.attempts,
        started_at=row.started_at,
        spent=Spent(
            model_calls=row.model_calls,
            tool_calls=row.tool_calls,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
        ),
        # Every step has a model call on the counters, save the one that each earlier start may have left open.
        next_step_index=row.model_calls + tally.starts(row.emitted),
        seen_documents=recall.seen_documents(row),
        memory=recall.memory_of(row) if subject.alert is None else NOTHING_REMEMBERED,
    )


def pin(ref: RunRef, pins: Pins) -> bool:
    """Write down what the attempt runs with, before it starts. False: the lease is another's."""
    return bool(_held(ref).update(**dataclasses.asdict(pins)))


def keep_tally(ref: RunRef, counted: Tally) -> bool:
    """Write the attempt's counters. False: the lease is another's."""
    return bool(_held(ref).update(**tally.columns(counted)))


def mark_intent(ref: RunRef, intent: Intent) -> bool:
    """Mark what the run is for: once, and before its path starts. False: it was marked, or the lease is another's."""
    return bool(_held(ref).filter(intent__isnull=True).update(intent=intent))


def finish(ref: RunRef, conclusion: Conclusion, counted: Tally | None = None) -> bool:
    """RUNNING → terminal, with RUN_FINISHED. False: another outcome or another worker was first.

    Where cancelling had been accepted before, the run ends so, whatever it came to: nothing is published after that.
    `counted`: the counters of the attempt that ends here; None: those on the row stand. With them an end that was
    stored already, its answer lost, is recognised as this one.
    """
    with transaction.atomic():
        ended = _end_as_asked(ref, conclusion, counted)
        if ended is not None:
            _write_finished(ref)
            if ended.published is not None and ended.published.source_documents:
                library.note_citations(ref.run_id)
    if ended is None:
        return counted is not None and _ended_so(ref, conclusion, counted)
    log.info("run finished", run_id=ref.run_id, outcome=ended.status)
    return True


def _end_as_asked(ref: RunRef, conclusion: Conclusion, counted: Tally | None) -> Conclusion | None:
    """How the run ended; None where it is not held any more."""
    if conclusion.status == RunStatus.CANCELLED:
        return conclusion if _end(_held(ref), conclusion, counted) else None
    if _end(_held(ref).filter(cancel_requested_at__isnull=True), conclusion, counted):
        return conclusion
    reason = _held(ref).values_list("cancel_requested_reason", flat=True).first()
    stopped = _stopped(conclusion, reason) if reason else None
    return stopped if stopped is not None and _end(_held(ref), stopped, counted) else None


def _stopped(conclusion: Conclusion, reason: str) -> Conclusion:
    return cancelled(CancelReason(reason), conclusion.emitted, conclusion.safe_content.looked_at)


def _ended_so(ref: RunRef, conclusion: Conclusion, counted: Tally) -> bool:
    """Whether the run's end is this one: by its last start, with all that it had counted, saying the same."""
    row = DiagnosisRun.objects.filter(id=ref.run_id).first()
    if row is None:
        return False
    if row.status == RunStatus.CANCELLED != conclusion.status and row.cancel_requested_reason:
        conclusion = _stopped(conclusion, row.cancel_requested_reason)
    return (
        row.outcome == conclusion.status
        and tally.starts(row.emitted) == counted.start
        and tally.of_start(row.emitted, counted.start) == counted.emitted
        and row.safe_content == safe_content(conclusion, row.rule_set_version)
    )


# ---- from outside ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """`found` False: no such run. `accepted` False: it had ended otherwise, as `status` says.

    `repeated`: cancelling had been asked for before, or had happened.
    """

    found: bool
    accepted: bool
    status: str = ""
    repeated: bool = False


def request_cancel(run_id: str, reason: CancelReason, by: str | None = None) -> CancelAnswer:
    """End a run that waits at once; mark one that runs and wake its worker. Asking again is fine."""
    for _ in range(3):
        answer = _request_cancel_once(run_id, reason, by)
        if answer is not None:
            return answer
    raise RuntimeError(f"the state of {run_id} changed under three attempts to cancel it")


def _request_cancel_once(run_id: str, reason: CancelReason, by: str | None) -> CancelAnswer | None:
    """None: the run went from one open state to the other meanwhile."""
    with transaction.atomic():
        run = DiagnosisRun.objects.filter(id=run_id)
        mark: dict[str, Any] = {"cancel_requested_at": Now(), "cancel_requested_reason": reason}
        details = RunCancelRequested(reason=reason, requested_by=by[:200] if by else None)
        summary = f"Cancelling was asked for: {reason}."
        if _end(run.filter(status=RunStatus.QUEUED), cancelled(reason), frames=2, **mark):
            ref = _ref(run.get())
            _write(ref, EventType.RUN_CANCEL_REQUESTED, details, summary)
            _write_finished(ref)
            return CancelAnswer(found=True, accepted=True, status=RunStatus.CANCELLED)
        if run.filter(status=RunStatus.RUNNING, cancel_requested_at__isnull=True).update(
            **mark, emitted=tally.emitted_column(None, frames_by_others=1)
        ):
            _write(_ref(run.get()), EventType.RUN_CANCEL_REQUESTED, details, summary)
            transaction.on_commit(lambda: live.publish_cancel(run_id))
            return CancelAnswer(found=True, accepted=True, status=RunStatus.RUNNING)
        row = run.only("status", "cancel_requested_at").first()
    if row is None:
        return CancelAnswer(found=False, accepted=False)
    if row.status == RunStatus.RUNNING and row.cancel_requested_at is not None:
        live.publish_cancel(run_id)
        return CancelAnswer(found=True, accepted=True, status=row.status, repeated=True)
    if row.is_terminal:
        cancelled_before = row.status == RunStatus.CANCELLED
        return CancelAnswer(found=True, accepted=cancelled_before, status=row.status, repeated=cancelled_before)
    return None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`lost`: runs that are another worker's or have ended. `cancel_requested`: reason by run id."""

    lost: frozenset[str]
    cancel_requested: Mapping[str, CancelReason]


def heartbeat(leases: Mapping[str, str]) -> Heartbeat:
    """One query for all runs that a process holds: `leases` is token by run id."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE diagnosis_run AS run SET heartbeat_at = clock_timestamp()"
            " FROM unnest(%s::text[], %s::text[]) AS held(id, token)"
            " WHERE run.id = held.id AND run.lease_token = held.token AND run.status = 'RUNNING'"
            " RETURNING run.id, run.cancel_requested_reason",
            [list(leases), list(leases.values())],
        )
        alive = dict(cursor.fetchall())
    return Heartbeat(
        lost=frozenset(leases) - frozenset(alive),
        cancel_requested={run_id: CancelReason(reason) for run_id, reason in alive.items() if reason},
    )


def release_for_shutdown(ref: RunRef) -> bool:
    """Hand a held run back: to the queue as if it had not begun, or, where somebody waits for it, CANCELLED."""
    with transaction.atomic():
        row = _held(ref).select_for_update(no_key=True).first()
        if row is None:
            return False
        if row.cancel_requested_reason:
            return finish(ref, cancelled(CancelReason(row.cancel_requested_reason)))
        if row.trigger not in RESUMABLE:
            return finish(ref, cancelled(CancelReason.SHUTDOWN))
        return _requeue(_held(ref), ref, "The worker was shut down.", attempts=F("attempts") - 1)


def recover_lost(stale_after: timedelta = STALE_AFTER) -> list[str]:
    """Deal with runs whose worker went silent. Returns the ids of those that wait again.

    Each run in a transaction of its own: one that another process deals with meanwhile is passed over.
    """
    stale = Q(status=RunStatus.RUNNING, heartbeat_at__lt=Now() - stale_after)
    waiting = []
    for run_id in DiagnosisRun.objects.filter(stale).order_by("heartbeat_at").values_list("id", flat=True):
        with transaction.atomic():
            row = DiagnosisRun.objects.select_for_update(no_key=True, skip_locked=True).filter(stale, id=run_id).first()
            if row is not None and _recover(row):
                waiting.append(run_id)
    return waiting


def _recover(row: DiagnosisRun) -> bool:
    """The row is locked. Returns whether the run waits again."""
    ref = RunRef(run_id=row.id, session_id=row.session_id, lease_token=row.lease_token)
    log.warning("worker lost", run_id=row.id, attempt=row.attempts)
    if row.cancel_requested_reason:
        finish(ref, cancelled(CancelReason(row.cancel_requested_reason)))
        return False
    if row.trigger in RESUMABLE and row.attempts < MAX_ATTEMPTS:
        return _requeue(_held(ref), ref, "The worker that held the run went silent.")
    finish(ref, failed(FailureCode.WORKER_LOST))
    return False


# ---- shared by the above --------------------------------------------------------------------------------------


def _held(ref: RunRef) -> QuerySet[DiagnosisRun]:
    return DiagnosisRun.objects.filter(id=ref.run_id, status=RunStatus.RUNNING, lease_token=ref.lease_token)


def _ref(row: DiagnosisRun) -> RunRef:
    return RunRef(run_id=row.id, session_id=row.session_id, lease_token=None)


def _end(
    where: QuerySet[DiagnosisRun],
    conclusion: Conclusion,
    counted: Tally | None = None,
    *,
    frames: int = 1,
    **changes: Any,
) -> bool:
    """The one UPDATE into a terminal state. `frames`: how many this transition writes, RUN_FINISHED among them."""
    if counted is not None:
        changes |= tally.columns(counted)
    changes["emitted"] = tally.emitted_column(counted, frames_by_others=frames)
    published = conclusion.published
    return bool(
        where.update(
            status=conclusion.status,
            outcome=conclusion.status,
            intent=Coalesce(F("intent"), Value(conclusion.intent)),
            verdict=conclusion.verdict,
            release_decision=conclusion.release_decision,
            failure_code=conclusion.failure_code,
            cancel_reason=conclusion.cancel_reason,
            published_result=published.model_dump(mode="json", by_alias=True) if published else None,
            safe_content=safe_content(conclusion, where.values_list("rule_set_version", flat=True).first()),
            self_evaluation=conclusion.self_evaluation or None,
            groundedness=conclusion.groundedness,
            lease_token=None,
            finished_at=Now(),
            **changes,
        )
    )


def _requeue(where: QuerySet[DiagnosisRun], ref: RunRef, reason: str, **changes: Any) -> bool:
    won = where.update(
        status=RunStatus.QUEUED,
        lease_token=None,
        heartbeat_at=None,
        enqueued_at=None,
        emitted=tally.emitted_column(None, frames_by_others=1),
        **changes,
    )
    if won:
        attempts = DiagnosisRun.objects.values_list("attempts", flat=True).get(id=ref.run_id)
        details, summary = RunRecovered(attempt=attempts, reason=reason), f"{reason} The run waits again."
        _write(dataclasses.replace(ref, lease_token=None), EventType.RUN_RECOVERED, details, summary)
    return bool(won)


def _write_finished(ref: RunRef) -> None:
    """The row has been updated in this transaction: the frame tells what it says now."""
    row = DiagnosisRun.objects.defer("self_evaluation", "published_result", "subject").get(id=ref.run_id)
    details = RunFinished(
        outcome=row.outcome,
        verdict=row.verdict,
        release_decision=row.release_decision,
        failure_code=row.failure_code,
        cancel_reason=row.cancel_reason,
        model_calls=row.model_calls,
        tool_calls=row.tool_calls,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
    )
    why = row.release_decision or row.failure_code or row.cancel_reason
    _write(dataclasses.replace(ref, lease_token=None), EventType.RUN_FINISHED, details, f"{row.outcome}: {why}.")
    notices.put(ref.run_id, RunNotice.Occasion.FINISHED)


def _write(ref: RunRef, event_type: EventType, details: Details, summary: str) -> None:
    write_all(ref, Emission(Frame(event_type=event_type, details=details, summary=summary, at=datetime.now(UTC))))
