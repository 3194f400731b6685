"""`manage.py prune_ledger --older-than 90d`: remove old runs, leave tombstones."""

import getpass
import re
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import Progress

from audit.pruning import prunable, prune_batch

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
# Runs of today are still being looked at; a slip of the finger should not cost them.
SHORTEST = timedelta(days=1)
LONGEST = timedelta(days=36_500)


def age(text: str) -> timedelta:
    """`90d`, `36h` or `8w`, one day at least. Raises `CommandError` (2)."""
    match = re.fullmatch(r"([0-9]{1,6})([hdw])", text)
    found = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None
    if found is None or not SHORTEST <= found <= LONGEST:
        raise CommandError(
            f"--older-than takes an age such as 90d, 36h or 8w, one day at least, not {text!r}.", returncode=2
        )
    return found


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


class Command(BaseCommand):
    help = (
        "Removes runs that ended longer ago than the given age, with all their records. A tombstone of each keeps its "
        "id, its session, and the number and hash of its last frame. There is no way back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than", required=True, metavar="AGE", help="such as 90d, 36h or 8w; 1d at least")
        parser.add_argument("--dry-run", action="store_true", help="say how many runs it would remove, remove none")
        parser.add_argument("--reason", default="retention", help="kept in the tombstones; default: retention")

    def handle(self, *_args: Any, **options: Any) -> None:
        before = timezone.now() - age(options["older_than"])
        total = prunable(before).count()
        if options["dry_run"]:
            self.stdout.write(f"{total} runs ended before {before:%Y-%m-%d %H:%M} UTC; none was removed.")
            return
        removed = 0
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("Pruning", total=total)
            while gone := prune_batch(before, by=f"prune_ledger ({_who()})", reason=options["reason"]):
                removed += len(gone)
                progress.update(task, completed=removed)
        self.stdout.write(f"{removed} runs that ended before {before:%Y-%m-%d %H:%M} UTC were removed.")
