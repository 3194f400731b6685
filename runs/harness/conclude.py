"""From what a run found to how it ends: verify, compose, hold to the AIOps rules, release or withhold."""

from dataclasses import dataclass, field
from typing import Any

from gatekeeper.types import Claim, Intent, SourceKind, Verdict
from runs.errors import BudgetExhausted, ModelError
from runs.harness import absence, aiopsrules, drafts, inputs, release, verification
from runs.harness.asking import ask
from runs.harness.context import LABEL_LIMIT, RunContext
from runs.harness.digest import content_digest
from runs.harness.events import AiopsRules, EventType, ReleaseDecided
from runs.harness.gating import Gated, input_texts
from runs.harness.ports import Role
from runs.harness.run import MAX_LOOKED_AT, Conclusion, PublishedResult, SafeContent, Settled
from runs.harness.wire import BREAKER_OPEN, ComposerOutput

RELEASED = "RELEASED"
RELEASED_LOW = "RELEASED_LOW_CONFIDENCE"
WITHHELD = "WITHHELD"
MAX_NOTES = 3
NO_TELEMETRY = "No source of logs, metrics or alerts is set up: PROMETHEUS_URL and SUPERBIZ_LOG_DIR name some."

SOURCE_NOT_AT_FAULT = frozenset({"INVALID_ARGUMENTS", "UNKNOWN_TOOL", "TOOL_CAP", "TOOL_BUDGET", "SAME_CALL_FAILED"})


@dataclass(slots=True)
class Judgement:
    """What was decided on the way to the release, for the run's own evaluation of itself."""

    verdict: Verdict
    claims: tuple[Claim, ...]
    judged: verification.Judged | None = None
    rules: tuple[aiopsrules.AiopsFinding, ...] = ()
    composed: ComposerOutput | None = None
    dropped: tuple[str, ...] = ()
    reason: str = ""
    rules_verdict: Verdict = Verdict.PASS
    released: PublishedResult | None = None
    proposed: int = 0
    kept: int = 0
    notes: list[str] = field(default_factory=list)


async def conclude(ctx: RunContext, gated: Gated) -> Conclusion:
    """Everything after the gate. Raises `ModelError` only where the verifier cannot be reached."""
    judgement = Judgement(gated.verdict, gated.claims)
    if gated.claims:
        await _verify(ctx, judgement)
        _leave_unsayable(judgement)
    elif gated.draft.claims and ctx.invocations:
        judgement.reason = "no claim held up against the evidence on record"
    elif ctx.invocations:
        judgement.reason = "no claim was made about the evidence on record"
    else:
        judgement.reason = "no tool was called, so there is no evidence"
    _hold_to_rules(ctx, judgement)
    settled = await ctx.kit.settle()
    _mind_the_record(judgement, settled)
    if judgement.claims and judgement.verdict is not Verdict.REJECT:
        await _compose(ctx, judgement)
        _release(ctx, judgement, gated)
    return _decided(ctx, judgement, gated)


async def _verify(ctx: RunContext, judgement: Judgement) -> None:
    try:
        judged = await verification.verify(ctx, judgement.claims)
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        judgement.verdict = Verdict.worst(judgement.verdict, Verdict.LOW_CONFID)
        judgement.notes.append("The semantic check of the claims did not run: the budget had ended.")
        judgement.claims = verification.unjudged(judgement.claims)
        if not judgement.claims:
            judgement.reason = "no claim could be checked, and none says only what its excerpt does"
        return
    judgement.judged = judged
    judgement.verdict = Verdict.worst(judgement.verdict, judged.verdict)
    supported = tuple(claim for claim in judgement.claims if claim.claim_id in judged.supported)
    removed = len(judgement.claims) - len(supported)
    if removed:
        judgement.notes.append(f"{removed} claim(s) were left out: they did not follow from their evidence.")
    if judged.violations:
        judgement.notes.append("The semantic check did not keep to its contract, so it counts as weak.")
    if judged.verdict is Verdict.REJECT:
        judgement.reason = "the semantic check rejected what the evidence was said to show"
    judgement.claims = supported


def _leave_unsayable(judgement: Judgement) -> None:
    """Also where the verifier did not run: what may not be said is not a question of how well it was checked."""
    sayable = absence.sayable(judgement.claims)
    if len(sayable) < len(judgement.claims):
        judgement.verdict = Verdict.worst(judgement.verdict, Verdict.LOW_CONFID)
        judgement.notes.append("A claim that took an empty search for proof of absence was left out.")
    judgement.claims = sayable
    if not sayable and not judgement.reason:
        judgement.reason = "no claim that could be said was left"


def _hold_to_rules(ctx: RunContext, judgement: Judgement) -> None:
    findings = aiopsrules.evaluate(ctx.run.subject, judgement.claims, ctx.invocations)
    if not findings:
        return
    judgement.rules = findings
    failed = [finding for finding in findings if not finding.passed]
    if failed:
        judgement.rules_verdict = Verdict.LOW_CONFID
    if any(finding.withhold for finding in failed):
        judgement.rules_verdict = Verdict.REJECT
        judgement.reason = "the report was about another alert than the one that came in"
    if judgement.claims:
        judgement.verdict = Verdict.worst(judgement.verdict, judgement.rules_verdict)
        judgement.notes += [f"Report rule not met: {finding.reason}." for finding in failed]
    ctx.emit(
        EventType.AIOPS_RULE_EVALUATION,
        AiopsRules(
            verdict=judgement.rules_verdict.value,
            passed=tuple(finding.code for finding in findings if finding.passed),
            failed=tuple(finding.code for finding in failed),
        ),
        f"{judgement.rules_verdict.value}: "
        + (f"failed {', '.join(finding.code for finding in failed)}" if failed else "all report rules hold"),
        status=judgement.rules_verdict.value,
        content_digest=content_digest(_rules_json(judgement)),
    )


def _mind_the_record(judgement: Judgement, settled: Settled) -> None:
    """Evidence that is not on record cannot be shown: its claims go, and the rest is LOW."""
    if settled.complete:
        return
    missing = settled.unrecorded_invocations
    judgement.claims = tuple(
        claim for claim in judgement.claims if not any(item.source_invocation_id in missing for item in claim.evidence)
    )
    judgement.verdict = Verdict.worst(judgement.verdict, Verdict.LOW_CONFID)
    judgement.notes.append(release.RECORD_INCOMPLETE)
    if not judgement.claims and not judgement.reason:
        judgement.reason = "the evidence could not be put on record"


async def _compose(ctx: RunContext, judgement: Judgement) -> None:
    """The composer's words, if it has any: without them the claims speak for themselves."""
    try:
        answer = await ask(ctx, Role.CHAT_COMPOSER, (inputs.for_judges(ctx, judgement.claims),))
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        judgement.notes.append("The report was put together without the composer: the budget had ended.")
        return
    except ModelError:
        judgement.notes.append("The report was put together without the composer: its model did not answer.")
        return
    if isinstance(answer.parsed, ComposerOutput):
        judgement.composed = answer.parsed
    else:
        judgement.notes.append("The report was put together without the composer: its answer was unusable.")


def _release(ctx: RunContext, judgement: Judgement, gated: Gated) -> None:
    material = release.Material(
        query=ctx.run.query,
        verdict=judgement.verdict,
        claims=judgement.claims,
        input_texts=input_texts(ctx),
        invocations=ctx.invocations,
        composed=judgement.composed,
        scope=_scope(ctx),
        limitations=tuple(_limitations(ctx, judgement, gated)),
    )
    released = release.release(material)
    judgement.released, judgement.dropped = released.result, released.dropped
    judgement.proposed, judgement.kept = released.proposed, released.kept


def _limitations(ctx: RunContext, judgement: Judgement, gated: Gated) -> list[str]:
    """Code's own sentences on what this answer lacks, most important first."""
    said = [*release.floor_lowered(ctx.kit.rule_set), *judgement.notes]
    if ctx.kit.evidence_now is not None:
        said.append(_from_when(inputs.iso(ctx.kit.evidence_now()), looks_back=ctx.kit.looks_back))
    if _lacks_telemetry(ctx):
        said.append(NO_TELEMETRY)
    if gated.removed:
        said.append(f"{gated.removed} claim(s) were left out: their citations did not hold.")
    if gated.verdict is Verdict.LOW_CONFID and not gated.removed:
        said.append("The executor did not keep to its answer form.")
    said += ctx.limitations
    failed: dict[str, set[str]] = {}
    for kept in ctx.invocations.values():
        if not kept.record.success and kept.record.error_code not in SOURCE_NOT_AT_FAULT:
            failed.setdefault(kept.record.tool_name, set()).add(kept.record.error_code or "FAILED")
    said += [f"{_unanswered(tool, codes)}: what it would have shown is unknown." for tool, codes in failed.items()]
    return said


def _from_when(moment: str | None, *, looks_back: bool) -> str:
    if looks_back:
        return f"This repeats an earlier run: the sources were asked as of {moment}, and may have forgotten since."
    return f"The evidence is a recording made at {moment}, not live systems."


def _unanswered(tool: str, codes: set[str]) -> str:
    if codes == {BREAKER_OPEN}:
        return f"{tool} was not asked, because its source had failed again and again"
    return f"{tool} failed ({', '.join(sorted(codes))})"


def _scope(ctx: RunContext) -> str:
    situation = inputs.situation(ctx)
    tools = sorted({k.record.tool_name for k in ctx.invocations.values() if k.record.source_kind != SourceKind.OTHER})
    window = situation["window"]
    around = "" if ctx.intent is Intent.KNOWLEDGE_QUERY else f" around {window['start']} to {window['end']}"
    return f"Looked at {', '.join(tools) or 'nothing'}{around}."


def _decided(ctx: RunContext, judgement: Judgement, gated: Gated) -> Conclusion:
    published = judgement.released
    low = published is not None and published.confidence == "LOW"
    decision = WITHHELD if published is None else RELEASED_LOW if low else RELEASED
    verdict = judgement.verdict if published is not None else Verdict.REJECT
    ctx.emit(
        EventType.RELEASE_DECISION,
        ReleaseDecided(
            decision=decision,
            confidence=published.confidence if published else None,
            statements_proposed=judgement.proposed,
            statements_kept=judgement.kept,
            claims=len(published.claims) if published else 0,
            limitations=len(published.limitations) if published else 0,
            dropped_because=judgement.dropped,
        ),
        f"{decision}: " + (f"{len(published.statements)} statement(s)" if published else judgement.reason),
        status=decision,
        content_digest=content_digest(release.as_json(published) if published else None),
    )
    return Conclusion(
        status="SUCCESS" if published else "DEGRADED",
        safe_content=_safe_content(ctx, judgement, low=low),
        self_evaluation=_self_evaluation(ctx, judgement, gated, decision),
        emitted=ctx.emitted,
        verdict=verdict,
        release_decision=decision,
        published=published,
        groundedness=judgement.judged.score if judgement.judged else None,
    )


def _safe_content(ctx: RunContext, judgement: Judgement, *, low: bool) -> SafeContent:
    looked_at = looked_at_lines(ctx)
    if judgement.released is not None:
        headline = (
            "Nothing notable was found by these searches"
            if absence.only_negative(judgement.claims)
            else (f"{_what(ctx)} was released" + (" at low confidence" if low else ""))
        )
        reason = "Every released claim cites evidence that is on record."
        return SafeContent(headline=headline, reason=reason, looked_at=looked_at)
    because = judgement.reason or "no claim was left to say"
    budgets = f" The {', '.join(ctx.ended_budgets)} budget ended." if ctx.ended_budgets else ""
    lowered = release.floor_lowered(ctx.kit.rule_set)
    notes = "".join(f" {note}" for note in [*lowered, *ctx.limitations[:MAX_NOTES]])
    if _lacks_telemetry(ctx):
        advice = NO_TELEMETRY
    elif ctx.intent is Intent.KNOWLEDGE_QUERY:
        advice = "Ask in other words, or bring in a document that answers it."
    elif looked_at:
        advice = "Look at the tools below directly, beginning with those that failed, or run the diagnosis again."
    else:
        advice = "Run the diagnosis again, or look at the logs and metrics directly."
    reason = f"Nothing was released because {because}.{budgets}{notes} {advice}"
    headline = f"No {_what(ctx).split()[-1]} could be released"
    return SafeContent(headline=headline, reason=reason[:1000], looked_at=looked_at)


def _what(ctx: RunContext) -> str:
    return "An answer" if ctx.intent is Intent.KNOWLEDGE_QUERY else "A diagnosis"


def _lacks_telemetry(ctx: RunContext) -> bool:
    """Whether a diagnosis had no source to look at."""
    offered = any(tool.source_kind is SourceKind.TELEMETRY for tool in ctx.kit.tools.values())
    return ctx.intent is Intent.DIAGNOSIS and not offered


def looked_at_lines(ctx: RunContext) -> list[str]:
    """One line a tool: how often it was asked and how that ended."""
    tools: dict[str, dict[str, int]] = {}
    for kept in ctx.invocations.values():
        counts = tools.setdefault(kept.record.tool_name, {})
        counts[kept.record.evidence_status] = counts.get(kept.record.evidence_status, 0) + 1
    lines = [
        f"{tool[:LABEL_LIMIT]}: " + ", ".join(f"{count} × {status}" for status, count in sorted(counts.items()))
        for tool, counts in sorted(tools.items())
    ]
    return lines[:MAX_LOOKED_AT]


def _rules_json(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": judgement.rules_verdict.value,
        "rules": [{"code": f.code, "passed": f.passed, "reason": f.reason} for f in judgement.rules],
    }


def _self_evaluation(ctx: RunContext, judgement: Judgement, gated: Gated, decision: str) -> dict[str, Any]:
    judged = judgement.judged
    composed = judgement.composed
    return {
        "verifier_evaluation": {
            "verdict": judged.verdict.value if judged else None,
            "evaluation": judged.evaluation if judged else None,
            "contract_violations": list(judged.violations) if judged else [],
            "executor_structured_output": drafts.to_json(gated.draft),
            "gatekeeper_result": {"rounds": list(gated.rounds)},
            "tool_trace_summary": ctx.tool_trace_summary(),
            "prompt_audit": prompt_audit(ctx),
            "composer_output": composed.model_dump(mode="json") if composed else None,
            "release": {"decision": decision, "dropped": list(judgement.dropped)},
        },
        "aiops_rule_evaluation": _rules_json(judgement) if judgement.rules else None,
    }


def prompt_audit(ctx: RunContext) -> dict[str, Any]:
    """Versions and paths of every prompt the run was given, never their texts."""
    prompts = {prompt.name: prompt for prompt in ctx.kit.prompts.values()}
    return {
        "version": ctx.kit.prompt_set_version,
        "prompts": [
            {"name": p.name, "version": p.version, "resource": p.resource, "sha256": p.sha256}
            for _, p in sorted(prompts.items())
        ],
    }
