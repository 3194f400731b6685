"""`manage.py sign_in_link [USER]`: a new one-time sign-in link, without a restart."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from superbiz.embedded import locked
from superbiz.places import Places
from superbiz.signin import ADMIN_NAME, LINK_MINUTES, NoLink, issue_link
from superbiz.up import base_url


class Command(BaseCommand):
    help = (
        f"Prints a link that signs a user in once within {LINK_MINUTES} minutes, alone on its line. It signs in also "
        "who is locked out after wrong passwords. SuperBiz must be running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "user", nargs="?", default=ADMIN_NAME, help=f"name; default: {ADMIN_NAME}, made where missing"
        )

    def handle(self, *_args: Any, user: str, **_options: Any) -> None:
        if settings.SUPERBIZ.redis_url is None and not _up_is_running():
            raise CommandError("SuperBiz is not running, and its start prints a link: manage.py up", returncode=2)
        try:
            self.stdout.write(issue_link(base_url(settings.SUPERBIZ), user))
        except NoLink as error:
            raise CommandError(str(error), returncode=2) from error


def _up_is_running() -> bool:
    """The embedded Valkey, which keeps the link, would otherwise end with this command."""
    with locked(Places(settings.SUPERBIZ.var).up_lock) as mine:
        return not mine
