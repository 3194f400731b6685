"""How the versions of a prompt did: over the runs that were given them, rehearsals left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, Count, F, Q, QuerySet

from audit.models import RunPrompt
from gatekeeper.types import Verdict
from prompts.models import Prompt
from runs.access import Caller, visible_runs
from runs.models import DiagnosisRun
from runs.models.run import TERMINAL, RunStatus

RUNS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class VersionUse:
    """`passed`, `low` and `rejected` are shares, 0 to 1, of the runs that have a verdict; None where none has.

    `groundedness` is the mean of the verifier's scores, `tokens` the mean of ended runs; both None where unknown.
    """

    version: str
    number: int
    runs: int
    failed: int
    passed: float | None
    low: float | None
    rejected: float | None
    groundedness: float | None
    tokens: int | None


def use_of(prompt: Prompt) -> tuple[VersionUse, ...]:
    """Every version, newest first; two queries."""
    counted = {
        row["version"]: row
        for row in RunPrompt.objects.filter(prompt=prompt.name, run__rehearsal__isnull=True)
        .values("version")
        .annotate(
            runs=Count("id"),
            failed=Count("id", filter=Q(run__status=RunStatus.FAILED)),
            judged=Count("id", filter=Q(run__verdict__isnull=False)),
            passed=Count("id", filter=Q(run__verdict=Verdict.PASS)),
            low=Count("id", filter=Q(run__verdict=Verdict.LOW_CONFID)),
            rejected=Count("id", filter=Q(run__verdict=Verdict.REJECT)),
            groundedness=Avg("run__groundedness"),
            tokens=Avg(F("run__input_tokens") + F("run__output_tokens"), filter=Q(run__status__in=TERMINAL)),
        )
    }
    versions = prompt.versions.only("number", "prompt_id").order_by("-number")
    return tuple(_use(version.label, version.number, counted.get(version.label) or {}) for version in versions)


def _use(label: str, number: int, row: Mapping[str, Any]) -> VersionUse:
    judged = row.get("judged") or 0

    def share(name: str) -> float | None:
        return (row[name] or 0) / judged if judged else None

    tokens = row.get("tokens")
    return VersionUse(
        version=label,
        number=number,
        runs=int(row.get("runs") or 0),
        failed=int(row.get("failed") or 0),
        passed=share("passed"),
        low=share("low"),
        rejected=share("rejected"),
        groundedness=row.get("groundedness"),
        tokens=None if tokens is None else round(tokens),
    )


def runs_of(caller: Caller, prompt: str, version: str) -> QuerySet[DiagnosisRun]:
    """The runs that were given the version and that the caller may see, rehearsals too, newest first."""
    given = RunPrompt.objects.filter(prompt=prompt, version=version).values("run_id")
    return visible_runs(caller).filter(id__in=given).order_by("-queued_at", "-id")
