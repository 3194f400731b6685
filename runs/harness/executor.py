"""The executor's conversation: it calls tools until it has a draft, or until searching on is pointless."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from gatekeeper.types import Draft
from runs.harness import drafts, inputs
from runs.harness.asking import Answer, ask
from runs.harness.context import MAX_CALLS_A_STEP, RunContext
from runs.harness.convergence import Convergence, Stop
from runs.harness.events import ConvergenceStop, EventType
from runs.harness.ports import AssistantMessage, Message, Role, Tool, ToolSpec
from runs.harness.toolbox import Toolbox
from runs.harness.wire import ExecutorEvidence

STOP_SENTENCES = {
    "NO_NEW_EVIDENCE": "the last rounds brought no new evidence",
    "CYCLE": "the same calls came round again",
    "DRIFTING_ARGUMENTS": "one tool was asked again and again with only its numbers changing",
    "BUDGET": "the budget is nearly used up",
}


@dataclass(slots=True)
class Executor:
    """One conversation for the whole run: a later EXECUTE or the repair round goes on where it stood.

    `violation` says how the latest answer broke its contract; `draft` is the latest that could be read.
    """

    ctx: RunContext
    role: Role
    toolbox: Toolbox
    specs: tuple[ToolSpec, ...]
    messages: list[Message] = field(default_factory=list)
    draft: Draft = drafts.EMPTY
    violation: str | None = None
    convergence: Convergence = field(default_factory=Convergence)
    stopped: Stop | None = None
    stops: int = 0

    @classmethod
    def begin(cls, ctx: RunContext, role: Role) -> "Executor":
        """With all tools that the run has by now."""
        return cls(ctx, role, Toolbox.of(ctx), specs(ctx.kit.tools))

    @property
    def deaf(self) -> bool:
        """Offering tools again is pointless: it was stopped twice, or gave no draft when told to conclude."""
        return self.stops > 1 or (self.stops == 1 and self.violation is not None)

    async def work(self, opening: Message) -> Draft:
        """Goes on from `opening` until the model gives a draft. Raises `BudgetExhausted`, `ModelError`.

        The draft so far stays in `self.draft` whatever is raised.
        """
        self.messages.append(opening)
        self.convergence.resume()
        concluding = reminded = False
        while True:
            if not concluding and (reason := self._reason_to_conclude()):
                concluding = True
                self.messages.append(inputs.executor_concludes(STOP_SENTENCES[reason]))
            answer = await ask(self.ctx, self.role, tuple(self.messages), () if concluding else self.specs)
            if answer.reply.tool_calls and answer.parsed is None and not concluding:
                stop = await self._call_tools(answer)
                if stop is not None:
                    concluding = True
                    self._tell_stop(stop)
                continue
            self.messages.append(AssistantMessage(answer.reply.text or ""))
            self._take(answer)
            if answer.violation is None or reminded or self._out_of_calls():
                return self.draft
            reminded = True
            self.messages.append(inputs.executor_reminded(answer.violation))

    def _reason_to_conclude(self) -> str | None:
        """A key of STOP_SENTENCES where no tools are offered any more."""
        if self.stopped is not None and self.deaf:
            return self.stopped.reason
        return "BUDGET" if self.ctx.budget.must_conclude(self.ctx.kit.clock.monotonic()) else None

    def _out_of_calls(self) -> bool:
        return self.ctx.budget.searching_calls_left() == 0

    async def _call_tools(self, answer: Answer) -> Stop | None:
        calls = answer.reply.tool_calls[:MAX_CALLS_A_STEP]
        self.messages.append(AssistantMessage(answer.reply.text, calls))
        round_ = await self.toolbox.call(answer.step_id, calls)
        self.messages.extend(round_.messages)
        return self.convergence.observe(list(round_.keys), new_evidence=round_.new_evidence)

    def _tell_stop(self, stop: Stop) -> None:
        self.stopped = stop
        self.stops += 1
        tool = self.ctx.tool_label(stop.tool_name) if stop.tool_name else None
        self.ctx.emit(
            EventType.CONVERGENCE_STOP,
            ConvergenceStop(reason=stop.reason, rounds=stop.rounds, tool_name=tool),
            f"search stopped: {STOP_SENTENCES[stop.reason]}",
            status=stop.reason,
        )
        self.ctx.note(f"The search was stopped early: {STOP_SENTENCES[stop.reason]}.")
        self.messages.append(inputs.executor_concludes(STOP_SENTENCES[stop.reason]))

    def _take(self, answer: Answer) -> None:
        """An answer with nothing in it to read leaves the draft before it as the last that counts."""
        self.violation = answer.violation
        if isinstance(answer.parsed, ExecutorEvidence):
            self.draft = drafts.from_wire(answer.parsed)
            return
        salvaged = drafts.salvage(answer.reply.text)
        if salvaged.claims or not self.draft.claims:
            self.draft = salvaged


def specs(tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """How the tools are offered to a model, in a stable order."""
    return tuple(ToolSpec(tool.name, tool.description, _schema(tool.arguments)) for _, tool in sorted(tools.items()))


@functools.cache
def _schema(arguments: type[BaseModel]) -> Mapping[str, Any]:
    """Made once: to make it takes milliseconds."""
    return arguments.model_json_schema()
