import base64
import json
import socket
import threading
from collections.abc import AsyncIterator

import httpx
import pytest

from runs.errors import ToolError, ToolFailed, ToolRejected
from runs.tools.http import MAX_BYTES, Server
from tests.runs.tools.http_server import Answer, Seen, serve


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as opened:
        yield opened


def server(url: str, client: httpx.AsyncClient, timeout_s: float = 10) -> Server:
    return Server("Prometheus", url, client, timeout_s)


async def test_a_path_prefix_and_credentials_of_the_address_are_used(client: httpx.AsyncClient) -> None:
    with serve(lambda seen: Answer(b'{"ok": 1}')) as running:
        url = running.url.replace("http://", "http://reader:s3cret@") + "/prom/"
        assert await server(url, client).post_form(
            "/api/v1/query_range", [("query", 'up{a="b c"}'), ("step", "15")]
        ) == {"ok": 1}
    seen = running.seen[0]
    assert (seen.method, seen.path) == ("POST", "/prom/api/v1/query_range")
    assert dict(httpx.QueryParams(seen.body)) == {"query": 'up{a="b c"}', "step": "15"}
    assert seen.authorization == "Basic " + base64.b64encode(b"reader:s3cret").decode()


async def test_a_proxy_that_refuses_post_is_asked_with_get(client: httpx.AsyncClient) -> None:
    with serve(lambda seen: Answer(status=405) if seen.method == "POST" else Answer(b"[]")) as running:
        assert await server(running.url, client).post_form("/x", [("query", "up")]) == []
    assert [(seen.method, seen.path) for seen in running.seen] == [("POST", "/x"), ("GET", "/x?query=up")]


PROMETHEUS_ERROR = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error: token=abcd1234efgh"})


@pytest.mark.parametrize(
    ("status", "body", "kind", "code", "transient", "sentence"),
    [
        (400, PROMETHEUS_ERROR, ToolRejected, "QUERY_REFUSED", None, "parse error: token=[redacted]"),
        (422, PROMETHEUS_ERROR, ToolRejected, "QUERY_REFUSED", None, "parse error"),
        (400, '"bad matcher format"', ToolRejected, "QUERY_REFUSED", None, "bad matcher format"),
        (400, "<html>" + "x" * 5000, ToolRejected, "QUERY_REFUSED", None, "… [cut]"),
        (401, "", ToolFailed, "SOURCE_UNAUTHORIZED", False, "refused our credentials"),
        (403, "", ToolFailed, "SOURCE_UNAUTHORIZED", False, "refused our credentials"),
        (404, "", ToolFailed, "HTTP_404", False, "status 404"),
        (302, "", ToolFailed, "HTTP_302", False, "status 302"),
        (429, "", ToolFailed, "HTTP_429", True, "status 429"),
        (500, "stack trace", ToolFailed, "HTTP_500", True, "status 500"),
        (503, "", ToolFailed, "HTTP_503", True, "status 503"),
        (200, "<html>login</html>", ToolFailed, "BAD_ANSWER", False, "not JSON"),
    ],
)
async def test_what_an_answer_means(
    client: httpx.AsyncClient,
    status: int,
    body: str,
    kind: type[ToolError],
    code: str,
    transient: bool | None,
    sentence: str,
) -> None:
    with serve(lambda seen: Answer(body.encode(), status)) as running, pytest.raises(kind) as error:
        await server(running.url, client).get("/x")
    assert error.value.error_code == code
    assert sentence in error.value.safe_message
    assert getattr(error.value, "transient", None) is transient
    assert len(error.value.safe_message) < 1000
    assert running.url not in error.value.safe_message


async def test_a_server_that_does_not_answer_is_a_transient_timeout(client: httpx.AsyncClient) -> None:
    never = threading.Event()
    with serve(lambda seen: Answer(wait=never)) as running:
        with pytest.raises(ToolFailed) as error:
            await server(running.url, client, timeout_s=0.2).get("/x")
        never.set()
    assert (error.value.error_code, error.value.transient) == ("TIMEOUT", True)


async def test_a_server_that_is_not_there_is_transient_and_its_address_stays_ours(client: httpx.AsyncClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://reader:s3cret@127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ToolFailed) as error:
            await server(url, client).get("/x")
    assert (error.value.error_code, error.value.transient) == ("SOURCE_UNREACHABLE", True)
    for secret in ("s3cret", "127.0.0.1"):
        assert secret not in error.value.safe_message


async def test_an_answer_too_large_is_the_callers_to_make_smaller(client: httpx.AsyncClient) -> None:
    def large(seen: Seen) -> Answer:
        return Answer(b"[" + b" " * MAX_BYTES + b"]")

    with serve(large) as running, pytest.raises(ToolRejected) as error:
        await server(running.url, client).get("/x")
    assert error.value.error_code == "ANSWER_TOO_LARGE"
    assert "8 MiB" in error.value.safe_message
