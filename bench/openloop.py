"""An HTTP client that sends at a fixed rate, whether answers come or not.

Latency counts from the moment a request was due, not from when it could be sent: a server that stalls makes the
requests behind the stall late, and they show it. Connections are kept open; a new one is made when all are busy.
"""

import asyncio
from dataclasses import dataclass

# Servers close connections that nobody uses (uvicorn after 5 s); one that may be about to go is not used again.
IDLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Answered:
    """`latency_s` from the due time to the last byte."""

    status: int
    body: bytes
    latency_s: float


class Client:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []

    async def post_all(self, path: str, bodies: list[bytes], per_second: float) -> list[Answered]:
        """One request for each body, `per_second` of them, in order. Raises OSError or EOFError where one fails."""
        loop = asyncio.get_running_loop()
        begin = loop.time() + 0.05
        sent = []
        for number, body in enumerate(bodies):
            due = begin + number / per_second
            await asyncio.sleep(max(0.0, due - loop.time()))
            sent.append(asyncio.create_task(self._post(path, body, due)))
        return await asyncio.gather(*sent)

    def close(self) -> None:
        for _, writer, _ in self._idle:
            writer.close()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """An idle one that the server will not have closed, or a new one."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            reader, writer, since = self._idle.pop()
            if now - since < IDLE_S and not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def _post(self, path: str, body: bytes, due: float) -> Answered:
        reader, writer = await self._connection()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answered = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in answered[1:])}
        content = await reader.readexactly(int(headers["content-length"]))
        now = asyncio.get_running_loop().time()
        self._idle.append((reader, writer, now))
        return Answered(int(answered[0].split(" ")[1]), content, now - due)
