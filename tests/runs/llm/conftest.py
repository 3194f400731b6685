from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import pytest

from runs.llm.providers import ProviderModel
from tests.servers.openai_compatible import OpenAICompatibleServer

OpenModel: TypeAlias = Callable[..., ProviderModel]


@pytest.fixture
def server() -> Iterator[OpenAICompatibleServer]:
    with OpenAICompatibleServer() as running:
        yield running


@pytest.fixture
async def open_model(server: OpenAICompatibleServer) -> AsyncIterator[OpenModel]:
    """Opens models that talk to `server`; they are closed after the test."""
    opened: list[ProviderModel] = []

    def open_one(model_name: str = "local-model", **options: Any) -> ProviderModel:
        settings = {"base_url": server.base_url, "api_key": "key-of-the-test", "timeout_s": 30.0, **options}
        opened.append(ProviderModel(settings.pop("provider", "openai"), model_name, **settings))
        return opened[-1]

    yield open_one
    for model in opened:
        await model.aclose()
