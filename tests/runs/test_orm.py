import asyncio
import contextvars
import threading

import pytest
from django.conf import settings
from django.db import connection

from runs.orm import run_in_orm
from tests.factories import SessionFactory

pytestmark = pytest.mark.django_db(transaction=True)


async def test_values_and_errors_come_back() -> None:
    session = await run_in_orm(SessionFactory)
    assert session.pk
    with pytest.raises(ZeroDivisionError):
        await run_in_orm(lambda: 1 // 0)


async def test_context_goes_along() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    name.set("ada")
    assert await run_in_orm(name.get) == "ada"


async def test_threads_are_bounded_and_give_their_connections_back() -> None:
    held = threading.Semaphore(settings.ORM_THREADS)
    too_many = threading.Event()

    def query() -> int:
        if not held.acquire(blocking=False):
            too_many.set()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid() FROM pg_sleep(0.005)")
            pid = int(cursor.fetchone()[0])
        held.release()
        return pid

    pids = await asyncio.gather(*(run_in_orm(query) for _ in range(60)))
    assert not too_many.is_set()
    # The pool may open a connection while another is still on its way back; its own size is the bound.
    assert len(set(pids)) <= settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    assert await run_in_orm(lambda: connection.connection) is None


async def test_a_cancelled_caller_leaves_begun_work_to_its_end() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        SessionFactory(id="written")
        done.set()

    task = asyncio.create_task(run_in_orm(work))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(done.wait, 10)
