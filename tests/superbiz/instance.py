"""One SuperBiz of a test's own: a folder, a port, and `manage.py` run on them as a person would."""

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from superbiz.embedded import locked
from superbiz.env import BASE_DIR, setting_names
from superbiz.places import Places

# Generous: a wait ends as soon as its condition holds, and a loaded machine is no failure.
PATIENCE_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Instance:
    """A folder and a port."""

    var: Path
    port: int

    @property
    def places(self) -> Places:
        return Places(self.var)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environ(self, **more: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in setting_names() and not name.startswith(("SUPERBIZ_", "DJANGO_", "PYTEST_"))
        }
        return {**kept, "SUPERBIZ_VAR": str(self.var), "PORT": str(self.port), **more}

    def manage(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """A command run to its end."""
        return self.program(sys.executable, "manage.py", *words, **environ)

    def program(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Any program run to its end with the instance's settings."""
        return subprocess.run(
            words,
            cwd=BASE_DIR,
            env=self.environ(**environ),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def recorded_pids(self) -> set[int]:
        """Every process that this instance says it has started."""
        with contextlib.suppress(FileNotFoundError):
            return {entry["pid"] for entry in json.loads(self.places.processes_file.read_text())}
        return set()

    def sockets(self) -> list[Path]:
        folders = [self.places.run, self.places.sockets]
        return [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_socket()]


def with_tables(var: Path) -> Instance:
    """An instance whose database has its tables: what each first start would do is done once in a test run.

    A copy of a folder that a command has started and stopped PostgreSQL in; whoever comes first makes it.
    """
    of_run = Path(os.environ["SUPERBIZ_VAR"])
    first = Instance(of_run / "with-tables", free_port())
    with locked(of_run / "with-tables.lock", wait_s=PATIENCE_S) as held:
        assert held is not None, "another test makes the tables, and takes very long"
        if not first.places.var.exists():
            done = first.manage("migrate", "--verbosity", "0")
            assert done.returncode == 0, done.stderr
    var.mkdir(parents=True, exist_ok=True)
    # Keeps owners and permissions: PostgreSQL may run as a user of its own.
    subprocess.run(["cp", "-a", str(first.places.var / "postgres"), str(var)], check=True)
    return Instance(var, free_port())


class Up:
    """A running `manage.py up`. `environ`: settings beside the instance's own."""

    def __init__(self, instance: Instance, environ: Mapping[str, str] | None = None) -> None:
        self.instance = instance
        self.environ = dict(environ or {})
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=BASE_DIR,
            env=instance.environ(**self.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.link = ""
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._unread.put(line.rstrip("\n"))
        self._unread.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The next line of output that matches."""
        while (line := self._unread.get(timeout=PATIENCE_S)) is not None:
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"no line matched {pattern!r} in {self.lines}")

    def sign_in_link(self) -> str:
        """Wait until everything runs; returns the link that is printed then (once)."""
        self.link = self.wait_for(r"Sign in .*: (http\S+)")[1]
        return self.link

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send one signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_S)


def processes_of(instance: Instance, said: str) -> set[int]:
    """The instance's living processes whose command line says so."""
    found = set()
    for pid in instance.recorded_pids():
        with contextlib.suppress(psutil.NoSuchProcess):
            if said in " ".join(psutil.Process(pid).cmdline()):
                found.add(pid)
    return found


@contextlib.contextmanager
def running(instance: Instance, **environ: str) -> Iterator[Up]:
    """`up` with these settings for the block's duration; whatever the block leaves alive is ended."""
    up = Up(instance, environ)
    try:
        yield up
    finally:
        pids = instance.recorded_pids()
        if up.process.poll() is None:
            up.stop(signal.SIGTERM)
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()


def wait_until_gone(pids: set[int]) -> set[int]:
    """Wait for processes to end; returns those that did not."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        left = {pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"}
        if not left:
            return set()
        time.sleep(0.05)
    return left
