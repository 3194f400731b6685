"""Removes whole ended runs from the ledger and leaves a tombstone of each.

The one place that lifts the append-only triggers, for its own transaction.
"""

from datetime import datetime

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit import chain
from audit.models import PrunedRun, ReasoningAccessHead, TraceHead
from audit.models.append_only import PRUNE_SETTING
from runs.models import DiagnosisRun
from runs.models.run import TERMINAL

BATCH = 100
# Any number that no other advisory lock of the project uses.
_PRUNERS_LOCK = 0x5342_5052
_TABLES = (
    "reasoning_access",
    "reasoning_access_head",
    "run_prompt",
    "run_rule",
    "diagnosis_trace_event",
    "diagnosis_trace_head",
    "agent_reasoning_audit",
    "model_call_ledger",
    "tool_invocation",
    "agent_step",
)

# What a tombstone says of the run itself.
_KEPT = ("id", "session_id", "trigger", "outcome", "queued_at", "finished_at")


def prunable(before: datetime) -> QuerySet[DiagnosisRun]:
    """Runs that had ended before then, oldest first."""
    return DiagnosisRun.objects.filter(status__in=TERMINAL, finished_at__lt=before).order_by("finished_at", "id")


def prune_batch(before: datetime, *, by: str, reason: str) -> list[str]:
    """Remove up to `BATCH` runs in one transaction and return their ids; none are left when it is empty."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_PRUNERS_LOCK])
            cursor.execute(f"SET LOCAL {PRUNE_SETTING} = 'on'")
        runs = list(prunable(before).only(*_KEPT)[:BATCH])
        _leave_tombstones(runs, by=by, reason=reason)
        ids = [run.id for run in runs]
        with connection.cursor() as cursor:
            for table in _TABLES:
                cursor.execute(f"DELETE FROM {table} WHERE run_id = ANY(%s)", [ids])  # noqa: S608 (names from above)
        DiagnosisRun.objects.filter(id__in=ids).delete()
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL {PRUNE_SETTING} = 'off'")
    return ids


def _leave_tombstones(runs: list[DiagnosisRun], *, by: str, reason: str) -> None:
    heads = {head.run_id: head for head in TraceHead.objects.filter(run__in=runs)}
    readings = {head.run_id: head for head in ReasoningAccessHead.objects.filter(run__in=runs)}
    now = timezone.now()
    PrunedRun.objects.bulk_create(
        PrunedRun(
            run_id=run.id,
            session_id=run.session_id,
            trigger=run.trigger,
            outcome=run.outcome,
            queued_at=run.queued_at,
            finished_at=run.finished_at,
            pruned_at=now,
            pruned_by=by[:150],
            reason=reason[:300],
            trace_event_count=heads[run.id].sequence_no if run.id in heads else 0,
            trace_head_hash=heads[run.id].hash if run.id in heads else chain.genesis(run.id),
            reading_count=readings[run.id].sequence_no if run.id in readings else 0,
            reading_head_hash=readings[run.id].hash if run.id in readings else chain.reading_genesis(run.id),
        )
        for run in runs
    )
