"""The books of one attempt: passes on what the kernel emits, counts it, and keeps the run's row up to date.

The kernel's callbacks return at once. Counters go to the row behind them, one fenced UPDATE for all that came
together meanwhile and ten a second at most; what cannot be written now is kept and tried again.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, replace

import structlog
from django.db import Error

from gatekeeper.types import Intent
from runs import lifecycle
from runs.harness.events import Emission, InvocationRecord, ModelCall, RoutingDecision, StepOpened
from runs.harness.run import Conclusion, Emitted, Settled, Spending
from runs.observers import RunRef, observe_all, settle_all
from runs.orm import run_in_orm

log = structlog.get_logger(__name__)

# A step changes the counters several times within milliseconds; nobody needs them that fast.
WRITE_EVERY_S = 0.1
RETRY_S = 0.5


class Books:
    """Used on one event loop. `on_lost` is called when a write shows that the lease is another's."""

    def __init__(self, ref: RunRef, on_lost: Callable[[], None]) -> None:
        self.ref = ref
        self._on_lost = on_lost
        self._spending = Spending()
        self._emitted = Emitted()
        self._written = Emitted()
        self._intent: Intent | None = None
        self._asked: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    # ---- the kernel's callbacks ----

    def emit(self, emission: Emission) -> None:
        self._emitted = _plus(self._emitted, _counts(emission))
        for record in emission.records:
            if isinstance(record, InvocationRecord):
                self._asked[record.tool_name, record.evidence_status] += 1
        if emission.frame is not None and isinstance(emission.frame.details, RoutingDecision):
            self._intent = Intent(emission.frame.details.intent)
        observe_all(self.ref, emission)
        self._changed.set()

    def spend(self, spending: Spending) -> None:
        self._spending = _spent(self._spending, spending)
        self._changed.set()

    async def settle(self) -> Settled:
        return await settle_all(self.ref)

    # ---- keeping them ----

    def open(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name=f"books {self.ref.run_id}")

    async def close(self) -> None:
        """Stop writing behind, and write what is left. Raises `django.db.Error` when the database is away."""
        self._closing.set()
        self._changed.set()
        if self._keeper is not None:
            await self._keeper
        await self._flush()

    async def _keep(self) -> None:
        while not self._closing.is_set():
            await self._changed.wait()
            pause = WRITE_EVERY_S
            try:
                await self._flush()
            except Error as error:
                log.warning("counters wait", run_id=self.ref.run_id, error=type(error).__name__)
                pause = RETRY_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause)

    async def _flush(self) -> None:
        self._changed.clear()
        spending, emitted, intent = self._spending, self._emitted, self._intent
        self._spending, self._intent = Spending(), None
        try:
            held = await run_in_orm(_write, self.ref, spending, _minus(emitted, self._written), intent)
        except Error:
            self._spending = _spent(spending, self._spending)
            self._intent = intent
            self._changed.set()
            raise
        self._written = emitted
        if not held:
            self._on_lost()

    # ---- at the end ----

    def finished(self, conclusion: Conclusion) -> Conclusion:
        """The conclusion as `lifecycle.finish` takes it: with the counts that the row does not have yet."""
        return replace(conclusion, emitted=_minus(conclusion.emitted, self._written))

    @property
    def emitted(self) -> Emitted:
        """All that passed here in this attempt."""
        return self._emitted

    def looked_at(self) -> list[str]:
        """One line a tool and how its calls ended."""
        return [f"{tool}: {count} × {status}" for (tool, status), count in sorted(self._asked.items())]


def _write(ref: RunRef, spending: Spending, emitted: Emitted, intent: Intent | None) -> bool:
    if intent is not None:
        lifecycle.mark_intent(ref, intent)
    return lifecycle.spend(ref, spending, emitted)


def _counts(emission: Emission) -> Emitted:
    return Emitted(
        events=int(emission.frame is not None),
        steps=sum(isinstance(record, StepOpened) for record in emission.records),
        tool_invocations=sum(isinstance(record, InvocationRecord) for record in emission.records),
        model_calls=sum(isinstance(record, ModelCall) for record in emission.records),
    )


def _plus(left: Emitted, right: Emitted) -> Emitted:
    return Emitted(*(a + b for a, b in zip(astuple(left), astuple(right), strict=True)))


def _minus(left: Emitted, right: Emitted) -> Emitted:
    return Emitted(*(a - b for a, b in zip(astuple(left), astuple(right), strict=True)))


def _spent(left: Spending, right: Spending) -> Spending:
    costs = [cost for cost in (left.cost_usd, right.cost_usd) if cost is not None]
    return Spending(
        model_calls=left.model_calls + right.model_calls,
        tool_calls=left.tool_calls + right.tool_calls,
        input_tokens=left.input_tokens + right.input_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        cost_usd=sum(costs) if costs else None,
    )
