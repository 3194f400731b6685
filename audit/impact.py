"""What a proposed change of rules would do to past runs: judged in the background, kept row by row.

One task for a preview. It claims the row, writes after each batch how far it is, and ends it. A worker that is killed
leaves a row whose last sign grows old: `is_lost` says so, and nobody waits for it.

Previews are worked off where runs are: of those that wait or go on a person has two, and everybody together a few.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Count, F, QuerySet
from django.utils.translation import gettext as _

from audit.models import RulePreview, RulePreviewRun
from audit.regate import NotRegatable, Regated, regate_all
from gatekeeper import rulesets
from gatekeeper.canonical import numbered, read_rules, rules_document
from gatekeeper.changes import Changes, put_on
from gatekeeper.models import RuleProposal
from gatekeeper.types import Intent, RuleSet, Verdict
from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.models.run import RunStatus

log = structlog.get_logger(__name__)

Consequence = RulePreviewRun.Consequence
Status = RulePreview.Status

SIZES = (100, 1000)
BATCH = 50
LOST_AFTER = timedelta(seconds=30)
KEPT_FOR = timedelta(days=30)
OWN_AT_ONCE = 2
SHARE_OF_WORKER = 8
NOT_JUDGED = "NOT_JUDGED"
_READ = ("id", "intent", "query", "subject", "self_evaluation", "published_result", "release_decision")


# ---- starting ---------------------------------------------------------------------------------------------------


class TooManyPreviews(Exception):
    """The text says of what there is too much, and when there will be room."""


def share() -> int:
    """How many previews, waiting or worked off, there may be at once: an eighth of the runs that one worker takes."""
    return max(1, int(settings.SUPERBIZ.worker_concurrency) // SHARE_OF_WORKER)


def start(proposal: RuleProposal, size: int, by: User) -> RulePreview:
    """The row of a preview that waits for `work`; one of the same that goes on already, where there is one.

    Raises `gatekeeper.rulesets.RuleSetError`, and `TooManyPreviews` where there is no room for another.
    """
    now = datetime.now(UTC)
    RulePreview.objects.filter(created_at__lt=now - KEPT_FOR).delete()
    base = rulesets.newest_row()
    after = put_on(rulesets.state_of(base), Changes.model_validate(proposal.changes))
    document = rules_document(after.settings)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('audit.previews'))")
        _give_up_lost()
        mine = previews_going().filter(proposal=proposal, base_number=base.number, requested_by=by)
        if same := mine.filter(size=size, rules=document).first():
            return same
        _make_room(by)
        return RulePreview.objects.create(
            proposal=proposal,
            base_number=base.number,
            rules=document,
            size=size,
            requested_by=by,
            created_at=now,
            beat_at=now,
        )


def previews_going() -> QuerySet[RulePreview]:
    """Those that wait or go on, and whose worker was heard of lately; newest first."""
    return _unfinished().filter(beat_at__gt=datetime.now(UTC) - LOST_AFTER).order_by("-id")


def _unfinished() -> QuerySet[RulePreview]:
    return RulePreview.objects.filter(status__in=(Status.QUEUED, Status.RUNNING))


def _give_up_lost() -> None:
    """End those that nobody waits for, so that no worker takes them up after all, beside those counted here."""
    now = datetime.now(UTC)
    _unfinished().filter(beat_at__lte=now - LOST_AFTER).update(
        status=Status.FAILED, error=_("Nothing was heard of its worker."), finished_at=now
    )


def _make_room(by: User) -> None:
    """Raises `TooManyPreviews`. Behind the lock, without lost ones."""
    going = _unfinished()
    own, every = going.filter(requested_by=by).count(), going.count()
    if own >= OWN_AT_ONCE:
        raise TooManyPreviews(
            _("You try %(count)d changes on past runs already. Start another try when one of them has ended.")
            % {"count": own}
        )
    if every >= share():
        raise TooManyPreviews(
            _("%(count)d changes are tried on past runs already. Start yours when one of them has ended.")
            % {"count": every}
        )


def is_open(preview: RulePreview) -> bool:
    return preview.status in {Status.QUEUED, Status.RUNNING}


def is_lost(preview: RulePreview) -> bool:
    """Nobody took it, or its worker went silent: nothing will come of it."""
    return is_open(preview) and preview.beat_at < datetime.now(UTC) - LOST_AFTER


def give_up(preview: RulePreview, why: str) -> None:
    _unfinished().filter(pk=preview.pk).update(status=Status.FAILED, error=why[:300], finished_at=datetime.now(UTC))


# ---- the work ---------------------------------------------------------------------------------------------------


def work(preview_id: int) -> None:
    """Judge the runs, if nobody has begun. Every end is on the row."""
    now = datetime.now(UTC)
    mine = RulePreview.objects.filter(pk=preview_id, status=Status.QUEUED)
    if not mine.update(status=Status.RUNNING, started_at=now, beat_at=now):
        return
    preview = RulePreview.objects.select_related("requested_by").get(pk=preview_id)
    try:
        _judge_all(preview)
    except Exception:
        log.exception("a preview of rules failed", preview=preview_id)
        give_up(preview, _("The runs could not be judged: an error inside. It is in the worker's log."))


def runs_to_judge(caller: Caller, size: int) -> list[str]:
    """Ids of the newest runs that came to a conclusion about evidence and that the caller may see, newest first."""
    concluded = visible_runs(caller).filter(status__in=(RunStatus.SUCCESS, RunStatus.DEGRADED), rehearsal__isnull=True)
    about_evidence = concluded.exclude(intent=Intent.SYSTEM_CHAT)
    return list(about_evidence.order_by("-queued_at", "-id").values_list("id", flat=True)[:size])


def _judge_all(preview: RulePreview) -> None:
    # Its number is of no set yet: only its rules judge.
    rule_set = numbered(preview.base_number + 1, read_rules(preview.rules))
    ids = runs_to_judge(Caller(user=preview.requested_by), preview.size)
    mine = RulePreview.objects.filter(pk=preview.pk, status=Status.RUNNING)
    mine.update(total=len(ids))
    for place in range(0, len(ids), BATCH):
        if not _judge_batch(preview, ids[place : place + BATCH], rule_set):
            return
    mine.update(status=Status.DONE, finished_at=datetime.now(UTC))


def _judge_batch(preview: RulePreview, ids: Sequence[str], rule_set: RuleSet) -> bool:
    """False: the preview is over, whoever ended it."""
    runs = list(DiagnosisRun.objects.filter(id__in=ids).only(*_READ))
    found = [
        _row(preview, run, answer)
        for run, answer in zip(runs, regate_all(runs, rule_set), strict=True)
        if isinstance(answer, NotRegatable) or answer.changed
    ]
    unjudged = sum(bool(row.why_not) for row in found)
    with transaction.atomic():
        going = RulePreview.objects.filter(pk=preview.pk, status=Status.RUNNING).update(
            done=F("done") + len(ids),
            changed=F("changed") + len(found) - unjudged,
            unjudged=F("unjudged") + unjudged,
            beat_at=datetime.now(UTC),
        )
        if going:
            RulePreviewRun.objects.bulk_create(found)
    return bool(going)


def _row(preview: RulePreview, run: DiagnosisRun, answer: Regated | NotRegatable) -> RulePreviewRun:
    if isinstance(answer, NotRegatable):
        return RulePreviewRun(preview=preview, run=run, why_not=str(answer)[:300])
    return RulePreviewRun(
        preview=preview,
        run=run,
        before=answer.before.value if answer.before else "",
        after=answer.after.verdict.value,
        consequence=consequence(run, answer),
        claims=[asdict(claim) for claim in answer.changed_claims],
    )


# ---- what follows -----------------------------------------------------------------------------------------------


def consequence(run: DiagnosisRun, judged: Regated) -> Consequence:
    """What the new judgement means for what the run released, as far as the gate alone decides it.

    A claim that the gate would let pass now has never been seen by verifier and composer: that is `OPEN`. A run that
    would fail the gate might have put right what was at fault in its repair round; nobody can replay that.
    """
    passed_before = {claim.claim_id for claim in judged.claims if claim.before}
    passes_now = {claim.claim_id for claim in judged.claims if claim.after}
    released = {claim["claimId"] for claim in (run.published_result or {}).get("claims", ())}
    if judged.before is not None and passes_now - passed_before:
        return Consequence.OPEN
    if not released:
        return Consequence.SAME
    if not released & passes_now:
        return Consequence.WITHHELD
    if run.release_decision == "RELEASED" and judged.after.verdict is not Verdict.PASS:
        return Consequence.LOWERED
    if released - passes_now:
        return Consequence.FEWER
    if run.release_decision != "RELEASED" and judged.before not in {None, Verdict.PASS}:
        return Consequence.RAISED if judged.after.verdict is Verdict.PASS else Consequence.SAME
    return Consequence.SAME


# ---- what was found ---------------------------------------------------------------------------------------------


def found(preview: RulePreview, caller: Caller, which: str = "") -> QuerySet[RulePreviewRun]:
    """The rows of one consequence, or of `NOT_JUDGED`, or all; of runs that the caller may see, newest first."""
    rows = preview.runs.filter(run__in=visible_runs(caller))
    if which == NOT_JUDGED:
        rows = rows.filter(consequence="")
    elif which:
        rows = rows.filter(consequence=which)
    columns = ("id", "query", "alert_name", "trigger", "queued_at")
    shown = ("preview_id", "before", "after", "consequence", "claims", "why_not")
    rows = rows.select_related("run").only(*shown, *(f"run__{name}" for name in columns))
    return rows.order_by("-run__queued_at", "-run_id")


@dataclass(frozen=True, slots=True)
class Found:
    """`which`: what `found` takes. `words`: what it means."""

    which: str
    words: str
    runs: int


def counts(preview: RulePreview, caller: Caller) -> tuple[Found, ...]:
    """How many runs of each consequence, those that matter most first; without what none has."""
    rows = preview.runs.filter(run__in=visible_runs(caller)).values("consequence").annotate(runs=Count("id"))
    counted = {row["consequence"]: row["runs"] for row in rows}
    every = [(value, str(words)) for value, words in Consequence.choices]
    return tuple(
        Found(value or NOT_JUDGED, words, counted[value])
        for value, words in [*every, ("", _("could not be judged"))]
        if counted.get(value)
    )
