"""Runs listed and cancelled, over HTTP. Mounted under /api by `superbiz.api`.

GET  /runs                  scope runs:read
POST /runs/{runId}/cancel   scope runs:cancel    202, or 409 where the run ended otherwise
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Status
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gatekeeper.types import Intent, Verdict
from runs import lifecycle
from runs.access import ApiError, Caller, caller_auth, may_cancel, require, visible_run, visible_runs
from runs.errors import CancelReason
from runs.models import DiagnosisRun
from runs.models.run import RunOutcome, RunStatus, Trigger
from runs.models.token import Scope
from runs.selection import BadCursor, Order, Selection, chosen, cursor_after, ordered

PAGE = 50
MAX_PAGE = 200

router = Router(tags=["runs"], auth=caller_auth, by_alias=True)


class Shape(BaseModel):
    """Plain pydantic: django-ninja's own `Schema` wraps every object it reads, which doubles the time of a trace."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


def caller_of_view(request: HttpRequest, scope: str) -> Caller:
    """The caller that django-ninja put on the request, if it has the scope."""
    return require(request.auth, scope)  # type: ignore[attr-defined]


def run_url(run_id: str) -> str:
    """Path of the run's page."""
    return f"/runs/{run_id}/"


# ---- runs -----------------------------------------------------------------------------------------------------


class RunItemShape(Shape):
    """A run in a list: without what it published and how it judged itself."""

    run_id: str
    session_id: str
    trigger: str
    intent: str | None
    status: str
    outcome: str | None
    verdict: str | None
    release_decision: str | None
    failure_code: str | None
    cancel_reason: str | None
    query: str
    safe_content: dict[str, Any] | None
    rule_set_version: int | None
    prompt_set_version: str | None
    model: str
    cost_usd: Decimal | None
    model_calls: int
    tool_calls: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    url: str


def run_item(run: DiagnosisRun) -> RunItemShape:
    names = [name for name in RunItemShape.model_fields if name not in {"run_id", "url"}]
    return RunItemShape(run_id=run.id, url=run_url(run.id), **{name: getattr(run, name) for name in names})


class RunPageShape(Shape):
    """`nextCursor` is null on the last page."""

    items: list[RunItemShape]
    next_cursor: str | None


Label: TypeAlias = Annotated[str, Field(max_length=400, pattern=r"^[^=]+=")]


class RunFilters(Shape):
    """`label` may be given several times, as `key=value`; `q` looks into questions and conclusions, and at run ids."""

    status: RunStatus | None = None
    outcome: RunOutcome | None = None
    verdict: Verdict | None = None
    intent: Intent | None = None
    trigger: Trigger | None = None
    alert_name: Annotated[str | None, Field(max_length=200)] = None
    label: Annotated[list[Label], Field(max_length=10)] = []
    session_id: Annotated[str | None, Field(max_length=64)] = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    who: Annotated[str | None, Field(max_length=150)] = None
    q: Annotated[str | None, Field(max_length=200)] = None
    sort: Order = Order.NEWEST
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE
    cursor: Annotated[str | None, Field(max_length=200)] = None


def selected(filters: RunFilters) -> Selection:
    return Selection(
        status=filters.status or "",
        outcome=filters.outcome or "",
        verdict=filters.verdict or "",
        intent=filters.intent or "",
        trigger=filters.trigger or "",
        alert_name=filters.alert_name or "",
        labels=tuple((key, value) for key, _, value in (label.partition("=") for label in filters.label)),
        session_id=filters.session_id or "",
        since=filters.since,
        until=filters.until,
        who=filters.who or "",
        words=filters.q or "",
    )


def filtered(runs: QuerySet[DiagnosisRun], filters: RunFilters) -> QuerySet[DiagnosisRun]:
    """In the order asked for, from the cursor on. Raises `ApiError` 400 for a cursor that is not one of ours."""
    try:
        return ordered(chosen(runs, selected(filters)), filters.sort, filters.cursor)
    except BadCursor as error:
        raise ApiError(400, "BAD_CURSOR", "The cursor is not one of ours, or belongs to another order.") from error


def check_known(given: Iterable[str]) -> None:
    """A misspelt filter would silently give all runs. Raises `ApiError` 422."""
    known = {field.alias or name for name, field in RunFilters.model_fields.items()}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ApiError(422, "UNKNOWN_FILTER", f"Runs are filtered by {', '.join(sorted(known))} only.")


@router.get("/runs", response=RunPageShape, summary="Runs, filtered, newest first unless sorted otherwise")
def list_runs(request: HttpRequest, filters: Query[RunFilters]) -> Any:
    caller = caller_of_view(request, Scope.RUNS_READ)
    check_known(request.GET)
    rows = visible_runs(caller).defer("published_result", "self_evaluation", "subject")
    found = list(filtered(rows, filters)[: filters.limit + 1])
    page = found[: filters.limit]
    return RunPageShape(
        items=[run_item(run) for run in page],
        next_cursor=cursor_after(page[-1], filters.sort) if len(found) > filters.limit else None,
    )


class CancelShape(Shape):
    """`status` is RUNNING while the worker still has to let go."""

    run_id: str
    status: str
    url: str


@router.post("/runs/{run_id}/cancel", response={202: CancelShape}, summary="Cancel a run")
def cancel_run(request: HttpRequest, run_id: str) -> Any:
    """Fine to repeat. 409, with the outcome under `details`, where the run had ended otherwise."""
    caller = caller_of_view(request, Scope.RUNS_CANCEL)
    if not may_cancel(caller, visible_run(caller, run_id)):
        raise ApiError(403, "FORBIDDEN", "Only who asked for this run, or an operator, may cancel it.")
    answer = lifecycle.request_cancel(run_id, CancelReason.USER_REQUESTED, caller.name)
    if not answer.accepted:
        details = {"runId": run_id, "outcome": answer.status}
        raise ApiError(409, "RUN_ENDED", "The run had ended before it could be cancelled.", details)
    return Status(202, CancelShape(run_id=run_id, status=answer.status, url=run_url(run_id)))
