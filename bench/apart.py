"""A benchmark in a process of its own, on an instance of its own: folder, port, PostgreSQL and Valkey.

`measure_apart("bench.ledger")` runs that module as a program and reads its figures; the module's `main` calls
`report(measure)`. Nothing is left behind, also after Ctrl-C.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bench.figures import Figure
from superbiz.embedded import EmbeddedServers
from superbiz.env import BASE_DIR, INTERNAL_NAMES, Env, load_env_or_exit, setting_names

STOP_WAIT_S = 60
# What a `make bench` leaves in the environment, and would change what is measured.
FOREIGN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "VIRTUAL_ENV", "DJANGO_SETTINGS_MODULE")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Instance:
    """A folder and a port, with the environment that names them and no other setting of this machine's."""

    folder: Path
    port: int
    environ: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.folder / "bench.log"


def bare_environment() -> dict[str, str]:
    """This process's environment without any setting of SuperBiz."""
    unwanted = {*setting_names(), *INTERNAL_NAMES, *FOREIGN}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


@contextlib.contextmanager
def instance(**settings: str) -> Iterator[Instance]:
    """A fresh instance, its folder removed afterwards. `settings` are environment variables of its own."""
    with tempfile.TemporaryDirectory(prefix="superbiz-bench-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        own = {"SUPERBIZ_VAR": str(Path(folder) / "var"), "PORT": str(port)}
        yield Instance(Path(folder), port, {**bare_environment(), **own, **settings})


@contextlib.contextmanager
def program(
    words: list[str], environ: Mapping[str, str], log: Path, cwd: Path = BASE_DIR
) -> Iterator[subprocess.Popen[str]]:
    """A program whose output can be read, ended with SIGINT when the block ends; its stderr goes to `log`."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            words, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    assert process.stdout is not None
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: also to what `make` runs
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=STOP_WAIT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


def line_with(process: subprocess.Popen[str], text: str, log: Path) -> str:
    """The next line of output that holds the text. Raises RuntimeError where the output ends without one."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line.rstrip("\n")
    raise RuntimeError(f"{process.args!r} ended without saying {text!r}: {log.read_text()[-2000:]}")


def measure_apart(module: str, **settings: str) -> list[Figure]:
    """The figures that the module reports. Raises RuntimeError with the end of its log where it fails."""
    with (
        instance(**settings) as own,
        program([sys.executable, "-m", module], own.environ, own.log) as process,
    ):
        assert process.stdout is not None
        told = process.stdout.read()
        if process.wait() != 0:
            raise RuntimeError(f"{module} failed: {own.log.read_text()[-4000:]}")
        return [Figure(**each) for each in json.loads(told)]


# ---- inside that process ----------------------------------------------------------------------------------------


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def own_servers() -> Iterator[tuple[Env, EmbeddedServers]]:
    """Django on the instance's own servers, with tables and shipped data."""
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "superbiz.settings"
    # The settings know where the servers will be; `superbiz.up` needs models.
    django.setup()
    from superbiz.bootstrap import migrate_if_needed, release_connections, sync_shipped
    from superbiz.up import ground

    env = load_env_or_exit()
    with ground(env) as servers:
        migrate_if_needed()
        sync_shipped()
        try:
            yield env, servers
        finally:
            release_connections()


def report(measure: Callable[[Env, EmbeddedServers], list[Figure]]) -> None:
    """Measure on servers of this process's own and print the figures."""
    signal.signal(signal.SIGTERM, _end)
    with own_servers() as (env, servers):
        figures = measure(env, servers)
    print(json.dumps([asdict(figure) for figure in figures]))
