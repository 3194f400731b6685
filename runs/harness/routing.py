"""What a question is for: one model call whose answer is exactly `{intent}`; where it is not, rules decide.

An alert needs no routing: its intent is DIAGNOSIS, its source ALERT.
"""

import re

from gatekeeper.types import Intent
from runs.errors import BudgetExhausted
from runs.harness import inputs
from runs.harness.asking import ask
from runs.harness.context import RunContext
from runs.harness.events import EventType, RoutingDecision
from runs.harness.memory import Memory
from runs.harness.ports import Role
from runs.harness.wire import RouterIntent

_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|thanks?|thank you|good (?:morning|evening)|bye|help|who are you|what can you do"
    r"|你好|您好|谢谢|多谢|再见|早上好|晚上好|你是谁|你能做什么)\W*",
    re.IGNORECASE,
)
_FOLLOW_UP = re.compile(
    r"\W*(?:and|also|what about|how about|which of|why\W*$|那|还有|其中|哪个|哪一个)", re.IGNORECASE
)
_ASKS_DOCUMENTS = re.compile(
    r"\b(?:runbook|playbook|procedure|documentation|how (?:do|can|should|to)|what (?:does|is) .* mean)\b"
    r"|手册|文档|步骤|流程|如何|怎么处理|什么意思",
    re.IGNORECASE,
)


async def route(ctx: RunContext) -> Intent:
    """Decides, records the decision, and has it marked on the run before anything else is done. Raises `ModelError`."""
    intent, decision = await _decide(ctx)
    ctx.intent = intent
    ctx.emit(EventType.ROUTING_DECISION, decision, f"{intent.value}: {_told(decision)}", status=intent.value)
    await ctx.kit.mark_intent(intent)
    return intent


async def _decide(ctx: RunContext) -> tuple[Intent, RoutingDecision]:
    if not ctx.run.is_question:
        return Intent.DIAGNOSIS, RoutingDecision(intent=Intent.DIAGNOSIS.value, source="ALERT")
    try:
        answer = await ask(ctx, Role.ROUTER, (inputs.for_router(ctx),))
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        return _by_rule(ctx, "the budget had ended")
    if isinstance(answer.parsed, RouterIntent):
        intent = answer.parsed.intent
        return intent, RoutingDecision(intent=intent.value, source="MODEL")
    return _by_rule(ctx, answer.violation or "no answer")


def _by_rule(ctx: RunContext, violation: str) -> tuple[Intent, RoutingDecision]:
    intent = fallback(ctx.run.query, ctx.run.memory)
    return intent, RoutingDecision(intent=intent.value, source="FALLBACK", violation=violation[:200])


def fallback(query: str, memory: Memory) -> Intent:
    """The intent by rules. In doubt it is DIAGNOSIS, the path on which everything said is checked most."""
    if _GREETING.fullmatch(query):
        return Intent.SYSTEM_CHAT
    if memory.turns and _FOLLOW_UP.match(query):
        return Intent(memory.turns[-1].intent)
    return Intent.KNOWLEDGE_QUERY if _ASKS_DOCUMENTS.search(query) else Intent.DIAGNOSIS


def _told(decision: RoutingDecision) -> str:
    if decision.source == "ALERT":
        return "an alert needs no routing"
    if decision.violation is None:
        return "so the router said"
    return f"by rule, since the router gave no usable answer ({decision.violation})"
