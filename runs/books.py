"""The books of one attempt: passes on what the kernel emits, counts it, and keeps the run's row up to date.

The kernel's callbacks return at once. Counters go to the row behind them, one fenced UPDATE for all that came
together meanwhile and ten a second at most; what cannot be written now is written later. The values are absolute
(`runs.tally`), so that a write which was committed without our learning of it may be made again.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import structlog
from django.db import Error

from gatekeeper.types import Intent
from runs import lifecycle
from runs.harness.events import Emission, InvocationRecord, ModelCall, StepOpened
from runs.harness.run import Conclusion, Emitted, Settled, Spending
from runs.observers import RunRef, observe_all, settle_all
from runs.orm import run_in_orm
from runs.tally import Tally

log = structlog.get_logger(__name__)

# A step changes the counters several times within milliseconds; nobody needs them that fast.
WRITE_EVERY_S = 0.1
RETRY_S = 0.5


class Books:
    """Used on one event loop. `on_lost` is called when a write shows that the lease is another's."""

    def __init__(self, ref: RunRef, tally: Tally, on_lost: Callable[[], None]) -> None:
        self.ref = ref
        self._on_lost = on_lost
        self._tally = tally
        self._intent: Intent | None = None
        self._unwritten = False
        self._asked: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    # ---- the kernel's callbacks ----

    def emit(self, emission: Emission) -> None:
        self._tally = self._tally.and_emitted(_counts(emission))
        for record in emission.records:
            if isinstance(record, InvocationRecord):
                self._asked[record.tool_name, record.evidence_status] += 1
        observe_all(self.ref, emission)
        self._note_change()

    def spend(self, spending: Spending) -> None:
        self._tally = self._tally.and_spent(spending)
        self._note_change()

    async def mark_intent(self, intent: Intent) -> None:
        """On the row before the run's path starts; where the database is away, with the counters later."""
        try:
            await run_in_orm(lifecycle.mark_intent, self.ref, intent)
        except Error as error:
            log.warning("the intent waits", run_id=self.ref.run_id, error=type(error).__name__)
            self._intent = intent
            self._note_change()

    async def settle(self) -> Settled:
        return await settle_all(self.ref)

    def _note_change(self) -> None:
        self._unwritten = True
        self._changed.set()

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
        if not self._unwritten:
            return
        self._unwritten = False
        tally, intent = self._tally, self._intent
        try:
            held = await run_in_orm(_write, self.ref, tally, intent)
        except Error:
            self._note_change()
            raise
        if self._intent is intent:
            self._intent = None
        if not held:
            self._on_lost()

    # ---- at the end ----

    def closing_tally(self, conclusion: Conclusion) -> Tally:
        """The counters as the end leaves them; what was emitted is the kernel's own count, beside any observer."""
        return replace(self._tally, emitted=conclusion.emitted)

    @property
    def emitted(self) -> Emitted:
        """All that passed here in this attempt."""
        return self._tally.emitted

    def looked_at(self) -> list[str]:
        """One line a tool and how its calls ended."""
        return [f"{tool}: {count} × {status}" for (tool, status), count in sorted(self._asked.items())]


def _write(ref: RunRef, tally: Tally, intent: Intent | None) -> bool:
    if intent is not None:
        lifecycle.mark_intent(ref, intent)
    return lifecycle.keep_tally(ref, tally)


def _counts(emission: Emission) -> Emitted:
    return Emitted(
        events=int(emission.frame is not None),
        steps=sum(isinstance(record, StepOpened) for record in emission.records),
        tool_invocations=sum(isinstance(record, InvocationRecord) for record in emission.records),
        model_calls=sum(isinstance(record, ModelCall) for record in emission.records),
    )
