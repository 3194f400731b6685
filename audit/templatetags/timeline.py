"""The timeline's rows for templates."""

from collections.abc import Iterable

from django import template
from django.utils.safestring import SafeString

from audit.pages.rowhtml import rows_html
from audit.pages.timeline import TimelineRow

register = template.Library()


@register.simple_tag
def timeline_rows(rows: Iterable[TimelineRow], selected: int | None) -> SafeString:
    return rows_html(rows, selected)
