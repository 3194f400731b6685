"""What an administrator waits for who tries a change of rules on 1,000 runs: the task's whole work, on its rows.

The runs are real: one of each bundled incident with the offline model, and copies of them. The change touches every
claim, so that every run is written down as one that would come out otherwise: the most work there is.
"""

import time
from typing import TYPE_CHECKING

from bench.apart import measure_apart, report
from bench.figures import Figure
from bench.seeding import copy
from superbiz.embedded import EmbeddedServers
from superbiz.env import Env

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from runs.models import DiagnosisRun

RUNS = 1_000
AIM_S = 20
TOO_LONG = 5_000
"""Characters that no excerpt has."""


def diagnose_incidents(by: "User") -> "list[DiagnosisRun]":
    """A concluded run of each bundled incident that ended with claims."""
    from runs.incidents import bundled
    from runs.models import DiagnosisRun
    from runs.rehearsals import rehearse, scene_of_incident
    from runs.worker import WorkerLoop

    loop = WorkerLoop(announce=False)
    loop.start()
    try:
        for one in bundled():
            loop.drive(rehearse(scene_of_incident(one.slug), {"chat_verifier": 1}, by=by, title="bench"))
    finally:
        loop.close()
    return list(DiagnosisRun.objects.filter(status="SUCCESS").order_by("id"))


def multiply(runs: "list[DiagnosisRun]", count: int) -> int:
    """`count` copies, no rehearsals, with what their tools answered. Returns how many tool calls they have."""
    from audit.models import ToolInvocation
    from runs import ids

    made, calls = [], []
    recorded = {run.id: list(ToolInvocation.objects.filter(run_id=run.id).values()) for run in runs}
    kept = {field.attname for field in runs[0]._meta.concrete_fields if not field.generated}
    for number in range(count):
        run = runs[number % len(runs)]
        run_id = ids.run_id()
        made.append({name: getattr(run, name) for name in kept} | {"id": run_id, "rehearsal": None})
        for call in recorded[run.id]:
            calls.append({name: value for name, value in call.items() if name != "id"} | {"run_id": run_id})
    copy(type(runs[0]), made)
    copy(ToolInvocation, calls)
    return len(calls)


def measure(_env: Env, _servers: EmbeddedServers) -> list[Figure]:
    from django.contrib.auth.models import User

    from audit import impact
    from gatekeeper import rulesets
    from gatekeeper.changes import Changes, RuleChange
    from gatekeeper.rules import GK005

    by = User.objects.create_superuser("bench")
    calls = multiply(diagnose_incidents(by), RUNS)
    changes = Changes(rules={GK005: RuleChange(params={"min_chars": TOO_LONG})})
    proposal = rulesets.propose(rulesets.newest_row().number, changes, by=by, reason="bench")
    preview = impact.start(proposal, RUNS, by)
    started = time.perf_counter()
    impact.work(preview.pk)
    took = time.perf_counter() - started
    preview.refresh_from_db()
    if (preview.status, preview.done, preview.unjudged) != ("DONE", RUNS, 0) or preview.changed < RUNS / 2:
        raise RuntimeError(f"The preview ended {preview.status}: {preview.done} judged, {preview.changed} changed.")
    return [
        Figure("preview: a change of rules over 1,000 runs", took, "s", aim=AIM_S),
        Figure("preview: tool calls of these runs", calls, "calls"),
    ]


def run() -> list[Figure]:
    return measure_apart("bench.preview")


if __name__ == "__main__":
    report(measure)
