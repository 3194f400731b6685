"""One run from start to end, free of I/O: everything it touches is in its `Kit`.

    search (supervisor → planner → executor → tools)
      → gate (code)  → verify (model, held to its contract)  → report rules (code)
      → compose (model) → release (code)

`drive` is called with a claimed run and gives its `Conclusion`; storing it is the caller's part.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from gatekeeper.types import Intent
from runs.harness import context, gating
from runs.harness.conclude import conclude
from runs.harness.events import EventType, PromptPinned, RoutingDecision, RunStarted
from runs.harness.executor import Executor
from runs.harness.ports import Role, ToolSpec
from runs.harness.run import Conclusion, Kit, RunInput
from runs.harness.supervision import search
from runs.harness.toolbox import Toolbox


async def drive(run: RunInput, kit: Kit) -> Conclusion:
    """Drives one alert run. Raises `ModelError`, `ConfigurationError`, or what its tasks are cancelled with."""
    ctx = context.begin(run, kit)
    started = kit.clock.monotonic()
    ctx.emit(
        EventType.RUN_STARTED,
        RunStarted(
            trigger=run.trigger,
            attempt=run.attempt,
            model=kit.models[Role.AIOPS_EXECUTOR].name[:200],
            prompt_set_version=kit.prompt_set_version,
            rule_set_version=kit.rule_set.number,
        ),
        f"started, attempt {run.attempt}",
        records=[PromptPinned(prompt.name, prompt.version) for prompt in kit.prompts.values()],
    )
    ctx.emit(
        EventType.ROUTING_DECISION,
        RoutingDecision(intent=Intent.DIAGNOSIS.value, source="ALERT"),
        "DIAGNOSIS: an alert needs no routing",
        status=Intent.DIAGNOSIS.value,
    )
    executor = Executor(ctx, Role.AIOPS_EXECUTOR, Toolbox.of(ctx), specs(kit))
    await search(ctx, executor)
    gated = await gating.gate(ctx, executor)
    conclusion = await conclude(ctx, gated)
    return _stamped(conclusion, kit.clock.monotonic() - started)


def specs(kit: Kit) -> tuple[ToolSpec, ...]:
    """How the run's tools are offered to a model, in a stable order."""
    return tuple(
        ToolSpec(tool.name, tool.description, _schema(tool.arguments)) for _, tool in sorted(kit.tools.items())
    )


@functools.cache
def _schema(arguments: type[BaseModel]) -> Mapping[str, Any]:
    """Made once: to make it takes milliseconds."""
    return arguments.model_json_schema()


def _stamped(conclusion: Conclusion, seconds: float) -> Conclusion:
    return replace(conclusion, intent=Intent.DIAGNOSIS, took=timedelta(seconds=seconds))
