"""What the list's form offers, and the filters in force, each with the address of the list without it."""

from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from audit.pages.listaddress import CHOICES, Address
from runs.pages.feedbackview import RATING_WORDS
from runs.pages.hostile import one_line
from runs.pages.words import INTENT_WORDS, STATUS_WORDS, TRIGGER_WORDS, VERDICT_WORDS, Words
from runs.selection import Order

PARAMETER_WORDS: dict[str, Words] = {
    "status": _("State"),
    "outcome": _("Outcome"),
    "verdict": _("Verdict"),
    "intent": _("Intent"),
    "trigger": _("Trigger"),
    "feedback": _("Feedback"),
    "alert": _("Alert"),
    "label": _("Label"),
    "session": _("Session"),
    "since": _("From"),
    "until": _("Until"),
    "last": _("Last"),
    "who": _("Asked by"),
    "q": _("Search"),
}
_VALUE_WORDS: dict[str, dict[str, Words]] = {
    "status": STATUS_WORDS,
    "outcome": STATUS_WORDS,
    "verdict": VERDICT_WORDS,
    "intent": INTENT_WORDS,
    "trigger": TRIGGER_WORDS,
    "feedback": RATING_WORDS,
}
ORDER_WORDS: dict[Order, Words] = {
    Order.NEWEST: _("newest first"),
    Order.OLDEST: _("oldest first"),
    Order.LONGEST: _("longest first"),
    Order.SHORTEST: _("shortest first"),
    Order.MOST_TOKENS: _("most tokens first"),
    Order.FEWEST_TOKENS: _("fewest tokens first"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A select of the form: its parameter, its options with the chosen one marked."""

    name: str
    words: Words
    options: tuple[tuple[str, Words, bool], ...]


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter in force. `without`: the query string of the list without it."""

    name: Words
    value: Words
    without: str


def choices(address: Address) -> dict[str, Choice]:
    found = {}
    for name, values in CHOICES.items():
        chosen, words = address.value(name), _VALUE_WORDS[name]
        options = tuple((value, words.get(value, value), value == chosen) for value in values)
        found[name] = Choice(name, PARAMETER_WORDS[name], options)
    orders = tuple((order.value, words, order is address.order) for order, words in ORDER_WORDS.items())
    return found | {"sort": Choice("sort", _("Order"), orders)}


def chips(address: Address) -> tuple[Chip, ...]:
    return tuple(
        Chip(
            PARAMETER_WORDS.get(name, name),
            _VALUE_WORDS.get(name, {}).get(value) or one_line(value, 60),
            address.without_one(name, value),
        )
        for name, value in address.filters
    )
