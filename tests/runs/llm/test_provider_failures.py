"""How a provider's failures reach the kernel, over real HTTP."""

import asyncio
import logging
import socket
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from runs.errors import ConfigurationError, ModelContractViolated, ModelError, ModelRefused, ModelUnavailable
from runs.harness.ports import Role
from runs.llm.client import MAX_REPLY_BYTES
from runs.llm.providers import ProviderModel
from tests.runs.llm.conftest import OpenModel
from tests.runs.llm.requests import ask, ask_executor
from tests.servers.openai_compatible import Drip, Hang, HttpError, Huge, OpenAICompatibleServer, Reset

SECRET = "sk-live-4f9a1c"
BODY = '{"error": {"message": "your key %s and prompt are bad", "code": "%s", "type": "invalid_request_error"}}'


def http(status: int, *, code: str = "some_code", **headers: str) -> HttpError:
    return HttpError(status, BODY % (SECRET, code), {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True)
class Case:
    name: str
    reaction: HttpError | Reset
    error: type[ModelError]
    code: str
    transient: bool = False
    retry_after: float | None = field(default=None)


CASES = [
    Case("401", http(401), ModelRefused, "UNAUTHORIZED"),
    Case("403", http(403), ModelRefused, "UNAUTHORIZED"),
    Case("400", http(400), ModelRefused, "BAD_REQUEST"),
    Case("404", http(404), ModelRefused, "BAD_REQUEST"),
    Case("422", http(422), ModelRefused, "BAD_REQUEST"),
    Case("redirect", http(307, Location="http://127.0.0.1:1/v1/chat/completions"), ModelRefused, "BAD_REQUEST"),
    Case("too long", http(400, code="context_length_exceeded"), ModelRefused, "CONTEXT_TOO_LONG"),
    Case("no credit", http(429, code="insufficient_quota"), ModelRefused, "QUOTA_EXCEEDED"),
    Case("429", http(429), ModelUnavailable, "RATE_LIMITED", True),
    Case("429 with seconds", http(429, Retry_After="7"), ModelUnavailable, "RATE_LIMITED", True, 7.0),
    Case("429 with nonsense", http(429, Retry_After="soon"), ModelUnavailable, "RATE_LIMITED", True),
    Case("429 with ages", http(429, Retry_After="9999999"), ModelUnavailable, "RATE_LIMITED", True, 3600.0),
    Case("408", http(408), ModelUnavailable, "TIMEOUT", True),
    Case("500", http(500), ModelUnavailable, "SERVER_ERROR", True),
    Case("503 with seconds", http(503, Retry_After="2"), ModelUnavailable, "SERVER_ERROR", True, 2.0),
    Case("529", http(529), ModelUnavailable, "SERVER_ERROR", True),
    Case("html error", HttpError(502, "<html>bad gateway</html>"), ModelUnavailable, "SERVER_ERROR", True),
    Case("reset", Reset(), ModelUnavailable, "CONNECTION", True),
    Case("reset midway", Reset(midway=True), ModelUnavailable, "CONNECTION", True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_each_failure_has_its_error(
    server: OpenAICompatibleServer, open_model: OpenModel, caplog: pytest.LogCaptureFixture, case: Case
) -> None:
    server.always(case.reaction)
    with caplog.at_level(logging.DEBUG, logger="runs"), pytest.raises(case.error) as caught:
        await open_model().complete(ask(Role.ROUTER))
    error = caught.value
    assert (error.error_code, error.transient) == (case.code, case.transient)
    if isinstance(error, ModelUnavailable):
        assert error.retry_after == case.retry_after
    assert len(server.requests) == 1, "retries are the kernel's"
    for said in (error.safe_message, *caplog.messages, *traceback.format_exception(error)):
        assert SECRET not in said
        assert "prompt are bad" not in said


async def test_retry_after_may_be_a_date(server: OpenAICompatibleServer, open_model: OpenModel) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)
    server.always(http(429, Retry_After=later))
    with pytest.raises(ModelUnavailable) as caught:
        await open_model().complete(ask(Role.ROUTER))
    assert caught.value.retry_after is not None
    assert 60 < caught.value.retry_after <= 120


async def test_the_providers_own_error_code_is_told_only_where_it_is_a_plain_word(
    server: OpenAICompatibleServer, open_model: OpenModel
) -> None:
    server.script(None, http(400, code="unsupported_value"), http(400, code=SECRET))
    model, said = open_model(), []
    for _ in range(2):
        with pytest.raises(ModelRefused) as caught:
            await model.complete(ask(Role.ROUTER))
        said.append(caught.value.safe_message)
    assert said == [
        "The language model's server did not accept the request (HTTP 400, unsupported_value).",
        "The language model's server did not accept the request (HTTP 400).",
    ]


async def test_a_server_that_recovers_answers_the_next_call(
    server: OpenAICompatibleServer, open_model: OpenModel
) -> None:
    server.script("router_intent", HttpError(500))
    model = open_model()
    with pytest.raises(ModelUnavailable):
        await model.complete(ask(Role.ROUTER))
    assert (await model.complete(ask(Role.ROUTER))).text == '{"intent": "DIAGNOSIS"}'


@pytest.mark.parametrize("reaction", [Hang(), Drip()], ids=["silent", "one byte at a time"])
async def test_a_call_ends_at_its_timeout_and_hangs_up(
    server: OpenAICompatibleServer, open_model: OpenModel, reaction: Hang | Drip
) -> None:
    server.always(reaction)
    with pytest.raises(ModelUnavailable) as caught:
        await open_model(timeout_s=0.3).complete(ask(Role.ROUTER))
    assert (caught.value.error_code, caught.value.transient) == ("TIMEOUT", True)
    server.wait_until(lambda s: s.disconnects == ["router_intent"])


async def test_the_fallback_to_tool_output_has_no_timeout_of_its_own(
    server: OpenAICompatibleServer, open_model: OpenModel
) -> None:
    server.script("executor_evidence_v2", HttpError(400), Hang())
    with pytest.raises(ModelUnavailable) as caught:
        await open_model(timeout_s=0.5).complete(ask_executor())
    assert caught.value.error_code == "TIMEOUT"


async def test_nobody_listening_is_a_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    model = ProviderModel("openai", "local-model", base_url=f"http://127.0.0.1:{port}/v1", timeout_s=10)
    with pytest.raises(ModelUnavailable) as caught:
        await model.complete(ask(Role.ROUTER))
    await model.aclose()
    assert (caught.value.error_code, caught.value.transient) == ("CONNECTION", True)
    assert str(port) not in caught.value.safe_message


@pytest.mark.parametrize("declared", [True, False])
async def test_a_huge_body_is_not_read(server: OpenAICompatibleServer, open_model: OpenModel, declared: bool) -> None:
    server.always(Huge(50 * 1024 * 1024, declared))
    with pytest.raises(ModelContractViolated) as caught:
        await open_model().complete(ask(Role.ROUTER))
    assert caught.value.error_code == "RESPONSE_TOO_LARGE"
    server.wait_until(lambda s: s.disconnects)
    buffers = 16 * 1024 * 1024
    assert server.bytes_sent < MAX_REPLY_BYTES + buffers


async def test_an_error_with_a_huge_body_is_not_read_either(
    server: OpenAICompatibleServer, open_model: OpenModel
) -> None:
    server.always(HttpError(500, " " * (MAX_REPLY_BYTES + 1)))
    with pytest.raises(ModelContractViolated) as caught:
        await open_model().complete(ask(Role.ROUTER))
    assert caught.value.error_code == "RESPONSE_TOO_LARGE"


async def test_cancelling_the_caller_closes_the_connection(
    server: OpenAICompatibleServer, open_model: OpenModel
) -> None:
    server.always(Hang())
    call = asyncio.create_task(open_model().complete(ask(Role.ROUTER)))
    await asyncio.to_thread(server.wait_until, lambda s: s.requests)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.to_thread(server.wait_until, lambda s: s.disconnects == ["router_intent"])


async def test_many_calls_at_once_share_one_client(server: OpenAICompatibleServer, open_model: OpenModel) -> None:
    model = open_model()
    replies = await asyncio.gather(*(model.complete(ask(Role.ROUTER)) for _ in range(40)))
    assert {reply.text for reply in replies} == {'{"intent": "DIAGNOSIS"}'}


@pytest.mark.parametrize(
    ("provider", "options", "word"),
    [
        ("no-such-provider", {}, "not known"),
        ("anthropic", {"api_key": "k"}, "not installed"),
        ("deepseek", {}, "SUPERBIZ_LLM_API_KEY"),
        ("deepseek", {"api_key": "k", "base_url": "http://127.0.0.1:1"}, "SUPERBIZ_LLM_BASE_URL"),
    ],
)
def test_a_model_that_cannot_be_opened_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch, provider: str, options: dict[str, Any], word: str
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=word):
        ProviderModel(provider, "some-model", **options)
