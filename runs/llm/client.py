"""The HTTP client that model calls travel through: bounded in time and in size, no redirects, no retries."""

from collections.abc import AsyncIterator

import httpx2

from runs.errors import ModelContractViolated, ModelRefused

CONNECT_TIMEOUT_S = 5.0
MAX_REPLY_BYTES = 4 * 1024 * 1024
MAX_CONNECTIONS = 64


def open_client(timeout_s: float) -> httpx2.AsyncClient:
    """A client for one model; `timeout_s` bounds each wait for bytes (the whole call is bounded by its caller).

    A reply over `MAX_REPLY_BYTES` raises `ModelContractViolated` (RESPONSE_TOO_LARGE) before the rest is read.
    Redirects are not followed: a request carries an API key and evidence, which go to the configured address only.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
        # The limit counts bytes as they arrive; a compressed reply could be small there and huge in memory.
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,
        event_hooks={"response": [_bound]},
    )


class _Bounded(httpx2.AsyncByteStream):
    """A reply's bytes that end in an error once more than `limit` of them have come."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._inner:
            seen += len(chunk)
            if seen > self._limit:
                raise _too_large()
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.is_redirect:
        raise ModelRefused(
            "The language model's server sends its callers elsewhere; SUPERBIZ_LLM_BASE_URL is not its address.",
            error_code="BAD_REQUEST",
        )
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ModelContractViolated(
            "The language model's server sent a compressed answer that was not asked for.", error_code="MALFORMED"
        )
    declared = response.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > MAX_REPLY_BYTES:
        raise _too_large()
    # A client made with `httpx2.AsyncClient` only ever sees asynchronous streams.
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, MAX_REPLY_BYTES)


def _too_large() -> ModelContractViolated:
    return ModelContractViolated(
        f"The language model's server sent more than {MAX_REPLY_BYTES // (1024 * 1024)} MiB in one answer.",
        error_code="RESPONSE_TOO_LARGE",
    )
