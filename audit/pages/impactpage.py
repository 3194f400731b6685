"""A preview of a change of rules as its page shows it. No text of a claim is in it: ids and rule codes only."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from audit import impact
from audit.models import RulePreview, RulePreviewRun
from audit.pages.words import RULE_WORDS
from runs.models.run import Trigger
from runs.pages.hostile import one_line
from runs.pages.words import VERDICT_WORDS, Words, tone_of_code

Codes = tuple[tuple[str, Words], ...]


@dataclass(frozen=True, slots=True)
class PreviewView:
    """`goes_on`: more is to come. `lost`: it should go on, and no worker was heard of lately."""

    id: int
    size: int
    base_number: int
    who: str
    created_at: datetime
    status: str
    goes_on: bool
    lost: bool
    total: int
    done: int
    changed: int
    unjudged: int
    error: str
    took: timedelta | None


@dataclass(frozen=True, slots=True)
class ClaimView:
    """`before` None: the kept judgement does not know the claim."""

    claim_id: str
    before: bool | None
    after: bool
    failed_before: Codes
    failed_after: Codes


@dataclass(frozen=True, slots=True)
class RunChange:
    run_id: str
    subject: str
    queued_at: datetime
    before: Words
    before_tone: str
    after: Words
    after_tone: str
    consequence: str
    consequence_words: str
    claims: tuple[ClaimView, ...]
    why_not: str


def preview_view(preview: RulePreview) -> PreviewView:
    lost = impact.is_lost(preview)
    return PreviewView(
        id=preview.pk,
        size=preview.size,
        base_number=preview.base_number,
        who=preview.requested_by.get_username(),
        created_at=preview.created_at,
        status=preview.status,
        goes_on=impact.is_open(preview) and not lost,
        lost=lost,
        total=preview.total,
        done=preview.done,
        changed=preview.changed,
        unjudged=preview.unjudged,
        error=preview.error,
        took=preview.finished_at - preview.started_at if preview.finished_at and preview.started_at else None,
    )


def run_changes(rows: Iterable[RulePreviewRun]) -> list[RunChange]:
    """Of rows as `impact.found` gives them."""
    return [_run_change(row) for row in rows]


def _run_change(row: RulePreviewRun) -> RunChange:
    run = row.run
    subject = run.query if run.trigger == Trigger.CHAT else run.alert_name or run.query
    return RunChange(
        run_id=run.id,
        subject=one_line(subject, 120),
        queued_at=run.queued_at,
        before=VERDICT_WORDS.get(row.before, row.before),
        before_tone=tone_of_code(row.before),
        after=VERDICT_WORDS.get(row.after, row.after),
        after_tone=tone_of_code(row.after),
        consequence=row.consequence,
        consequence_words=row.get_consequence_display() if row.consequence else "",
        claims=tuple(
            ClaimView(
                claim_id=one_line(claim["claim_id"], 60),
                before=claim["before"],
                after=claim["after"],
                failed_before=_codes(claim["failed_before"]),
                failed_after=_codes(claim["failed_after"]),
            )
            for claim in row.claims
        ),
        why_not=row.why_not,
    )


def _codes(codes: Iterable[str]) -> Codes:
    return tuple((code, RULE_WORDS.get(code, code)) for code in codes)
