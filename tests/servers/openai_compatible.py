"""A chat-completions server for tests: raw asyncio streams, in a thread or as a program.

    with OpenAICompatibleServer() as server:  # an honest model (`Brain`) where nothing is scripted
        server.script("router_intent", HttpError(500), {"intent": "DIAGNOSIS"})  # one role's next requests, in order
        server.always(Hang(), schema="composer_output")  # each request of one role
        … talk to server.base_url …
        server.requests[0].schema, server.disconnects

As a program: `python -m tests.servers.openai_compatible --port 9100 --forge EDITED_DIGIT`; its first line of output
is the base URL, and it serves until it is ended.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.servers.brain import Brain, Forgery
from tests.servers.chat_wire import (
    Answer,
    Behaviour,
    Call,
    Drip,
    Hang,
    HttpError,
    Huge,
    Question,
    Raw,
    Reaction,
    Reset,
    completion,
    react,
)

__all__ = [
    "Answer",
    "Brain",
    "Call",
    "Drip",
    "Forgery",
    "Hang",
    "HttpError",
    "Huge",
    "OpenAICompatibleServer",
    "Question",
    "Raw",
    "Reset",
]

CHUNK = 64 * 1024
REFUSED_TOGETHER = HttpError(
    400, '{"error": {"message": "response_format cannot be used with tools", "type": "invalid_request_error"}}'
)


class OpenAICompatibleServer:
    """The server. Safe to script and read from the test's thread while it serves.

    `requests`: each parsed request, in order. `disconnects`: the schema name (or None) of each request whose
    client closed before the answer was out. `bytes_sent`: of bodies that were never finished.
    """

    def __init__(
        self,
        brain: Behaviour | None = None,
        *,
        port: int = 0,
        refuse_tools_with_schema: bool = False,
        latency_s: float = 0.0,
        on_request: Callable[[Question], None] | None = None,
    ) -> None:
        self.brain: Behaviour = Brain() if brain is None else brain
        self.refuse_tools_with_schema = refuse_tools_with_schema
        self.latency_s = latency_s
        self.requests: list[Question] = []
        self.disconnects: list[str | None] = []
        self.bytes_sent = 0
        self.port = port
        self._on_request = on_request
        self._scripts: dict[str | None, deque[Behaviour]] = {}
        self._standing: dict[str | None, Behaviour] = {}
        self._changed = threading.Condition()
        self._call_ids = (f"call_{number:04d}" for number in itertools.count(1))
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="openai-compatible", daemon=True)

    # ---- for tests --------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, schema: str | None, *behaviours: Behaviour) -> None:
        """Queue reactions for a schema's next requests; None means whoever asks next."""
        with self._changed:
            self._scripts.setdefault(schema, deque()).extend(behaviours)

    def always(self, behaviour: Behaviour, schema: str | None = None) -> None:
        """React so to each request (of one schema) that no script waits for."""
        with self._changed:
            self._standing[schema] = behaviour

    def wait_until(self, condition: Callable[["OpenAICompatibleServer"], object], timeout_s: float = 10.0) -> None:
        """Wait for something to be true of `requests` or `disconnects`; raises AssertionError if it never is."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), timeout_s), "the server never came to that state"

    def asked_by(self, schema: str) -> list[Question]:
        return [question for question in self.requests if question.schema == schema]

    def start(self) -> "OpenAICompatibleServer":
        self._thread.start()
        self._ready.wait()
        if self._failure:
            raise self._failure
        return self

    def stop(self) -> None:
        """End every connection and the thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __enter__(self) -> "OpenAICompatibleServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- serving ----------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                await self._connection(reader, writer)
            finally:
                connections.discard(task)

        try:
            server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        except OSError as error:
            self._failure = error
            self._ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass  # the peer went away between requests, or the server is stopping
        finally:
            writer.close()

    async def _answer(
        self, request: tuple[str, dict[str, str], bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether the connection may be used again."""
        target, headers, body = request
        if target != "/v1/chat/completions":
            await _send(writer, 404, b'{"error": {"message": "no such path"}}')
            return True
        question = Question(json.loads(body), headers)
        with self._changed:
            self.requests.append(question)
            self._changed.notify_all()
        if self._on_request:
            self._on_request(question)
        acting = asyncio.ensure_future(self._act(self._choose(question), question, writer))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            done, _ = await asyncio.wait({acting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (acting, leaving):
                task.cancel()
            await asyncio.gather(acting, leaving, return_exceptions=True)
        if acting in done and not isinstance(acting.exception(), ConnectionError):
            return acting.result()
        with self._changed:
            self.disconnects.append(question.schema)
            self._changed.notify_all()
        return False

    def _choose(self, question: Question) -> Reaction:
        if self.refuse_tools_with_schema and question.mode == "native" and question.tools:
            return REFUSED_TOGETHER
        with self._changed:
            for schema in (question.schema, None):
                if queue := self._scripts.get(schema):
                    return react(queue.popleft(), question)
            standing = self._standing.get(question.schema, self._standing.get(None, self.brain))
        return react(standing, question)

    async def _act(self, reaction: Reaction, question: Question, writer: asyncio.StreamWriter) -> bool:
        match reaction:
            case Answer():
                await asyncio.sleep(self.latency_s)
                payload = json.dumps(completion(reaction, question, self._call_ids), ensure_ascii=False)
                await _send(writer, 200, payload.encode())
            case HttpError(status, text, headers):
                await _send(writer, status, text.encode(), headers)
            case Raw(body, headers):
                await _send(writer, 200, body, headers)
            case Hang():
                await asyncio.Event().wait()
            case Drip(pause_s, size):
                await self._drip(writer, pause_s, size)
            case Reset(midway):
                await _reset(writer, midway)
                return False
            case Huge(size, declared):
                await self._pour(writer, size, declared)
        return True

    async def _drip(self, writer: asyncio.StreamWriter, pause_s: float, size: int) -> None:
        writer.write(_head(200, {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}))
        for _ in range(size):
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            self.bytes_sent += 1
            await asyncio.sleep(pause_s)
        writer.write(b"0\r\n\r\n")

    async def _pour(self, writer: asyncio.StreamWriter, size: int, declared: bool) -> None:
        length = {"Content-Length": str(size)} if declared else {"Transfer-Encoding": "chunked"}
        writer.write(_head(200, {**length, "Content-Type": "application/json"}))
        for start in range(0, size, CHUNK):
            part = b" " * min(CHUNK, size - start)
            writer.write(part if declared else b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
            self.bytes_sent += len(part)
        if not declared:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """(target, headers with lower-case names, body), or None at the end of the connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return first.split(" ")[1], headers, body


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    sent = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    writer.write(_head(status, sent) + body)
    await writer.drain()


async def _reset(writer: asyncio.StreamWriter, midway: bool) -> None:
    if midway:
        writer.write(_head(200, {"Content-Length": "1000", "Content-Type": "application/json"}) + b'{"id": ')
        await writer.drain()
    connection: socket.socket = writer.get_extra_info("socket")
    # A linger time of zero makes closing send a reset in place of an orderly end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# ---- as a program ---------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.servers.openai_compatible", description="A scripted model server.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--forge", action="append", default=[], choices=[f.name for f in Forgery], metavar="KIND")
    parser.add_argument("--only-forged", action="store_true", help="make no honest claim beside the forged ones")
    parser.add_argument("--other-run", metavar="JSON", help="the citation of another run that OTHER_RUN cites")
    parser.add_argument("--status", type=int, help="answer every request with this HTTP status")
    parser.add_argument("--hang", metavar="SCHEMA", help="never answer this role's requests")
    parser.add_argument("--refuse-tools-with-schema", action="store_true")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS", help="wait before each answer")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append each request as a line of JSON")
    options = parser.parse_args()

    def record(question: Question) -> None:
        line: dict[str, Any] = {"schema": question.schema, "mode": question.mode, "body": question.body}
        with options.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    brain = Brain(
        forgeries=tuple(Forgery[name] for name in options.forge),
        honest=not options.only_forged,
        other_run=json.loads(options.other_run) if options.other_run else None,
    )
    server = OpenAICompatibleServer(
        brain,
        port=options.port,
        refuse_tools_with_schema=options.refuse_tools_with_schema,
        latency_s=options.latency,
        on_request=record if options.record else None,
    )
    if options.status:
        server.always(HttpError(options.status))
    if options.hang:
        server.always(Hang(), schema=options.hang)
    # A parent that ignores Ctrl-C, as `nohup` does, hands that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), server:
        print(server.base_url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
