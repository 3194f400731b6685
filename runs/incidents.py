"""The incidents that come with the code: an alert and a recording of what could be seen at the time."""

import functools
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings

from runs.alertpayload import query_text, read_json, read_notice
from runs.harness.run import Subject
from runs.tools.recorded import recorded_now

NEEDED = ("alert.json", "evidence/meta.json")


class NoSuchIncident(Exception):
    """The text is one sentence."""


@dataclass(frozen=True, slots=True)
class Incident:
    """`evidence`: a folder of recorded evidence. `now`: when it was recorded."""

    slug: str
    query: str
    subject: Subject
    evidence: Path
    now: datetime


def bundled() -> tuple[Incident, ...]:
    """All of them, by name."""
    return tuple(_read(name) for name in _names(settings.BUNDLED_INCIDENTS))


def incident(slug: str) -> Incident:
    """Raises `NoSuchIncident`."""
    if slug not in _names(settings.BUNDLED_INCIDENTS):
        raise NoSuchIncident(f"There is no bundled incident {slug[:80]!r}.")
    return _read(slug)


@functools.cache
def _names(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    return tuple(sorted(path.name for path in folder.iterdir() if all((path / name).is_file() for name in NEEDED)))


@functools.cache
def _read(slug: str) -> Incident:
    folder: Path = settings.BUNDLED_INCIDENTS / slug
    notice = read_notice(read_json((folder / "alert.json").read_bytes()))
    main, *others = sorted((alert for alert in notice.alerts if not alert.resolved), key=lambda alert: alert.urgency)
    subject = Subject(alert=main.subject, others=[other.subject for other in others])
    return Incident(slug, query_text(main.subject), subject, folder / "evidence", recorded_now(folder / "evidence"))
