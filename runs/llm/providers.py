"""Models over HTTP, behind the `ChatModel` protocol."""

import asyncio
from typing import Literal, TypeAlias

from runs.errors import ModelRefused, ModelUnavailable
from runs.harness.ports import ModelReply, ModelRequest

OutputMode: TypeAlias = Literal["native", "tool", "prompted"]


class ProviderModel:
    """A model of any provider that pydantic-ai knows; `openai` means chat completions, at any base URL.

    `timeout_s` bounds a whole `complete()`. `output_mode` says how the structured answer is asked for:
    `native` (a JSON schema as response format), `tool` (an output tool) or `prompted` (the schema in the
    system prompt). Some servers refuse function tools and a response format in one request: the first such
    refusal is answered with one more request that asks through a tool, and remembered where that was accepted.
    """

    def __init__(
        self,
        provider: str,
        model_name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        output_mode: OutputMode = "native",
        timeout_s: float = 90.0,
    ) -> None:
        """Raises `ConfigurationError` where the provider is unknown, not installed or lacks its key."""
        # Loaded here, not above: it takes a second and much memory, and few processes talk to a model.
        from runs.llm.exchange import Exchange

        self._name = f"{provider}:{model_name}"
        self._timeout_s = timeout_s
        self._exchange = Exchange(provider, model_name, base_url=base_url, api_key=api_key, timeout_s=timeout_s)
        self._mode: OutputMode = "tool" if output_mode == "native" and not self._exchange.takes_schemas else output_mode
        self._refuses_schema_with_tools = False

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """One reply. Raises `ModelUnavailable`, `ModelRefused` or `ModelContractViolated`; does not retry."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._complete(request)
        except TimeoutError:
            raise timed_out() from None

    async def _complete(self, request: ModelRequest) -> ModelReply:
        both = self._mode == "native" and bool(request.tools)
        if not both or self._refuses_schema_with_tools:
            return await self._exchange.once(request, "tool" if both else self._mode)
        try:
            return await self._exchange.once(request, "native")
        except ModelRefused as refusal:
            if refusal.error_code != "BAD_REQUEST":
                raise
        reply = await self._exchange.once(request, "tool")
        self._refuses_schema_with_tools = True
        return reply

    async def aclose(self) -> None:
        """Close the HTTP client; calls in flight end with CONNECTION."""
        await self._exchange.aclose()


def timed_out() -> ModelUnavailable:
    return ModelUnavailable("The language model did not answer in time.", error_code="TIMEOUT")
