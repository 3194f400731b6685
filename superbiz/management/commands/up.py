"""Run everything on this machine: servers, web, worker, beat."""

import argparse
import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from superbiz.env import ConfigurationError, exit_with
from superbiz.up import up


class Command(BaseCommand):
    help = (
        "Starts PostgreSQL and Valkey (unless DATABASE_URL and REDIS_URL name others), brings the database up to date "
        "and runs web, worker and beat until Ctrl-C. Prints the address and a one-time sign-in link."
    )
    requires_system_checks: list[str] = []  # each child runs its own; `make check` runs all

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="post the bundled incident and follow its diagnosis")

    def handle(self, *_args: Any, demo: bool, **_options: Any) -> None:
        try:
            code = asyncio.run(up(settings.SUPERBIZ, demo=demo))
        except ConfigurationError as error:
            exit_with(error)
        if code:
            raise SystemExit(code)
