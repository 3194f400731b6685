"""How often the rules failed: over the runs of the last days, rehearsals left out. A day is one of UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Count, QuerySet
from django.db.models.functions import TruncDate

from audit.models import RunRule
from gatekeeper.models import Rule
from gatekeeper.types import RuleMode
from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun

DAYS = 30
RUNS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class RuleUse:
    """Numbers of runs in which the rule failed: `enforced` with effect, `shadow` without."""

    code: str
    title: str
    mode: str
    enforced: int
    shadow: int


@dataclass(frozen=True, slots=True)
class DayUse:
    day: date
    enforced: int
    shadow: int

    @property
    def both(self) -> int:
        return self.enforced + self.shadow


def first_day(now: datetime) -> datetime:
    """The beginning of the first of the `DAYS` days, today among them."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=DAYS - 1)


def judged_runs(now: datetime) -> int:
    """Runs of these days that came to a verdict."""
    return DiagnosisRun.objects.filter(
        queued_at__gte=first_day(now), verdict__isnull=False, rehearsal__isnull=True
    ).count()


def use_of_all(now: datetime) -> tuple[RuleUse, ...]:
    """Every rule, in the order of the codes; two queries."""
    counted = {
        (row["rule"], row["mode"]): row["runs"]
        for row in _of_these_days(now).values("rule", "mode").annotate(runs=Count("run", distinct=True))
    }
    return tuple(
        RuleUse(
            code=rule.code,
            title=rule.title,
            mode=rule.get_mode_display(),
            enforced=counted.get((rule.code, RuleMode.ENFORCED.value), 0),
            shadow=counted.get((rule.code, RuleMode.SHADOW.value), 0),
        )
        for rule in Rule.objects.order_by("code")
    )


def use_by_day(code: str, now: datetime) -> tuple[DayUse, ...]:
    """Each of the days, oldest first; one query."""
    rows = (
        _of_these_days(now)
        .filter(rule=code)
        .annotate(day=TruncDate("at", tzinfo=UTC))
        .values("day", "mode")
        .annotate(runs=Count("run", distinct=True))
    )
    counted: Mapping[tuple[date, str], int] = {(row["day"], row["mode"]): row["runs"] for row in rows}
    begin = first_day(now).date()
    days = [begin + timedelta(days=n) for n in range(DAYS)]
    return tuple(
        DayUse(day, counted.get((day, RuleMode.ENFORCED.value), 0), counted.get((day, RuleMode.SHADOW.value), 0))
        for day in days
    )


def _of_these_days(now: datetime) -> QuerySet[RunRule]:
    return RunRule.objects.filter(at__gte=first_day(now), run__rehearsal__isnull=True)


def runs_failing(
    caller: Caller, code: str, *, mode: RuleMode | None = None, day: date | None = None
) -> QuerySet[DiagnosisRun]:
    """The runs in which the rule failed and that the caller may see, rehearsals left out, newest first."""
    rows = RunRule.objects.filter(rule=code)
    if mode is not None:
        rows = rows.filter(mode=mode.value)
    if day is not None:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        # The last day of the calendar has no next one.
        rows = rows.filter(at__gte=begin, at__lte=datetime.combine(day, time.max, tzinfo=UTC))
    runs = visible_runs(caller).filter(id__in=rows.values("run_id"), rehearsal__isnull=True)
    return runs.order_by("-queued_at", "-id")


def runs_judged_by(caller: Caller, number: int) -> QuerySet[DiagnosisRun]:
    """The runs under that rule set that the caller may see, newest first."""
    return visible_runs(caller).filter(rule_set_version=number).order_by("-queued_at", "-id")
