import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from django.test import AsyncClient, AsyncRequestFactory, Client, RequestFactory

from audit import hub as hub_module
from audit import streams
from audit.hub import ReaderDropped
from audit.streams import follow, run_events, sse_events, while_allowed
from runs import lifecycle, live
from runs.models import ApiToken, DiagnosisRun
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


# ---- whoever may not watch any more -------------------------------------------------------------------------------


@pytest.fixture
def asking_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ASK_AGAIN_S", 0.0)


async def still_watching(request: HttpRequest, run_id: str) -> list[str]:
    """What is given of two frames to the caller of the request."""

    async def two() -> AsyncGenerator[str, None]:
        for frame in ("one", "two"):
            yield frame

    return [frame async for frame in while_allowed(request, run_id, two())]


def seen_by(client: Client, user: User) -> HttpRequest:
    """A request of the person's, as its view has it: session and person are read already."""
    client.force_login(user)
    request: HttpRequest = client.get("/").wsgi_request
    assert request.user == user
    return request


def signs_out(client: Client, _user: User) -> None:
    other_tab = Client()
    other_tab.cookies = client.cookies
    assert other_tab.post("/sign-out/").status_code == 302


def is_deactivated(_client: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def has_another_password(_client: Client, user: User) -> None:
    person = User.objects.get(pk=user.pk)
    person.set_password("another one")
    person.save()


def loses_the_permission(_client: Client, user: User) -> None:
    User.objects.get(pk=user.pk).user_permissions.clear()


@pytest.mark.usefixtures("asking_each_time")
@pytest.mark.parametrize("happens", [signs_out, is_deactivated, has_another_password, loses_the_permission])
def test_a_stream_ends_for_a_person_who_may_not_watch_any_more(
    client: Client, happens: Callable[[Client, User], None]
) -> None:
    run = running(session=SessionFactory(owner=UserFactory()))
    user = UserFactory.create(permissions=["see_all_sessions"])
    request = seen_by(client, user)
    assert async_to_sync(still_watching)(request, run.id) == ["one", "two"]
    happens(client, user)
    assert async_to_sync(still_watching)(request, run.id) == []


@pytest.mark.usefixtures("asking_each_time")
@pytest.mark.parametrize("change", [{"revoked_at": "2026-01-31T08:00:00Z"}, {"scopes": ["chat:write"]}])
def test_a_stream_ends_for_a_token_that_was_revoked_or_narrowed(change: dict[str, Any]) -> None:
    run, token = running(), TokenFactory.create()
    request = RequestFactory().get("/", headers={"Authorization": "Bearer a-token"})
    assert async_to_sync(still_watching)(request, run.id) == ["one", "two"]
    ApiToken.objects.filter(pk=token.pk).update(**change)
    assert async_to_sync(still_watching)(request, run.id) == []


@pytest.mark.usefixtures("asking_each_time")
@pytest.mark.parametrize("address", ["/api/runs/{}/events", "/runs/{}/live/"])
async def test_every_stream_of_a_run_asks_again(address: str) -> None:
    run, user, client = await sync_to_async(running)(), await sync_to_async(UserFactory.create)(), AsyncClient()
    await client.aforce_login(user)
    await sync_to_async(append_now)(run, [emissions.started()])
    response = await client.get(address.format(run.id))
    parts = aiter(response)
    assert b"retry" in await anext(parts)
    assert b"id: 1" in await anext(parts)
    await User.objects.filter(pk=user.pk).aupdate(is_active=False)
    await sync_to_async(append_now)(run, [emissions.routing()])
    assert [part async for part in parts] == []


def test_who_may_watch_is_not_asked_for_every_event() -> None:
    run, request = running(), RequestFactory().get("/", headers={"Authorization": "Bearer unknown"})
    assert async_to_sync(still_watching)(request, run.id) == ["one", "two"]


@pytest.mark.usefixtures("asking_each_time")
async def test_the_stream_of_a_question_asks_again_too_and_its_run_goes_on() -> None:
    token = await sync_to_async(TokenFactory.create)(scopes=["chat:write"])
    response = await AsyncClient().post(
        "/api/chat_stream",
        {"query": "Why is checkout slow?"},
        content_type="application/json",
        headers={"Authorization": "Bearer a-token"},
    )
    assert isinstance(response, StreamingHttpResponse)
    parts = aiter(response)
    run_id = parsed((await anext(parts)).decode())[0][2]["runId"]
    await ApiToken.objects.filter(pk=token.pk).aupdate(revoked_at="2026-01-31T08:00:00Z")
    await sync_to_async(append_now)(await DiagnosisRun.objects.aget(id=run_id), [emissions.routing()])
    assert [part async for part in parts] == []
    await sync_to_async(response.close)()
    assert (await DiagnosisRun.objects.aget(id=run_id)).cancel_requested_at is None
