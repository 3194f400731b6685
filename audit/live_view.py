"""The run's page while the run goes: the timeline's rows as server-sent HTML.

id: 7
event: row
data: <li …>…</li>          the same template as on the page

event: done                 after the terminal frame: the page asks for the run anew
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template.loader import render_to_string
from django.utils.translation import get_language, override

from audit.hub import ReaderDropped
from audit.pages.timeline import timeline_row
from audit.streams import HEARTBEAT_S, RECONNECT_MS, STREAM_HEADERS, follow, position_of
from audit.trace import TimelineEvent, timeline_page
from runs.access import ApiError, authenticate, require, visible_run
from runs.models import DiagnosisRun
from runs.models.token import Scope
from runs.orm import run_in_orm


def row_html(run_id: str, event: TimelineEvent, began: datetime, language: str | None) -> str:
    with override(language):
        return render_to_string(
            "runs/parts/row.html", {"run_id": run_id, "row": timeline_row(event, began), "fresh": True}
        )


def html_event(name: str, html: str, id_: int) -> str:
    """One server-sent event; a text of several lines is several `data:` lines."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines() if line.strip())
    return f"id: {id_}\nevent: {name}\n{lines}\n"


async def live_rows(run: DiagnosisRun, after: int, began: datetime, language: str | None) -> AsyncGenerator[str, None]:
    yield f"retry: {RECONNECT_MS}\n\n"
    try:
        async with aclosing(follow(run.id, after, HEARTBEAT_S)) as frames:
            async for number, event in frames:
                if event is None:
                    yield ": still here\n\n"
                else:
                    yield html_event("row", row_html(run.id, event, began, language), number)
    except ReaderDropped:
        # Without `done` the page comes back, with Last-Event-ID.
        return
    yield "event: done\ndata: \n\n"


def _began(run_id: str) -> datetime | None:
    first = timeline_page(run_id, 0, 1)
    return first[0].created_at if first else None


async def live_run(request: HttpRequest, run_id: str) -> HttpResponse | StreamingHttpResponse:
    """`GET /runs/<id>/live/?after=SEQ`, for people who may read the run."""
    try:
        if request.method != "GET":
            raise ApiError(405, "METHOD_NOT_ALLOWED", "Only GET is allowed here.")
        caller = require(await authenticate(request), Scope.RUNS_READ)
        after = position_of(request)
        run = await run_in_orm(visible_run, caller, run_id)
        began = await run_in_orm(_began, run.id)
    except ApiError as error:
        return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")
    rows = live_rows(run, after, began or run.queued_at, get_language())
    return StreamingHttpResponse(rows, content_type="text/event-stream; charset=utf-8", headers=STREAM_HEADERS)
