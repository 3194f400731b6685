import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import AsyncClient, AsyncRequestFactory

from audit import hub as hub_module
from audit.hub import ReaderDropped
from audit.streams import follow, run_events, sse_events
from runs import lifecycle, live
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, finished_run, ref, running
from tests.factories import SessionFactory, TokenFactory, UserFactory, conclusion

pytestmark = pytest.mark.django_db(transaction=True)


async def get(run_id: str, *, headers: dict[str, str] | None = None, query: str = "", secret: str = "a-token") -> Any:
    request = AsyncRequestFactory().get(
        f"/api/runs/{run_id}/events{query}", headers={"Authorization": f"Bearer {secret}", **(headers or {})}
    )
    return await run_events(request, run_id)


def parsed(text: str) -> list[tuple[str, int | None, Any]]:
    """(event, id, data) of each event in a stream's text."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "event" in fields:
            id_ = int(fields["id"]) if "id" in fields else None
            events.append((fields["event"], id_, json.loads(fields["data"])))
    return events


async def read(response: StreamingHttpResponse) -> list[tuple[str, int | None, Any]]:
    return parsed("".join([part.decode() async for part in response]))


async def numbers(frames: AsyncIterator[Any]) -> list[int]:
    return [number async for number, event in frames if event is not None]


async def test_the_stream_of_an_ended_run_gives_every_frame_and_ends() -> None:
    run = await sync_to_async(finished_run)()
    await sync_to_async(TokenFactory)()
    response = await get(run.id)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/event-stream")
    assert response["X-Accel-Buffering"] == "no"
    events = await read(response)
    assert [(name, id_) for name, id_, _ in events] == [*(("event", n) for n in range(1, 9)), ("done", None)]
    first = events[0][2]
    assert set(first) == {
        *("sequenceNo", "phase", "eventType", "status", "stepId", "invocationId", "summary", "details"),
        *("durationMs", "createdAt"),
    }
    assert (first["sequenceNo"], first["eventType"]) == (1, "RUN_STARTED")
    assert first["details"]["promptSetVersion"] == "p1"


@pytest.mark.parametrize(
    ("headers", "query", "expected"),
    [
        ({"Last-Event-ID": "5"}, "", [6, 7, 8]),
        ({}, "?after=5", [6, 7, 8]),
        ({"Last-Event-ID": "6"}, "?after=2", [7, 8]),
        ({"Last-Event-ID": "8"}, "", []),
        ({}, "?after=9999999999", []),
    ],
)
async def test_a_stream_resumes_after_the_number_the_client_has(
    headers: dict[str, str], query: str, expected: list[int]
) -> None:
    run = await sync_to_async(finished_run)()
    await sync_to_async(TokenFactory)()
    events = await read(await get(run.id, headers=headers, query=query))
    assert [id_ for _, id_, _ in events] == [*expected, None]


@pytest.mark.parametrize("rings", [True, False], ids=["redis rings", "redis is silent"])
async def test_a_running_run_is_followed_without_gap_or_repeat(rings: bool) -> None:
    run = await sync_to_async(running)()
    told = list(emissions.small_run())
    await sync_to_async(append_now)(run, told[:2])

    async def work() -> None:
        for emission in told[2:]:
            await asyncio.sleep(0.02)
            await sync_to_async(append_now)(run, [emission])
            if rings:
                await asyncio.to_thread(live.publish_changed, [run.id])
        await sync_to_async(lifecycle.finish)(ref(run), conclusion())

    readers = [asyncio.create_task(numbers(follow(run.id, after))) for after in (0, 0, 1)]
    await work()
    seen = await asyncio.wait_for(asyncio.gather(*readers), 15)
    assert seen == [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7], [2, 3, 4, 5, 6, 7]]


async def test_a_stream_that_broke_off_and_came_back_has_every_frame_once() -> None:
    run = await sync_to_async(running)()
    seen: list[int] = []
    for emission in emissions.small_run():
        await sync_to_async(append_now)(run, [emission])
        if emission.frame is None:
            continue
        async for number, event in follow(run.id, seen[-1] if seen else 0, 5):
            assert event is not None
            seen.append(number)
            break
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_a_run_that_ended_without_a_terminal_frame_still_ends_its_stream() -> None:
    run = await sync_to_async(running)()
    await sync_to_async(append_now)(run, [emissions.routing()])
    task = asyncio.create_task(numbers(follow(run.id)))
    await asyncio.sleep(0.1)
    await DiagnosisRun.objects.filter(id=run.id).aupdate(
        status="FAILED", outcome="FAILED", failure_code="INTERNAL", lease_token=None, safe_content={},
        finished_at=run.queued_at,
    )  # fmt: skip
    assert await asyncio.wait_for(task, 10) == [1]


async def test_silence_is_filled_with_signs_of_life() -> None:
    run = await sync_to_async(running)()
    stream = sse_events(run.id, 0, heartbeat_s=0.05)
    parts = [await anext(stream) for _ in range(3)]
    await stream.aclose()
    assert parts[0].startswith("retry:")
    assert parts[1:] == [": still here\n\n"] * 2


async def test_a_slow_reader_is_dropped_and_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "QUEUE_SIZE", 2)
    run = await sync_to_async(running)()
    frames = follow(run.id, 0, 0.05)
    assert await anext(frames) == (0, None)
    await sync_to_async(append_now)(run, emissions.small_run())
    await asyncio.to_thread(live.publish_changed, [run.id])
    await asyncio.sleep(1.5)
    assert [(await anext(frames))[0] for _ in range(2)] == [1, 2]
    with pytest.raises(ReaderDropped):
        await anext(frames)


async def test_nothing_stays_behind_when_the_last_reader_leaves() -> None:
    run = await sync_to_async(running)()
    frames = follow(run.id, 0, 0.01)
    await anext(frames)
    assert any(task.get_name().startswith("live-") for task in asyncio.all_tasks())
    await frames.aclose()
    assert not any(task.get_name().startswith("live-") for task in asyncio.all_tasks())


async def test_the_stream_is_at_its_address_behind_all_middleware() -> None:
    run = await sync_to_async(finished_run)()
    await sync_to_async(TokenFactory)()
    response = await AsyncClient().get(
        f"/api/runs/{run.id}/events?after=7", headers={"Authorization": "Bearer a-token"}
    )
    assert response.status_code == 200
    assert [(name, id_) for name, id_, _ in await read(response)] == [("event", 8), ("done", None)]


async def test_streams_share_the_connections_of_the_hub() -> None:
    run = await sync_to_async(running)()
    await sync_to_async(append_now)(run, [emissions.routing()])
    before = await sync_to_async(open_connections)()
    streams = [follow(run.id, 0, 5) for _ in range(30)]
    try:
        assert await asyncio.gather(*(anext(stream) for stream in streams))
        waiting = [asyncio.create_task(anext(stream)) for stream in streams]
        await asyncio.sleep(0.1)
        assert await sync_to_async(open_connections)() <= before + hub_module.POOL_SIZE
        await sync_to_async(append_now)(run, [emissions.opened()])
        await asyncio.to_thread(live.publish_changed, [run.id])
        assert {number for number, _ in await asyncio.gather(*waiting)} == {2}
    finally:
        await asyncio.gather(*(stream.aclose() for stream in streams))


def open_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        (count,) = cursor.fetchone()
    return int(count)


@pytest.mark.parametrize(
    ("secret", "scopes", "query", "status", "code"),
    [
        ("wrong", ["runs:read"], "", 401, "UNAUTHENTICATED"),
        ("a-token", ["chat:write"], "", 403, "FORBIDDEN"),
        ("a-token", ["runs:read"], "?after=-1", 400, "INVALID_POSITION"),
        ("a-token", ["runs:read"], "", 404, "RUN_NOT_FOUND"),
    ],
)
async def test_who_may_not_watch_is_told_so(secret: str, scopes: list[str], query: str, status: int, code: str) -> None:
    await sync_to_async(TokenFactory)(scopes=scopes)
    response = await get("run_none", secret=secret, query=query)
    assert (response.status_code, json.loads(response.content)["code"]) == (status, code)


async def test_a_persons_run_is_hidden_from_other_people() -> None:
    owner, other = await sync_to_async(UserFactory)(), await sync_to_async(UserFactory)()
    session = await sync_to_async(SessionFactory)(owner=owner)
    run = await sync_to_async(running)(session=session)
    request = AsyncRequestFactory().get("/")
    request.user = other
    assert (await run_events(request, run.id)).status_code == 404
