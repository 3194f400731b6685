"""The page of one run: what it is about, how it stands, its answer, its timeline."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.utils.translation import gettext_lazy as _

from audit.pages.proof import Answer, answer_of
from audit.pages.timeline import TimelineRow, timeline_rows
from audit.trace import Count, Trace, load_trace
from runs.errors import CANCEL_SENTENCES, FAILURE_SENTENCES, CancelReason, FailureCode
from runs.harness.events import EventType
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line, seen
from runs.pages.words import TRIGGER_WORDS, VERDICT_WORDS, Tone, Words, badge, tone_of_code

PROBLEMS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Subject:
    """`title`: the alert's name, or the question. `labels` and `annotations` as they came."""

    title: str
    severity: str
    place: str
    query: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    starts_at: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordState:
    """How whole the record is. `gaps`: what was emitted and is missing, by ledger."""

    complete: bool
    chain_valid: bool | None
    gaps: tuple[tuple[Words, Count], ...]
    problems: tuple[str, ...]
    tokens_consistent: bool


@dataclass(frozen=True, slots=True)
class Why:
    """What a run without an answer may say: from its safe content."""

    headline: str
    reason: str
    code: str
    sentence: str
    looked_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunView:
    id: str
    session_id: str
    subject: Subject
    badge: Words
    tone: Tone
    status: str
    trigger: Words
    verdict: Words
    verdict_code: str
    verdict_tone: Tone
    confidence: str
    took: timedelta | None
    input_tokens: int
    output_tokens: int
    model_calls: int
    tool_calls: int
    cost_usd: Decimal | None
    model: str
    prompt_set_version: str
    rule_set_version: int | None
    attempts: int
    queued_at: datetime
    finished_at: datetime | None
    terminal: bool
    cancelling: bool
    record: RecordState
    answer: Answer | None
    why: Why | None
    timeline: tuple[TimelineRow, ...]

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def last_sequence_no(self) -> int:
        return self.timeline[-1].sequence_no if self.timeline else 0


def run_view(run: DiagnosisRun) -> RunView:
    """Eight queries, whatever the run holds."""
    trace = load_trace(run)
    words, tone = badge(run)
    calls = {
        event.invocation_id: event.sequence_no
        for event in trace.timeline
        if event.event_type == EventType.TOOL_INVOCATION and event.invocation_id
    }
    answer = answer_of(run, calls)
    return RunView(
        id=run.id,
        session_id=run.session_id,
        subject=_subject(run),
        badge=words,
        tone=tone,
        status=run.status,
        trigger=TRIGGER_WORDS.get(run.trigger, run.trigger),
        verdict=VERDICT_WORDS.get(run.verdict, run.verdict) if run.verdict else "",
        verdict_code=run.verdict or "",
        verdict_tone=tone_of_code(run.verdict),
        confidence=(run.published_result or {}).get("confidence", ""),
        took=(run.finished_at or datetime.now(UTC)) - run.started_at if run.started_at else None,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        model_calls=run.model_calls,
        tool_calls=run.tool_calls,
        cost_usd=run.cost_usd,
        model=one_line(run.model, 80),
        prompt_set_version=run.prompt_set_version or "",
        rule_set_version=run.rule_set_version,
        attempts=run.attempts,
        queued_at=run.queued_at,
        finished_at=run.finished_at,
        terminal=run.is_terminal,
        cancelling=not run.is_terminal and run.cancel_requested_at is not None,
        record=_record(trace, terminal=run.is_terminal),
        answer=answer,
        why=_why(run) if answer is None and run.is_terminal else None,
        timeline=timeline_rows(trace.timeline),
    )


def _subject(run: DiagnosisRun) -> Subject:
    subject = run.subject or {}
    alert = subject.get("alert") or {}
    labels = alert.get("labels") or {}

    def pairs(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
        return tuple((one_line(name, 80), one_line(value, 500)) for name, value in sorted(values.items()))

    return Subject(
        title=one_line(alert.get("alertname") or run.query, 160),
        severity=one_line(alert.get("severity") or "", 40),
        place=one_line(labels.get("service") or labels.get("job") or labels.get("instance") or "", 80),
        query=seen(run.query),
        labels=pairs(labels),
        annotations=pairs(alert.get("annotations") or {}),
        starts_at=alert.get("starts_at") or "",
        others=tuple(one_line(other.get("alertname") or "", 120) for other in subject.get("others") or ()),
    )


def _record(trace: Trace, *, terminal: bool) -> RecordState:
    """While a run goes, what it emitted may be on its way into the record: a gap is one only after the end."""
    summary = trace.summary
    counts: tuple[tuple[Words, Count], ...] = (
        (_("events"), summary.events),
        (_("steps"), summary.steps),
        (_("tool calls"), summary.tool_invocations),
        (_("model calls"), summary.model_calls),
    )
    missing = tuple(
        (name, count) for name, count in counts if count.emitted is not None and count.persisted < count.emitted
    )
    return RecordState(
        complete=summary.complete or not terminal,
        chain_valid=summary.chain_valid if terminal else None,
        gaps=missing if terminal else (),
        problems=tuple(one_line(str(problem), 300) for problem in trace.problems[:PROBLEMS_SHOWN]) if terminal else (),
        tokens_consistent=summary.tokens.consistent or not terminal,
    )


def _why(run: DiagnosisRun) -> Why:
    safe = run.safe_content or {}
    code, sentence = "", ""
    if run.failure_code:
        code, sentence = run.failure_code, FAILURE_SENTENCES[FailureCode(run.failure_code)]
    elif run.cancel_reason:
        code, sentence = run.cancel_reason, CANCEL_SENTENCES[CancelReason(run.cancel_reason)]
    elif run.release_decision:
        code = run.release_decision
    return Why(
        headline=seen(safe.get("headline", "")),
        reason=seen(safe.get("reason", "")),
        code=code,
        sentence=sentence,
        looked_at=tuple(seen(text) for text in safe.get("lookedAt", ())),
    )
