"""The list of runs, what is asked for while it is open, and the figures above it."""

import contextlib
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.pages import attention, runlist
from audit.pages.listaddress import COLUMNS, LAST, Address, read
from audit.pages.listchoices import chips, choices
from audit.pages.listfigures import Figures, figures
from audit.timelimit import TookTooLong, time_limit
from runs.access import Caller
from runs.pages.view import page_view, target_of
from runs.pages.words import Words
from runs.selection import BadCursor

COLUMNS_COOKIE = "superbiz_run_columns"
A_YEAR_S = 365 * 24 * 3600
ROWS_LIMIT_MS = 5_000
PARTS = {"run-list": "runs/parts/runs.html", "older": "runs/parts/older.html"}


def _address(request: HttpRequest, now: datetime) -> Address:
    return read(request.GET, now, request.COOKIES.get(COLUMNS_COOKIE, "").split("."))


@require_safe
@page_view
def run_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    now = datetime.now(UTC)
    address = _address(request, now)
    context: dict[str, Any] = {
        "address": address,
        "page": None,
        "chips": chips(address),
        "columns": _columns(address),
        "width": len(address.columns) + 3,
        "now": now,
        "webhook": request.build_absolute_uri("/api/alerts/alertmanager"),
    }
    part = PARTS.get(target_of(request))
    if part is None:
        context |= {"choices": choices(address), "spans": LAST, "all_columns": COLUMNS}
    # What the database did not get ready in time is told as such in the page.
    with contextlib.suppress(TookTooLong), time_limit(ROWS_LIMIT_MS):
        context["page"] = runlist.run_page(caller, address, now)
    if part is None:
        context["attention_count"] = attention.count_for(caller, now)
    response = render(request, part or "runs/list.html", context)
    if part == PARTS["run-list"] and request.GET:
        # The address as short as it can be, without what the form sends empty.
        response["HX-Push-Url"] = f"{request.path}?{address.query()}".rstrip("?")
    if "cols" in request.GET:
        response.set_cookie(COLUMNS_COOKIE, ".".join(address.columns), A_YEAR_S, httponly=True, samesite="Lax")
    return response


def _columns(address: Address) -> list[tuple[str, Words]]:
    return [(name, COLUMNS[name]) for name in address.columns]


@require_safe
@page_view
def run_figures(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Of all runs that the list's filters choose: a part of the list, or a page of its own."""
    address = _address(request, datetime.now(UTC))
    try:
        found: Figures | None = figures(caller, address)
    except TookTooLong:
        found = None
    part = "runs/parts/figures.html" if target_of(request) == "figures" else "runs/figures.html"
    return render(request, part, {"figures": found, "address": address, "chips": chips(address)})


@require_safe
@page_view
def new_runs(request: HttpRequest, caller: Caller) -> HttpResponse:
    """How many runs came since `after`, for the button that shows them."""
    address = _address(request, datetime.now(UTC))
    after = request.GET.get("after", "")
    try:
        count = runlist.new_since(caller, address, after)
    except BadCursor as error:
        raise BadRequest("after is not a place in the list.") from error
    context = {"address": address, "newest": after, "count": count, "most": runlist.MOST_NEW}
    return render(request, "runs/parts/news.html", context)


@require_safe
@page_view
def watched_runs(request: HttpRequest, caller: Caller) -> HttpResponse:
    """The rows that the list shows as open, as they are now, and what to ask for next."""
    now = datetime.now(UTC)
    rows = runlist.watched_rows(caller, request.GET.getlist("id"))
    address = _address(request, now)
    context = {
        "rows": rows,
        "open_ids": [row.id for row in rows if row.open],
        "address": address,
        "columns": _columns(address),
        "now": now,
    }
    return render(request, "runs/parts/watched.html", context)
