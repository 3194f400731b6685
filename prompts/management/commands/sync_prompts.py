"""Load the shipped prompt files: a changed file becomes a new version."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from prompts.actions import sync_shipped


class Command(BaseCommand):
    help = (
        "Turn changed files under prompts/ into new immutable versions and activate them. A prompt whose active "
        "version was written by an admin keeps it; the shipped one waits."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            changes = sync_shipped()
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        for change in changes:
            self.stdout.write(change)
        if not changes:
            self.stdout.write("All prompts are as shipped.")
