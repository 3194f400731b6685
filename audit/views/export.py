"""A run to take along: its trace as JSON, its answer as Markdown, one tool call's arguments and output as JSON.

Exact: numbers with all their digits, texts as they are on record. Never a restricted text, whoever asks: what is taken
along lies in files and channels that nobody watches.
"""

import json
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from audit.api import session_shape
from audit.pages.markdown import report_markdown
from audit.shapes import run_shape, trace_shape
from audit.trace import Invocation, event_details, load_trace
from audit.views.page import LARGEST_SEQUENCE_NO, run_or_404, tells_of_pruned
from runs.access import Caller
from runs.pages.view import page_view

# The JSON of a tool call by its name in the address.
PARTS: dict[str, Callable[[Invocation], Any]] = {
    "arguments": lambda invocation: invocation.input_params,
    "output": lambda invocation: invocation.output,
}


@require_safe
@page_view
@tells_of_pruned
def trace_json(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    """The trace as the API has it. The file is named after the run."""
    run = run_or_404(caller, run_id)
    shape = trace_shape(
        load_trace(run),
        run=run_shape(run, may_read_reasoning=False),
        chat_session=run.session,
        session=session_shape(run.session_id),
    )
    # Not pydantic's own writer: it has no integers above 64 bits.
    text = json.dumps(shape.model_dump(mode="json", by_alias=True), ensure_ascii=False, indent=1)
    return HttpResponse(
        text,
        content_type="application/json; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{run.id}.json"'},
    )


@require_safe
@page_view
@tells_of_pruned
def report(request: HttpRequest, caller: Caller, run_id: str) -> HttpResponse:
    run = run_or_404(caller, run_id)
    address = request.build_absolute_uri(f"/runs/{run.id}/")
    return HttpResponse(report_markdown(run, address), content_type="text/markdown; charset=utf-8")


@require_safe
@page_view
@tells_of_pruned
def invocation_json(request: HttpRequest, caller: Caller, run_id: str, sequence_no: int, part: str) -> HttpResponse:
    run = run_or_404(caller, run_id)
    found = event_details(run.id, min(sequence_no, LARGEST_SEQUENCE_NO))
    if found is None or found.invocation is None or part not in PARTS:
        raise Http404(_("The run has no such event."))
    text = json.dumps(PARTS[part](found.invocation), ensure_ascii=False, indent=2)
    return HttpResponse(text, content_type="application/json; charset=utf-8")
