"""The bundled incidents with the offline model: what must be found is found and cited, what must not be said is not."""

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from gatekeeper.types import ClaimKind
from runs import intake
from runs.alertpayload import read_notice
from runs.harness.absence import proves_absence
from runs.harness.pipeline import drive as drive_pipeline
from runs.harness.run import Conclusion, Kit, RunInput
from runs.ids import SeededIds
from runs.models import DiagnosisRun
from runs.observers import observers
from runs.worker import WorkerLoop
from tests.e2e.outside import INCIDENTS, alert_of, evidence_of
from tests.superbiz.instance import with_tables

SLUGS = ("pool-exhausted", "cpu-red-herring", "false-alarm")
EXIT_CODES = {"SUCCESS": 0, "DEGRADED": 3}
READ_RUN = """
import json
from runs.models import DiagnosisRun
run = DiagnosisRun.objects.get(id={run_id!r})
print(json.dumps({{"outcome": run.outcome, "published": run.published_result, "safe": run.safe_content}}))
"""
# Words that would tell a reader that something is not there.
ABSENCE = re.compile(
    r"\b(ruled? out|excluded|confirmed none|nothing is wrong|no (fault|problem)s? (exists?|is present))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Diagnosed:
    """One `manage.py diagnose`: its exit code, the report it printed, what the run's row says."""

    slug: str
    code: int
    report: str
    outcome: str
    published: dict[str, Any] | None
    safe: dict[str, Any]

    @property
    def truth(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((INCIDENTS / self.slug / "truth.json").read_text())
        return found

    @property
    def claims(self) -> list[dict[str, Any]]:
        return self.published["claims"] if self.published else []

    def said(self) -> str:
        """All that was published in SuperBiz' own words: without the quotations."""
        if self.published is None:
            return json.dumps(self.safe, ensure_ascii=False)
        own = [self.published["conclusion"], self.published["scope"], *self.published["limitations"]]
        own += [statement["text"] for statement in self.published["statements"]]
        own += [claim["claimText"] for claim in self.claims]
        return "\n".join(own)


def words_of(claim: dict[str, Any]) -> str:
    return "\n".join([claim["claimText"], *(evidence["evidenceExcerpt"] for evidence in claim["evidence"])])


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Diagnosed]:
    """Each incident by a command of its own that starts what it needs and leaves nothing running."""
    instance = with_tables(tmp_path_factory.mktemp("incidents") / "var")
    found = {}
    for slug in SLUGS:
        settings = {"SUPERBIZ_RECORDED_EVIDENCE": evidence_of(slug)}
        done = instance.manage("diagnose", str(INCIDENTS / slug / "alert.json"), **settings)
        run_id = re.search(r"^(run_\w+) ", done.stdout, re.MULTILINE)
        assert run_id, done.stdout + done.stderr
        kept = json.loads(instance.manage("shell", "-c", READ_RUN.format(run_id=run_id[1])).stdout.splitlines()[-1])
        found[slug] = Diagnosed(slug, done.returncode, done.stdout, **kept)
    assert instance.recorded_pids() == set()
    return found


each_incident = pytest.mark.parametrize("slug", SLUGS)


@each_incident
def test_the_outcome_is_the_exit_code(diagnosed: dict[str, Diagnosed], slug: str) -> None:
    found = diagnosed[slug]
    assert found.outcome in found.truth["expect_outcome"].split("|")
    assert found.code == EXIT_CODES[found.outcome]
    assert (found.published["conclusion"] if found.published else found.safe["headline"])[:40] in found.report


@each_incident
def test_every_expected_finding_is_published_with_a_citation(diagnosed: dict[str, Diagnosed], slug: str) -> None:
    found = diagnosed[slug]
    for finding in found.truth["expected_findings"]:
        citing = [
            claim
            for claim in found.claims
            if any(re.search(pattern, words_of(claim)) for pattern in finding["any_of"])
            and any(evidence["toolName"] in finding["must_cite_tool"] for evidence in claim["evidence"])
        ]
        assert citing, finding["id"]


@each_incident
def test_nothing_forbidden_is_published(diagnosed: dict[str, Diagnosed], slug: str) -> None:
    found = diagnosed[slug]
    everything = "\n".join([json.dumps(found.published, ensure_ascii=False), json.dumps(found.safe), found.report])
    for pattern in found.truth["forbidden_findings"]:
        assert not re.search(pattern, everything), pattern
        assert not re.search(pattern, " ".join(found.said().split())), pattern


@each_incident
def test_nothing_is_ruled_out(diagnosed: dict[str, Diagnosed], slug: str) -> None:
    found = diagnosed[slug]
    for text in found.said().splitlines():
        assert not proves_absence(text, ()), text
        assert not ABSENCE.search(text), text


def test_a_false_alarm_ends_with_nothing_claimed_as_found(diagnosed: dict[str, Diagnosed]) -> None:
    found = diagnosed["false-alarm"]
    assert found.truth["expect_nothing_found"]
    negative = str(ClaimKind.NEGATIVE_OBSERVATION)
    for claim in found.claims:
        assert claim["kind"] == negative or NEUTRAL.search(claim["claimText"]), claim["claimText"]
        if claim["kind"] == negative:
            assert {evidence["rawPath"] for evidence in claim["evidence"]} == {"$.no_evidence"}


# What may be said of a healthy service beside "this query found nothing": that a value stayed where it was.
NEUTRAL = re.compile(r"\b(stayed|unchanged|stable|no change|between \S+ and \S+)\b", re.IGNORECASE)


def test_the_red_herring_is_not_the_conclusion(diagnosed: dict[str, Diagnosed]) -> None:
    found = diagnosed["cpu-red-herring"]
    assert found.published is not None
    assert not re.search(r"(?i)\bcpu\b|sales.?report", found.published["conclusion"])
    assert re.search(r"(?i)lock", found.published["conclusion"])


# ---- the same run again ---------------------------------------------------------------------------------------


async def seeded(run: RunInput, kit: Kit) -> Conclusion:
    """The pipeline with ids from a seed: all else is the product's own."""
    return await drive_pipeline(run, dataclasses.replace(kit, ids=SeededIds(20)))


def published_bytes(slug: str, fingerprint: str) -> bytes:
    """By fingerprint, because a later run of one session knows what the earlier ones have read."""
    notice = read_notice({"alerts": [alert_of(slug, fingerprint)]})
    (started,) = intake.receive(notice, intake.Sender(), hand_over=lambda _ids: None).runs
    run_id = started.run_id
    loop = WorkerLoop(announce=False, drive=seeded)
    loop.start()
    try:
        assert loop.drive(run_id)
    finally:
        loop.close()
    run = DiagnosisRun.objects.get(id=run_id)
    assert run.status == "SUCCESS", run.safe_content
    return json.dumps([run.published_result, run.self_evaluation and gate_of(run)], sort_keys=False).encode()


def gate_of(run: DiagnosisRun) -> Any:
    return run.self_evaluation["verifier_evaluation"]["gatekeeper_result"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("slug", ["pool-exhausted", "cpu-red-herring"])
def test_the_same_ids_and_evidence_publish_the_same_bytes(slug: str, settings: Settings) -> None:
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"recorded_evidence": Path(evidence_of(slug))})
    # Runs need no observer; and the ledger, rightly, takes an id only once.
    settings.RUN_OBSERVERS = []
    observers.cache_clear()
    call_command("sync_rules", verbosity=0)
    call_command("sync_prompts", verbosity=0)
    call_command("import_runbooks", "--bundled", verbosity=0)
    try:
        assert published_bytes(slug, "00000000000000e1") == published_bytes(slug, "00000000000000e2")
    finally:
        observers.cache_clear()
