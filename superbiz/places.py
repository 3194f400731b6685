"""Where things lie under `SUPERBIZ_VAR`, and the addresses of the embedded servers that follow from it.

var/
  secret_key             the generated secret key (0600)
  postgres/ valkey/      data of the embedded servers
  run/                   sockets, locks, services.json, processes.json, metrics/
  log/                   one log file a process
  beat/                  the beat schedule
"""

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from superbiz.env import ConfigurationError

# sun_path holds 108 bytes on Linux and 104 on macOS.
SOCKET_PATH_MAX = 100
DATABASE_NAME = "superbiz"
# Read by prometheus_client when it is imported: metrics are kept in files of this folder.
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders and files of one instance, all derived from its `SUPERBIZ_VAR`."""

    var: Path

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def log(self) -> Path:
        return self.var / "log"

    @property
    def beat_schedule(self) -> Path:
        return self.var / "beat" / "schedule"

    @property
    def postgres_data(self) -> Path:
        return self.var / "postgres"

    @property
    def valkey_data(self) -> Path:
        return self.var / "valkey"

    @property
    def up_lock(self) -> Path:
        """Held by a running `up` for as long as it lives."""
        return self.run / "up.lock"

    @property
    def owner_lock(self) -> Path:
        """Held by whoever started the embedded servers, for as long as they run."""
        return self.run / "services.lock"

    @property
    def guests_lock(self) -> Path:
        """Shared by the commands that use servers started by another process."""
        return self.run / "guests.lock"

    @property
    def services_file(self) -> Path:
        """The addresses of the embedded servers while they run."""
        return self.run / "services.json"

    @property
    def processes_file(self) -> Path:
        """The processes that were started here, so that a later start can end what a killed one left."""
        return self.run / "processes.json"

    @property
    def metrics(self) -> Path:
        """Where the processes of a running `up` keep their metrics, so that one of them can show all."""
        return self.run / "metrics"

    @property
    def sockets(self) -> Path:
        """`run/`, or a short folder named after it where a socket path there would be too long or need quoting."""
        longest = os.fsencode(self.run / "pg" / ".s.PGSQL.5432.lock")
        if len(longest) <= SOCKET_PATH_MAX and re.fullmatch(rb"[A-Za-z0-9/._-]+", longest):
            return self.run
        digest = hashlib.sha256(os.fsencode(self.run)).hexdigest()[:12]
        temp = tempfile.gettempdir()
        return Path(temp if len(temp) < SOCKET_PATH_MAX // 2 else "/tmp") / f"superbiz-{os.getuid()}-{digest}"  # noqa: S108

    @property
    def postgres_sockets(self) -> Path:
        """PostgreSQL's socket folder; its own, because the server may run as another system user."""
        return self.sockets / "pg"

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey.sock"

    def database_url(self, name: str = DATABASE_NAME) -> str:
        """The embedded PostgreSQL's address."""
        return f"postgresql://postgres:@/{name}?host={self.postgres_sockets}"

    def redis_url(self) -> str:
        """The embedded Valkey's address."""
        return f"unix://{self.valkey_socket}?db=0"


def unwritable(var: Path, error: OSError) -> ConfigurationError:
    """The sentence for a `SUPERBIZ_VAR` that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return ConfigurationError(f"SUPERBIZ_VAR must be a folder that can be written, and {var} is not one: {reason}.")


def secret_key(var: Path) -> str:
    """The instance's generated secret key, made on first use; two processes that race agree on one."""
    path = var / "secret_key"
    if not path.exists():
        var.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=var, prefix=".secret_key.")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(64))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            Path(draft).unlink()
    return path.read_text(encoding="ascii").strip()
