"""Child processes: how one is started, remembered, and ended with nothing left behind.

Every child gets a session of its own, so that a terminal's Ctrl-C reaches only the parent, which then stops the
children in order.
"""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

KILL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Program:
    """What to run and how to ask it to stop.

    `stop` is tried in order: a signal and the seconds to wait for its effect; SIGKILL to the whole group ends it.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    stop: tuple[tuple[signal.Signals, float], ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: str | None = None


@dataclass(slots=True)
class Running:
    """A started program."""

    program: Program
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class ProcessRecord:
    """`processes.json`: pid and start time of every living child, to recognise them after their parent was killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[int, float] = {}

    def add(self, pid: int) -> None:
        with self._lock, contextlib.suppress(psutil.NoSuchProcess):
            self._entries[pid] = psutil.Process(pid).create_time()
            self._write()

    def remove(self, pid: int) -> None:
        with self._lock:
            self._entries.pop(pid, None)
            self._write()

    def _write(self) -> None:
        if not self._entries:
            self._path.unlink(missing_ok=True)
            return
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps([{"pid": pid, "created": made} for pid, made in self._entries.items()]))
        draft.replace(self._path)


def end_leftovers(path: Path) -> None:
    """End what a killed parent left running; a pid that now belongs to something else is left alone."""
    try:
        entries = json.loads(path.read_text())
    except (OSError, ValueError):
        entries = []
    found: list[psutil.Process] = []
    for entry in entries:
        with contextlib.suppress(psutil.NoSuchProcess, KeyError, TypeError, ValueError):
            process = psutil.Process(int(entry["pid"]))
            if abs(process.create_time() - float(entry["created"])) < 1.0:
                # SIGINT is PostgreSQL's fast shutdown (SIGTERM would wait for its clients) and ends the others too.
                process.send_signal(signal.SIGINT)
                found.append(process)
    _gone, stubborn = psutil.wait_procs(found, timeout=KILL_WAIT_S)
    for process in stubborn:
        kill_group(process.pid)
    psutil.wait_procs(stubborn, timeout=KILL_WAIT_S)
    path.unlink(missing_ok=True)


def as_user(name: str | None) -> dict[str, Any]:
    """`Popen` arguments to run as a system user with none of our groups; nothing for None."""
    if name is None:
        return {}
    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def start(program: Program, record: ProcessRecord) -> Running:
    """Start a program in its own session, output appended to its log file, ours alone. Raises `OSError`."""
    with open(program.log, "ab", opener=_private) as log:  # Path.open takes no opener
        os.fchmod(log.fileno(), 0o600)  # one that an earlier version made
        process = subprocess.Popen(
            program.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=program.cwd,
            env={**os.environ, **program.env},
            start_new_session=True,
            **as_user(program.user),
        )
    record.add(process.pid)
    return Running(program, process)


def stop(running: Running, record: ProcessRecord) -> bool:
    """Stop a program and whatever is left of its group; returns whether it went without being killed. Blocks."""
    went = not running.alive
    for number, wait_s in running.program.stop:
        if went:
            break
        with contextlib.suppress(ProcessLookupError):
            running.process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(wait_s)
            went = True
    kill_group(running.process.pid)
    running.process.wait(KILL_WAIT_S)
    record.remove(running.process.pid)
    return went


def kill_group(pid: int) -> None:
    """SIGKILL to the process group that `pid` leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def log_tail(path: Path, lines: int = 1) -> str:
    """The last non-empty lines of a log, for an error message."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
