"""The application that carries the management commands and the sign-in pages."""

from django.apps import AppConfig


class SuperbizConfig(AppConfig):
    name = "superbiz"
    verbose_name = "SuperBiz"

    def ready(self) -> None:
        """Make the Celery application current, so that `shared_task(...).delay()` finds its broker everywhere."""
        from superbiz.celery import app

        app.set_current()
