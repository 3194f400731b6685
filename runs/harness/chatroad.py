"""The chat road, by intent: talk without evidence, a look into the documents, or a whole diagnosis."""

from dataclasses import replace

from gatekeeper.types import Intent, SourceKind
from runs.errors import BudgetExhausted
from runs.harness import gating, inputs
from runs.harness.asking import ask
from runs.harness.conclude import conclude
from runs.harness.context import RunContext
from runs.harness.executor import Executor
from runs.harness.ports import Role
from runs.harness.run import Conclusion
from runs.harness.talk import talk
from runs.harness.wire import Plan


async def answer(ctx: RunContext) -> Conclusion:
    """The path of the intent that was marked. Raises `ModelError`, `ConfigurationError`."""
    match ctx.intent:
        case Intent.SYSTEM_CHAT:
            return await talk(ctx)
        case Intent.KNOWLEDGE_QUERY:
            _leave_only_knowledge(ctx)
            return await _looked_up(ctx, planned=False)
        case _:
            return await _looked_up(ctx, planned=True)


def _leave_only_knowledge(ctx: RunContext) -> None:
    """What the documents say is not asked of live systems: no other tool is offered, nor run if it is called."""
    tools = {name: tool for name, tool in ctx.kit.tools.items() if tool.source_kind is SourceKind.KNOWLEDGE}
    ctx.kit = replace(ctx.kit, tools=tools)


async def _looked_up(ctx: RunContext, *, planned: bool) -> Conclusion:
    executor = Executor.begin(ctx, Role.CHAT_EXECUTOR)
    try:
        plan = await _plan(ctx) if planned else None
        await executor.work(inputs.for_executor(ctx, plan))
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        ctx.note(f"The search ended early: {error.safe_message}")
    return await conclude(ctx, await gating.gate(ctx, executor))


async def _plan(ctx: RunContext) -> Plan | None:
    """A plan that cannot be read is no plan: the executor looks without one."""
    answered = await ask(ctx, Role.CHAT_PLANNER, (inputs.for_planner(ctx, ctx.kit.tools.values()),))
    return answered.parsed if isinstance(answered.parsed, Plan) else None
