"""`manage.py verify_ledger [RUN]`: re-derive the hashes of the ledger and name what does not hold."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from rich.console import Console
from rich.progress import Progress

from audit.models import PrunedRun
from audit.record import BATCH, Readings, Record, load_readings, load_record, load_records, one_moment
from audit.verification import Problem, verify, verify_readings

_KNOWN_RUNS = """
    SELECT id FROM diagnosis_run
    UNION SELECT run_id FROM diagnosis_trace_head
    UNION SELECT run_id FROM diagnosis_trace_event WHERE run_id IS NOT NULL
    UNION SELECT run_id FROM agent_step WHERE run_id IS NOT NULL
    UNION SELECT run_id FROM agent_reasoning_audit WHERE run_id IS NOT NULL
    UNION SELECT run_id FROM model_call_ledger WHERE run_id IS NOT NULL
    UNION SELECT run_id FROM tool_invocation WHERE run_id IS NOT NULL
    UNION SELECT run_id FROM reasoning_access
    UNION SELECT run_id FROM reasoning_access_head
    UNION SELECT last_run_id FROM alert WHERE last_run_id IS NOT NULL
    ORDER BY 1
"""
_HEADS = """
    SELECT run_id, '' AS kind, sequence_no, hash FROM diagnosis_trace_head WHERE closed
    UNION ALL SELECT run_id, '', trace_event_count, trace_head_hash FROM pruned_run
    UNION ALL SELECT run_id, ' reading', sequence_no, hash FROM reasoning_access
    UNION ALL SELECT run_id, ' reading', reading_count, reading_head_hash FROM pruned_run WHERE reading_count > 0
    ORDER BY 1, 2, 3
"""


class Command(BaseCommand):
    help = (
        "Re-derives every hash and digest of one run's record, or of all, and lists each edited, removed, inserted or "
        "reordered frame or row, and each such reading of reasoning. Exit code 1 when there are problems, 2 when there "
        "is no such run. With --heads: prints the last frame's number and hash of each ended run, and those of each "
        "reading of reasoning, to keep where the database's owner cannot write; a later print must contain the same "
        "lines, but of a pruned run its last reading alone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", nargs="?", metavar="RUN", help="id of one run; default: all")
        parser.add_argument(
            "--heads", action="store_true", help="print lines RUN COUNT HASH and RUN reading NUMBER HASH"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["heads"]:
            for line in _head_lines(options["run"]):
                self.stdout.write(line)
            return
        run_ids = _run_ids(options["run"])
        faulty = 0
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("Verifying", total=len(run_ids))
            for record, readings in _told(run_ids):
                problems = [*verify(record), *verify_readings(readings)]
                faulty += bool(problems)
                self._print(record.run_id, problems)
                progress.advance(task)
        if faulty:
            self.stdout.write(f"{faulty} of {len(run_ids)} runs have problems.")
            sys.exit(1)
        self.stdout.write(f"{len(run_ids)} runs verified, no problems.")

    def _print(self, run_id: str, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self.stdout.write(f"{run_id}: {problem}")


def _told(run_ids: Sequence[str]) -> Iterator[tuple[Record, Readings]]:
    """A batch is read in one moment and yielded after it, so that no transaction stays open while it is hashed."""
    for start in range(0, len(run_ids), BATCH):
        ids = run_ids[start : start + BATCH]
        with one_moment():
            told = list(zip(load_records(ids), load_readings(ids), strict=True))
        yield from told


def _rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def _run_ids(wanted: str | None) -> list[str]:
    """The wanted run, or all that any record names. Raises `CommandError` (2) where nothing names the wanted one."""
    if wanted is None:
        return [row[0] for row in _rows(_KNOWN_RUNS)]
    if "\0" in wanted:
        raise CommandError("The id of a run holds no NUL.", returncode=2)
    if not load_record(wanted).is_empty:
        return [wanted]
    pruned = PrunedRun.objects.filter(run_id=wanted).first()
    if pruned is not None:
        raise CommandError(f"{wanted} was pruned on {pruned.pruned_at:%Y-%m-%d} by {pruned.pruned_by}.", returncode=2)
    raise CommandError(f"There is no run {wanted}.", returncode=2)


def _head_lines(wanted: str | None) -> list[str]:
    """Raises `CommandError` (2) where the wanted run has none."""
    found = [row for row in _rows(_HEADS) if wanted in {None, row[0]}]
    lines = [f"{run_id}{kind} {count} {head}" for run_id, kind, count, head in found]
    if wanted is not None and not lines:
        _run_ids(wanted)
        raise CommandError(f"The record of {wanted} has not ended, so it has no last frame yet.", returncode=2)
    return lines
