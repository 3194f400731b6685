"""One request and one reply through pydantic-ai: our `ModelRequest` out, our `ModelReply` back.

Importing this module loads pydantic-ai and the provider's SDK (about a second); `runs.llm.providers`
does so only when a model over HTTP is opened.
"""

import functools
import inspect
import logging
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import httpx2
from genai_prices import calc_price
from pydantic import BaseModel
from pydantic_ai import messages as wire
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from runs.errors import ConfigurationError, ModelContractViolated, ModelError
from runs.harness.ports import (
    AssistantMessage,
    Message,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from runs.llm.client import open_client
from runs.llm.failures import content_filtered, model_error
from runs.llm.providers import OutputMode

log = logging.getLogger(__name__)

# Retries are the kernel's, which records each attempt.
_SETTINGS = ModelSettings(max_retries=0)

_OUTPUT_TOOL_DESCRIPTION = "Give the final answer. Call it once, when nothing else is left to look at."


class Exchange:
    """A provider's model with the HTTP client that belongs to it."""

    def __init__(
        self, provider: str, model_name: str, *, base_url: str | None, api_key: str | None, timeout_s: float
    ) -> None:
        """Raises `ConfigurationError` where the provider is unknown, not installed or lacks its key."""
        self._client = open_client(timeout_s)
        self._model = _open_model(provider, model_name, base_url, api_key, self._client)

    @property
    def takes_schemas(self) -> bool:
        """Whether the model is known to take a JSON schema as its answer's format."""
        return bool(self._model.profile.get("supports_json_schema_output", False))

    async def once(self, request: ModelRequest, mode: OutputMode) -> ModelReply:
        """Send one request. Raises a `ModelError`; cancelling the caller closes the connection."""
        messages = to_messages(request.system, request.messages)
        parameters = to_parameters(request, mode)
        try:
            response = await model_request(
                self._model, messages, model_settings=_SETTINGS, model_request_parameters=parameters
            )
        except Exception as error:  # noqa: BLE001  # SDKs raise anything over an odd answer; all of it is a failed call
            failure = model_error(error)
            kind = type(error).__name__
            log.warning("model call failed: model=%s code=%s error=%s", self._model.model_id, failure.error_code, kind)
            # The SDK's exception quotes the server's body, so it must not reach a traceback in a log.
            raise failure from None
        return to_reply(response, request.schema_name)

    async def aclose(self) -> None:
        await self._client.aclose()


# ---- opening --------------------------------------------------------------------------------


def _open_model(
    provider: str, model_name: str, base_url: str | None, api_key: str | None, client: httpx2.AsyncClient
) -> Model:
    try:
        if provider == "openai":
            return OpenAIChatModel(
                model_name,
                provider=OpenAIProvider(base_url=base_url, api_key=api_key, http_client=client),
                # `prompted` is for servers that take no response format at all, so none is sent there.
                profile=OpenAIModelProfile(supports_json_schema_output=True, supports_json_object_output=False),
            )
        return infer_model(
            f"{provider}:{model_name}",
            provider_factory=lambda name: _open_provider(name, base_url, api_key, client),
        )
    except ImportError as error:
        raise ConfigurationError(f"The model provider {provider!r} needs a library that is not installed.") from error
    except UserError as error:
        raise ConfigurationError(
            f"The model {provider}:{model_name} cannot be opened; check its name and SUPERBIZ_LLM_API_KEY."
        ) from error


def _open_provider(name: str, base_url: str | None, api_key: str | None, client: httpx2.AsyncClient) -> Provider[Any]:
    try:
        provider_class = infer_provider_class(name)
    except ValueError as error:
        raise ConfigurationError(f"The model provider {name!r} is not known.") from error
    given = {"base_url": base_url, "api_key": api_key, "http_client": client}
    taken = inspect.signature(provider_class).parameters
    if base_url is not None and "base_url" not in taken:
        raise ConfigurationError(f"The model provider {name!r} has an address of its own: unset SUPERBIZ_LLM_BASE_URL.")
    if "http_client" not in taken:
        raise ConfigurationError(f"The model provider {name!r} cannot be reached through a bounded HTTP client.")
    return provider_class(**{key: value for key, value in given.items() if key in taken and value is not None})


# ---- request --------------------------------------------------------------------------------


def to_messages(system: str, messages: Sequence[Message]) -> list[wire.ModelMessage]:
    """Our conversation as pydantic-ai's; tool answers that follow each other become one message."""
    converted: list[wire.ModelMessage] = []
    for message in messages:
        match message:
            case UserMessage(text):
                converted.append(wire.ModelRequest(parts=[wire.UserPromptPart(text)], instructions=system))
            case AssistantMessage(text, tool_calls):
                parts: list[wire.ModelResponsePart] = [wire.TextPart(text)] if text else []
                parts += [wire.ToolCallPart(c.name, c.arguments, c.call_id) for c in tool_calls]
                if parts:
                    converted.append(wire.ModelResponse(parts=parts))
            case ToolMessage(call_id, tool_name, content):
                answer = wire.ToolReturnPart(tool_name, content, call_id)
                last = converted[-1] if converted else None
                if isinstance(last, wire.ModelRequest) and isinstance(last.parts[-1], wire.ToolReturnPart):
                    last.parts = [*last.parts, answer]
                else:
                    converted.append(wire.ModelRequest(parts=[answer], instructions=system))
    return converted


def to_parameters(request: ModelRequest, mode: OutputMode) -> ModelRequestParameters:
    schema = _schema(request.output)
    tools = [_function_tool(spec) for spec in request.tools]
    if mode == "tool":
        answer = ToolDefinition(
            name=request.schema_name,
            parameters_json_schema=schema,
            description=_OUTPUT_TOOL_DESCRIPTION,
            strict=True,
            kind="output",
        )
        return ModelRequestParameters(
            function_tools=tools, output_tools=[answer], output_mode="tool", allow_text_output=False
        )
    name = request.schema_name if mode == "native" else None  # a prompted model is shown the shape, not our name for it
    return ModelRequestParameters(
        function_tools=tools,
        output_mode=mode,
        output_object=OutputObjectDefinition(json_schema=schema, name=name, strict=True),
    )


def _function_tool(spec: ToolSpec) -> ToolDefinition:
    # Not strict: strict schemas make every argument required, and most of a query's arguments are optional.
    return ToolDefinition(
        name=spec.name, parameters_json_schema=dict(spec.parameters), description=spec.description, strict=False
    )


@functools.cache
def _schema(output: type[BaseModel]) -> dict[str, Any]:
    return output.model_json_schema()


# ---- reply ----------------------------------------------------------------------------------


def to_reply(response: wire.ModelResponse, schema_name: str) -> ModelReply:
    """The provider's response as ours. Raises `ModelRefused` or `ModelContractViolated` where it is no answer."""
    try:
        return _read(response, schema_name)
    except ModelError as error:
        error.usage = _usage(response)
        raise


def _read(response: wire.ModelResponse, schema_name: str) -> ModelReply:
    if response.finish_reason == "content_filter":
        raise content_filtered()
    if response.finish_reason == "length":
        raise ModelContractViolated(
            "The language model's answer was cut off at its length limit.", error_code="TRUNCATED"
        )
    calls = [part for part in response.parts if isinstance(part, wire.ToolCallPart)]
    answers = [call for call in calls if call.tool_name == schema_name]
    written = "".join(part.content for part in response.parts if isinstance(part, wire.TextPart))
    text = _arguments(answers[0]) if answers else written
    tool_calls = _tool_calls([call for call in calls if call.tool_name != schema_name])
    if not text.strip() and not tool_calls:
        raise ModelContractViolated("The language model answered with nothing.", error_code="EMPTY")
    thinking = "\n\n".join(p.content for p in response.parts if isinstance(p, wire.ThinkingPart) and p.content)
    return ModelReply(
        text=text if text.strip() else None,
        tool_calls=tool_calls,
        thinking=thinking or None,
        usage=_usage(response),
        finish_reason=response.finish_reason,
        model=response.model_name,
    )


def _tool_calls(parts: Sequence[wire.ToolCallPart]) -> tuple[ToolCall, ...]:
    """The calls with ids that differ: some servers give all calls of a reply one id, and answers are matched by it."""
    taken: set[str] = set()
    calls = []
    for part in parts:
        call_id, number = part.tool_call_id, 1
        while call_id in taken:
            number += 1
            call_id = f"{part.tool_call_id}_{number}"
        taken.add(call_id)
        calls.append(ToolCall(call_id, part.tool_name, _arguments(part)))
    return tuple(calls)


def _arguments(part: wire.ToolCallPart) -> str:
    """As the model wrote them; pydantic-ai's own JSON text would hide that they were broken."""
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


def _usage(response: wire.ModelResponse) -> Usage | None:
    """Tokens as the server stated them; None where it stated none (no call takes no tokens).

    Whether the figures are believable is the kernel's question, for every model alike.
    """
    stated = response.usage
    if stated.input_tokens == 0 and stated.output_tokens == 0:
        return None
    return Usage(input_tokens=stated.input_tokens, output_tokens=stated.output_tokens, cost_usd=_cost(response))


def _cost(response: wire.ModelResponse) -> Decimal | None:
    """The list price in US dollars (genai-prices), found by the server's address.

    A model of a known name behind another address has a price of its own, which nobody here knows.
    """
    if not response.model_name:
        return None
    try:
        if response.provider_url:
            price = calc_price(
                response.usage,
                response.model_name,
                provider_api_url=response.provider_url,
                genai_request_timestamp=response.timestamp,
            )
        else:
            price = calc_price(
                response.usage,
                response.model_name,
                provider_id=response.provider_name,
                genai_request_timestamp=response.timestamp,
            )
    except (LookupError, ValueError):
        return None
    return price.total_price
