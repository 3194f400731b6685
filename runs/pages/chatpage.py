"""A conversation: its turns, the oldest first, each with what it asked and what became of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from gatekeeper.types import Intent
from runs.access import ApiError, Caller, may_cancel, visible_run
from runs.errors import CANCEL_SENTENCES, FAILURE_SENTENCES, CancelReason, FailureCode
from runs.models import ChatSession, DiagnosisRun
from runs.models.run import RunStatus
from runs.pages.feedbackview import FeedbackView, feedback_views
from runs.pages.hostile import one_line, seen
from runs.pages.links import document_address
from runs.pages.words import VERDICT_WORDS, Tone, Words, badge, tone_of_code
from runs.selection import cursor_after, ordered

TURNS = 20
AGAIN = frozenset({RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.DEGRADED})
OFFLINE = "offline"

REFUSALS: dict[str, Words] = {
    "QUERY_EMPTY": _("There is nothing to ask yet: write a question."),
    "QUERY_TOO_LONG": _("The question is too long. Nothing was sent and nothing is lost: shorten it."),
    "QUERY_NOT_TEXT": _("The question holds characters that cannot be stored. Nothing was sent: take them out."),
}


@dataclass(frozen=True, slots=True)
class Said:
    """A released statement. `has_proof`: the run's page shows the claims behind it."""

    number: int
    text: str
    has_proof: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What was released. `general`: talk that no evidence stands behind."""

    general: bool
    low_confidence: bool
    conclusion: str
    statements: tuple[Said, ...]
    limitations: tuple[str, ...]
    scope: str
    documents: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NotTold:
    """Why nothing was released, in words that anybody may read."""

    headline: str
    reason: str
    sentence: str
    looked_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """`after_clearing`: the first turn that knows nothing of those above it. `feedback`: of one that has ended."""

    run_id: str
    question: str
    asked_at: datetime
    status: str
    badge: Words
    tone: Tone
    verdict: Words
    verdict_tone: Tone
    took: timedelta | None
    offline: bool
    open: bool
    cancelling: bool
    may_cancel: bool
    may_ask_again: bool
    told: Told | None
    not_told: NotTold | None
    feedback: FeedbackView | None
    after_clearing: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """`earlier`: the cursor of the turns before these; empty where these are the first.

    `newest`: these are the last ones. `cleared`: the memory was cleared after the last turn.
    """

    session_id: str
    title: str
    turns: tuple[Turn, ...]
    earlier: str
    newest: bool
    cleared: bool

    @property
    def running(self) -> bool:
        return any(turn.open for turn in self.turns)


def own_session(caller: Caller, session_id: str) -> ChatSession | None:
    """The person's own session: who may read the sessions of others does so on the pages of runs."""
    if caller.user_id is None or "\0" in session_id:
        return None
    return ChatSession.objects.filter(id=session_id, owner_id=caller.user_id).first()


def own_turn(caller: Caller, session_id: str, run_id: str) -> DiagnosisRun | None:
    """A run of the person's own session, with its session."""
    try:
        run = visible_run(caller, run_id)
    except ApiError:
        return None
    mine = caller.user_id is not None and run.session.owner_id == caller.user_id
    return run if mine and run.session_id == session_id else None


def conversation(caller: Caller, session: ChatSession, before: str = "", at: str = "") -> Conversation:
    """One page of turns: the newest, or those before the cursor, or the one `at` and those before it.

    Three queries, two more to find a turn that is not among the newest. Raises `BadCursor`.
    """
    newest_first = list(ordered(_turns(session), cursor=before or None)[: TURNS + 1])
    newest = not before
    if at and not before and all(run.id != at for run in newest_first[:TURNS]):
        wanted = _up_to(session, at)
        newest, newest_first = not wanted, wanted or newest_first
    page = newest_first[:TURNS][::-1]
    context = _context(caller, page)
    turns: list[Turn] = []
    forgotten = False
    for run in page:
        known = session.cleared_at is None or run.queued_at > session.cleared_at
        turns.append(_turn(context, run, after_clearing=known and forgotten))
        forgotten = not known
    earlier = cursor_after(page[0]) if len(newest_first) > TURNS else ""
    return Conversation(
        session_id=session.id,
        title=one_line(session.title, 160) or session.id,
        turns=tuple(turns),
        earlier=earlier,
        newest=newest,
        cleared=forgotten and newest,
    )


def turns_after(caller: Caller, session: ChatSession, run_id: str) -> tuple[Turn, ...]:
    """Of the newest turns those after that one, or all where it is not among them. Three queries.

    Where the memory was cleared just after that turn, the page that shows it last says so already.
    """
    turns = conversation(caller, session).turns
    place = next((at for at, turn in enumerate(turns, start=1) if turn.run_id == run_id), 0)
    return tuple(replace(turn, after_clearing=False) if turn is turns[place] else turn for turn in turns[place:])


def _up_to(session: ChatSession, run_id: str) -> list[DiagnosisRun]:
    """That turn and those before it, the newest first; empty where the conversation has no such turn."""
    last = _turns(session).filter(id=run_id).first() if "\0" not in run_id else None
    if last is None:
        return []
    return [last, *ordered(_turns(session), cursor=cursor_after(last))[:TURNS]]


def _turns(session: ChatSession) -> QuerySet[DiagnosisRun]:
    large = ("self_evaluation", "subject", "search_text", "pinned_prompts", "rehearsal", "emitted")
    return DiagnosisRun.objects.filter(session=session).select_related("session").defer(*large)


@dataclass(frozen=True, slots=True)
class _Context:
    """What turns need to know beside their runs."""

    caller: Caller
    feedback: Mapping[str, FeedbackView]
    asked_again: frozenset[str]


def _context(caller: Caller, runs: Iterable[DiagnosisRun]) -> _Context:
    ended = [run.id for run in runs if run.is_terminal]
    again = DiagnosisRun.objects.filter(again_of__in=ended).values_list("again_of", flat=True)
    return _Context(caller, feedback_views(ended, caller.user_id), frozenset(map(str, again)))


def turn_of(caller: Caller, run: DiagnosisRun) -> Turn:
    """Needs `run.session`. Two queries."""
    return _turn(_context(caller, [run]), run, after_clearing=False)


def _turn(context: _Context, run: DiagnosisRun, *, after_clearing: bool) -> Turn:
    words, tone = badge(run)
    told = _told(run) if run.published_result is not None else None
    return Turn(
        run_id=run.id,
        question=seen(run.query),
        asked_at=run.queued_at,
        status=run.status,
        badge=words,
        tone=tone,
        verdict=VERDICT_WORDS.get(run.verdict, run.verdict) if run.verdict else "",
        verdict_tone=tone_of_code(run.verdict),
        took=run.finished_at - run.started_at if run.finished_at and run.started_at else None,
        offline=run.model == OFFLINE,
        open=not run.is_terminal,
        cancelling=not run.is_terminal and run.cancel_requested_at is not None,
        may_cancel=not run.is_terminal and may_cancel(context.caller, run),
        may_ask_again=run.status in AGAIN and run.id not in context.asked_again,
        told=told,
        not_told=_not_told(run) if told is None and run.is_terminal else None,
        feedback=context.feedback.get(run.id),
        after_clearing=after_clearing,
    )


def _told(run: DiagnosisRun) -> Told:
    result: Mapping[str, Any] = run.published_result or {}
    statements = enumerate(result["statements"], start=1)
    return Told(
        general=run.intent == Intent.SYSTEM_CHAT,
        low_confidence=result["confidence"] == "LOW",
        conclusion=seen(result["conclusion"]),
        statements=tuple(Said(number, seen(each["text"]), bool(each["claimIds"])) for number, each in statements),
        limitations=tuple(seen(text) for text in result["limitations"]),
        scope=seen(result["scope"]),
        documents=tuple(
            (document_address(document["documentId"]), seen(document["title"]))
            for document in result["sourceDocuments"]
        ),
    )


def _not_told(run: DiagnosisRun) -> NotTold:
    safe = run.safe_content or {}
    sentence = ""
    if run.failure_code:
        sentence = FAILURE_SENTENCES[FailureCode(run.failure_code)]
    elif run.cancel_reason:
        sentence = CANCEL_SENTENCES[CancelReason(run.cancel_reason)]
    headline, reason = seen(safe.get("headline", "")), seen(safe.get("reason", ""))
    return NotTold(
        headline=headline,
        reason=reason,
        sentence="" if sentence in {headline, reason} else sentence,
        looked_at=tuple(seen(text) for text in safe.get("lookedAt", ())),
    )
