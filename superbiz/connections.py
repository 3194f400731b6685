"""The web process's end of a connection: gone at once when a response was broken off.

A transport that is closed first sends what is left. Towards a client that stays connected and takes nothing that never
ends: the response is over (`audit.streams` drops its reader), and its socket and buffers would stay for ever. Nobody is
served by the rest of a response whose end will not come, so it is thrown away.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class Connection(HttpToolsProtocol):
    """uvicorn's protocol over such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _Ending(self, transport)))

    @property
    def is_broken_off(self) -> bool:
        """Whether the application left in the middle of its response."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete


class _Ending:
    """The transport, except for how it is closed."""

    def __init__(self, connection: Connection, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if self._connection.is_broken_off and self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()
