"""The application."""

from django.apps import AppConfig


class GatekeeperConfig(AppConfig):
    name = "gatekeeper"
