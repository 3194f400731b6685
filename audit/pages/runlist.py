"""The list of runs: one page of rows, and what an on-call engineer reads in each."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform

from audit.pages import attention
from audit.pages.listaddress import Address
from gatekeeper.models import RuleSet
from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.models.run import RunStatus
from runs.pages.hostile import one_line
from runs.pages.words import INTENT_WORDS, TRIGGER_WORDS, VERDICT_WORDS, Tone, Words, badge, tone_of_code
from runs.selection import Order, chosen, cursor_after, cursor_at, newer, ordered

PAGE = 40
OPEN = (RunStatus.QUEUED, RunStatus.RUNNING)
WATCHED = 40
CONCLUSION_CHARS = 240
MOST_NEW = 100
_LEFT_OUT = (
    *("published_result", "self_evaluation", "safe_content", "search_text", "pinned_prompts", "rehearsal", "emitted"),
    *("query",),
)


@dataclass(frozen=True, slots=True)
class RunRow:
    """`took` None: it has not started. While a run goes, `took` counts up to now. `conclusion`: its first line.

    `reasons`: why it needs attention.
    """

    id: str
    status: str
    badge: Words
    tone: Tone
    subject: str
    detail: str
    conclusion: str
    reasons: tuple[Words, ...]
    trigger: Words
    intent: Words
    verdict: Words
    verdict_tone: Tone
    took: timedelta | None
    tokens: int
    who: str
    model: str
    queued_at: datetime
    open: bool
    rehearsal: bool
    floor_lowered: bool
    again: bool


@dataclass(frozen=True, slots=True)
class RunPage:
    """`stuck`: pinned above the rows. `older`: the query string of the next page, empty on the last one.

    `newest`: the place in time that newer runs are counted from.
    """

    rows: tuple[RunRow, ...]
    stuck: tuple[RunRow, ...]
    older: str
    newest: str

    @property
    def open_ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in (*self.stuck, *self.rows) if row.open)[:WATCHED]


def run_row(run: DiagnosisRun, now: datetime) -> RunRow:
    """Of a run as `readable` reads it."""
    words, tone = badge(run)
    told = vars(run)
    conclusion = told["conclusion"] or ""
    if not conclusion and run.is_terminal:
        conclusion = sentences(told["headline"], told["reason"])
    place = told["service"] or told["job"] or told["instance"] or ""
    return RunRow(
        id=run.id,
        status=run.status,
        badge=words,
        tone=tone,
        subject=one_line(run.alert_name or told["asked"], 120),
        detail=one_line(" · ".join(part for part in (place, told["severity"]) if part), 120),
        conclusion=one_line(conclusion, CONCLUSION_CHARS),
        reasons=attention.reasons(run, now),
        trigger=TRIGGER_WORDS.get(run.trigger, run.trigger),
        intent=INTENT_WORDS.get(run.intent, run.intent) if run.intent else "",
        verdict=VERDICT_WORDS.get(run.verdict, run.verdict) if run.verdict else "",
        verdict_tone=tone_of_code(run.verdict),
        took=(run.finished_at or now) - run.started_at if run.started_at else None,
        tokens=run.input_tokens + run.output_tokens,
        who=one_line(told["person"] or told["token"] or "", 60),
        model=one_line(run.model, 60),
        queued_at=run.queued_at,
        open=run.status in OPEN,
        rehearsal=told["rehearsed"],
        floor_lowered=told["floor_lowered"],
        again=run.again_of_id is not None,
    )


def sentences(*parts: str | None) -> str:
    return " ".join(part if part.endswith((".", "。", "!", "?")) else f"{part}." for part in parts if part)


def _text(column: str, *keys: str) -> KeyTextTransform:
    path: KeyTextTransform | str = column
    *outer, last = keys
    for key in outer:
        path = KeyTextTransform(key, path)
    return KeyTextTransform(last, path)


def readable(runs: QuerySet[DiagnosisRun]) -> QuerySet[DiagnosisRun]:
    """With the few words of the JSON columns that a row shows, not the columns."""
    rule_set = RuleSet.objects.filter(number=OuterRef("rule_set_version"))
    labels = {name: _text("subject", "alert", "labels", name) for name in ("service", "job", "instance")}
    return runs.defer("subject", *_LEFT_OUT).annotate(
        asked=F("query"),
        severity=_text("subject", "alert", "severity"),
        **labels,
        conclusion=_text("published_result", "conclusion"),
        headline=_text("safe_content", "headline"),
        reason=_text("safe_content", "reason"),
        person=F("requested_by__username"),
        token=F("requested_by_token__name"),
        rehearsed=ExpressionWrapper(Q(rehearsal__isnull=False), BooleanField()),
        floor_lowered=Exists(rule_set.exclude(lowered=[])),
    )


def _shown(runs: Iterable[DiagnosisRun], now: datetime) -> tuple[RunRow, ...]:
    return tuple(run_row(run, now) for run in runs)


def run_page(caller: Caller, address: Address, now: datetime) -> RunPage:
    """One query; one more where it asks for `who`, and one in the first page of those that need attention."""
    runs = chosen(visible_runs(caller), address.selection)
    stuck: tuple[RunRow, ...] = ()
    if address.attention:
        if address.cursor is None:
            stuck = _shown(readable(attention.stuck(runs, now))[: attention.MOST_STUCK], now)
        runs = attention.ended_badly(runs)
    # First which, then what they look like: of the runs that are only sorted and passed over, nothing is read.
    which = ordered(runs, address.order, address.cursor).values("id")[: PAGE + 1]
    found = list(ordered(readable(DiagnosisRun.objects.filter(id__in=which)), address.order))
    page = found[:PAGE]
    older = address.query(before=cursor_after(page[-1], address.order)) if len(found) > PAGE else ""
    newest = cursor_after(page[0]) if page and address.order is Order.NEWEST else cursor_at(now)
    return RunPage(_shown(page, now), stuck, older, newest)


def new_since(caller: Caller, address: Address, cursor: str) -> int:
    """How many runs of the selection came after that place; at most `MOST_NEW`. Raises `BadCursor`."""
    runs = newer(chosen(visible_runs(caller), address.selection), cursor)
    if address.attention:
        runs = attention.ended_badly(runs)
    return runs.values("id")[:MOST_NEW].count()


def watched_rows(caller: Caller, run_ids: list[str]) -> tuple[RunRow, ...]:
    """The rows of runs that the page shows as open, as they are now. One query."""
    ids = [run_id for run_id in run_ids[:WATCHED] if "\0" not in run_id]
    runs = readable(visible_runs(caller)).filter(id__in=ids).order_by("-queued_at", "-id")
    return _shown(runs, datetime.now(UTC))
