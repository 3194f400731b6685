"""Many callers of chat at once, on plain sockets: what the benchmarks of streams and cancelling share."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.apart import Instance, bare_environment, instance, line_with, program
from superbiz.env import BASE_DIR
from superbiz.places import Places

SCOPES = ("chat:write", "runs:read", "runs:cancel")


@dataclass(frozen=True, slots=True)
class Caller:
    port: int
    token: str

    async def post(self, path: str, body: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request on a connection of its own, its answer yet to be read."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        return reader, writer

    async def status_of(self, path: str, body: object) -> int:
        reader, writer = await self.post(path, body)
        status = int((await reader.readline()).split(b" ")[1])
        writer.close()
        return status


@dataclass(slots=True)
class Stream:
    """An open `/api/chat_stream`, read as far as its first event."""

    run_id: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, caller: Caller, query: str) -> "Stream":
        """Raises RuntimeError where it is refused, EOFError where it breaks off."""
        reader, writer = await caller.post("/api/chat_stream", {"query": query})
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(f"A question was answered {head[:200]!r}")
        told = (await reader.readuntil(b"\n\n")).partition(b"data: ")[2]
        return cls(str(json.loads(told)["runId"]), reader, writer)


def create_token(own: Instance) -> str:
    words = [sys.executable, "manage.py", "create_token", "bench"]
    words += [word for scope in SCOPES for word in ("--scope", scope)]
    made = subprocess.run(words, cwd=BASE_DIR, env=own.environ, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def process_of(own: Instance, said: str) -> psutil.Process:
    """The instance's process whose command line says so. Raises RuntimeError."""
    places = Places(Path(own.environ["SUPERBIZ_VAR"]))
    for entry in json.loads(places.processes_file.read_text(encoding="utf-8")):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(entry["pid"])
            if said in " ".join(process.cmdline()):
                return process
    raise RuntimeError(f"No {said} is running.")


@contextlib.contextmanager
def served(*model_options: str) -> Iterator[tuple[Instance, subprocess.Popen[str]]]:
    """A whole `manage.py up` on a model server of its own; gives the instance and the server."""
    words = [sys.executable, "-m", "tests.servers.openai_compatible", *model_options]
    with (
        TemporaryDirectory(prefix="superbiz-bench-") as folder,
        program(words, bare_environment(), Path(folder) / "model.log") as server,
    ):
        url = line_with(server, "http", Path(folder) / "model.log")
        settings = {"SUPERBIZ_LLM": "openai:bench", "SUPERBIZ_LLM_BASE_URL": url, "SUPERBIZ_LLM_API_KEY": "bench"}
        with (
            instance(**settings) as own,
            program([sys.executable, "manage.py", "up"], own.environ, own.log) as up,
        ):
            line_with(up, "SuperBiz is running", own.log)
            yield own, server
