"""A wire between browser and server that can be cut: connections break as they do when a network goes away."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Wire:
    """Carries every connection to the server, until it is cut; then it ends them all and takes no new ones."""

    def __init__(self, server: str) -> None:
        self._to = ("127.0.0.1", int(urlsplit(server).port or 80))
        self._open: list[socket.socket] = []
        self._cut = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.refused = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _address = self._listening.accept()
                if self._cut.is_set():
                    self.refused += 1
                    caller.close()
                    continue
                server = socket.create_connection(self._to)
                self._open += [caller, server]
                for one, other in ((caller, server), (server, caller)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        self._cut.set()
        for each in self._open:
            _end(each)
        self._open.clear()

    def mend(self) -> None:
        self._cut.clear()

    def close(self) -> None:
        self.cut()
        _end(self._listening)


def _carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    _end(one)
    _end(other)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextlib.contextmanager
def wire_to(server: str) -> Iterator[Wire]:
    wire = Wire(server)
    try:
        yield wire
    finally:
        wire.close()
