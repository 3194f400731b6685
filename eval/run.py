"""Runs recorded incidents through the real product: intake, driver, tools, gates and ledger.

Everything stands on servers of its own (an embedded PostgreSQL and Valkey in a temporary folder), so that neither a
person's own instance nor an earlier run has a say in the figures.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from eval.score import BadTruth, Ended, Score, Truth, score

if TYPE_CHECKING:
    from runs.models import DiagnosisRun

INCIDENTS = Path(__file__).parent / "incidents"
NEEDED = ("alert.json", "truth.json", "evidence/meta.json", "evidence/metrics.json", "evidence/alerts.json")
# What a person may have set for an instance of their own, and what an evaluation must not read.
NOT_OURS = (
    "DATABASE_URL",
    "REDIS_URL",
    "PROMETHEUS_URL",
    "ALERTMANAGER_URL",
    "LOKI_URL",
    "ELASTICSEARCH_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "SUPERBIZ_LOG_DIR",
    "SUPERBIZ_MYSQL_URL",
    "SUPERBIZ_MCP_CONFIG",
    "SUPERBIZ_RECORDED_EVIDENCE",
    "SUPERBIZ_NOTIFY_URLS",
)


class EvaluationError(Exception):
    """The evaluation cannot go on; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Result:
    """One incident: how its run ended and what that is worth."""

    slug: str
    ended: Ended
    score: Score


def incident_slugs(folder: Path = INCIDENTS) -> list[str]:
    """The complete incidents of a folder, by name. One that is still being recorded is left out."""
    return sorted(path.name for path in folder.iterdir() if all((path / name).is_file() for name in NEEDED))


def use_model(model: str | None) -> None:
    """Make `model` the one of every role, in this process's settings; None leaves them as they are."""
    from superbiz.env import LLM_ROLES

    if model is None:
        return
    for role in LLM_ROLES:
        os.environ.pop(f"SUPERBIZ_LLM_{role.upper()}", None)
    os.environ["SUPERBIZ_LLM"] = model


@contextlib.contextmanager
def own_instance() -> Iterator[None]:
    """Django on servers of its own for the time of the block.

    Raises `superbiz.env.ConfigurationError` for a wrong setting.
    """
    for name in NOT_OURS:
        os.environ.pop(name, None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "superbiz.settings"
    folder = tempfile.mkdtemp(prefix="superbiz-eval-")
    os.environ["SUPERBIZ_VAR"] = folder
    from superbiz.embedded import services
    from superbiz.env import load_env

    try:
        with services(load_env()):
            from superbiz.bootstrap import prepare_for, release_connections

            prepare_for("diagnose")
            try:
                yield
            finally:
                release_connections()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def diagnose(slug: str, folder: Path = INCIDENTS) -> Result:
    """One run of an incident from its alert to its end, inside `own_instance`. Raises `EvaluationError`."""
    from django.conf import settings
    from django.test.utils import override_settings

    from runs import intake
    from runs.alertpayload import BadPayload, read_json, read_notice
    from runs.models import Alert, DiagnosisRun
    from runs.models.run import Trigger
    from runs.worker import WorkerLoop

    incident = folder / slug
    try:
        truth = Truth.read(json.loads((incident / "truth.json").read_text(encoding="utf-8")))
        notice = read_notice(read_json((incident / "alert.json").read_bytes()))
    except (BadTruth, BadPayload, ValueError) as error:
        raise EvaluationError(f"{slug}: {error}") from error
    sender = intake.Sender(source=Alert.Source.CLI, trigger=Trigger.EVAL, window=timedelta(0))
    received = intake.receive(notice, sender, hand_over=_keep)
    if not received.runs:
        raise EvaluationError(f"{slug}: alert.json holds no firing alert")
    run_id = received.runs[0].run_id
    with override_settings(SUPERBIZ=settings.SUPERBIZ.model_copy(update={"recorded_evidence": incident / "evidence"})):
        # A loop for each incident: the tools of one read one recording.
        loop = WorkerLoop(announce=False)
        loop.start()
        try:
            loop.drive(run_id)
        finally:
            loop.close()
    ended = _ended(DiagnosisRun.objects.get(id=run_id))
    return Result(slug, ended, score(truth, ended))


def _keep(_run_ids: object) -> None:
    """The run is driven here: there is nobody to hand it to."""


def _ended(run: "DiagnosisRun") -> Ended:
    from audit.trace import load_trace

    trace = load_trace(run)
    judged = ((run.self_evaluation or {}).get("verifier_evaluation") or {}).get("evaluation") or {}
    seconds = (run.finished_at - run.started_at).total_seconds() if run.finished_at and run.started_at else 0.0
    return Ended(
        outcome=run.status,
        verdict=run.verdict,
        published=run.published_result,
        safe=run.safe_content or {},
        invocations={
            call.invocation_id: (call.tool_name, {ref["raw_path"]: ref["text"] for ref in call.evidence_refs})
            for call in trace.tool_invocations
        },
        record_complete=trace.summary.complete and bool(trace.summary.chain_valid),
        groundedness=judged.get("groundedness_score"),
        tokens=run.input_tokens + run.output_tokens,
        model_calls=run.model_calls,
        tool_calls=run.tool_calls,
        seconds=seconds,
    )
