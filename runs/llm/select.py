"""Which model answers for which role, from settings as they come."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from runs.errors import ConfigurationError
from runs.harness.ports import ChatModel, Role
from runs.llm.providers import OutputMode, ProviderModel

OFFLINE = "offline"

_SPEC = re.compile(r"([a-z][a-z0-9_/-]*):(\S+)")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """`offline`, or a provider and its model."""

    provider: str
    model_name: str = ""

    @classmethod
    def parse(cls, spec: str) -> "ModelChoice":
        """`offline` or `PROVIDER:MODEL`. Raises `ConfigurationError`."""
        if spec == OFFLINE:
            return cls(OFFLINE)
        parts = _SPEC.fullmatch(spec)
        if parts is None or parts[1] == OFFLINE:
            raise ConfigurationError("A model is 'offline' or PROVIDER:MODEL, for example openai:gpt-5.")
        return cls(*parts.groups())

    @property
    def offline(self) -> bool:
        return self.provider == OFFLINE

    def __str__(self) -> str:
        return OFFLINE if self.offline else f"{self.provider}:{self.model_name}"


def build_models(
    spec: str,
    overrides: Mapping[str, str | None],
    base_url: str | None,
    api_key: str | None,
    output_mode: OutputMode,
    timeout_s: float,
) -> Mapping[Role, ChatModel]:
    """A model for each role; roles with the same spec share one instance.

    `overrides` maps a role family, as `Role.family` names it (any case), to a spec; None means no override.
    `timeout_s` bounds one call. Raises `ConfigurationError`.
    """
    by_family = {family.upper(): value for family, value in overrides.items() if value}
    if unknown := by_family.keys() - {role.family.upper() for role in Role}:
        raise ConfigurationError(f"{min(unknown)} is not a role that a model can be set for.")
    choices = {role: ModelChoice.parse(by_family.get(role.family.upper(), spec)) for role in Role}
    opened = {
        choice: _open(choice, base_url, api_key, output_mode, timeout_s) for choice in dict.fromkeys(choices.values())
    }
    return {role: opened[choice] for role, choice in choices.items()}


@runtime_checkable
class Closable(Protocol):
    async def aclose(self) -> None: ...


async def close_models(models: Iterable[ChatModel]) -> None:
    """Close each model once, where there is something to close; takes `build_models(…).values()`."""
    for model in {id(model): model for model in models}.values():
        if isinstance(model, Closable):
            await model.aclose()


def _open(
    choice: ModelChoice, base_url: str | None, api_key: str | None, output_mode: OutputMode, timeout_s: float
) -> ChatModel:
    if choice.offline:
        from runs.llm.offline import OfflineModel  # not loaded where every role has a provider's model

        return OfflineModel()
    return ProviderModel(
        choice.provider,
        choice.model_name,
        base_url=base_url,
        api_key=api_key,
        output_mode=output_mode,
        timeout_s=timeout_s,
    )
