"""The application."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class GatekeeperConfig(AppConfig):
    name = "gatekeeper"
    verbose_name = _("Gatekeeper")
