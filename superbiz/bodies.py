"""How much of a request's body is kept, for ASGI.

Django writes a whole body to disk before any view or middleware can refuse it, whoever sends it. What is over the limit
is read, so that the sender gets its answer, and thrown away; the byte too many has the request refused as too large.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def bounded(application: Application, limit: int) -> Application:
    """The application, given at most `limit` bytes and one more of each body."""

    async def within(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        left = limit + 1

        async def receive_less() -> Message:
            nonlocal left
            message = await receive()
            if message["type"] == "http.request":
                body = message.get("body", b"")
                if len(body) > left:
                    message = {**message, "body": body[:left]}
                left -= min(len(body), left)
            return message

        await application(scope, receive_less, send)

    return within
