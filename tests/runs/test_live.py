import asyncio
from collections.abc import AsyncIterator

import pytest
import redis
from django.conf import settings

from runs import live
from runs.live import Message


async def received(messages: AsyncIterator[Message], ring: list[tuple[str, str]]) -> Message:
    """The next message, while the bell is rung again and again: a subscription takes a moment to stand."""

    async def ringing() -> None:
        while True:
            for channel, run_id in ring:
                await asyncio.to_thread(live._publisher().publish, channel, [run_id])
            await asyncio.sleep(0.02)

    bell = asyncio.create_task(ringing())
    try:
        return await asyncio.wait_for(anext(messages), 10)
    finally:
        bell.cancel()


async def test_listeners_hear_their_channels_only() -> None:
    messages = live.subscribe([live.CANCEL])
    heard = await received(messages, [(live.CHANGED, "run_1"), (live.CANCEL, "run_2")])
    assert heard == Message(channel=live.CANCEL, run_id="run_2")
    await messages.aclose()  # type: ignore[attr-defined]


async def test_a_lost_subscription_is_made_again() -> None:
    messages = live.subscribe([live.CHANGED])
    await received(messages, [(live.CHANGED, "run_1")])
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.client_kill_filter(_type="pubsub")
    heard = await received(messages, [(live.CHANGED, "run_2")])
    while heard.run_id == "run_1":
        heard = await received(messages, [(live.CHANGED, "run_2")])
    assert heard.run_id == "run_2"
    await messages.aclose()  # type: ignore[attr-defined]


def test_many_runs_are_told_at_once() -> None:
    with redis.Redis.from_url(settings.REDIS_URL, decode_responses=True) as client, client.pubsub() as pubsub:
        pubsub.subscribe(live.CHANGED)
        pubsub.get_message(timeout=10)
        live.publish_changed(["run_1", "run_2"])
        heard = [pubsub.get_message(timeout=10) for _ in range(2)]
    assert [message["data"] for message in heard if message] == ["run_1", "run_2"]


@pytest.mark.parametrize("address", ["redis://127.0.0.1:1/0", "unix:///no/such.sock?db=0"])
def test_a_dead_redis_is_no_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", address)
    live._publisher.cache_clear()
    try:
        live.publish_changed(["run_1"])
        live.publish_cancel("run_1")
        live.announce_worker("w")
        with pytest.raises(redis.RedisError):
            live.workers()
    finally:
        live._publisher.cache_clear()
