"""A run as it goes, for programs (server-sent events) and for the run's page.

    id: 7
    event: event
    data: {"sequenceNo": 7, …}            a timeline event of the contract

    : still here                          every 15 seconds of silence

    event: done
    data: {}                              after the terminal frame, or once the run has ended and all was sent

`id:` is the sequence number. `Last-Event-ID` or `?after=` resumes after it. Watching never cancels a run.

Who may watch is asked again while the stream goes on: it ends without `done` for somebody who signed out, was
deactivated, or lost the token or the right to see the run. Whoever comes back is refused like anybody else.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt

from audit.hub import ReaderDropped, hub
from audit.shapes import timeline_json
from audit.trace import TimelineEvent
from runs.access import ApiError, authenticate, caller_now, require, visible_run
from runs.models.token import Scope
from runs.orm import run_in_orm

log = structlog.get_logger(__name__)

HEARTBEAT_S = 15.0
HEARTBEAT = ": still here\n\n"
STALL_S = 30.0
ASK_AGAIN_S = 10.0
RECONNECT_MS = 2_000
LARGEST_POSITION = 2**31 - 1

STREAM_HEADERS = {
    "Cache-Control": "no-store, no-transform",
    # nginx and those who follow it: pass each event on at once.
    "X-Accel-Buffering": "no",
}


async def follow(
    run_id: str, after: int = 0, quiet_s: float = HEARTBEAT_S
) -> AsyncGenerator[tuple[int, TimelineEvent | None], None]:
    """`(sequence_no, event)` of the committed frames after `after`, until the run has ended.

    Where nothing came for `quiet_s` seconds: `(last sequence_no, None)`, so that a page can send a sign of life.
    Raises `audit.hub.ReaderDropped` when they are taken too slowly. The caller has checked who may watch.
    """
    async with aclosing(hub().follow(run_id, after, quiet_s)) as frames:
        async for sequence_no, event in frames:
            yield sequence_no, event


def sse(event: str, data: Any, id_: int | None = None) -> str:
    """One server-sent event with JSON data."""
    head = "" if id_ is None else f"id: {id_}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


async def drop_slow_readers(
    frames: AsyncGenerator[str, None], on_drop: Callable[[], None] = lambda: None, stall_s: float = STALL_S
) -> AsyncGenerator[str, None]:
    """The frames, for a response's body. Whoever does not take one for `stall_s` seconds is left.

    A client that stays connected and reads nothing would otherwise hold its response for ever. The task that sends
    the response is cancelled, as Django does when the client goes away, after `on_drop` was told.
    """
    sending = asyncio.current_task()
    assert sending is not None

    def drop() -> None:
        on_drop()
        sending.cancel()

    async with aclosing(frames):
        async for frame in frames:
            if sending.cancelling():
                # On its way here the cancellation was taken by something that it reached in the same instant.
                raise asyncio.CancelledError
            timer = asyncio.get_running_loop().call_later(stall_s, drop)
            try:
                yield frame
            finally:
                timer.cancel()


def may_still_watch(request: HttpRequest, scope: Scope, run_id: str) -> bool:
    """Whether the request's caller has the scope and may see the run by now."""
    try:
        visible_run(require(caller_now(request), scope), run_id)
    except ApiError:
        return False
    return True


async def while_allowed(
    request: HttpRequest,
    run_id: str,
    frames: AsyncGenerator[str, None],
    *,
    scope: Scope = Scope.RUNS_READ,
) -> AsyncGenerator[str, None]:
    """The frames for the request's caller, for as long as they may watch the run.

    None is given that was not allowed `ASK_AGAIN_S` before. A sign of life is a frame too, so a stream ends at
    the latest that much and one silence after the right to it.
    """
    clock = asyncio.get_running_loop().time
    asked = clock()
    async with aclosing(frames):
        async for frame in frames:
            if clock() - asked >= ASK_AGAIN_S:
                if not await run_in_orm(may_still_watch, request, scope, run_id):
                    log.info("a stream ended: its reader may not watch any more", run_id=run_id)
                    return
                asked = clock()
            yield frame


async def sse_events(run_id: str, after: int, heartbeat_s: float = HEARTBEAT_S) -> AsyncGenerator[str, None]:
    """The stream's text: the events, signs of life, `done`."""
    yield f"retry: {RECONNECT_MS}\n\n"
    try:
        async with aclosing(follow(run_id, after, heartbeat_s)) as frames:
            async for sequence_no, event in frames:
                yield HEARTBEAT if event is None else sse("event", timeline_json(event), sequence_no)
    except ReaderDropped:
        # Without `done` the client comes back, with Last-Event-ID.
        return
    yield sse("done", {})


def position_of(request: HttpRequest) -> int:
    """The number after which to go on. Raises `ApiError` 400 where it is no whole number."""
    text = request.headers.get("Last-Event-ID") or request.GET.get("after") or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ApiError(400, "INVALID_POSITION", "Last-Event-ID and after take a sequence number.")
    return min(int(text), LARGEST_POSITION)


# Who may not POST is told so by the method's refusal; a missing CSRF token would hide that from callers with a token.
@csrf_exempt
async def run_events(request: HttpRequest, run_id: str) -> HttpResponse | StreamingHttpResponse:
    """`GET /api/runs/{runId}/events`. Scope runs:read."""
    try:
        if request.method != "GET":
            raise ApiError(405, "METHOD_NOT_ALLOWED", "Only GET is allowed here.")
        caller = require(await authenticate(request), Scope.RUNS_READ)
        after = position_of(request)
        run = await run_in_orm(visible_run, caller, run_id)
    except ApiError as error:
        return JsonResponse({"code": error.code, "message": error.message}, status=error.status)
    return StreamingHttpResponse(
        drop_slow_readers(while_allowed(request, run.id, sse_events(run.id, after))),
        content_type="text/event-stream; charset=utf-8",
        headers=STREAM_HEADERS,
    )
