"""How the web process ends a connection, over real sockets: a whole response arrives whole, a broken one is let go."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from superbiz.connections import Connection

# More than the buffers between the two ends hold.
SIZE = 24 * 1024 * 1024
PATIENCE_S = 20


class Application:
    """`/whole` sends its body and ends; `/broken` leaves in the middle of it."""

    def __init__(self) -> None:
        self.left = threading.Event()

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        if scope["path"] == "/whole":
            await send({"type": "http.response.body", "body": b"x" * SIZE, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await send({"type": "http.response.body", "body": b"x" * SIZE, "more_body": True})
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        self.left.set()


@pytest.fixture
def served() -> Iterator[tuple[Application, int]]:
    application = Application()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(application, http=Connection, loop="asyncio", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
        thread.start()
        yield application, listening.getsockname()[1]
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def asked(port: int, path: str) -> socket.socket:
    """A client that reads nothing yet."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    give_up = time.monotonic() + PATIENCE_S
    while client.connect_ex(("127.0.0.1", port)):
        assert time.monotonic() < give_up
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    return client


def read_all(client: socket.socket) -> int:
    """How many bytes came before the end, however it came."""
    total = 0
    with contextlib.suppress(ConnectionResetError):
        while data := client.recv(1 << 20):
            total += len(data)
    return total


def test_whoever_takes_a_whole_response_late_gets_all_of_it(served: tuple[Application, int]) -> None:
    with asked(served[1], "/whole") as client:
        time.sleep(0.3)
        assert read_all(client) > SIZE


def test_the_rest_of_a_response_that_was_broken_off_is_thrown_away(served: tuple[Application, int]) -> None:
    application, port = served
    with asked(port, "/broken") as client:
        assert application.left.wait(PATIENCE_S)
        time.sleep(0.2)
        assert 0 < read_all(client) < SIZE
