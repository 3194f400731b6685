"""The run's page while the run goes: the timeline's rows as server-sent HTML.

id: 7
event: row
data: <li …>…</li>          the same template as on the page

event: done                 after the terminal frame: the page asks for the run anew
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.translation import get_language, override

from audit.hub import ReaderDropped
from audit.pages.rowhtml import rows_html
from audit.pages.timeline import timeline_row, wait_before
from audit.pages.timelinequery import TimelineFilter, passes, read_filter
from audit.streams import (
    HEARTBEAT_S,
    RECONNECT_MS,
    STREAM_HEADERS,
    drop_slow_readers,
    follow,
    position_of,
    while_allowed,
)
from audit.trace import TimelineEvent, timeline_page
from runs.access import ApiError, authenticate, require, visible_run
from runs.models import DiagnosisRun
from runs.models.token import Scope
from runs.orm import run_in_orm


@dataclass(frozen=True, slots=True)
class Watching:
    """What a page watches. `began`: when the run's first event was; `before`: when the last one of the page was."""

    run_id: str
    after: int
    began: datetime
    before: datetime | None
    chosen: TimelineFilter
    language: str | None


def row_html(watching: Watching, event: TimelineEvent, before: datetime | None) -> str:
    """The row, in the form of all rows. `before`: when the event in front of it was."""
    wait_ms = 0 if watching.chosen.given else wait_before(event, before)
    with override(watching.language):
        return rows_html([timeline_row(event, watching.began, wait_ms=wait_ms, query=watching.chosen.query)])


def html_event(name: str, html: str, id_: int) -> str:
    """One server-sent event; a text of several lines is several `data:` lines."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines() if line.strip())
    return f"id: {id_}\nevent: {name}\n{lines}\n"


async def live_rows(watching: Watching) -> AsyncGenerator[str, None]:
    yield f"retry: {RECONNECT_MS}\n\n"
    before = watching.before
    try:
        async with aclosing(follow(watching.run_id, watching.after, HEARTBEAT_S)) as frames:
            async for number, event in frames:
                if event is None:
                    yield ": still here\n\n"
                    continue
                if await run_in_orm(passes, watching.run_id, number, watching.chosen):
                    yield html_event("row", row_html(watching, event, before), number)
                before = event.created_at
    except ReaderDropped:
        # Without `done` the page comes back, with Last-Event-ID.
        return
    yield "event: done\ndata: \n\n"


def _watching(run: DiagnosisRun, after: int, chosen: TimelineFilter) -> Watching:
    first = timeline_page(run.id, 0, 1)
    last = timeline_page(run.id, after - 1, 1) if after else []
    return Watching(
        run_id=run.id,
        after=after,
        began=first[0].created_at if first else run.queued_at,
        before=last[0].created_at if last and last[0].sequence_no == after else None,
        chosen=chosen,
        language=get_language(),
    )


async def live_run(request: HttpRequest, run_id: str) -> HttpResponse | StreamingHttpResponse:
    """`GET /runs/<id>/live/?after=SEQ`, with the timeline's filter, for people who may read the run."""
    try:
        if request.method != "GET":
            raise ApiError(405, "METHOD_NOT_ALLOWED", "Only GET is allowed here.")
        caller = require(await authenticate(request), Scope.RUNS_READ)
        after = position_of(request)
        run = await run_in_orm(visible_run, caller, run_id)
        watching = await run_in_orm(_watching, run, after, read_filter(dict(request.GET.lists())))
    except ApiError as error:
        return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")
    rows = drop_slow_readers(while_allowed(request, run.id, live_rows(watching)))
    return StreamingHttpResponse(rows, content_type="text/event-stream; charset=utf-8", headers=STREAM_HEADERS)
