"""Lists of the admin on narrow screens."""

from collections.abc import Iterable, Iterator, Mapping

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

register = template.Library()
CELLS = ("<td", "<th")


@register.filter
def labelled(cells: Iterable[SafeString], headers: Iterable[Mapping[str, object]]) -> Iterator[SafeString]:
    """The cells of a row as Django's changelist made them, each with its column's name in `data-label`: where there is
    no room for columns, the stylesheet shows it in front of the value."""
    columns = iter([capfirst(str(header["text"])) for header in headers])
    for cell in cells:
        start = cell[:3]
        if start not in CELLS:
            yield cell
            continue
        yield format_html('{} data-label="{}"{}', SafeString(start), next(columns, ""), SafeString(cell[3:]))
