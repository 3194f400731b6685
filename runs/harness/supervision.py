"""The AIOps road: a supervisor is asked first each round, code bounds what it may choose."""

from dataclasses import dataclass

from gatekeeper.types import Draft
from runs.errors import BudgetExhausted
from runs.harness import inputs
from runs.harness.asking import ask
from runs.harness.context import RunContext
from runs.harness.events import EventType, SupervisionDecision
from runs.harness.executor import Executor
from runs.harness.ports import Role
from runs.harness.wire import Plan, Supervision

MAX_PLANS = 2
SPARE_ROUNDS = 3


@dataclass(slots=True)
class Progress:
    """Where the search stands. `executions` counts EXECUTE rounds that gave a draft."""

    plan: Plan | None = None
    plans: int = 0
    executions: int = 0
    last: str | None = None


async def search(ctx: RunContext, executor: Executor) -> Draft:
    """Runs rounds of PLAN and EXECUTE until FINISH, a cap, or the end of a budget; gives the last draft."""
    progress = Progress()
    cap = ctx.kit.limits.max_rounds + SPARE_ROUNDS
    try:
        for round_no in range(1, cap + 1):
            decided = await _decide(ctx, progress, executor, round_no, cap - round_no)
            if decided == "FINISH":
                break
            if decided == "PLAN":
                await _plan(ctx, progress)
            else:
                await _execute(ctx, progress, executor)
            progress.last = decided
    except BudgetExhausted as error:
        ctx.budget_ended(error)
        ctx.note(f"The search ended early: {error.safe_message}")
    return executor.draft


async def _decide(ctx: RunContext, progress: Progress, executor: Executor, round_no: int, left: int) -> str:
    allowed = ["FINISH"] if executor.deaf else allowed_choices(ctx, progress, left)
    message = inputs.for_supervisor(
        ctx,
        round_no=round_no,
        rounds_left=left,
        allowed=allowed,
        plan=progress.plan,
        claims=len(executor.draft.claims),
    )
    answer = await ask(ctx, Role.AIOPS_SUPERVISOR, (message,))
    proposed = answer.parsed.next if isinstance(answer.parsed, Supervision) else None
    decided, because = bound(proposed, allowed, executor)
    ctx.emit(
        EventType.SUPERVISION_DECISION,
        SupervisionDecision(round=round_no, proposed=proposed or "NONE", decided=decided, replaced_because=because),
        f"round {round_no}: {decided}"
        + (f" (replaced {proposed or 'an unusable answer'}: {because})" if because else ""),
        status=decided,
        step_id=answer.step_id,
    )
    return decided


def allowed_choices(ctx: RunContext, progress: Progress, rounds_left: int) -> list[str]:
    """What the supervisor may choose now, likeliest first: the first one also replaces an illegal choice."""
    if ctx.evidence_tool_tried() and progress.executions >= ctx.kit.limits.max_rounds:
        return ["FINISH"]
    if rounds_left == 0:
        return ["FINISH"] if ctx.evidence_tool_tried() else ["EXECUTE"]
    choices = ["EXECUTE"]
    if progress.plans < MAX_PLANS and progress.last != "PLAN" and rounds_left > 1:
        choices.insert(0 if progress.plan is None else 1, "PLAN")
    if ctx.evidence_tool_tried() and progress.executions > 0:
        choices.insert(0, "FINISH")
    return choices


def bound(proposed: str | None, allowed: list[str], executor: Executor) -> tuple[str, str | None]:
    """The decision, and why it is not what was proposed, if it is not."""
    if executor.stopped is not None and "FINISH" in allowed and proposed != "FINISH":
        return "FINISH", "the search had stopped converging"
    if proposed in allowed and proposed is not None:
        return proposed, None
    if proposed is None:
        return allowed[0], "the answer was outside its contract"
    if proposed == "FINISH":
        return allowed[0], "no evidence tool was tried yet"
    return allowed[0], "the rounds are used up" if allowed == ["FINISH"] else "not open in this round"


async def _plan(ctx: RunContext, progress: Progress) -> None:
    answer = await ask(ctx, Role.AIOPS_PLANNER, (inputs.for_planner(ctx, ctx.kit.tools.values()),))
    progress.plans += 1
    if isinstance(answer.parsed, Plan):
        progress.plan = answer.parsed


async def _execute(ctx: RunContext, progress: Progress, executor: Executor) -> None:
    first = not executor.messages
    opening = inputs.for_executor(ctx, progress.plan) if first else inputs.executor_continues(progress.plan)
    await executor.work(opening)
    progress.executions += 1
