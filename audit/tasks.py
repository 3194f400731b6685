"""What Celery carries for the ledger's own pages."""

from celery import shared_task

from audit import impact


@shared_task(name="audit.tasks.preview_rules")
def preview_rules(preview_id: int) -> None:
    """Try a proposed change of rules on past runs."""
    impact.work(preview_id)
