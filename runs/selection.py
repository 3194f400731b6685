"""Which runs, in what order, from where on: what the run list and `GET /api/runs` ask the database for.

Pages are keyset pages: the cursor is the last row's place, so rows that arrive meanwhile neither shift nor repeat
anything. Orders by what changes while a run goes hold ended runs only: their duration and tokens are final.
"""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet, Value

from runs.models import ApiToken, DiagnosisRun, RunFeedback
from runs.searching import RUN_ID, wanted_words


class BadCursor(ValueError):
    """A cursor that is not one of ours, or that belongs to another order."""


class Order(StrEnum):
    NEWEST = "newest"
    OLDEST = "oldest"
    LONGEST = "longest"
    SHORTEST = "shortest"
    MOST_TOKENS = "most-tokens"
    FEWEST_TOKENS = "fewest-tokens"

    @property
    def column(self) -> str:
        return _COLUMNS[self]

    @property
    def falling(self) -> bool:
        return self in {Order.NEWEST, Order.LONGEST, Order.MOST_TOKENS}

    @property
    def ended_only(self) -> bool:
        return self not in {Order.NEWEST, Order.OLDEST}


_COLUMNS = {
    Order.NEWEST: "queued_at",
    Order.OLDEST: "queued_at",
    Order.LONGEST: "took_ms",
    Order.SHORTEST: "took_ms",
    Order.MOST_TOKENS: "total_tokens",
    Order.FEWEST_TOKENS: "total_tokens",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Empty fields choose nothing out. `since` is included, `until` is not. `labels`: all of them, of the alert.

    `who`: the name of the person or token that asked for the run. `words`: see `runs.searching`; the
    beginning of a run id finds the run as well. `feedback`: a rating of it that somebody holds.
    """

    status: str = ""
    outcome: str = ""
    verdict: str = ""
    intent: str = ""
    trigger: str = ""
    alert_name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    session_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    words: str = ""
    feedback: str = ""


def chosen(runs: QuerySet[DiagnosisRun], selection: Selection) -> QuerySet[DiagnosisRun]:
    """Those of the runs. One query more where it asks for `who`."""
    columns = ("status", "verdict", "intent", "trigger", "alert_name", "session_id")
    given: dict[str, Any] = {name: value for name in columns if (value := getattr(selection, name))}
    if selection.since is not None:
        given["queued_at__gte"] = selection.since
    if selection.until is not None:
        given["queued_at__lt"] = selection.until
    if _has_nul(given.values()) or _has_nul(part for pair in selection.labels for part in pair):
        return runs.none()
    if selection.outcome:
        # An outcome is a terminal status: the same column, and so the same index.
        runs = runs.filter(status=selection.outcome, finished_at__isnull=False)
    runs = runs.filter(**given)
    if selection.labels:
        runs = runs.filter(subject__contains={"alert": {"labels": dict(selection.labels)}})
    if selection.who:
        runs = runs.filter(_asked_by(selection.who))
    if selection.feedback:
        said = RunFeedback.objects.filter(run=OuterRef("id"), rating=selection.feedback, replaced_at__isnull=True)
        runs = runs.filter(Exists(said))
    if selection.words:
        runs = runs.filter(_said(selection.words))
    return runs


def _has_nul(values: Iterable[Any]) -> bool:
    return any(isinstance(value, str) and "\0" in value for value in values)


def _said(words: str) -> Q:
    found = Q()
    for word in wanted_words(words):
        found &= Q(search_text__contains=word)
    if RUN_ID.fullmatch(words.strip()):
        found |= Q(id__startswith=words.strip().lower())
    return found


def askers(who: str) -> tuple[list[int], list[int]]:
    """Row ids of the people and of the tokens of that name, in any case. One query."""
    if "\0" in who:
        return [], []
    people = User.objects.filter(username__iexact=who).annotate(kind=Value("person")).values_list("kind", "id")
    tokens = ApiToken.objects.filter(name__iexact=who).annotate(kind=Value("token")).values_list("kind", "id")
    found = list(people.union(tokens, all=True))
    return [row_id for kind, row_id in found if kind == "person"], [row_id for kind, row_id in found if kind == "token"]


def _asked_by(who: str) -> Q:
    people, tokens = askers(who)
    return Q(requested_by_id__in=people) | Q(requested_by_token_id__in=tokens)


# ---- order and place ------------------------------------------------------------------------------------------


def ordered(
    runs: QuerySet[DiagnosisRun], order: Order = Order.NEWEST, cursor: str | None = None
) -> QuerySet[DiagnosisRun]:
    """In that order, from the cursor on. Raises `BadCursor`."""
    column, sign = order.column, "-" if order.falling else ""
    if order.ended_only:
        runs = runs.filter(**{f"{column}__isnull": False})
    if cursor is not None:
        key, run_id = read_cursor(cursor, order)
        beyond = "lt" if order.falling else "gt"
        # The first condition says nothing new, but it is one that an index can begin at.
        runs = runs.filter(
            Q(**{f"{column}__{beyond}e": key}),
            Q(**{f"{column}__{beyond}": key}) | Q(**{column: key, f"id__{beyond}": run_id}),
        )
    return runs.order_by(f"{sign}{column}", f"{sign}id")


def newer(runs: QuerySet[DiagnosisRun], cursor: str) -> QuerySet[DiagnosisRun]:
    """Those that came after the cursor's place. Raises `BadCursor`."""
    key, run_id = read_cursor(cursor)
    return runs.filter(Q(queued_at__gte=key), Q(queued_at__gt=key) | Q(queued_at=key, id__gt=run_id))


def cursor_after(run: DiagnosisRun, order: Order = Order.NEWEST) -> str:
    key = getattr(run, order.column)
    return _cursor(key.isoformat() if isinstance(key, datetime) else str(key), run.id)


def cursor_at(moment: datetime) -> str:
    """A place in the order of time where no run is."""
    return _cursor(moment.isoformat(), "")


def _cursor(key: str, run_id: str) -> str:
    return base64.urlsafe_b64encode(f"{key} {run_id}".encode()).decode().rstrip("=")


def read_cursor(cursor: str, order: Order = Order.NEWEST) -> tuple[datetime | int, str]:
    """The place's key in that order, and its run id. Raises `BadCursor`."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key, _, run_id = base64.urlsafe_b64decode(padded.encode()).decode("ascii").partition(" ")
        if "\0" in run_id:
            raise BadCursor(cursor)
        if order.ended_only:
            number = int(key)
            if not 0 <= number < 2**63:
                raise BadCursor(cursor)
            return number, run_id
        written = datetime.fromisoformat(key)
        if written.tzinfo is None:
            raise BadCursor(cursor)
        # Of another time zone's first or last hours there is no UTC.
        return written.astimezone(UTC), run_id
    except (ValueError, OverflowError, binascii.Error) as error:
        raise BadCursor(cursor) from error
