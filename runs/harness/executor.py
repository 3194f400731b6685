"""The executor's conversation: it calls tools until it has a draft, or until searching on is pointless."""

from dataclasses import dataclass, field

from gatekeeper.types import Draft
from runs.harness import drafts, inputs
from runs.harness.asking import Answer, ask
from runs.harness.context import RunContext
from runs.harness.convergence import Convergence, Stop
from runs.harness.events import ConvergenceStop, EventType
from runs.harness.ports import AssistantMessage, Message, Role, ToolSpec
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
    """One conversation for the whole run: a later EXECUTE or the repair round goes on where it stood."""

    ctx: RunContext
    role: Role
    toolbox: Toolbox
    specs: tuple[ToolSpec, ...]
    messages: list[Message] = field(default_factory=list)
    draft: Draft = drafts.EMPTY
    violation: str | None = None
    stopped: Stop | None = None

    async def work(self, opening: Message) -> Draft:
        """Goes on from `opening` until the model gives a draft. Raises `BudgetExhausted`, `ModelError`.

        The draft so far stays in `self.draft` whatever is raised.
        """
        self.messages.append(opening)
        convergence = Convergence()
        concluding = reminded = False
        while True:
            if not concluding and self.ctx.budget.must_conclude(self.ctx.kit.clock.monotonic()):
                concluding = True
                self.messages.append(inputs.executor_concludes(STOP_SENTENCES["BUDGET"]))
            answer = await ask(self.ctx, self.role, tuple(self.messages), () if concluding else self.specs)
            if answer.reply.tool_calls and answer.parsed is None and not concluding:
                stop = await self._call_tools(answer, convergence)
                if stop is not None:
                    concluding = True
                    self._tell_stop(stop)
                continue
            self.messages.append(AssistantMessage(answer.reply.text or ""))
            if answer.violation is not None and not reminded and not self._out_of_calls():
                reminded = True
                self.messages.append(inputs.executor_reminded(answer.violation))
                continue
            return self._take(answer)

    def _out_of_calls(self) -> bool:
        return self.ctx.budget.searching_calls_left() == 0

    async def _call_tools(self, answer: Answer, convergence: Convergence) -> Stop | None:
        calls = answer.reply.tool_calls
        self.messages.append(AssistantMessage(answer.reply.text, calls))
        round_ = await self.toolbox.call(answer.step_id, calls)
        self.messages.extend(round_.messages)
        return convergence.observe(list(round_.keys), new_evidence=round_.new_evidence)

    def _tell_stop(self, stop: Stop) -> None:
        self.stopped = stop
        tool = self.ctx.tool_label(stop.tool_name) if stop.tool_name else None
        self.ctx.emit(
            EventType.CONVERGENCE_STOP,
            ConvergenceStop(reason=stop.reason, rounds=stop.rounds, tool_name=tool),
            f"search stopped: {STOP_SENTENCES[stop.reason]}",
            status=stop.reason,
        )
        self.messages.append(inputs.executor_concludes(STOP_SENTENCES[stop.reason]))

    def _take(self, answer: Answer) -> Draft:
        self.violation = answer.violation
        if isinstance(answer.parsed, ExecutorEvidence):
            self.draft = drafts.from_wire(answer.parsed)
        else:
            self.draft = drafts.salvage(answer.reply.text)
        return self.draft
