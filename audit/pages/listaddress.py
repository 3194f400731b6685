"""The run list's whole state, as the address has it: filters, order, columns, view, place.

`read` never refuses: a value that is not understood is left out and named, so that the rest of the address still counts
and the reader knows what does not. `Address.query` writes the address of another state.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from gatekeeper.types import Intent, Verdict
from runs.models.feedback import Rating
from runs.models.run import RunOutcome, RunStatus, Trigger
from runs.pages.hostile import one_line
from runs.pages.words import Words
from runs.searching import WORDS_LIMIT, decoded
from runs.selection import BadCursor, Order, Selection, read_cursor

CHOICES: Mapping[str, tuple[str, ...]] = {
    "status": tuple(RunStatus.values),
    "outcome": tuple(RunOutcome.values),
    "verdict": tuple(Verdict),
    "intent": tuple(Intent),
    "trigger": tuple(Trigger.values),
    "feedback": tuple(Rating.values),
}
TEXTS: Mapping[str, int] = {"alert": 200, "who": 150, "session": 64}
LAST: Mapping[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
COLUMNS: Mapping[str, Words] = {
    "trigger": gettext_lazy("Trigger"),
    "intent": gettext_lazy("Intent"),
    "verdict": gettext_lazy("Verdict"),
    "took": gettext_lazy("Duration"),
    "tokens": gettext_lazy("Tokens"),
    "who": gettext_lazy("Asked by"),
    "model": gettext_lazy("Model"),
    "id": gettext_lazy("Run id"),
    "when": gettext_lazy("When"),
}
"""Columns that can be chosen. State, subject and conclusion are always there."""
DEFAULT_COLUMNS = ("verdict", "took", "tokens", "when")
MAX_LABELS = 5
ATTENTION = "attention"
# In an address a plus sign that was not written %2B arrives as a space.
_LOST_PLUS = re.compile(r"(?<=\d) (?=\d\d:?\d\d$)")


@dataclass(frozen=True, slots=True)
class Address:
    """`given`: the parameters that were understood, as they were written, in the order of the address.

    `wrong`: what was not, each a sentence. `cursor`: the place to go on from.
    """

    given: tuple[tuple[str, str], ...] = ()
    selection: Selection = field(default_factory=Selection)
    order: Order = Order.NEWEST
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    attention: bool = False
    cursor: str | None = None
    wrong: tuple[str, ...] = ()
    last: str = ""

    def value(self, name: str) -> str:
        return next((value for key, value in self.given if key == name), "")

    @property
    def filters(self) -> tuple[tuple[str, str], ...]:
        """The parameters that choose runs out."""
        return tuple((name, value) for name, value in self.given if name not in {"sort", "cols", "view", "before"})

    @property
    def labels_text(self) -> str:
        return " ".join(value for name, value in self.given if name == "label")

    @property
    def since_text(self) -> str:
        return self.value("since")

    @property
    def until_text(self) -> str:
        return self.value("until")

    @property
    def uses_more(self) -> bool:
        """Whether a filter is in force that the form shows on demand."""
        return any(
            self.value(name) for name in ("outcome", "intent", "feedback", "alert", "label", "who", "since", "until")
        )

    @property
    def with_attention(self) -> str:
        return self.query(view=ATTENTION)

    @property
    def without_attention(self) -> str:
        return self.query("view")

    @property
    def look(self) -> str:
        """Only how the rows look."""
        return urlencode([(name, value) for name, value in self.given if name in {"cols", "view"}])

    def query(self, *without: str, **changed: str) -> str:
        """The query string of this state with some parameters left out or set; the place is left out always."""
        dropped = {*without, *changed, "before"}
        kept = [(name, value) for name, value in self.given if name not in dropped]
        return urlencode([*kept, *((name, value) for name, value in changed.items() if value)])

    def without_one(self, name: str, value: str) -> str:
        return urlencode([pair for pair in self.given if pair != (name, value) and pair[0] != "before"])


@dataclass(slots=True)
class _Reading:
    sent: QueryDict
    now: datetime
    given: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def one(self, name: str) -> str:
        """The last value of that parameter; empty where there is none."""
        return str(self.sent.get(name, "")).replace("\0", "").strip()

    def text(self, name: str, limit: int) -> str:
        value = self.one(name)
        if len(value) > limit:
            self._refuse(name, value, _("it is longer than %(limit)s characters") % {"limit": limit})
            return ""
        return self._take(name, value)

    def choice(self, name: str, choices: Collection[str]) -> str:
        value = self.one(name)
        if value and value not in choices:
            self._refuse(name, value, _("it is one of %(choices)s") % {"choices": ", ".join(choices)})
            return ""
        return self._take(name, value)

    def labels(self) -> tuple[tuple[str, str], ...]:
        """Each `key=value`; several may stand in one parameter, apart by white space."""
        found: list[tuple[str, str]] = []
        for written in " ".join(self.sent.getlist("label")).replace("\0", "").split():
            key, equals, value = written.partition("=")
            if not (key and equals) or len(written) > 400 or len(found) == MAX_LABELS:
                why = _("a label is written key=value, and there are at most %(most)s") % {"most": MAX_LABELS}
                self._refuse("label", written, why)
            else:
                found.append((key, value))
                self._take("label", written)
        return tuple(found)

    def moment(self, name: str) -> datetime | None:
        """ISO 8601; without a zone it is UTC."""
        written = _LOST_PLUS.sub("+", self.one(name))
        if not written:
            return None
        try:
            moment = datetime.fromisoformat(written)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self._refuse(name, written, _("a time is written 2031-03-04T05:06 or 2031-03-04T05:06+01:00"))
            return None
        self._take(name, written)
        return moment

    def last(self) -> timedelta | None:
        value = self.one("last")
        found = re.fullmatch(r"([1-9]\d{0,3})([mhd])", value)
        if value and not found:
            self._refuse("last", value, _("a span is written 15m, 6h or 7d"))
        if not found:
            return None
        self._take("last", value)
        return int(found[1]) * _UNITS[found[2]]

    def columns(self, remembered: Iterable[str]) -> tuple[str, ...]:
        """`cols`: commas between, or one parameter a column, as a form sends them. An empty one: no further column."""
        if "cols" not in self.sent:
            known = set(remembered)
            return self._told_columns(tuple(name for name in COLUMNS if name in known) or DEFAULT_COLUMNS)
        asked = [name for name in ",".join(self.sent.getlist("cols")).split(",") if name.strip()]
        for name in asked:
            if name not in COLUMNS:
                self._refuse("cols", name, _("it is one of %(choices)s") % {"choices": ", ".join(COLUMNS)})
        return self._told_columns(tuple(name for name in COLUMNS if name in asked))

    def _told_columns(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        if chosen != DEFAULT_COLUMNS:
            self.given.append(("cols", ",".join(chosen)))
        return chosen

    def cursor(self, order: Order) -> str | None:
        value = self.one("before")
        if not value:
            return None
        try:
            read_cursor(value, order)
        except BadCursor:
            self._refuse("before", value, _("the list begins at its start instead"))
            return None
        self.given.append(("before", value))
        return value

    def _take(self, name: str, value: str) -> str:
        if value:
            self.given.append((name, value))
        return value

    def _refuse(self, name: str, value: str, why: str) -> None:
        said = {"name": name, "value": one_line(value, 60), "why": why}
        self.wrong.append(_("%(name)s “%(value)s” was left out: %(why)s.") % said)


def read(sent: QueryDict, now: datetime, remembered: Iterable[str] = ()) -> Address:
    """`remembered`: the columns that the reader chose last."""
    reading = _Reading(sent, now)
    words = decoded(reading.text("q", WORDS_LIMIT))
    codes = {name: reading.choice(name, choices) for name, choices in CHOICES.items()}
    texts = {name: reading.text(name, limit) for name, limit in TEXTS.items()}
    labels = reading.labels()
    since, until, last = reading.moment("since"), reading.moment("until"), reading.last()
    if last is not None and since is None:
        since = now - last
    if since is not None and until is not None and since >= until:
        reading.wrong.append(_("The time range ends before it begins, so no run lies in it."))
    order = Order(reading.choice("sort", tuple(Order)) or Order.NEWEST)
    view = reading.choice("view", (ATTENTION,))
    columns = reading.columns(remembered)
    cursor = reading.cursor(order)
    return Address(
        given=tuple(reading.given),
        selection=Selection(
            **codes,
            alert_name=texts["alert"],
            session_id=texts["session"],
            labels=labels,
            since=since,
            until=until,
            who=texts["who"],
            words=words,
        ),
        order=order,
        columns=columns,
        attention=view == ATTENTION,
        cursor=cursor,
        wrong=tuple(reading.wrong),
        last=next((value for name, value in reading.given if name == "last"), ""),
    )
