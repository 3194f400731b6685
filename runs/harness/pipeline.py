"""One run from start to end, free of I/O: everything it touches is in its `Kit`.

    route (an alert needs none; a question: model, else rules)
      alert      search (supervisor → planner → executor → tools)
      question   by intent: talk | executor with the documents | planner → executor → tools
      → gate (code)  → verify (model, held to its contract)  → report rules (code)
      → compose (model) → release (code)

`drive` is called with a claimed run and gives its `Conclusion`; storing it is the caller's part.
"""

from dataclasses import replace
from datetime import timedelta

from runs.harness import chatroad, context, gating
from runs.harness.conclude import conclude
from runs.harness.context import RunContext
from runs.harness.events import EventType, PromptPinned, RunStarted
from runs.harness.executor import Executor
from runs.harness.ports import Role
from runs.harness.routing import route
from runs.harness.run import Conclusion, Kit, RunInput
from runs.harness.supervision import search


async def drive(run: RunInput, kit: Kit) -> Conclusion:
    """Drives one run. Raises `ModelError`, `ConfigurationError`, or what its tasks are cancelled with."""
    ctx = context.begin(run, kit)
    started = kit.clock.monotonic()
    ctx.emit(
        EventType.RUN_STARTED,
        RunStarted(
            trigger=run.trigger,
            attempt=run.attempt,
            model=kit.models[Role.CHAT_EXECUTOR if run.is_question else Role.AIOPS_EXECUTOR].name[:200],
            prompt_set_version=kit.prompt_set_version,
            rule_set_version=kit.rule_set.number,
        ),
        f"started, attempt {run.attempt}",
        records=[PromptPinned(prompt.name, prompt.version) for prompt in kit.prompts.values()],
    )
    await route(ctx)
    conclusion = await (chatroad.answer(ctx) if run.is_question else _report(ctx))
    return replace(conclusion, intent=ctx.intent, took=timedelta(seconds=kit.clock.monotonic() - started))


async def _report(ctx: RunContext) -> Conclusion:
    """The alert road."""
    executor = Executor.begin(ctx, Role.AIOPS_EXECUTOR)
    await search(ctx, executor)
    return await conclude(ctx, await gating.gate(ctx, executor))
