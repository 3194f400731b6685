"""How far a run has got, for pages of `runs`, which know nothing of the record."""

from django import template

from audit.pages import progress

register = template.Library()


@register.simple_tag
def progress_of(run_id: str) -> progress.Progress:
    """One query."""
    return progress.progress_of(run_id)
