"""PromQL vector selectors, as recorded evidence can answer them: `name`, `{label="value"}`, `name{a=~"x|y",b!=""}`.

Grammar and meaning as in the Prometheus documentation ("Time series selectors"): regular expressions match
the whole value, a missing label is the empty string, and one matcher at least must refuse the empty string.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_REGEX_CHARS = 200
MAX_REGEX_REPEATS = 3

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_MATCHER = re.compile(
    r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*"
)
# The engine here backtracks: an expression that could do so without end is refused.
_REPEAT = re.compile(r"(?<!\\)[*+{]")
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class NoSelector(ValueError):
    """The text is another expression, or none; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    operator: str
    value: str

    def matches(self, text: str) -> bool:
        if self.operator in {"=", "!="}:
            return (text == self.value) is (self.operator == "=")
        return (re.fullmatch(self.value, text, re.DOTALL) is not None) is (self.operator == "=~")


def parse_selector(query: str) -> tuple[Matcher, ...]:
    """The matchers of a selector, the metric name as a matcher on `__name__`. Raises `NoSelector`."""
    text = query.strip()
    matchers: list[Matcher] = []
    name = _NAME.match(text)
    if name:
        matchers.append(Matcher("__name__", "=", name[0]))
        text = text[name.end() :].strip()
    if text:
        if not (text.startswith("{") and text.endswith("}")):
            raise NoSelector("not a selector")
        matchers += _in_braces(text[1:-1])
    if all(matcher.matches("") for matcher in matchers):
        raise NoSelector("a selector needs at least one matcher that does not match the empty string")
    return tuple(matchers)


def selects(matchers: tuple[Matcher, ...], metric: Mapping[str, str]) -> bool:
    return all(matcher.matches(metric.get(matcher.label, "")) for matcher in matchers)


def _in_braces(text: str) -> list[Matcher]:
    matchers: list[Matcher] = []
    position = 0
    while text[position:].strip():
        found = _MATCHER.match(text, position)
        if found is None:
            raise NoSelector("the label matchers cannot be read")
        label, operator, quoted = found.groups()
        value = quoted[1:-1]
        if quoted[0] != "`":
            value = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value)
        if operator.endswith("~"):
            _check_regex(value)
        matchers.append(Matcher(label, operator, value))
        position = found.end()
        rest = text[position:]
        if rest and not rest.startswith(","):
            raise NoSelector("the label matchers cannot be read")
        position += 1
    return matchers


def _check_regex(pattern: str) -> None:
    if (
        len(pattern) > MAX_REGEX_CHARS
        or len(_REPEAT.findall(pattern)) > MAX_REGEX_REPEATS
        or _REPEATED_GROUP.search(pattern)
    ):
        raise NoSelector("the regular expression is too complex for recorded evidence")
    try:
        re.compile(pattern)
    except re.error as error:
        raise NoSelector("the regular expression is not valid") from error
