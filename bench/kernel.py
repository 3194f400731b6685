"""What the kernel itself takes: a run in memory with a model and tools that answer at once, and no ledger.

In CPU time: there is nothing to wait for, and so neighbours on the machine do not count.
"""

import asyncio
import statistics
import time
from datetime import UTC, datetime

from bench import workload
from bench.figures import Figure
from gatekeeper.shipped import shipped_rule_set
from runs.clock import SystemClock
from runs.harness.events import Emission, StepOpened
from runs.harness.pipeline import drive
from runs.harness.ports import Role
from runs.harness.run import Kit, Prompt, RunInput, Settled, Spending
from runs.ids import RandomIds

REPEATS = 15
MANY_CALLS = 4


class Listener:
    """Where a ledger would be: counts the model steps."""

    def __init__(self) -> None:
        self.steps = 0

    def emit(self, emission: Emission) -> None:
        self.steps += sum(isinstance(record, StepOpened) for record in emission.records)

    def spend(self, spending: Spending) -> None:
        """Nothing is kept."""

    async def settle(self) -> Settled:
        return Settled(complete=True)


def kit(model: workload.InstantModel, listener: Listener) -> Kit:
    return Kit(
        models=dict.fromkeys(Role, model),
        tools=workload.tools(),
        prompts={role: Prompt(role, f"{role}-v1", f"prompts/{role}.md", "0" * 64, f"You are {role}.") for role in Role},
        prompt_set_version="aiops-prompts-v1",
        rule_set=shipped_rule_set(),
        limits=workload.LIMITS,
        clock=SystemClock(),
        ids=RandomIds(),
        emit=listener.emit,
        spend=listener.spend,
        settle=listener.settle,
    )


def run_input() -> RunInput:
    return RunInput(
        run_id="run_0000000000000001",
        session_id="alert-c0ffee00c0ffee00",
        trigger="ALERT",
        query=workload.QUERY,
        subject=workload.SUBJECT,
        attempt=1,
        started_at=datetime.now(UTC),
    )


async def one_run(calls_a_round: int) -> float:
    """Milliseconds of CPU of one whole run. Raises RuntimeError where it is not the run that was meant."""
    listener = Listener()
    equipped = kit(workload.InstantModel(calls_a_round=calls_a_round), listener)
    started = time.process_time()
    conclusion = await drive(run_input(), equipped)
    took = (time.process_time() - started) * 1_000
    if conclusion.status != "SUCCESS" or listener.steps != workload.STEPS:
        raise RuntimeError(f"The benchmark's run ended {conclusion.status} after {listener.steps} steps.")
    return took


async def _measure() -> list[Figure]:
    await one_run(1)
    few, many = [], []
    for _ in range(REPEATS):
        few.append(await one_run(1))
        many.append(await one_run(MANY_CALLS))
    more_calls = workload.ROUNDS * (MANY_CALLS - 1)
    a_call = (statistics.median(many) - statistics.median(few)) / more_calls
    return [
        Figure("kernel: a model step with its tool call (CPU)", statistics.median(few) / workload.STEPS, "ms", aim=1),
        Figure("kernel: one more tool call (CPU)", a_call, "ms", aim=1),
    ]


def run() -> list[Figure]:
    return asyncio.run(_measure())
