"""The list of runs: filters as the address has them, one page of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from pydantic import ValidationError

from runs.access import ApiError, Caller, visible_runs
from runs.api import RunFilters, cursor_after, filtered
from runs.models import DiagnosisRun
from runs.models.run import RunOutcome, RunStatus, Trigger
from runs.pages.hostile import one_line
from runs.pages.words import TRIGGER_WORDS, VERDICT_WORDS, Tone, Words, badge, tone_of_code

PAGE = 40
OPEN = (RunStatus.QUEUED, RunStatus.RUNNING)
SEARCH_LIMIT = 200
WATCHED = 40


@dataclass(frozen=True, slots=True)
class Filters:
    """What the address asks for. A value that is none of ours counts as not given."""

    status: str = ""
    outcome: str = ""
    trigger: str = ""
    q: str = ""

    @property
    def given(self) -> bool:
        return any((self.status, self.outcome, self.trigger, self.q))

    def query_string(self, **more: str) -> str:
        named = {"status": self.status, "outcome": self.outcome, "trigger": self.trigger, "q": self.q, **more}
        return urlencode({name: value for name, value in named.items() if value})


def read_filters(sent: Mapping[str, str]) -> Filters:
    def choice(name: str, choices: list[str]) -> str:
        value = sent.get(name, "")
        return value if value in choices else ""

    return Filters(
        status=choice("status", RunStatus.values),
        outcome=choice("outcome", RunOutcome.values),
        trigger=choice("trigger", Trigger.values),
        q=sent.get("q", "").replace("\0", "").strip()[:SEARCH_LIMIT],
    )


@dataclass(frozen=True, slots=True)
class RunRow:
    """`took` None: it has not started. While a run goes, `took` counts up to now."""

    id: str
    status: str
    badge: Words
    tone: Tone
    subject: str
    detail: str
    trigger: Words
    verdict: Words
    verdict_tone: Tone
    took: timedelta | None
    tokens: int
    queued_at: datetime
    open: bool


@dataclass(frozen=True, slots=True)
class RunPage:
    """`older`: the query string of the next page, or empty on the last one."""

    rows: tuple[RunRow, ...]
    older: str

    @property
    def open_ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.rows if row.open)[:WATCHED]


def run_row(run: DiagnosisRun, now: datetime) -> RunRow:
    words, tone = badge(run)
    alert = (run.subject or {}).get("alert") or {}
    labels = alert.get("labels") or {}
    place = labels.get("service") or labels.get("job") or labels.get("instance") or ""
    severity = alert.get("severity") or ""
    return RunRow(
        id=run.id,
        status=run.status,
        badge=words,
        tone=tone,
        subject=one_line(alert.get("alertname") or run.query, 120),
        detail=one_line(" · ".join(part for part in (place, severity) if part), 120),
        trigger=TRIGGER_WORDS.get(run.trigger, run.trigger),
        verdict=VERDICT_WORDS.get(run.verdict, run.verdict) if run.verdict else "",
        verdict_tone=tone_of_code(run.verdict),
        took=(run.finished_at or now) - run.started_at if run.started_at else None,
        tokens=run.input_tokens + run.output_tokens,
        queued_at=run.queued_at,
        open=run.status in OPEN,
    )


def _rows(runs: QuerySet[DiagnosisRun]) -> QuerySet[DiagnosisRun]:
    return runs.defer("published_result", "self_evaluation", "safe_content")


def run_page(caller: Caller, filters: Filters, cursor: str | None) -> RunPage:
    """One query. Raises `ApiError` 400 for a cursor that is not one of ours."""
    runs = _rows(visible_runs(caller))
    if filters.q:
        runs = runs.filter(
            Q(query__icontains=filters.q) | Q(subject__alert__alertname__icontains=filters.q) | Q(id=filters.q)
        )
    found = list(filtered(runs, _asked(filters, cursor))[: PAGE + 1])
    now = datetime.now(UTC)
    older = filters.query_string(before=cursor_after(found[PAGE - 1])) if len(found) > PAGE else ""
    return RunPage(tuple(run_row(run, now) for run in found[:PAGE]), older)


def _asked(filters: Filters, cursor: str | None) -> RunFilters:
    try:
        return RunFilters(
            status=RunStatus(filters.status) if filters.status else None,
            outcome=RunOutcome(filters.outcome) if filters.outcome else None,
            trigger=Trigger(filters.trigger) if filters.trigger else None,
            cursor=cursor,
        )
    except ValidationError as error:  # the choices are ours, so it is the cursor
        raise ApiError(400, "BAD_CURSOR", "The cursor is not one of ours.") from error


def watched_rows(caller: Caller, run_ids: list[str]) -> tuple[RunRow, ...]:
    """The rows of runs that the page shows as open, as they are now. One query."""
    ids = [run_id for run_id in run_ids[:WATCHED] if "\0" not in run_id]
    runs = _rows(visible_runs(caller)).filter(id__in=ids).order_by("-queued_at", "-id")
    now = datetime.now(UTC)
    return tuple(run_row(run, now) for run in runs)
