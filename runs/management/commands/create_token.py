"""Make an API token."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.models.token import Scope
from runs.tokens import TokenRefused, create_token


class Command(BaseCommand):
    help = "Make an API token and print it, once, alone on its line. Only its digest is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the token is for, e.g. alertmanager")
        parser.add_argument(
            "--scope", action="append", required=True, choices=Scope.values, help="may be given several times"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(create_token(options["name"], options["scope"]))
        except TokenRefused as error:
            raise CommandError(str(error), returncode=2) from error
