"""Who read restricted texts is chained: what is changed in it is named."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command
from django.db import Error, connection, transaction

from audit import chain
from audit.models import ReasoningAccess
from audit.readings import record_access
from audit.record import Readings, load_readings, load_records, one_moment
from audit.verification import Fault, verify_readings
from runs.access import Caller
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, finished_run, running
from tests.audit.test_verification import tamper
from tests.factories import TokenFactory, UserFactory

pytestmark = pytest.mark.django_db

OF_RUN = "WHERE run_id = %(run)s"
EDIT = "UPDATE reasoning_access SET"
EDIT_HEAD = "UPDATE reasoning_access_head SET"
SWAP = f"""
    {EDIT} sequence_no = 100 {OF_RUN} AND sequence_no = 2;
    {EDIT} sequence_no = 2 {OF_RUN} AND sequence_no = 3;
    {EDIT} sequence_no = 3 {OF_RUN} AND sequence_no = 100
"""
FORGE = f"""
    {EDIT} sequence_no = sequence_no + 100 {OF_RUN} AND sequence_no >= 3;
    {EDIT} sequence_no = sequence_no - 99 {OF_RUN} AND sequence_no >= 100;
    INSERT INTO reasoning_access (run_id, sequence_no, reader, what, at, previous_hash, hash)
    SELECT run_id, 3, reader, what, at, hash, repeat('f', 64) FROM reasoning_access {OF_RUN} AND sequence_no = 2
"""


def readings_of(run: DiagnosisRun) -> Readings:
    (found,) = load_readings([run.id])
    return found


def read_often() -> DiagnosisRun:
    """Four readings, by two people and a token."""
    run = finished_run()
    ada, bob = Caller(user=UserFactory.create()), Caller(user=UserFactory.create())
    for caller in (ada, bob, Caller(token=TokenFactory.create()), ada):
        record_access(caller, run.id, "reasoning")
    return run


@dataclass(frozen=True)
class Tampering:
    name: str
    sql: str
    fault: Fault
    where: str


@pytest.mark.parametrize(
    "case",
    [
        Tampering("who", f"{EDIT} reader = 'nobody' {OF_RUN} AND sequence_no = 2", Fault.EDITED, "reading 2"),
        Tampering("what", f"{EDIT} what = 'a draft' {OF_RUN} AND sequence_no = 4", Fault.EDITED, "reading 4"),
        Tampering("whose", f"{EDIT} user_id = NULL {OF_RUN} AND sequence_no = 1", Fault.EDITED, "reading 1"),
        Tampering("when", f"{EDIT} at = at - interval '1 d' {OF_RUN} AND sequence_no = 1", Fault.EDITED, "reading 1"),
        Tampering("one gone", f"DELETE FROM reasoning_access {OF_RUN} AND sequence_no = 2", Fault.REMOVED, "reading 2"),
        Tampering("the last", f"DELETE FROM reasoning_access {OF_RUN} AND sequence_no = 4", Fault.REMOVED, "reading 4"),
        Tampering("all gone", f"DELETE FROM reasoning_access {OF_RUN}", Fault.REMOVED, "readings 1 to 4"),
        Tampering("another order", SWAP, Fault.REORDERED, "reading 2"),
        Tampering("a forged one", FORGE, Fault.INSERTED, "reading 3"),
        Tampering("the head's hash", f"{EDIT_HEAD} hash = repeat('0', 64) {OF_RUN}", Fault.EDITED, "reading 4"),
        Tampering("the head set back", f"{EDIT_HEAD} sequence_no = 3 {OF_RUN}", Fault.INSERTED, "reading 4"),
        Tampering("the head gone", f"DELETE FROM reasoning_access_head {OF_RUN}", Fault.REMOVED, "reading head"),
    ],
    ids=lambda case: case.name,
)
def test_tampering_is_named(case: Tampering, capsys: pytest.CaptureFixture[str]) -> None:
    run = read_often()
    assert verify_readings(readings_of(run)) == []
    tamper(case.sql, run)
    assert (case.fault, case.where) in {(p.fault, p.where) for p in verify_readings(readings_of(run))}
    with pytest.raises(SystemExit):
        call_command("verify_ledger", run.id)
    assert f"{run.id}: {case.where}: {case.fault}" in capsys.readouterr().out


def test_a_reading_that_was_edited_and_hashed_anew_is_named_by_the_next() -> None:
    run = read_often()
    row = readings_of(run).rows[1]
    forged: dict[str, Any] = {**row, "reader": "nobody"}
    new_hash = chain.reading_hash(row["previous_hash"], forged)
    tamper(f"{EDIT} reader = 'nobody', hash = '{new_hash}' {OF_RUN} AND sequence_no = 2", run)
    assert [(p.fault, p.where) for p in verify_readings(readings_of(run))] == [(Fault.EDITED, "reading 2")]


def test_a_reading_added_with_a_right_hash_is_beyond_the_head() -> None:
    run = read_often()
    last = readings_of(run).rows[-1]
    forged: dict[str, Any] = {**last, "sequence_no": 5, "previous_hash": last["hash"]}
    ReasoningAccess.objects.create(**{**forged, "hash": chain.reading_hash(last["hash"], forged)})
    assert [(p.fault, p.where) for p in verify_readings(readings_of(run))] == [(Fault.INSERTED, "reading 5")]


def test_readings_of_one_run_do_not_count_for_another() -> None:
    first, second = read_often(), finished_run("stp_2")
    record_access(Caller(user=UserFactory.create()), second.id, "reasoning")
    assert [row["sequence_no"] for row in readings_of(second).rows] == [1]
    assert [row["sequence_no"] for row in readings_of(first).rows] == [1, 2, 3, 4]


@pytest.mark.parametrize("sql", [f"{EDIT} reader = 'x'", "DELETE FROM reasoning_access_head"])
def test_the_database_refuses_the_change_itself(sql: str) -> None:
    read_often()
    with pytest.raises(Error, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.django_db(transaction=True)
def test_many_who_read_at_once_make_one_chain() -> None:
    run, callers = finished_run(), [Caller(user=UserFactory.create()) for _ in range(8)]

    def read(caller: Caller) -> None:
        try:
            record_access(caller, run.id, "reasoning")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, callers))
    found = readings_of(run)
    assert [row["sequence_no"] for row in found.rows] == list(range(1, 9))
    assert verify_readings(found) == []
    assert {row["reader"] for row in found.rows} == {caller.name for caller in callers}


@pytest.mark.django_db(transaction=True)
def test_what_is_recorded_while_a_record_is_read_belongs_to_the_next_look() -> None:
    run = running()
    append_now(run, [emissions.started()])

    def meanwhile() -> None:
        try:
            append_now(run, emissions.small_run())
        finally:
            connection.close()

    with one_moment():
        (before,) = load_records([run.id])
        with ThreadPoolExecutor(1) as pool:
            pool.submit(meanwhile).result()
        (still,) = load_records([run.id])
    (after,) = load_records([run.id])
    assert before == still
    assert len(after.frames) > len(still.frames) == 1
    assert not ReasoningAccess.objects.exists()
