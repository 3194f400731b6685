from collections.abc import AsyncIterator

import pytest
from asgiref.sync import sync_to_async
from django.db import connections


@pytest.fixture(autouse=True)
async def _connections_of_the_async_thread_are_given_back() -> AsyncIterator[None]:
    yield
    await sync_to_async(connections.close_all)()
