"""SYSTEM_CHAT: one model call, no tools, no claims. What leaves is marked as talk that no evidence stands behind."""

from runs.errors import BudgetExhausted
from runs.harness import inputs, release
from runs.harness.asking import ask
from runs.harness.conclude import RELEASED, WITHHELD, prompt_audit
from runs.harness.context import RunContext
from runs.harness.digest import content_digest
from runs.harness.events import EventType, ReleaseDecided
from runs.harness.ports import Role
from runs.harness.run import Conclusion, SafeContent
from runs.harness.wire import SystemChatReply

NO_FORM = "the model did not answer in the agreed form"
NOTHING_SAYABLE = "the reply stated facts, which needs evidence"
ADVICE = "Ask about a service, a symptom and a time to have them looked up."


async def talk(ctx: RunContext) -> Conclusion:
    """Raises `ModelError`."""
    reply, reason = await _reply(ctx)
    settled = await ctx.kit.settle()
    released = None
    if reply is not None:
        said = release.floor_lowered(ctx.kit.rule_set) + ([] if settled.complete else [release.RECORD_INCOMPLETE])
        released = release.release_talk(ctx.run.query, reply, said_before(ctx), limitations=said)
        reason = NOTHING_SAYABLE if released is None else ""
    published = released.result if released else None
    decision = RELEASED if published else WITHHELD
    ctx.emit(
        EventType.RELEASE_DECISION,
        ReleaseDecided(
            decision=decision,
            confidence=published.confidence if published else None,
            statements_proposed=released.proposed if released else 0,
            statements_kept=released.kept if released else 0,
            claims=0,
            limitations=len(published.limitations) if published else 0,
            dropped_because=released.dropped if released else (),
        ),
        f"{decision}: " + ("general talk, without evidence" if published else reason),
        status=decision,
        content_digest=content_digest(release.as_json(published) if published else None),
    )
    return Conclusion(
        status="SUCCESS" if published else "DEGRADED",
        safe_content=_safe(ctx, published is not None, reason),
        self_evaluation={"verifier_evaluation": {"prompt_audit": prompt_audit(ctx), "release": {"decision": decision}}},
        emitted=ctx.emitted,
        release_decision=decision,
        published=published,
    )


async def _reply(ctx: RunContext) -> tuple[str | None, str]:
    """The reply, or why there is none."""
    try:
        answer = await ask(ctx, Role.SYSTEM_CHAT, (inputs.for_system_chat(ctx),))
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        return None, f"the {error.budget.replace('_', ' ')} budget had ended"
    return (answer.parsed.reply, "") if isinstance(answer.parsed, SystemChatReply) else (None, NO_FORM)


def said_before(ctx: RunContext) -> tuple[str, ...]:
    """What the person has written: numbers and names in it may be repeated."""
    return (ctx.run.query, *(turn.query for turn in ctx.run.memory.turns))


def _safe(ctx: RunContext, said: bool, reason: str) -> SafeContent:
    if said:
        headline, why = "General talk", "No system was looked at, so no evidence stands behind it."
    else:
        lowered = "".join(f"{sentence} " for sentence in release.floor_lowered(ctx.kit.rule_set))
        headline, why = "No answer could be released", f"Nothing was released because {reason}. {lowered}{ADVICE}"
    return SafeContent(headline=headline, reason=why, looked_at=[])
