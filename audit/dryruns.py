"""Dry-runs of a prompt version: started as rehearsals, shown beside the run that they are compared with.

On a past run the other side is that run, as it was recorded. On a bundled incident it is a second rehearsal, with
the version that is active now: both read the same recording.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from audit.dryrunlimit import make_room
from audit.models import RunPrompt
from audit.pages.removed import Removed, left_out
from prompts.actions import NotFit, PromptError
from prompts.catalogue import AIOPS_SET, CHAT_SET, shipped_of
from prompts.diffs import Diff, diff
from prompts.models import PromptVersion, label_of
from prompts.needs import shortfalls
from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.models.run import Trigger
from runs.pages.hostile import one_line, seen
from runs.pages.words import VERDICT_WORDS, Words, badge, tone_of_code
from runs.pins import Rehearsal
from runs.rehearsals import Scene, rehearse
from runs.roles import OFFLINE, read_by_nobody

# ---- starting ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fits:
    """What a prompt can be tried on: a role of the alert road never sees a question, and the other way round."""

    alerts: bool
    questions: bool

    def fit(self, run: DiagnosisRun) -> bool:
        return self.alerts if (run.subject or {}).get("alert") else self.questions


def fits(prompt: str) -> Fits:
    shipped = shipped_of(prompt)
    sets = shipped.sets if shipped else frozenset()
    return Fits(alerts=AIOPS_SET in sets, questions=CHAT_SET in sets)


def candidates(caller: Caller, prompt: str) -> QuerySet[DiagnosisRun]:
    """The ended runs, newest first, that the caller may see and that the prompt can be tried on."""
    can = fits(prompt)
    about = Q(pk__in=[])
    if can.alerts:
        about |= ~Q(trigger=Trigger.CHAT)
    if can.questions:
        about |= Q(trigger=Trigger.CHAT)
    runs = visible_runs(caller).filter(about, rehearsal__isnull=True, status__in=("SUCCESS", "DEGRADED"))
    return runs.order_by("-queued_at", "-id")


def start(version: PromptVersion, scene: Scene, by: User) -> str:
    """Queue the rehearsal, and on an incident the one beside it. Returns the id of the first.

    Raises `prompts.actions.PromptError` where the version may not run, or nothing is active to compare it with;
    `audit.dryrunlimit.TooManyDryRuns` where there is no room for it now.
    """
    if reasons := shortfalls(version.prompt_id, version.text):
        raise NotFit(version, reasons)
    current = version.prompt.newest_activation()
    if current is None:
        raise PromptError(str(_("No version of this prompt is active.")))
    with transaction.atomic():
        make_room(by, runs=1 if scene.of_run else 2)
        beside = scene.of_run
        if beside is None:
            active = {version.prompt_id: current.version.number}
            beside = rehearse(scene, active, by=by, title=f"Dry-run: {current.version.label}, to compare")
        tried = {version.prompt_id: version.number}
        return rehearse(scene, tried, by=by, title=f"Dry-run: {version.label}", beside=beside)


def dry_runs_of(caller: Caller, version: PromptVersion) -> QuerySet[DiagnosisRun]:
    """The dry-runs of the version, newest first, that the caller may see."""
    given = RunPrompt.objects.filter(
        prompt=version.prompt_id, version=version.label, run__rehearsal__isnull=False
    ).values("run_id")
    runs = visible_runs(caller).filter(id__in=given).exclude(rehearsal__beside=None)
    return runs.order_by("-queued_at", "-id")


# ---- comparing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs. Nothing here is restricted: no text of a claim that was not released."""

    run_id: str
    badge: Words
    tone: str
    open: bool
    verdict: Words
    verdict_tone: str
    confidence: str
    groundedness: float | None
    statements: tuple[str, ...]
    conclusion: str
    why_not: str
    removed: tuple[Removed, ...]
    dropped: tuple[str, ...]
    tokens: int
    model_calls: int
    tool_calls: int
    took: timedelta | None
    prompts: Mapping[str, str]
    model: str


@dataclass(frozen=True, slots=True)
class LabelledSide:
    label: Words
    of: Side | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`old` None: the run is no longer on record, or not for this reader. `others`: further prompts that differ."""

    prompt: str
    tried: str
    rehearsal: Rehearsal
    old: Side | None
    new: Side
    said: Diff | None
    others: tuple[tuple[str, str], ...]

    @property
    def open(self) -> bool:
        return self.new.open or (self.old is not None and self.old.open)

    @property
    def unread(self) -> bool:
        """Whether the offline model played the roles: nobody has read the prompt that was tried."""
        return self.new.model == OFFLINE if self.new.model else read_by_nobody(self.prompt)

    @property
    def before_label(self) -> str:
        """The version that the other run was given."""
        return (self.old.prompts.get(self.prompt) if self.old else None) or "–"

    @property
    def sides(self) -> tuple[LabelledSide, LabelledSide]:
        return LabelledSide(_("Before"), self.old), LabelledSide(_("Tried"), self.new)


def compare(caller: Caller, run: DiagnosisRun) -> Comparison:
    """`run` is a rehearsal. A fixed number of queries."""
    rehearsal = Rehearsal.model_validate(run.rehearsal)
    other = visible_runs(caller).filter(id=rehearsal.beside).first() if rehearsal.beside else None
    given: dict[str, dict[str, str]] = {}
    ids = [run.id, *([other.id] if other else [])]
    for run_id, prompt, version in RunPrompt.objects.filter(run__in=ids).values_list("run_id", "prompt", "version"):
        given.setdefault(run_id, {})[prompt] = version
    new = _side(run, given.get(run.id, {}))
    old = _side(other, given.get(other.id, {})) if other else None
    prompt, number = next(iter(rehearsal.prompts.items()), ("", 0))
    done = old is not None and not old.open and not new.open
    return Comparison(
        prompt=prompt,
        tried=label_of(prompt, number),
        rehearsal=rehearsal,
        old=old,
        new=new,
        said=diff("\n".join(old.statements), "\n".join(new.statements), context=None) if old and done else None,
        others=_others(old, new, prompt) if old and done else (),
    )


def _others(old: Side, new: Side, prompt: str) -> tuple[tuple[str, str], ...]:
    names = sorted((old.prompts.keys() & new.prompts.keys()) - {prompt})
    pairs = ((old.prompts[name], new.prompts[name]) for name in names)
    return tuple((before, after) for before, after in pairs if before != after)


def _side(run: DiagnosisRun, given: Mapping[str, str]) -> Side:
    words, tone = badge(run)
    published = run.published_result or {}
    safe = run.safe_content or {}
    missing = left_out(run)
    return Side(
        run_id=run.id,
        badge=words,
        tone=tone,
        open=not run.is_terminal,
        verdict=VERDICT_WORDS.get(run.verdict, run.verdict) if run.verdict else "",
        verdict_tone=tone_of_code(run.verdict),
        confidence=published.get("confidence", ""),
        groundedness=run.groundedness,
        statements=tuple(one_line(statement["text"], 1000) for statement in published.get("statements", ())),
        conclusion=seen(published.get("conclusion", "")),
        why_not="" if published else seen(safe.get("reason", "")),
        removed=missing.claims,
        dropped=missing.dropped,
        tokens=run.input_tokens + run.output_tokens,
        model_calls=run.model_calls,
        tool_calls=run.tool_calls,
        took=(run.finished_at or datetime.now(UTC)) - run.started_at if run.started_at else None,
        prompts=given,
        model=run.model or "",
    )
