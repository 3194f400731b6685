"""What a question is told of the turns before it: read when a worker claims its run, bounded, only what was released.

    turns      intent and the beginning of the query of the last six turns that ended; a turn that was never routed
               is left out
    previous   what the last answered turn of them released, without ids and quotations

A turn that failed or was cancelled has given no answer, so it does not stand for the previous one; one that was
withheld does, and gives nothing. Talk is passed over: "thanks" is not what "which of these?" points at.
Two runs of one session may be in flight at once: each knows the turns that had ended when it was claimed.
A run that asks a question again knows only turns from before it was asked first: "and yesterday?" means the same again.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from gatekeeper.types import Intent
from runs.harness.memory import MAX_TURNS, TURN_QUERY_CHARS, Memory, Previous, Turn
from runs.models import ChatSession, DiagnosisRun
from runs.models.run import TERMINAL, RunStatus

MAX_STATEMENTS = 12
STATEMENT_CHARS = 300
CONCLUSION_CHARS = 1000
SEEN_RUNS = 20
ANSWERED = frozenset({RunStatus.SUCCESS, RunStatus.DEGRADED})
_INVOCATION_ID = re.compile(r"\binv_[a-z2-7]{6}\b")


def memory_of(run: DiagnosisRun) -> Memory:
    """The memory of the turns that were asked before `run` and have ended. Three queries at most."""
    rows = list(
        _remembered(run)
        .filter(status__in=TERMINAL, intent__isnull=False)
        .order_by("-queued_at", "-id")
        .values("id", "intent", "query", "status")[:MAX_TURNS]
    )
    turns = tuple(Turn(str(row["intent"]), cut(row["query"], TURN_QUERY_CHARS)) for row in reversed(rows))
    spoken = (row for row in rows if row["status"] in ANSWERED and row["intent"] != Intent.SYSTEM_CHAT)
    last = next(spoken, None)
    if last is None or last["status"] != RunStatus.SUCCESS:
        return Memory(turns)
    published = DiagnosisRun.objects.values_list("published_result", flat=True).get(id=last["id"])
    assert published is not None, "a successful run has one"
    return Memory(turns, previous_of(published, str(last["intent"])))


def previous_of(published: Mapping[str, Any], intent: str) -> Previous:
    """Published words, cut, without the ids of tool calls. `published`: a `PublishedResult` as it is stored."""
    said = [_without_ids(statement["text"]) for statement in published["statements"][:MAX_STATEMENTS]]
    return Previous(
        intent=intent,
        query=cut(published["query"], TURN_QUERY_CHARS),
        conclusion=cut(_without_ids(published["conclusion"]), CONCLUSION_CHARS),
        confidence=published["confidence"],
        statements=tuple(cut(text, STATEMENT_CHARS) for text in said),
        documents=tuple(document["title"] for document in published["sourceDocuments"]),
    )


def seen_documents(run: DiagnosisRun) -> frozenset[str]:
    """Documents that the last runs of the session published."""
    earlier = (
        _remembered(run)
        .filter(status=RunStatus.SUCCESS)
        .order_by("-queued_at", "-id")
        .values_list("published_result__sourceDocuments", flat=True)[:SEEN_RUNS]
    )
    return frozenset(_document_id(document) for documents in earlier for document in documents or ())


def cut(text: str, limit: int) -> str:
    """On one line, as a router reads it."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _remembered(run: DiagnosisRun) -> QuerySet[DiagnosisRun]:
    """The runs of the session before this one was asked first, and since its memory was cleared."""
    first = _first(run)
    before = Q(queued_at__lt=first.queued_at) | Q(queued_at=first.queued_at, id__lt=first.id)
    runs = DiagnosisRun.objects.filter(before, session_id=run.session_id)
    cleared_at: datetime | None = ChatSession.objects.values_list("cleared_at", flat=True).get(id=run.session_id)
    return runs if cleared_at is None else runs.filter(queued_at__gt=cleared_at)


def _first(run: DiagnosisRun) -> DiagnosisRun:
    """The run that this one asks again, if it does and that is still on record; and so on. Each is older."""
    while run.again_of_id is not None:
        earlier = DiagnosisRun.objects.only("queued_at", "again_of").filter(id=run.again_of_id).first()
        if earlier is None or earlier.queued_at > run.queued_at:
            break
        run = earlier
    return run


def _document_id(document: Mapping[str, Any]) -> str:
    return str(document["documentId"])


def _without_ids(text: str) -> str:
    return _INVOCATION_ID.sub("(a tool call)", text)
