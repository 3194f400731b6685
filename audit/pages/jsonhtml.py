"""A JSON value as a tree that folds, as HTML: `<details>` for objects and arrays, so that it folds without a script.

Bounded, whatever the value: so many nodes, so many characters, so deep; what is left out is said, and the whole is at
its own address. Numbers are written with all their digits, texts with what acts unseen in them made visible. Written
out here and not in a template, as the timeline's rows are (`audit.pages.rowhtml`). Every text passes `escape`.
"""

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs.pages.hostile import seen

MOST_NODES = 1_500
MOST_CHARS = 60_000
LONGEST_TEXT = 4_000
LONGEST_KEY = 200
DEEPEST = 40
# Objects and arrays are open down to this depth, and as long as they have no more than so many members.
OPEN_DEPTH = 3
OPEN_MEMBERS = 30


@dataclass(slots=True)
class _Budget:
    nodes: int = MOST_NODES
    chars: int = MOST_CHARS
    cut: bool = False

    def take(self, chars: int) -> bool:
        """False: there is no room for one more."""
        if self.nodes <= 0 or self.chars <= 0:
            self.cut = True
            return False
        self.nodes -= 1
        self.chars -= chars
        return True


@dataclass(frozen=True, slots=True)
class JsonTree:
    """`cut`: there is more than is shown. `folds`: there is something to fold."""

    html: SafeString
    cut: bool
    folds: bool


def json_tree(value: Any) -> JsonTree:
    budget = _Budget()
    html = _node(value, "", 0, budget)
    folds = isinstance(value, dict | list) and bool(value)
    return JsonTree(mark_safe(html), budget.cut, folds)  # noqa: S308 (every text is escaped below)


def _node(value: Any, label: str, depth: int, budget: _Budget) -> str:
    """`label`: the member's key as HTML, with its colon."""
    if isinstance(value, dict | list | tuple):
        return _folding(value, label, depth, budget)
    kind, text = _scalar(value, budget)
    if not budget.take(len(text)):
        return ""
    return f'<div class="json-leaf">{label}<span class="json-{kind}">{escape(text, quote=False)}</span></div>'


def _folding(value: Any, label: str, depth: int, budget: _Budget) -> str:
    brackets = "{}" if isinstance(value, dict) else "[]"
    if not budget.take(2):
        return ""
    if not value:
        return f'<div class="json-leaf">{label}{brackets}</div>'
    if depth >= DEEPEST:
        budget.cut = True
        return f'<div class="json-leaf">{label}{brackets[0]}…{brackets[1]}</div>'
    inside = "".join(_members(value, depth + 1, budget))
    opened = " open" if depth < OPEN_DEPTH and len(value) <= OPEN_MEMBERS else ""
    count = ngettext("%(count)d item", "%(count)d items", len(value)) % {"count": len(value)}
    return (
        f'<details class="json-node"{opened}><summary>{label}{brackets[0]} <span class="json-count">{count}</span> '
        f'{brackets[1]}</summary><div class="json-inside">{inside}</div></details>'
    )


def _members(value: Any, depth: int, budget: _Budget) -> list[str]:
    named = isinstance(value, dict)
    lines = []
    for key, item in value.items() if named else enumerate(value):
        if budget.nodes <= 0 or budget.chars <= 0:
            budget.cut = True
            break
        lines.append(_node(item, _key(str(key)) if named else "", depth, budget))
    return lines


def _key(key: str) -> str:
    text = seen(key[:LONGEST_KEY]) + ("…" if len(key) > LONGEST_KEY else "")
    return f'<span class="json-key">{escape(_quoted(text), quote=False)}</span>: '


def _scalar(value: Any, budget: _Budget) -> tuple[str, str]:
    if isinstance(value, str):
        if len(value) <= LONGEST_TEXT:
            return "text", _quoted(seen(value))
        budget.cut = True
        more = _("and %(count)d characters more") % {"count": len(value) - LONGEST_TEXT}
        return "text", f"{_quoted(seen(value[:LONGEST_TEXT]))} … {more}"
    kind = "word" if value is None or isinstance(value, bool) else "number"
    return kind, json.dumps(value, default=str)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
