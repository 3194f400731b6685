"""`manage.py sync_rules`: load the shipped rule metadata, keep what admins decided."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from gatekeeper import rulesets
from gatekeeper.canonical import MalformedRules
from gatekeeper.shipped import MalformedMetadata


class Command(BaseCommand):
    help = (
        "Creates the gatekeeper's missing rules from gatekeeper-rules.json and updates titles and descriptions. "
        "Modes, severities and parameters that an admin set are kept. Makes a new rule set only if something that "
        "judges differently changed; running it again changes nothing."
    )
    requires_migrations_checks = False

    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            outcome = rulesets.sync()
        except (MalformedMetadata, MalformedRules) as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            first_line = str(error).strip().partition("\n")[0]
            raise CommandError(f"The rules cannot be stored: {first_line} (has `migrate` been run?)") from error
        made = "new" if outcome.new_set else "unchanged"
        self.stdout.write(
            f"Rules: {len(outcome.created)} created, {len(outcome.updated)} updated, {len(outcome.retired)} retired; "
            f"rule set {outcome.rule_set.number} ({made}, {outcome.rule_set.digest[:12]})."
        )
