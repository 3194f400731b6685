"""Runs told in full through the recorder and the lifecycle: every phase, each restricted text marked SECRET."""

from dataclasses import replace
from typing import Any

from runs import lifecycle
from runs.harness.events import (
    AiopsRules,
    Emission,
    EventType,
    Frame,
    GuardDecision,
    Reasoning,
    SemanticDecision,
)
from runs.harness.run import Emitted, Spending
from runs.models import DiagnosisRun
from runs.tally import Tally
from tests.audit import emissions
from tests.audit.recording import append_now, ref, running
from tests.audit.selfevaluations import CLAIM, evaluation
from tests.factories import conclusion, published

REJECTED = CLAIM | {"claim_id": "c9", "claim_text": "SECRET claim: the disk is full"}
EXCERPT = "total=10, active=10, idle=0, waiting=61"
FRAMES = 12
TOOL_EVENT, STEP_EVENT, GATE_EVENT, SEMANTIC_EVENT, RULES_EVENT, RELEASE_EVENT = 5, 4, 7, 9, 10, 11


def step_of(run: DiagnosisRun) -> str:
    """The id of the one step that these runs have. Step ids are unique over all runs."""
    return f"stp_{run.id[4:]}"


def closed_with_secrets(step_id: str) -> Emission:
    """The executor's step, its reasoning restricted."""
    told = emissions.closed(step_id, calls=(emissions.call(step_id),))
    records = tuple(
        replace(record, thought="SECRET thought", assistant_text="SECRET text")
        if isinstance(record, Reasoning)
        else record
        for record in told.records
    )
    return Emission(told.frame, records)


def nothing_found(step_id: str) -> Emission:
    text = "query_logs found nothing for 'deploy'"
    return emissions.invoked(
        "inv_bbbbbb",
        step_id,
        evidence_status="NO_EVIDENCE",
        output={"lines": []},
        output_preview=text,
        evidence_refs=({"raw_path": "$.no_evidence", "text": text, "shown": True, "relevance": None},),
    )


def guard(event_type: EventType, verdict: str, failed: tuple[str, ...] = ()) -> Emission:
    details = GuardDecision(
        verdict=verdict, claims=2, accepted=1, removed=len(failed), failed_rules=failed, rule_set_version=1
    )
    return Emission(Frame(event_type, details, f"{verdict}: gate.", emissions.at(4), verdict, content_digest="a" * 64))


def semantic() -> Emission:
    details = SemanticDecision(verdict="PASS", groundedness_score=1.0, supported=1, unsupported=0)
    frame = Frame(EventType.SEMANTIC_GUARD_DECISION, details, "PASS: 1 of 1 follow.", emissions.at(5), "PASS")
    return Emission(replace(frame, content_digest="b" * 64))


def report_rules() -> Emission:
    details = AiopsRules(verdict="PASS", passed=("AR001_REPORT_EXISTS",), failed=())
    frame = Frame(EventType.AIOPS_RULE_EVALUATION, details, "PASS: all hold.", emissions.at(5), "PASS")
    return Emission(replace(frame, content_digest="c" * 64))


def opening(**changes: Any) -> DiagnosisRun:
    """A run that goes, with its first three frames."""
    run = running(model="offline", emitted={"1": {}}, **changes)
    append_now(run, [emissions.started(), emissions.routing(), emissions.opened(step_of(run))])
    return run


def told_run(invocation: dict[str, Any] | None = None, **changes: Any) -> DiagnosisRun:
    """An answered run of twelve frames. `invocation`: changes of the tool call that the first claim cites."""
    run = opening(rule_set_version=1, prompt_set_version="aiops-prompts-v1", **changes)
    append_now(
        run,
        [
            closed_with_secrets(step_of(run)),
            emissions.invoked(step_id=step_of(run), **(invocation or {})),
            nothing_found(step_of(run)),
            guard(EventType.EVIDENCE_GUARD_INITIAL, "REJECT", ("GK005_EXCERPT_SUPPORTED",)),
            guard(EventType.EVIDENCE_GUARD_REPAIR, "PASS"),
            semantic(),
            report_rules(),
            emissions.released(),
        ],
    )
    finish(run)
    return run


def finish(run: DiagnosisRun) -> None:
    kept = evaluation(CLAIM)
    verifier = kept["verifier_evaluation"]
    first = evaluation(REJECTED, accepted=False)["verifier_evaluation"]["gatekeeper_result"]["rounds"][0]
    verifier["gatekeeper_result"]["rounds"].insert(0, first)
    spent = Spending(model_calls=1, tool_calls=2, input_tokens=100, output_tokens=20)
    counted = Tally(1, spent, Emitted(events=FRAMES - 1, steps=1, tool_invocations=2, model_calls=1))
    assert lifecycle.finish(ref(run), conclusion(self_evaluation=kept), counted)
    run.refresh_from_db()


def pinned(**versions: int) -> dict[str, Any]:
    """The column `pinned_prompts`: version numbers by prompt name."""
    return {"version": 1, "prompt_set": "aiops-prompts-v1", "prompts": versions}


def two_runs() -> tuple[DiagnosisRun, DiagnosisRun]:
    """The second was given another verifier and another rule set, searched elsewhere and said one sentence else."""
    a = told_run(pinned_prompts=pinned(chat_verifier=1, executor=1))
    b = told_run({"input_params": {"service": "billing-api"}}, pinned_prompts=pinned(chat_verifier=2, executor=1))
    said = published().model_dump(mode="json", by_alias=True)
    said["statements"][1]["text"] = "Nobody deployed anything."
    DiagnosisRun.objects.filter(id=b.id).update(rule_set_version=2, published_result=said)
    b.refresh_from_db()
    return a, b
