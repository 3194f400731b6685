"""JSON over HTTP from a monitoring server: bounded, timed, and with errors that name no address.

answer 2xx            its JSON value
400, 422              ToolRejected with the server's own sentence, masked and bounded
401, 403, 404, other  ToolFailed: an operator has to look at it
429, 5xx              ToolFailed(transient)
timeout, refused      ToolFailed(transient)
too large             ToolRejected: the caller can ask for less
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx

from runs.errors import ToolFailed, ToolRejected
from runs.tools.evidence import cut
from runs.tools.redaction import clean

MAX_BYTES = 8 * 1024 * 1024
ERROR_CHARS = 800
Params = Sequence[tuple[str, str]]


class Server:
    """One server under `base_url` (which may carry a path and credentials). `title` names it in errors."""

    def __init__(self, title: str, base_url: str, client: httpx.AsyncClient, timeout_s: float) -> None:
        url = httpx.URL(base_url.rstrip("/"))
        self.title = title
        self._base = str(url.copy_with(userinfo=b""))
        self._auth = httpx.BasicAuth(url.username, url.password) if url.userinfo else None
        self._client = client
        self._timeout_s = timeout_s

    async def get(self, path: str, params: Params = ()) -> Any:
        status, body = await self._send("GET", path, params)
        return self._value(status, body)

    async def post_form(self, path: str, form: Params) -> Any:
        """POST, because an expression may be longer than an address; GET where a proxy refuses POST."""
        status, body = await self._send("POST", path, form)
        if status == httpx.codes.METHOD_NOT_ALLOWED:
            status, body = await self._send("GET", path, form)
        return self._value(status, body)

    async def _send(self, method: str, path: str, fields: Params) -> tuple[int, bytes]:
        request: dict[str, Any] = {"params": list(fields)}
        if method == "POST":
            encoded = str(httpx.QueryParams(list(fields))).encode()
            request = {"content": encoded, "headers": {"Content-Type": "application/x-www-form-urlencoded"}}
        try:
            # httpx limits each wait; the whole exchange has the same limit, also for a server that trickles.
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(
                    method, f"{self._base}{path}", auth=self._auth, timeout=self._timeout_s, **request
                ) as response,
            ):
                return response.status_code, await self._bounded(response)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise ToolFailed(f"{self.title} did not answer in time.", error_code="TIMEOUT", transient=True) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolFailed(
                f"{self.title} could not be reached.", error_code="SOURCE_UNREACHABLE", transient=True
            ) from error

    async def _bounded(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                raise ToolRejected(
                    f"The answer of {self.title} is larger than {MAX_BYTES // 1024 // 1024} MiB; "
                    "ask for fewer series or a shorter window.",
                    error_code="ANSWER_TOO_LARGE",
                )
        return bytes(body)

    def _value(self, status: int, body: bytes) -> Any:
        if 200 <= status < 300:
            try:
                return json.loads(body)
            except (ValueError, RecursionError) as error:
                raise ToolFailed(
                    f"{self.title} answered something that is not JSON.", error_code="BAD_ANSWER"
                ) from error
        if status in {400, 422}:
            raise ToolRejected(f"{self.title} refused the query: {_sentence(body)}", error_code="QUERY_REFUSED")
        if status in {401, 403}:
            raise ToolFailed(f"{self.title} refused our credentials.", error_code="SOURCE_UNAUTHORIZED")
        raise ToolFailed(
            f"{self.title} answered with HTTP status {status}.",
            error_code=f"HTTP_{status}",
            transient=status == httpx.codes.TOO_MANY_REQUESTS or status >= 500,
        )


def _sentence(body: bytes) -> str:
    """The error text of a JSON answer (Prometheus: `error`; Alertmanager: a JSON string), else how the body begins."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = body[: 2 * ERROR_CHARS].decode("utf-8", "replace")
    if isinstance(value, dict):
        value = value.get("error") or value.get("message") or "no reason given"
    return cut(clean(str(value)).strip(), ERROR_CHARS)
