"""The HTML of the timeline's rows: the one form of them, whether they come with the page, with more of it, or live.

Written out here and not in a template, because a run may have ten thousand of them: Django's template engine takes some
ten times as long for the same. Every text passes `escape`; what is not passed through it is a number or a word of ours.
"""

from collections.abc import Iterable
from html import escape

from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from audit.pages.timeline import Bar, TimelineRow
from audit.templatetags.pages import after, took

CURRENT = ' aria-current="true"'


def rows_html(rows: Iterable[TimelineRow], selected: int | None = None) -> SafeString:
    """List items. `selected`: the number of the event whose details are open."""
    return mark_safe("\n".join(row_html(row, current=row.sequence_no == selected) for row in rows))  # noqa: S308


def row_html(row: TimelineRow, *, current: bool = False) -> str:
    number = row.sequence_no
    address = escape(row.address)
    wait = f'<p class="event-wait">{escape(waited(row.wait_ms))}</p>' if row.wait_ms else ""
    who = f' <span class="event-who">{escape(str(row.who))}</span>' if row.who else ""
    status = f'<span class="event-status word word-{row.tone}">{escape(row.status)}</span> ' if row.status else ""
    lasted = "" if row.duration_ms is None else f' <span class="event-took">{escape(took(row.duration_ms))}</span>'
    warning = f' <span class="event-warning">{escape(str(row.warning))}</span>' if row.warning else ""
    return (
        f'<li class="event event-{row.tone}{" event-minor" if row.minor else ""}" id="event-{number}"'
        f"{' data-terminal' if row.terminal else ''}>{wait}"
        f'<a class="event-link" href="{address}#panel" hx-get="{address}" data-row'
        f"{CURRENT if current else ''}>"
        f'<span class="event-no">{number}</span> <span class="event-phase">{escape(row.phase)}</span> '
        f'<span class="event-title">{escape(str(row.title))}{who}</span> {status}'
        f'<span class="event-after">{after(row.after_ms)}</span>{lasted}{_bar(row.bar)} '
        f'<span class="event-summary">{escape(row.summary)}</span>{warning}</a></li>'
    )


def waited(ms: int) -> str:
    """A long time in which nothing happened."""
    return _("%(time)s without an event") % {"time": took(ms)}


def _bar(bar: Bar | None) -> str:
    if bar is None:
        return ""
    return (
        '<svg class="event-bar" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="{bar.start}" width="{bar.width}" height="8"></rect></svg>'
    )
