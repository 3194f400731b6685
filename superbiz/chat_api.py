"""Chat over HTTP: composed here, because it starts runs and streams their ledger. Mounted under /api.

POST /chat                        scope chat:write   202, or 200 with the finished run where `?wait=` was long enough
POST /chat_stream                 scope chat:write   server-sent events; the client going away cancels the run
POST /sessions/{sessionId}/clear  scope chat:write   later turns know nothing of those so far
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router, Status
from psycopg import Error
from psycopg_pool import PoolTimeout
from pydantic import ConfigDict, Field

from audit.api import run_for
from audit.hub import ReaderDropped
from audit.shapes import RunShape, run_shape, timeline_json
from audit.streams import HEARTBEAT, STALL_S, STREAM_HEADERS, drop_slow_readers, follow, sse, while_allowed
from runs import chat, lifecycle
from runs.access import Caller, async_caller_auth
from runs.api import Shape, caller_of_view, run_url
from runs.chat import Asked
from runs.errors import CancelReason
from runs.ids import RUN_ID_PATTERN
from runs.models import DiagnosisRun
from runs.models.token import Scope
from runs.orm import run_in_orm

MAX_WAIT_S = 120

router = Router(tags=["chat"], auth=async_caller_auth, by_alias=True)


class QuestionBody(Shape):
    """Without `sessionId` a new session is opened. A field that is not known is refused: it may be a misspelt one.

    `runId`: an id for the run, of your choice. A question that is sent again under it, because the answer was lost on
    its way, leads to the run that it started the first time.
    """

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=chat.MAX_QUERY_CHARS)]
    session_id: Annotated[str | None, Field(max_length=64)] = None
    run_id: Annotated[str | None, Field(pattern=f"^{RUN_ID_PATTERN}$")] = None


class AskedShape(Shape):
    run_id: str
    session_id: str
    url: str


class ClearedShape(Shape):
    session_id: str
    cleared_at: datetime


@router.post("/chat", response={200: RunShape, 202: AskedShape}, summary="Ask a question")
async def ask(request: HttpRequest, body: QuestionBody, wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0) -> Any:
    """With `wait` (seconds) the finished run, or 202 if it still runs then. Who stops waiting cancels nothing."""
    caller = await run_in_orm(caller_of_view, request, Scope.CHAT_WRITE)
    asked = await run_in_orm(chat.ask, caller, body.query, body.session_id, body.run_id)
    if wait and await _ended_within(asked.run_id, wait):
        return Status(200, await run_in_orm(_finished, caller, asked.run_id))
    return Status(202, _asked_shape(request, asked))


async def _ended_within(run_id: str, seconds: float) -> bool:
    """Whether the run has ended by then; False too where it cannot be watched."""
    with contextlib.suppress(TimeoutError, ReaderDropped, Error, PoolTimeout):
        async with asyncio.timeout(seconds), aclosing(follow(run_id)) as frames:
            async for _ in frames:
                pass
        return True
    return False


def _finished(caller: Caller, run_id: str) -> RunShape:
    return run_for(caller, DiagnosisRun.objects.get(id=run_id))


def _asked_shape(request: HttpRequest, asked: Asked) -> AskedShape:
    url = request.build_absolute_uri(run_url(asked.run_id))
    return AskedShape(run_id=asked.run_id, session_id=asked.session_id, url=url)


@router.post("/sessions/{session_id}/clear", response=ClearedShape, summary="Clear a session's memory")
async def clear(request: HttpRequest, session_id: str) -> Any:
    caller = await run_in_orm(caller_of_view, request, Scope.CHAT_WRITE)
    cleared_at = await run_in_orm(chat.clear, caller, session_id)
    return ClearedShape(session_id=session_id, cleared_at=cleared_at)


# ---- the stream -----------------------------------------------------------------------------------------------


STREAM_ANSWER = {
    "responses": {
        200: {
            "description": "`metadata` first, then `event` (the timeline as it grows), one `result`, `done`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    }
}


@dataclass(slots=True)
class _Turn:
    """A streamed run. `let_go`: whatever becomes of the connection now, the run is not to be cancelled for it."""

    asked: Asked
    let_go: bool = False


class _TurnResponse(StreamingHttpResponse):
    """Cancels its run when it is closed before the run has ended: Django closes every response, once, in a thread."""

    def __init__(self, turn: _Turn, frames: AsyncGenerator[str, None]) -> None:
        super().__init__(frames, content_type="text/event-stream; charset=utf-8", headers=STREAM_HEADERS)
        self._turn = turn

    def close(self) -> None:
        if not self._turn.let_go:
            _cancel(self._turn.asked)
        super().close()


@router.post("/chat_stream", summary="Ask a question and watch its run", openapi_extra=STREAM_ANSWER)
async def ask_and_watch(request: HttpRequest, body: QuestionBody) -> Any:
    """Frames carry the timeline, never a word that was not released. The client going away cancels the run."""
    caller = await run_in_orm(caller_of_view, request, Scope.CHAT_WRITE)
    asking = asyncio.ensure_future(run_in_orm(chat.ask, caller, body.query, body.session_id, body.run_id))
    try:
        asked = await asyncio.shield(asking)
    except asyncio.CancelledError:
        # The client went away while its question was stored.
        await run_in_orm(_cancel, await asking)
        raise
    turn = _Turn(asked)
    told = _asked_shape(request, asked).model_dump(mode="json", by_alias=True)
    frames = while_allowed(request, asked.run_id, _frames(asked, told), scope=Scope.CHAT_WRITE)
    return _TurnResponse(turn, _watched(turn, frames))


def _cancel(asked: Asked) -> None:
    lifecycle.request_cancel(asked.run_id, CancelReason.CLIENT_DISCONNECTED)


async def _watched(
    turn: _Turn, frames: AsyncGenerator[str, None], stall_s: float = STALL_S
) -> AsyncGenerator[str, None]:
    """The frames. However they end of themselves, and where a reader is too slow, the run is let go."""

    def let_go() -> None:
        turn.let_go = True

    try:
        async with aclosing(drop_slow_readers(frames, on_drop=let_go, stall_s=stall_s)) as taken:
            async for frame in taken:
                yield frame
    except ReaderDropped:
        # Without `result` and `done`: the caller knows the run's id and finds the rest under /events.
        let_go()
    except Exception:
        let_go()
        raise
    else:
        let_go()


async def _frames(asked: Asked, told: dict[str, Any]) -> AsyncGenerator[str, None]:
    yield sse("metadata", told)
    async with aclosing(follow(asked.run_id)) as frames:
        async for sequence_no, event in frames:
            yield HEARTBEAT if event is None else sse("event", timeline_json(event), sequence_no)
    yield sse("result", await run_in_orm(_result, asked.run_id))
    yield sse("done", {})


def _result(run_id: str) -> dict[str, Any]:
    """The run as everybody may see it: restricted parts are not streamed, whoever asks."""
    shape = run_shape(DiagnosisRun.objects.get(id=run_id), may_read_reasoning=False)
    return shape.model_dump(mode="json", by_alias=True)
