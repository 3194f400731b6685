"""ORM work for code that lives on an event loop: a bounded executor of this process.

Connections come from the process's pool and go back to it after each call, so none is held while a run
waits for a model or a tool. How many calls run at once is the setting `ORM_THREADS`.
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=settings.ORM_THREADS, thread_name_prefix="orm")


def _call(function: Callable[[], T]) -> T:
    try:
        return function()
    finally:
        connections.close_all()


async def run_in_orm(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a synchronous function that uses the ORM, and await its value; its errors propagate.

    A cancelled caller stops waiting at once. Work that had begun goes on to its end in its thread and gives
    its connection back; work that had not begun is dropped. Who must not lose a begun write shields the call.
    """
    context = contextvars.copy_context()
    call = functools.partial(context.run, _call, functools.partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_executor(), call)
