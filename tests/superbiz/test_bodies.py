"""Of a body that is too large no more is kept than shows that it is, and the rest is still taken."""

from typing import Any

import pytest

from superbiz.bodies import Message, Receive, Send, bounded


async def kept_of(chunks: list[bytes], limit: int) -> tuple[int, int]:
    """How many bytes the application gets of these, and how many messages are left that nobody took."""
    waiting: list[Message] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    waiting.append({"type": "http.request", "more_body": False})
    got = 0

    async def application(scope: Any, receive: Receive, send: Send) -> None:
        nonlocal got
        while True:
            message = await receive()
            got += len(message.get("body", b""))
            if not message["more_body"]:
                return

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is sent")

    await bounded(application, limit)({"type": "http"}, receive, send)
    return got, len(waiting)


@pytest.mark.parametrize(
    ("sizes", "kept"), [([], 0), ([10], 10), ([4, 6], 10), ([11], 11), ([12], 11), ([5, 5, 5, 5], 11), ([99] * 50, 11)]
)
async def test_a_body_is_kept_up_to_the_limit_and_one_byte(sizes: list[int], kept: int) -> None:
    assert await kept_of([b"x" * size for size in sizes], limit=10) == (kept, 0)


async def test_that_the_client_went_away_is_passed_on() -> None:
    told: list[Message] = []

    async def application(scope: Any, receive: Receive, send: Send) -> None:
        told.append(await receive())

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError("nothing is sent")

    await bounded(application, 10)({"type": "http"}, receive, send)
    assert told == [{"type": "http.disconnect"}]
