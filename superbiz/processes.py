"""The process manager behind `manage.py up`: web, worker and beat, watched, restarted and stopped in order."""

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.multiprocess import mark_process_dead

from superbiz.embedded import EmbeddedServers, ServiceError
from superbiz.env import Env
from superbiz.places import SHARED_METRICS, Places
from superbiz.programs import Program, Running, start, stop

WATCH_EVERY_S = 0.2
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
STEADY_AFTER_S = 60.0
# One worker in most instances: it has nobody to gossip or mingle with.
WORKER_OPTIONS = ("-P", "threads", "--without-gossip", "--without-mingle")

Say = Callable[[str], None]


def _empty(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir()


def programs(env: Env, extra_env: dict[str, str]) -> dict[str, Program]:
    """The three children by name, in the order in which they are stopped."""
    places = Places(env.var)
    common = {
        **extra_env,
        SHARED_METRICS: str(places.metrics),
        "SUPERBIZ_VAR": str(env.var),
        "PORT": str(env.port),
        "PYTHONUNBUFFERED": "1",
    }
    celery = (sys.executable, "-m", "celery", "-A", "superbiz", "--quiet")

    def program(name: str, argv: Sequence[str], stop: tuple[tuple[signal.Signals, float], ...]) -> Program:
        return Program(name, tuple(argv), places.log / f"{name}.log", stop, {**common, "SUPERBIZ_PROCESS": name})

    return {
        "web": program("web", [sys.executable, "-m", "superbiz.web"], ((signal.SIGTERM, 8.0),)),
        "beat": program(
            "beat", [*celery, "beat", "--schedule", str(places.beat_schedule), "--pidfile="], ((signal.SIGTERM, 5.0),)
        ),
        "worker": program(
            "worker",
            [*celery, "worker", *WORKER_OPTIONS, "-c", str(env.worker_concurrency), "-n", f"superbiz-{env.port}@%h"],
            # Warm: running tasks are told and may finish. Cold: they are dropped and handed out again later.
            ((signal.SIGTERM, 15.0), (signal.SIGQUIT, 5.0)),
        ),
    }


@dataclass(slots=True)
class _Restarts:
    """How often a child has died lately, and when it may be started again (monotonic seconds)."""

    count: int = 0
    started_at: float = 0.0
    due_at: float | None = None

    def plan(self, now: float) -> float:
        """Note one more death; returns the seconds to wait."""
        if now - self.started_at > STEADY_AFTER_S:
            self.count = 0
        delay = min(FIRST_DELAY_S * 2**self.count, LONGEST_DELAY_S)
        self.count += 1
        self.due_at = now + delay
        return delay


class Supervisor:
    """Keeps children and embedded servers running until `stop()`."""

    def __init__(self, servers: EmbeddedServers, say: Say) -> None:
        self._servers = servers
        self._record = servers.record
        self._say = say
        self._children: dict[str, Running] = {}
        self._restarts: dict[str, _Restarts] = {}

    def start(self, program: Program) -> None:
        """Start a child and keep it running from now on. Raises `OSError`."""
        if not self._children:  # the first one: counting begins anew
            _empty(program.env[SHARED_METRICS])
        restarts = self._restarts.setdefault(program.name, _Restarts())
        restarts.started_at, restarts.due_at = time.monotonic(), None
        self._children[program.name] = start(program, self._record)

    @property
    def deaths(self) -> int:
        """The most often that one child has died in a row."""
        return max((restarts.count for restarts in self._restarts.values()), default=0)

    async def watch(self) -> None:
        """Restart what dies, until cancelled."""
        while True:
            await self._look_after_servers()
            self._look_after_children()
            await asyncio.sleep(WATCH_EVERY_S)

    def _look_after_children(self) -> None:
        now = time.monotonic()
        for name, child in list(self._children.items()):
            if child.alive:
                continue
            restarts = self._restarts[name]
            if restarts.due_at is None:
                stop(child, self._record)  # what is left of its group
                mark_process_dead(child.process.pid, child.program.env[SHARED_METRICS])
                self._announce(name, child.process.returncode, restarts.plan(now), str(child.program.log))
            elif now >= restarts.due_at:
                self.start(child.program)

    async def _look_after_servers(self) -> None:
        now = time.monotonic()
        for name in self._servers.dead():
            restarts = self._restarts.setdefault(name, _Restarts())
            if restarts.due_at is None:
                self._announce(name, None, restarts.plan(now), "its log")
            elif now >= restarts.due_at:
                restarts.started_at, restarts.due_at = now, None
                try:
                    await asyncio.to_thread(self._servers.revive, name)
                except ServiceError as error:
                    self._say(str(error))

    def _announce(self, name: str, code: int | None, delay_s: float, log: str) -> None:
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        self._say(f"{name} ended unexpectedly{how}; starting it again in {delay_s:g} s, see {log}")

    async def stop(self, order: Sequence[str]) -> None:
        """Stop the children in this order, each within its bounded wait."""
        for name in order:
            if name in self._children and not await asyncio.to_thread(stop, self._children.pop(name), self._record):
                self._say(f"{name} did not stop in time and was killed")
