"""The clock of a live run."""

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """`runs.harness.ports.Clock` over the machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
