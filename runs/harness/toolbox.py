"""Runs the tool calls of one model step: checks, caps, breaker, time limit, record, answer."""

import asyncio
import json
import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from gatekeeper.types import EvidenceStatus, SourceKind
from runs.errors import ToolError, ToolFailed, ToolRejected
from runs.harness.context import KeptInvocation, RunContext
from runs.harness.convergence import call_key
from runs.harness.events import EventType, InvocationRecord, ToolInvoked
from runs.harness.ports import Tool, ToolCall, ToolContext, ToolMessage, ToolResult
from runs.harness.run import Spending
from runs.harness.toolanswers import answer_text
from runs.harness.wire import BREAKER_OPEN, ToolAnswerError

log = logging.getLogger(__name__)

SAME_CALL = "SAME_CALL_IN_RUN"
MAX_PARAM_CHARS = 2_000
MAX_ARGUMENT_CHARS = 100_000
MAX_DEPTH = 32

Outcome: TypeAlias = ToolResult | ToolError | TimeoutError


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call with its id and its start. `arguments` None: it was refused, `refusal` says why."""

    call: ToolCall
    invocation_id: str
    at: datetime
    started: float
    key: str
    params: Any
    arguments: BaseModel | None = None
    refusal: ToolAnswerError | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of calls brought: the messages for the model, the keys, whether anything was new."""

    messages: tuple[ToolMessage, ...]
    keys: tuple[str, ...]
    new_evidence: bool


@dataclass(slots=True)
class Toolbox:
    """The tools of one run. `answered` maps a call's key to the invocation that answered it.

    `ended` holds when each call came back, by invocation: calls of one round do not wait for each other.
    """

    ctx: RunContext
    answered: dict[str, str]
    executed: dict[str, int]
    seen_texts: set[str]
    ended: dict[str, float]

    @classmethod
    def of(cls, ctx: RunContext) -> "Toolbox":
        return cls(ctx, {}, {}, set(), {})

    async def call(self, step_id: str, calls: tuple[ToolCall, ...]) -> Round:
        """Runs `calls` side by side, equal ones once; ids are given in the order of the calls."""
        prepared: list[Prepared] = []
        first: dict[str, Prepared] = {}
        for call in calls:
            item = self._prepare(call, first)
            prepared.append(item)
            if item.refusal is None and item.key not in self.answered:
                first.setdefault(item.key, item)
        outcomes: dict[str, Outcome] = {}
        try:
            await asyncio.gather(*(self._run(item, outcomes) for item in first.values()))
        except asyncio.CancelledError:
            cancelled = ToolFailed("The run was cancelled during this call.", error_code="CANCELLED")
            for item in first.values():
                outcomes.setdefault(item.invocation_id, cancelled)
            self._settle_all(step_id, prepared, outcomes)
            raise
        return self._settle_all(step_id, prepared, outcomes)

    def _settle_all(self, step_id: str, prepared: list[Prepared], outcomes: Mapping[str, Outcome]) -> Round:
        messages, new = [], False
        for item in prepared:
            message, brought = self._settle(step_id, item, outcomes.get(item.invocation_id))
            messages.append(message)
            new = new or brought
        return Round(tuple(messages), tuple(item.key for item in prepared), new)

    # ---- before the call ----

    def _prepare(self, call: ToolCall, pending: Container[str]) -> Prepared:
        """`pending`: keys of calls that are about to be made; the same call again costs nothing."""
        ctx = self.ctx
        params, refusal, arguments = _loads(call.arguments), None, None
        tool = ctx.kit.tools.get(call.name)
        if tool is None:
            refusal = ToolAnswerError(code="UNKNOWN_TOOL", message="There is no tool of this name in this run.")
        else:
            arguments, refusal = _validated(tool, params)
            if arguments is not None:
                params = arguments.model_dump(mode="json", exclude_none=True)
        key = call_key(call.name, params)
        if refusal is None and key not in self.answered and key not in pending:
            refusal = self._cap(tool)
        ctx.budget.tool_calls += 1
        ctx.kit.spend(Spending(tool_calls=1))
        return Prepared(
            call=call,
            invocation_id=ctx.kit.ids.invocation_id(),
            at=ctx.kit.clock.now(),
            started=ctx.kit.clock.monotonic(),
            key=key,
            params=params,
            arguments=arguments if refusal is None else None,
            refusal=refusal,
        )

    def _cap(self, tool: Tool | None) -> ToolAnswerError | None:
        limits = self.ctx.kit.limits
        if tool is None:
            return None
        if self.ctx.budget.tool_calls >= limits.max_tool_calls:
            self.ctx.note(f"The run's {limits.max_tool_calls} tool calls were used up.")
            return ToolAnswerError(code="TOOL_BUDGET", message="The run's tool calls are used up. Conclude now.")
        if self.executed.get(tool.name, 0) >= limits.max_same_tool_calls:
            self.ctx.note(f"{tool.name} was called {limits.max_same_tool_calls} times, the most one run may.")
            return ToolAnswerError(code="TOOL_CAP", message=f"{tool.name} was called often enough in this run.")
        breaker = self.ctx.kit.breakers.get(tool.name)
        if breaker is not None and not breaker.allow():
            return ToolAnswerError(
                code=BREAKER_OPEN, message=f"{tool.name} failed repeatedly and is not asked for a while."
            )
        self.executed[tool.name] = self.executed.get(tool.name, 0) + 1
        return None

    # ---- the call ----

    async def _run(self, item: Prepared, outcomes: dict[str, Outcome]) -> None:
        ctx = self.ctx
        tool = ctx.kit.tools[item.call.name]
        breaker = ctx.kit.breakers.get(tool.name)
        now = ctx.kit.evidence_now() if ctx.kit.evidence_now else item.at
        context = ToolContext(
            run_id=ctx.run.run_id,
            session_id=ctx.run.session_id,
            now=now,
            query=ctx.run.query,
            seen_in_run=ctx.seen_documents(),
            seen_in_session=ctx.run.seen_documents,
        )
        outcome: Outcome
        try:
            async with asyncio.timeout(ctx.kit.limits.tool_timeout_s):
                outcome = await tool.run(item.arguments, context)
        except TimeoutError as error:
            outcome = error
        except ToolError as error:
            outcome = error
        except Exception:
            log.exception("tool %s failed unexpectedly", tool.name)
            outcome = ToolFailed(f"{tool.name} failed unexpectedly.", error_code="INTERNAL")
        if breaker is not None:
            (breaker.failed if isinstance(outcome, TimeoutError | ToolFailed) else breaker.succeeded)()
        outcomes[item.invocation_id] = outcome
        self.ended[item.invocation_id] = ctx.kit.clock.monotonic()

    # ---- after the call ----

    def _settle(self, step_id: str, item: Prepared, outcome: Outcome | None) -> tuple[ToolMessage, bool]:
        """Records one call and words its answer. True where it brought evidence not seen before."""
        if item.refusal is not None:
            return self._refused(step_id, item, item.refusal, EvidenceStatus.REJECTED), False
        if outcome is None:
            return self._repeated(step_id, item), False
        if isinstance(outcome, TimeoutError):
            limit = self.ctx.kit.limits.tool_timeout_s
            error = ToolAnswerError(code="TIMEOUT", message=f"No answer within {limit:g} seconds.")
            return self._refused(step_id, item, error, EvidenceStatus.TIMEOUT), False
        if isinstance(outcome, ToolError):
            status = EvidenceStatus.REJECTED if isinstance(outcome, ToolRejected) else EvidenceStatus.FAILED
            error = ToolAnswerError(code=outcome.error_code, message=outcome.safe_message[:1000])
            return self._refused(step_id, item, error, status), False
        try:
            message = self._answered(step_id, item, outcome)
        except (ValueError, TypeError, RecursionError):
            log.exception("tool %s gave a result that is not JSON", item.call.name)
            error = ToolAnswerError(code="MALFORMED_RESULT", message="The tool's result could not be read.")
            return self._refused(step_id, item, error, EvidenceStatus.FAILED), False
        self.answered[item.key] = item.invocation_id
        texts = {ref.text for ref in outcome.evidence_refs if outcome.status is EvidenceStatus.OK}
        brought = not texts <= self.seen_texts
        self.seen_texts |= texts
        return message, brought

    def _answered(self, step_id: str, item: Prepared, result: ToolResult) -> ToolMessage:
        text, shown, cut = answer_text(
            item.invocation_id,
            item.call.name,
            result.status.value,
            result.output,
            result.evidence_refs,
            None,
            self.ctx.kit.limits.max_tool_output_chars,
        )
        refs = tuple(
            {
                "raw_path": ref.raw_path,
                "text": ref.text,
                "shown": ref.raw_path in shown,
                "relevance": ref.relevance.value if ref.relevance else None,
            }
            for ref in result.evidence_refs
        )
        record = self._record(
            step_id,
            item,
            status=result.status,
            output=result.output,
            output_preview=result.preview,
            evidence_refs=refs,
            retrieval_layer=result.retrieval_layer,
            l0_match_count=result.l0_match_count,
            l1_match_count=result.l1_match_count,
            retrieval_details=dict(result.details),
            relevance_level=result.relevance.value if result.relevance else None,
            dedup_reason=result.dedup_reason,
            truncated=cut,
        )
        self._keep(record, KeptInvocation(record, result.documents))
        return ToolMessage(item.call.call_id, item.call.name, text)

    def _repeated(self, step_id: str, item: Prepared) -> ToolMessage:
        """The same call again: answered from the run's own record, under an id of its own."""
        original_id = self.answered.get(item.key)
        if original_id is None:
            error = ToolAnswerError(code="SAME_CALL_FAILED", message="The same call in this round failed.")
            return self._refused(step_id, item, error, EvidenceStatus.REJECTED)
        kept = self.ctx.invocations[original_id]
        record = replace(
            kept.record,
            invocation_id=item.invocation_id,
            step_id=step_id,
            evidence_status=EvidenceStatus.DEDUPLICATED.value,
            dedup_reason=SAME_CALL,
            retrieval_details={"answered_by": original_id},
            duration_ms=0,
            started_at=item.at,
        )
        self._keep(record, KeptInvocation(record, kept.documents))
        output = {"same_as": original_id, "note": "This call was answered before. Use what it gave, or conclude."}
        text, _, _ = answer_text(
            item.invocation_id, item.call.name, record.evidence_status, output, (), None, MAX_PARAM_CHARS
        )
        return ToolMessage(item.call.call_id, item.call.name, text)

    def _refused(self, step_id: str, item: Prepared, error: ToolAnswerError, status: EvidenceStatus) -> ToolMessage:
        record = self._record(
            step_id,
            item,
            status=status,
            output=None,
            output_preview="",
            error_code=error.code[:60],
            error_message=error.message[:1000],
        )
        self._keep(record, KeptInvocation(record, ()))
        text, _, _ = answer_text(item.invocation_id, item.call.name, status.value, None, (), error, MAX_PARAM_CHARS)
        return ToolMessage(item.call.call_id, item.call.name, text)

    def _record(
        self, step_id: str, item: Prepared, *, status: EvidenceStatus, output: Any, output_preview: str, **fields: Any
    ) -> InvocationRecord:
        tool = self.ctx.kit.tools.get(item.call.name)
        defaults: dict[str, Any] = {
            "evidence_refs": (),
            "retrieval_layer": None,
            "l0_match_count": None,
            "l1_match_count": None,
            "retrieval_details": {},
            "relevance_level": None,
            "dedup_reason": None,
            "error_code": None,
            "error_message": None,
            "truncated": False,
        }
        elapsed = self.ended.get(item.invocation_id, self.ctx.kit.clock.monotonic()) - item.started
        return InvocationRecord(
            invocation_id=item.invocation_id,
            step_id=step_id,
            tool_name=self.ctx.tool_label(item.call.name),
            source_kind=(tool.source_kind if tool else SourceKind.OTHER).value,
            input_params=self.ctx.kit.redact(_bounded(item.params)),
            output=output,
            output_preview=output_preview,
            evidence_status=status.value,
            duration_ms=max(0, round(elapsed * 1000)),
            success=not status.failed,
            started_at=item.at,
            **(defaults | fields),
        )

    def _keep(self, record: InvocationRecord, kept: KeptInvocation) -> None:
        self.ctx.keep(kept)
        count = sum(ref["raw_path"] != "$.no_evidence" for ref in record.evidence_refs)
        said = record.error_code or f"{count} piece(s) of evidence"
        self.ctx.emit(
            EventType.TOOL_INVOCATION,
            ToolInvoked(
                tool_name=record.tool_name,
                evidence_status=record.evidence_status,
                evidence_count=count,
                relevance_level=record.relevance_level,
                dedup_reason=record.dedup_reason,
                error_code=record.error_code,
                truncated=record.truncated,
            ),
            f"{record.tool_name}: {record.evidence_status}, {said}",
            status=record.evidence_status,
            step_id=record.step_id,
            invocation_id=record.invocation_id,
            duration_ms=record.duration_ms,
            records=(record,),
        )


def _loads(arguments: str) -> Any:
    """The arguments as JSON; None where they are not, or are longer or deeper than any honest call."""
    if not arguments.strip():
        return {}
    if len(arguments) > MAX_ARGUMENT_CHARS:
        return None
    try:
        value = json.loads(arguments)
        if not _shallow(value):
            return None
        # What no tool could send on: NaN, infinities, halves of surrogate pairs.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return True
    return False


def _validated(tool: Tool, params: Any) -> tuple[BaseModel | None, ToolAnswerError | None]:
    """The arguments against the tool's schema; what is wrong is told to the model, never run with `{}`."""
    if not isinstance(params, dict):
        return None, ToolAnswerError(code="INVALID_ARGUMENTS", message="The arguments are not a JSON object.")
    try:
        return tool.arguments.model_validate(params), None
    except ValidationError as error:
        faults = [
            {"field": ".".join(str(part) for part in fault["loc"])[:200], "problem": fault["msg"][:200]}
            for fault in error.errors(include_url=False, include_context=False, include_input=False)[:8]
        ]
        message = "The arguments do not fit the tool's schema."
        return None, ToolAnswerError(code="INVALID_ARGUMENTS", message=message, details=faults)


def _bounded(params: Any) -> dict[str, Any]:
    if isinstance(params, dict) and len(json.dumps(params, default=str)) <= MAX_PARAM_CHARS:
        return params
    return {"unreadable": True} if params is None else {"too_long": True}
