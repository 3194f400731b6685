"""Somebody else does something while our own transaction is open: do they wait for it?"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from django.db import connection, transaction

T = TypeVar("T")

_WAITERS = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def answer_after(ours: Callable[[], object], theirs: Callable[[], T]) -> T:
    """What `theirs` returns, begun when `ours` was done and not committed yet.

    The commit follows once they wait for an advisory lock, or have an answer without having waited.
    """

    def on_a_connection_of_its_own() -> T:
        try:
            return theirs()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            ours()
            work = pool.submit(on_a_connection_of_its_own)
            _until_it_waits_or_is_done(work)
        return work.result()


def _until_it_waits_or_is_done(work: Future[T]) -> None:
    while not work.done():
        with connection.cursor() as cursor:
            cursor.execute(_WAITERS)
            if cursor.fetchone()[0]:
                return
        time.sleep(0.01)
