"""Markdown from runbooks as HTML that can do nothing but be read.

The text is not trusted: HTML in it is shown as text, images become their words (a page that loads one tells its host
who reads), and links lead to plain web addresses only, in a window of their own.
"""

import functools

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from runs.pages.hostile import seen

TAGS = frozenset("p br hr em strong del code pre blockquote ul ol li a h3 h4 h5 h6 table thead tbody tr th td".split())
LARGEST_HEADING = 3


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")


def html_of(text: str) -> SafeString:
    """The Markdown as HTML. Headings in it come below those of the page."""
    tokens = _parser().parse(seen(text))
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1:]) + LARGEST_HEADING - 1)}"
    rendered = _parser().renderer.render(tokens, _parser().options, {})
    return mark_safe(  # noqa: S308 (nh3 has cleaned it)
        nh3.clean(
            rendered,
            tags=set(TAGS),
            attributes={"*": set(), "a": {"href"}, "ol": {"start"}},
            url_schemes={"http", "https"},
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values={"a": {"target": "_blank"}, "pre": {"tabindex": "0"}},
        )
    )
