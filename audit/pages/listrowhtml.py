"""The HTML of the list's rows: the one form of them, whether they come with the page, with more of it, or live.

Written out here and not in a template, as the timeline's rows are (`audit.pages.rowhtml`): most of a page's time would
be the template engine's. Every text passes `escape`.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from html import escape

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from audit.pages.listaddress import COLUMNS
from audit.pages.runlist import RunRow
from audit.templatetags.pages import ago, grouped, moment, took
from runs.pages.words import Words


def rows_html(
    rows: Iterable[RunRow], columns: Iterable[str], now: datetime, *, reasons: bool = False, oob: bool = False
) -> SafeString:
    """Table rows. `reasons`: say why each needs attention. `oob`: each replaces the row of its id."""
    cells = [(_CELLS[name], COLUMNS[name]) for name in columns]
    run_page = reverse("run", args=["RUN"])
    lines = []
    for row in rows:
        further = "".join(cell(row, words, now) for cell, words in cells)
        lines.append(
            f'<tr id="row-{escape(row.id)}"{OOB if oob else ""}>{_state(row)}'
            f"{_subject(row, run_page.replace('RUN', row.id), reasons=reasons)}{further}</tr>"
        )
    return mark_safe("\n".join(lines))  # noqa: S308 (every text is escaped above and below)


OOB = ' hx-swap-oob="true"'


def _state(row: RunRow) -> str:
    badge = f'<span class="badge badge-{row.tone}" title="{escape(row.status)}">{escape(str(row.badge))}</span>'
    return f'<td class="runs-state">{_pick(row)}{badge}</td>'


def _pick(row: RunRow) -> str:
    """The box by which two runs are chosen to be compared; of runs that have ended, whose rows change no more."""
    if row.open:
        return ""
    words = escape(_("Compare %(subject)s") % {"subject": row.subject})
    return (
        f'<input class="runs-pick" type="checkbox" form="compare" name="run" value="{escape(row.id)}"'
        f' aria-label="{words}" title="{words}"> '
    )


def _subject(row: RunRow, address: str, *, reasons: bool) -> str:
    detail = f' <bdi class="runs-detail">{escape(row.detail)}</bdi>' if row.detail else ""
    mark = f' <span class="tag">{escape(_("rehearsal"))}</span>' if row.rehearsal else ""
    if row.again:
        again = escape(_("run again"))
        mark += f' <span class="tag">{again}</span>'
    if row.floor_lowered:
        lowered = escape(_("floor of safety lowered"))
        mark += f' <span class="tag tag-bad">{lowered}</span>'
    why = ""
    if reasons and row.reasons:
        why = f' <span class="runs-reasons">{escape(", ".join(map(str, row.reasons)))}</span>'
    said = f' <span class="runs-conclusion" dir="auto">{escape(row.conclusion)}</span>' if row.conclusion else ""
    return (
        f'<th scope="row" class="runs-subject"><a href="{escape(address)}" data-row>'
        f"<bdi>{escape(row.subject)}</bdi></a>{detail}{mark}{why}{said}</th>"
    )


def _cell(words: Words, content: str, css: str = "") -> str:
    """A cell; on a narrow screen its column's name stands before it, and one that says nothing is left out."""
    there = "" if content else " data-none"
    return f'<td{css} data-label="{escape(str(words))}"{there}>{content or "–"}</td>'


def _verdict(row: RunRow, words: Words, _now: datetime) -> str:
    said = f'<span class="word word-{row.verdict_tone}">{escape(str(row.verdict))}</span>' if row.verdict else ""
    return _cell(words, said)


def _took(row: RunRow, words: Words, _now: datetime) -> str:
    return _cell(words, "" if row.took is None else escape(took(row.took)), ' class="number"')


def _tokens(row: RunRow, words: Words, _now: datetime) -> str:
    return _cell(words, grouped(row.tokens) if row.tokens else "", ' class="number"')


def _when(row: RunRow, _words: Words, now: datetime) -> str:
    return f'<td class="runs-when">{ago(row.queued_at, now)} {moment(row.queued_at)}</td>'


def _who(row: RunRow, words: Words, _now: datetime) -> str:
    return _cell(words, f"<bdi>{escape(row.who)}</bdi>" if row.who else "")


_CELLS: Mapping[str, Callable[[RunRow, Words, datetime], str]] = {
    "trigger": lambda row, words, _: _cell(words, escape(str(row.trigger))),
    "intent": lambda row, words, _: _cell(words, escape(str(row.intent))),
    "verdict": _verdict,
    "took": _took,
    "tokens": _tokens,
    "who": _who,
    "model": lambda row, words, _: _cell(words, escape(row.model)),
    "id": lambda row, words, _: _cell(words, f"<code>{escape(row.id)}</code>"),
    "when": _when,
}
