"""The page of one run: what it is about, how it stands, its answer. The timeline comes page by page."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.core.cache import caches
from django.utils.translation import gettext_lazy as _

from audit.overview import FramesOverview, RecordOverview, frames_overview, record_overview
from audit.pages.judged import GateRound, judged_of
from audit.pages.proof import Answer, answer_of, cited_invocations
from audit.trace import Count
from gatekeeper.models import RuleSet
from prompts.models import label_of
from runs.errors import CANCEL_SENTENCES, FAILURE_SENTENCES, CancelReason, FailureCode
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line, seen
from runs.pages.links import Linked, linked
from runs.pages.noticeview import NoticeView, notices_of
from runs.pages.words import TRIGGER_WORDS, VERDICT_WORDS, Tone, Words, badge, tone_of_code
from runs.pins import Rehearsal, pinned_numbers

# The whole record of a run of up to so many events is verified as soon as its page is open; of a longer one on demand.
VERIFIED_AT_ONCE = 300
LOWERED_KEPT_S = 3_600


@dataclass(frozen=True, slots=True)
class Subject:
    """`title`: the alert's name, or the question. `labels` and `annotations` as they came."""

    title: str
    severity: str
    place: str
    query: str
    labels: tuple[tuple[str, Linked], ...]
    annotations: tuple[tuple[str, Linked], ...]
    runbook: Linked | None
    source: Linked | None
    starts_at: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordState:
    """How whole the record is, as it was counted while it was written. `gaps`: what was emitted and is missing.

    `ends_agree` False: the run's row and the chain's head tell of different ends. `at_once`: short enough to be
    verified with the page.
    """

    complete: bool
    ends_agree: bool | None
    gaps: tuple[tuple[Words, Count], ...]
    tokens_consistent: bool
    events: int
    at_once: bool


@dataclass(frozen=True, slots=True)
class Why:
    """What a run without an answer may say: from its safe content."""

    headline: str
    reason: str
    code: str
    sentence: str
    looked_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RehearsalView:
    """`tries`: the prompt versions in place of the active ones. `compared`: a page shows it beside another run."""

    tries: tuple[str, ...]
    incident: str
    of_run: str
    compared: bool


@dataclass(frozen=True, slots=True)
class PromptGiven:
    """A prompt version that the run was given."""

    name: str
    number: int

    @property
    def label(self) -> str:
        return label_of(self.name, self.number)


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
    prompts: tuple[PromptGiven, ...]
    rule_set_version: int | None
    lowered: tuple[str, ...]
    attempts: int
    queued_at: datetime
    finished_at: datetime | None
    terminal: bool
    cancelling: bool
    record: RecordState
    answer: Answer | None
    gate: tuple[GateRound, ...]
    why: Why | None
    rehearsal: RehearsalView | None
    alert_id: int | None
    notices: tuple[NoticeView, ...]
    frames: FramesOverview

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def run_view(run: DiagnosisRun, *, notices: bool) -> RunView:
    """Four queries, whatever the run holds; one more where there are `notices` of it, and where its set is new here."""
    frames = frames_overview(run.id, cited_invocations(run))
    words, tone = badge(run)
    judged = judged_of(run)
    answer = answer_of(run, judged, frames.events_of_invocations)
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
        prompts=tuple(PromptGiven(*given) for given in sorted(pinned_numbers(run.pinned_prompts).items())),
        rule_set_version=run.rule_set_version,
        lowered=_lowered(run),
        attempts=run.attempts,
        queued_at=run.queued_at,
        finished_at=run.finished_at,
        terminal=run.is_terminal,
        cancelling=not run.is_terminal and run.cancel_requested_at is not None,
        record=_record(record_overview(run), frames, terminal=run.is_terminal),
        answer=answer,
        gate=judged.rounds,
        why=_why(run) if answer is None and run.is_terminal else None,
        rehearsal=_rehearsal(run),
        alert_id=run.alert_id,
        notices=notices_of(run.id) if notices else (),
        frames=frames,
    )


def _lowered(run: DiagnosisRun) -> tuple[str, ...]:
    """The rules of the floor of safety that were below it in the set by which this run is judged.

    A set never changes, so each process asks for it once an hour only.
    """
    number = run.rule_set_version
    if number is None:
        return ()
    key = f"lowered-by-rule-set-{number}"
    kept = caches["process"]
    found: tuple[str, ...] | None = kept.get(key)
    if found is None:
        lowered = RuleSet.objects.filter(number=number).values_list("lowered", flat=True).first()
        found = tuple(lowered or ())
        if lowered is not None:
            kept.set(key, found, LOWERED_KEPT_S)
    return found


def _rehearsal(run: DiagnosisRun) -> RehearsalView | None:
    if run.rehearsal is None:
        return None
    rehearsal = Rehearsal.model_validate(run.rehearsal)
    return RehearsalView(
        tries=tuple(label_of(name, number) for name, number in sorted(rehearsal.prompts.items())),
        incident=rehearsal.incident or "",
        of_run=rehearsal.of_run or "",
        compared=rehearsal.beside is not None,
    )


def _subject(run: DiagnosisRun) -> Subject:
    subject = run.subject or {}
    alert = subject.get("alert") or {}
    labels = alert.get("labels") or {}

    annotations = alert.get("annotations") or {}

    def pairs(values: dict[str, str]) -> tuple[tuple[str, Linked], ...]:
        return tuple((one_line(name, 80), linked(value)) for name, value in sorted(values.items()))

    return Subject(
        title=one_line(alert.get("alertname") or run.query, 160),
        severity=one_line(alert.get("severity") or "", 40),
        place=one_line(labels.get("service") or labels.get("job") or labels.get("instance") or "", 80),
        query=seen(run.query),
        labels=pairs(labels),
        annotations=pairs(annotations),
        runbook=_link(annotations.get("runbook_url") or labels.get("runbook_url")),
        source=_link(alert.get("generator_url")),
        starts_at=alert.get("starts_at") or "",
        others=tuple(one_line(other.get("alertname") or "", 120) for other in subject.get("others") or ()),
    )


def _link(address: str | None) -> Linked | None:
    found = linked(address or "")
    return found if found.href else None


def _record(record: RecordOverview, frames: FramesOverview, *, terminal: bool) -> RecordState:
    """While a run goes, what it emitted may be on its way into the record: a gap is one only after the end."""
    counts: tuple[tuple[Words, Count], ...] = (
        (_("events"), replace(record.events, persisted=min(record.events.persisted, frames.events))),
        (_("steps"), record.steps),
        (_("tool calls"), record.tool_invocations),
        (_("model calls"), record.model_calls),
    )
    missing = tuple(
        (name, count) for name, count in counts if count.emitted is not None and count.persisted < count.emitted
    )
    return RecordState(
        complete=(not missing and record.closed) or not terminal,
        ends_agree=record.ends_agree,
        gaps=missing if terminal else (),
        tokens_consistent=record.tokens.consistent or not terminal,
        events=frames.events,
        at_once=terminal and frames.events <= VERIFIED_AT_ONCE,
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
