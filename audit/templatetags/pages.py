"""Figures and times as the pages show them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django import template
from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from runs import roles
from runs.tools.recorded import recorded_now

register = template.Library()


@register.simple_tag
def offline_model() -> bool:
    """Whether the model that plays every role by rules is in use."""
    return bool(settings.SUPERBIZ.llm == roles.OFFLINE)


@register.filter
def read_by_nobody(prompt: str) -> bool:
    """Whether the role of the prompt of this name is played by the offline model."""
    return roles.read_by_nobody(prompt)


@register.simple_tag
def recorded_at() -> datetime | None:
    """The moment of the recording that the tools read in place of live systems; None where they read these."""
    folder = settings.SUPERBIZ.recorded_evidence
    return recorded_now(folder) if folder else None


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """A `<time>` in UTC; a script puts it into the reader's zone."""
    if value is None:
        return "–"
    utc = value.astimezone(UTC)
    text = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', utc.isoformat(), text, text)


@register.filter
def ago(value: datetime, now: datetime) -> SafeString:
    """How long ago, in one unit; a script counts on. The exact time stands beside it or in the title."""
    return format_html(
        '<time class="ago" datetime="{}" title="{}" data-ago>{}</time>',
        value.astimezone(UTC).isoformat(),
        f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        ago_words(now - value),
    )


def ago_words(span: timedelta) -> str:
    seconds = max(0, round(span.total_seconds()))
    if seconds < 60:
        return ngettext("%(n)s s ago", "%(n)s s ago", seconds) % {"n": seconds}
    if seconds < 3600:
        return ngettext("%(n)s min ago", "%(n)s min ago", seconds // 60) % {"n": seconds // 60}
    if seconds < 48 * 3600:
        return ngettext("%(n)s h ago", "%(n)s h ago", seconds // 3600) % {"n": seconds // 3600}
    return ngettext("%(n)s d ago", "%(n)s d ago", seconds // 86400) % {"n": seconds // 86400}


@register.filter
def at_most(value: int, most: int) -> str:
    """`99+` for more than that."""
    return f"{most}+" if value > most else str(value)


@register.filter
def took(value: timedelta | int | None) -> str:
    """A duration: `840 ms`, `12.4 s`, `3 min 05 s`. Whole numbers are milliseconds; one below zero stays as it is."""
    if value is None:
        return "–"
    ms = value if isinstance(value, int) else round(value / timedelta(milliseconds=1))
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


@register.filter
def after(ms: int) -> str:
    """Time since the run's first event; with a minus where the clock says that it was before it."""
    sign = "−" if ms < 0 else "+"
    minutes, rest = divmod(abs(ms), 60_000)
    if minutes >= 60:
        return f"{sign}{minutes // 60} h {minutes % 60:02}"
    return f"{sign}{minutes}:{rest / 1000:06.3f}" if minutes else f"{sign}{rest / 1000:.3f}"


@register.filter
def grouped(value: int | None) -> str:
    """A whole number with thin spaces between thousands."""
    return "–" if value is None else f"{value:,}".replace(",", "\u2009")


@register.filter
def cost(value: Decimal | None) -> str:
    """US dollars; an unknown cost is said to be unknown, never 0."""
    return _("unknown") if value is None else f"${value:.4f}"


@register.filter
def score(value: float | None) -> str:
    """From 0 to 1, with two digits."""
    return f"{value:.2f}" if isinstance(value, float) else "–"


@register.filter
def percent(value: Any) -> str:
    return "–" if value is None else f"{float(value):.0%}"
