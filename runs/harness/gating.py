"""The evidence gate inside a run: judge the draft, grant one repair round, judge again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gatekeeper.gate import judge
from gatekeeper.serial import feedback, to_dict
from gatekeeper.types import Case, Claim, Draft, GateResult, RuleMode, Verdict
from runs.errors import BudgetExhausted
from runs.harness import inputs
from runs.harness.context import RunContext
from runs.harness.digest import content_digest
from runs.harness.events import EventType, GuardDecision, RuleFailed
from runs.harness.executor import Executor
from runs.harness.run import Subject


@dataclass(frozen=True, slots=True)
class Gated:
    """What stands after the gate. `rounds` are the serialised results, in order, for the run's record.

    `verdict` is REJECT where nothing stands, LOW_CONFID where any claim was removed, the version is wrong
    or the answer broke its contract, else PASS.
    """

    draft: Draft
    claims: tuple[Claim, ...]
    verdict: Verdict
    removed: int
    rounds: tuple[dict[str, Any], ...]


def input_texts(ctx: RunContext) -> tuple[str, ...]:
    return texts_of(ctx.run.query, ctx.run.subject)


def texts_of(query: str, subject: Subject) -> tuple[str, ...]:
    """The texts that came in with the run: numbers and names in them need no further evidence."""
    texts = [query]
    for alert in [subject.alert, *subject.others]:
        if alert is not None:
            texts += [alert.alertname, *alert.labels.keys(), *alert.labels.values(), *alert.annotations.values()]
            texts += [inputs.iso(alert.starts_at) or ""]
    return tuple(text for text in texts if text)


async def gate(ctx: RunContext, executor: Executor) -> Gated:
    """Judges the executor's draft; where it is below PASS, one repair round follows within budget."""
    result = _judge(ctx, executor.draft)
    rounds = [to_dict(result)]
    _tell(ctx, EventType.EVIDENCE_GUARD_INITIAL, result, rounds[-1])
    kept = executor.draft, result, executor.violation
    if result.verdict is not Verdict.PASS and _repairable(executor):
        repaired = await _repair(ctx, executor, result)
        if repaired is not None:
            again = _judge(ctx, repaired)
            rounds.append(to_dict(again))
            _tell(ctx, EventType.EVIDENCE_GUARD_REPAIR, again, rounds[-1])
            if again.accepted or not result.accepted:
                kept = repaired, again, executor.violation
    draft, final, violation = kept
    return Gated(draft, final.accepted, _standing(final, violation), len(final.removed), tuple(rounds))


def _judge(ctx: RunContext, draft: Draft) -> GateResult:
    case = Case(draft, ctx.gate_invocations(), input_texts(ctx), ctx.intent)
    return judge(case, ctx.kit.rule_set)


def _repairable(executor: Executor) -> bool:
    """An executor that never spoke to a tool and proposed nothing has nothing to repair."""
    return bool(executor.messages)


async def _repair(ctx: RunContext, executor: Executor, result: GateResult) -> Draft | None:
    try:
        return await executor.work(inputs.executor_repairs(feedback(result)))
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        ctx.note("There was no budget left to repair citations.")
        return None


def _standing(result: GateResult, violation: str | None) -> Verdict:
    if not result.accepted:
        return Verdict.REJECT
    whole = not result.removed and result.version_ok and violation is None
    return Verdict.PASS if whole else Verdict.LOW_CONFID


def _tell(ctx: RunContext, event_type: EventType, result: GateResult, serialised: dict[str, Any]) -> None:
    now = ctx.kit.clock.now()
    failures = rule_failures(result, now)
    failed = [failure.code for failure in failures if failure.mode == RuleMode.ENFORCED]
    shadow = [failure.code for failure in failures if failure.mode == RuleMode.SHADOW]
    accepted = len(result.accepted)
    ctx.emit(
        event_type,
        GuardDecision(
            verdict=result.verdict.value,
            claims=len(result.claims),
            accepted=accepted,
            removed=len(result.removed),
            failed_rules=tuple(failed),
            shadow_rules=tuple(shadow),
            rule_set_version=result.rule_set_number,
        ),
        f"{result.verdict.value}: {accepted} of {len(result.claims)} claim(s) stand"
        + (f"; failed {', '.join(failed)}" if failed else ""),
        status=result.verdict.value,
        content_digest=content_digest(serialised),
        records=failures,
        at=now,
    )


def rule_failures(result: GateResult, at: datetime) -> tuple[RuleFailed, ...]:
    """Each rule that failed in each of its modes, in the order of the codes; with SHADOW it had no effect."""
    claims: dict[tuple[str, RuleMode], int] = {}
    for rule in result.draft_rules:
        if rule.finding.passed is False:
            claims[rule.finding.code, rule.mode] = 0
    for claim in result.claims:
        for failed in {(rule.finding.code, rule.mode) for rule in claim.rules if rule.finding.passed is False}:
            claims[failed] = claims.get(failed, 0) + 1
    return tuple(
        RuleFailed(code, mode.value, result.rule_set_number, count, at)
        for (code, mode), count in sorted(claims.items())
    )
