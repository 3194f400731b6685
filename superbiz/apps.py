"""The application that carries the management commands and the sign-in pages."""

from axes.apps import AppConfig as AxesConfig
from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SuperbizConfig(AppConfig):
    name = "superbiz"
    verbose_name = "SuperBiz"

    def ready(self) -> None:
        """Make the Celery application current, so that `shared_task(...).delay()` finds its broker everywhere."""
        from superbiz.celery import app

        app.set_current()


class SignInsConfig(AxesConfig):
    """django-axes under a name that says what it shows."""

    verbose_name = _("Sign-ins")
