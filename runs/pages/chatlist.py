"""A person's own conversations, the last used first, and what might be asked first. Three queries for a page."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from runs.access import Caller
from runs.models import Alert, ChatSession, DiagnosisRun, KnowledgeDocument
from runs.pages.hostile import one_line
from runs.pages.inbox import telling_labels
from runs.pages.words import Tone, Words, badge
from runs.searching import decoded
from runs.selection import BadCursor, Selection, chosen

PAGE = 20
SUGGESTED_ALERTS = 3
SUGGESTED_RUNBOOKS = 3
RECENT_ALERTS = 30
_SHOWN = ("session_id", "status", "cancel_requested_at", "nothing_notable", "release_decision", "queued_at")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """`run_id`: the turn to go to: the last one, or the last one that has the words that were searched for."""

    id: str
    title: str
    used_at: datetime
    run_id: str
    badge: Words
    tone: Tone


@dataclass(frozen=True, slots=True)
class SessionPage:
    """`older`: the cursor of the next page; empty on the last one."""

    rows: tuple[SessionRow, ...]
    older: str


def session_page(caller: Caller, words: str = "", before: str = "") -> SessionPage:
    """`words` are looked for in the questions and the published conclusions. Two queries. Raises `BadCursor`."""
    sessions = ChatSession.objects.filter(owner_id=caller.user_id).order_by("-updated_at", "-id")
    sessions = sessions.filter(Exists(_turns(words).filter(session=OuterRef("id"))))
    if before:
        at, session_id = _place(before)
        sessions = sessions.filter(Q(updated_at__lte=at), Q(updated_at__lt=at) | Q(updated_at=at, id__lt=session_id))
    found = list(sessions[: PAGE + 1])
    page = found[:PAGE]
    return SessionPage(_rows(page, words), _cursor(page[-1]) if len(found) > PAGE else "")


def _turns(words: str) -> QuerySet[DiagnosisRun]:
    return chosen(DiagnosisRun.objects.all(), Selection(words=decoded(words)))


def _rows(sessions: Iterable[ChatSession], words: str) -> tuple[SessionRow, ...]:
    by_id = {session.id: session for session in sessions}
    last = _turns(words).filter(session__in=by_id).order_by("session_id", "-queued_at", "-id").distinct("session_id")
    told = {run.session_id: run for run in last.only(*_SHOWN)}
    return tuple(_row(session, told[session.id]) for session in by_id.values() if session.id in told)


def _row(session: ChatSession, run: DiagnosisRun) -> SessionRow:
    title = one_line(session.title, 160) or session.id
    return SessionRow(session.id, title, session.updated_at, run.id, *badge(run))


def _cursor(session: ChatSession) -> str:
    return base64.urlsafe_b64encode(f"{session.updated_at.isoformat()} {session.id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        at, _space, session_id = text.partition(" ")
        place = datetime.fromisoformat(at).astimezone(UTC), session_id
    except (ValueError, OverflowError, binascii.Error) as error:
        raise BadCursor(cursor) from error
    if not session_id or "\0" in session_id:
        raise BadCursor(cursor)
    return place


# ---- what might be asked first --------------------------------------------------------------------------------


def suggestions() -> tuple[str, ...]:
    """Questions about alerts that came in and runbooks that are stored: nothing is made up. Two queries."""
    recent = list(Alert.objects.filter(status=Alert.Status.FIRING).order_by("-last_received_at", "-id")[:RECENT_ALERTS])
    names = {alert.alert_name for alert in recent}
    asked = dict.fromkeys(_about_alert(alert) for alert in recent)
    about_alerts = tuple(asked)[:SUGGESTED_ALERTS]
    documents = KnowledgeDocument.objects.order_by("title", "id").values_list("title", "hints")
    # First the runbooks that name one of these alerts.
    ranked = sorted(documents, key=lambda each: names.isdisjoint(each[1].get("alerts", ())))
    return about_alerts + tuple(_about_runbook(title) for title, _hints in ranked[:SUGGESTED_RUNBOOKS])


def _about_alert(alert: Alert) -> str:
    name = one_line(alert.alert_name, 120)
    place = next((value for _name, value in telling_labels(alert.labels)), "")
    if place:
        return _("Why is %(alert)s firing on %(place)s?") % {"alert": name, "place": place}
    return _("Why is %(alert)s firing?") % {"alert": name}


def _about_runbook(title: str) -> str:
    return _("How do I handle “%(title)s”?") % {"title": one_line(title, 160)}
