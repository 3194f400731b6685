"""Which model a role gets."""

import subprocess
import sys

import pytest

from runs.errors import ConfigurationError
from runs.harness.ports import Role
from runs.llm.select import ModelChoice, build_models, close_models


@pytest.mark.parametrize(
    ("spec", "choice"),
    [
        ("offline", ModelChoice("offline")),
        ("openai:gpt-5", ModelChoice("openai", "gpt-5")),
        ("anthropic:claude-sonnet-5", ModelChoice("anthropic", "claude-sonnet-5")),
        ("ollama:llama3:8b", ModelChoice("ollama", "llama3:8b")),
        ("openai:org/model@v1", ModelChoice("openai", "org/model@v1")),
    ],
)
def test_a_spec_reads_both_ways(spec: str, choice: ModelChoice) -> None:
    assert ModelChoice.parse(spec) == choice
    assert str(choice) == spec


@pytest.mark.parametrize(
    "spec", ["", "gpt-5", "openai:", ":gpt-5", "openai: gpt-5", "Offline", "offline:", "offline:x", "openai:a b"]
)
def test_a_wrong_spec_is_a_configuration_error(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="PROVIDER:MODEL"):
        ModelChoice.parse(spec)


async def test_roles_share_a_model_per_spec() -> None:
    models = build_models(
        "openai:big",
        {"VERIFIER": "openai:small", "composer": "openai:small", "router": None},
        None,
        "key",
        "native",
        9.0,
    )
    assert models.keys() == set(Role)
    assert {role for role in Role if models[role].name == "openai:small"} == {Role.CHAT_VERIFIER, Role.CHAT_COMPOSER}
    assert len({id(model) for model in models.values()}) == 2
    await close_models(models.values())


async def test_an_override_holds_for_the_chat_and_the_alert_side() -> None:
    models = build_models("openai:big", {"executor": "openai:small"}, None, "key", "native", 9.0)
    assert models[Role.CHAT_EXECUTOR] is models[Role.AIOPS_EXECUTOR]
    assert models[Role.AIOPS_EXECUTOR].name == "openai:small"
    await close_models(models.values())


def test_an_override_of_no_role_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="JUDGE is not a role"):
        build_models("offline", {"judge": "openai:x"}, None, None, "native", 9.0)


async def test_offline_plays_every_role_and_needs_no_closing() -> None:
    models = build_models("offline", {}, None, None, "native", 9.0)
    assert {model.name for model in models.values()} == {"offline"}
    await close_models(models.values())


def test_a_process_without_a_provider_loads_no_sdk() -> None:
    program = (
        "import sys; from runs.llm.select import build_models; from runs.llm.providers import ProviderModel;"
        "build_models('offline', {}, None, None, 'native', 9.0);"
        "print(sorted({'pydantic_ai', 'openai', 'httpx2'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
