"""One model step: budget, attempts with back-off, the ledger's records, the reply."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from runs.errors import BudgetExhausted, ConfigurationError, ModelContractViolated, ModelError, ModelUnavailable
from runs.harness.context import MAX_CALLS_A_STEP, RunContext
from runs.harness.events import Emission, EventType, ModelCall, ModelStep, Reasoning, Record, StepClosed, StepOpened
from runs.harness.ports import Message, ModelReply, ModelRequest, Role, ToolCall, ToolSpec, Usage
from runs.harness.run import Spending
from runs.harness.structured import parse_reply
from runs.harness.wire import OUTPUTS, SCHEMA_NAMES

BACKOFF_BASE_S = 0.5
BACKOFF_CAP_S = 20.0
CODE_LIMIT = 60
MOST_TOKENS_A_CALL = 100_000_000
"""No call takes more: a server that states more, or less than none, has stated nothing."""

AGENT_NAMES: dict[Role, str] = {
    Role.ROUTER: "Router",
    Role.SYSTEM_CHAT: "System chat",
    Role.CHAT_PLANNER: "Planner",
    Role.CHAT_EXECUTOR: "Executor",
    Role.CHAT_VERIFIER: "Verifier",
    Role.CHAT_COMPOSER: "Composer",
    Role.AIOPS_SUPERVISOR: "Supervisor",
    Role.AIOPS_PLANNER: "Planner",
    Role.AIOPS_EXECUTOR: "Executor",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and the step it belongs to. `parsed` is None with a tool call, or where `violation` says why."""

    step_id: str
    reply: ModelReply
    parsed: BaseModel | None
    violation: str | None


@dataclass(slots=True)
class _Tally:
    """Tokens over all attempts of one step."""

    input_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 0


async def ask(ctx: RunContext, role: Role, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...] = ()) -> Answer:
    """Asks `role`'s model once and records it as one step.

    Raises `BudgetExhausted` before the first attempt, `ModelUnavailable` or `ModelRefused` when no
    attempt succeeded. A reply out of contract is not an error here: `Answer.violation` says what is wrong.
    """
    ctx.budget.check_model_call(role, ctx.kit.clock.monotonic())
    try:
        prompt, model = ctx.kit.prompts[role], ctx.kit.models[role]
    except KeyError as missing:
        raise ConfigurationError(f"No model or prompt is configured for the role {role}.") from missing
    request = ModelRequest(role, SCHEMA_NAMES[role], OUTPUTS[role], prompt.text, messages, tools)
    step = StepOpened(
        step_id=ctx.kit.ids.step_id(),
        step_index=ctx.take_step_index(),
        agent_name=AGENT_NAMES[role],
        role=role.value,
        model=model.name,
        prompt_version=prompt.version,
        model_input=_input_summary(request),
        started_at=ctx.kit.clock.now(),
    )
    base = ModelStep(
        role=role.value,
        agent_name=step.agent_name,
        step_index=step.step_index,
        model=model.name[:200],
        prompt_version=prompt.version,
    )
    ctx.emit(
        EventType.AGENT_MODEL_STEP,
        base,
        f"{step.agent_name} asked",
        status="STARTED",
        step_id=step.step_id,
        records=(step,),
        at=step.started_at,
    )
    started, tally = ctx.kit.clock.monotonic(), _Tally()
    try:
        reply = await _attempts(ctx, request, step, tally)
        answer = _read(request, step.step_id, reply)
    except ModelContractViolated as error:
        answer = Answer(step.step_id, ModelReply(text=None), None, error.error_code)
    except asyncio.CancelledError:
        _close(ctx, step, base, tally, started, None, error_code="CANCELLED")
        raise
    except Exception as error:
        _close(ctx, step, base, tally, started, None, error_code=_code_of(error))
        raise
    _close(ctx, step, base, tally, started, answer, error_code=None)
    return answer


async def _attempts(ctx: RunContext, request: ModelRequest, step: StepOpened, tally: _Tally) -> ModelReply:
    limit = ctx.kit.limits.max_model_attempts
    while True:
        tally.attempts += 1
        try:
            return await _attempt(ctx, request, step, tally)
        except ModelUnavailable as error:
            if not error.transient or tally.attempts >= limit:
                raise
            ctx.budget.check_model_call(request.role, ctx.kit.clock.monotonic())
            wait = _backoff(tally.attempts, error.retry_after, ctx.kit.ids.jitter())
            now = ctx.kit.clock.monotonic()
            if wait >= ctx.budget.limits.deadline_s - ctx.budget.elapsed(now):
                raise
            if wait >= ctx.budget.seconds_left(request.role, now):
                raise BudgetExhausted("deadline") from error
            await ctx.kit.clock.sleep(wait)
            ctx.budget.check_model_call(request.role, ctx.kit.clock.monotonic())


async def _attempt(ctx: RunContext, request: ModelRequest, step: StepOpened, tally: _Tally) -> ModelReply:
    """One call, its row in the ledger and its place in the run's counters, however it ends."""
    model = ctx.kit.models[request.role]
    at, started = ctx.kit.clock.now(), ctx.kit.clock.monotonic()
    status, code, reply, usage = "ERROR", None, None, None
    # A searching call must not eat the time that is kept for judging and releasing.
    patience = min(ctx.kit.limits.model_timeout_s, ctx.budget.seconds_left(request.role, started))
    ctx.budget.model_calls += 1
    try:
        async with asyncio.timeout(patience):
            reply = await model.complete(request)
        status, usage = "OK", _stated(reply.usage)
        return reply
    except TimeoutError:
        status, code = "TIMEOUT", "TIMEOUT"
        raise ModelUnavailable("The language model did not answer in time.", error_code="TIMEOUT") from None
    except asyncio.CancelledError:
        status, code = "CANCELLED", "CANCELLED"
        raise
    except ModelError as error:
        code, usage = _code_of(error), _stated(error.usage)
        status = "TIMEOUT" if code == "TIMEOUT" else "ERROR"
        raise
    except Exception as error:
        code = _code_of(error)
        raise
    finally:
        _count(ctx, request.role, tally, usage)
        record = _call_record(ctx, step, tally.attempts, status, code, reply, usage, at, started)
        ctx.pass_on(Emission(None, (record,)))


def _stated(usage: Usage | None) -> Usage | None:
    """The usage, or None where its figures cannot be a call's: they would end a budget, or buy a run for nothing."""
    if usage is None:
        return None
    figures = (usage.input_tokens, usage.output_tokens)
    return usage if all(type(n) is int and 0 <= n <= MOST_TOKENS_A_CALL for n in figures) else None


def _code_of(error: Exception) -> str:
    if isinstance(error, BudgetExhausted):
        return "BUDGET_EXHAUSTED"
    return (error.error_code if isinstance(error, ModelError) else type(error).__name__)[:CODE_LIMIT]


def _call_record(
    ctx: RunContext,
    step: StepOpened,
    attempt: int,
    status: str,
    error_code: str | None,
    reply: ModelReply | None,
    usage: Usage | None,
    at: datetime,
    started: float,
) -> ModelCall:
    return ModelCall(
        call_id=ctx.kit.ids.call_id(),
        step_id=step.step_id,
        role=step.role,
        attempt=attempt,
        model=(reply.model if reply and reply.model else step.model)[:200],
        status=status,
        error_code=error_code,
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cost_usd=usage.cost_usd if usage else None,
        finish_reason=reply.finish_reason[:60] if reply and reply.finish_reason else None,
        duration_ms=_ms(ctx, started),
        started_at=at,
    )


def _count(ctx: RunContext, role: Role, tally: _Tally, usage: Usage | None) -> None:
    usage = usage or Usage()
    tally.input_tokens += usage.input_tokens
    tally.output_tokens += usage.output_tokens
    ctx.budget.count(role, usage.input_tokens, usage.output_tokens)
    ctx.kit.spend(
        Spending(
            model_calls=1,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
        )
    )


def _backoff(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Seconds: what the server asked for, else doubling from half a second to the cap, with up to 50 % jitter."""
    wait = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2 ** (attempt - 1)) if retry_after is None else max(0.0, retry_after)
    return wait * (1 + jitter / 2)


def _read(request: ModelRequest, step_id: str, reply: ModelReply) -> Answer:
    if reply.tool_calls and request.tools:
        return Answer(step_id, reply, None, None)
    try:
        return Answer(step_id, reply, parse_reply(reply.text, request.output), None)
    except ModelContractViolated as error:
        return Answer(step_id, reply, None, error.safe_message[:200])


def _close(
    ctx: RunContext,
    step: StepOpened,
    base: ModelStep,
    tally: _Tally,
    started: float,
    answer: Answer | None,
    *,
    error_code: str | None,
) -> None:
    status = "COMPLETED" if answer is not None else "FAILED"
    calls = answer.reply.tool_calls[:MAX_CALLS_A_STEP] if answer else ()
    now = ctx.kit.clock.now()
    output = _output_summary(ctx, answer, error_code)
    records: list[Record] = [
        StepClosed(
            step_id=step.step_id,
            status=status,
            model_output=output,
            has_tool_call=bool(calls),
            tool_plan=_tool_plan(ctx, calls),
            input_tokens=tally.input_tokens,
            output_tokens=tally.output_tokens,
            duration_ms=_ms(ctx, started),
            finished_at=now,
        )
    ]
    if answer and (answer.reply.thinking or answer.reply.text):
        records.append(Reasoning(step.step_id, answer.reply.thinking, answer.reply.text, now))
    details = base.model_copy(
        update={
            "attempts": tally.attempts,
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
            "tool_names": tuple(dict.fromkeys(ctx.tool_label(c.name) for c in calls)),
            "error_code": error_code or ("CONTRACT" if answer and answer.violation else None),
        }
    )
    ctx.emit(
        EventType.AGENT_MODEL_STEP,
        details,
        f"{step.agent_name}: {output}",
        status=status,
        step_id=step.step_id,
        duration_ms=_ms(ctx, started),
        records=records,
        at=now,
    )


def _tool_plan(ctx: RunContext, calls: tuple[ToolCall, ...]) -> tuple[dict[str, str], ...]:
    """Calls by their position: the ids come from a model's server and could hold any text."""
    return tuple({"call_id": f"call-{n}", "tool_name": ctx.tool_label(c.name)} for n, c in enumerate(calls, 1))


def _ms(ctx: RunContext, started: float) -> int:
    return max(0, round((ctx.kit.clock.monotonic() - started) * 1000))


def _input_summary(request: ModelRequest) -> str:
    tools = f", {len(request.tools)} tools offered" if request.tools else ""
    return f"{len(request.messages)} messages under {request.schema_name}{tools}"


def _output_summary(ctx: RunContext, answer: Answer | None, error_code: str | None) -> str:
    """Says what kind of answer came, never what it said."""
    if answer is None:
        return f"no answer ({error_code})"
    if answer.reply.tool_calls and answer.parsed is None and answer.violation is None:
        names = ", ".join(dict.fromkeys(ctx.tool_label(c.name) for c in answer.reply.tool_calls))
        return f"{len(answer.reply.tool_calls)} tool call(s): {names}"[:200]
    if answer.violation:
        return "an answer outside its contract"
    return f"a {SCHEMA_SUMMARIES.get(type(answer.parsed).__name__, 'structured answer')}"


SCHEMA_SUMMARIES = {
    "RouterIntent": "routing decision",
    "SystemChatReply": "chat reply",
    "Plan": "plan",
    "ExecutorEvidence": "draft of claims",
    "VerifierEvaluation": "verdict on the claims",
    "ComposerOutput": "report text",
    "Supervision": "decision on what comes next",
}
