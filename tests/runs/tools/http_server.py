"""A small real HTTP server whose answers a test decides."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """`wait`: answers only when that event is set (or the server stops)."""

    body: bytes = b"{}"
    status: int = 200
    wait: threading.Event | None = None


@dataclass
class Seen:
    method: str
    path: str
    body: str
    authorization: str | None


@dataclass
class Running:
    url: str
    seen: list[Seen] = field(default_factory=list)


@contextmanager
def serve(answer: Callable[[Seen], Answer]) -> Iterator[Running]:
    running = Running("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            seen = Seen(self.command, self.path, body, self.headers.get("Authorization"))
            running.seen.append(seen)
            given = answer(seen)
            if given.wait is not None:
                given.wait.wait(30)
            self.send_response(given.status)
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            try:
                self.wfile.write(given.body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client stopped reading, which some tests are about

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    running.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
