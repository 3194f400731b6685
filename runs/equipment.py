"""What the runs of a process share: models, tools, breakers, the knowledge index; and what each run pins of them.

Made on the event loop that uses it, because models and tools own HTTP pools of that loop.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
from django.conf import settings

from gatekeeper import rulesets
from gatekeeper.canonical import MalformedRules
from gatekeeper.types import RuleSet
from prompts import active
from prompts.catalogue import AIOPS_SET, CHAT_SET
from runs import breakers
from runs.breakers import CountedBreaker
from runs.clock import SystemClock
from runs.errors import ConfigurationError
from runs.harness.ports import Breaker, ChatModel, Role
from runs.harness.run import Limits, Prompt
from runs.incidents import NoSuchIncident, incident
from runs.knowledge.index import KnowledgeIndex
from runs.library import SHELF
from runs.llm.select import build_models, close_models
from runs.orm import run_in_orm
from runs.pins import NOTHING_SPECIAL, Order, PinnedPrompts, Rehearsal
from runs.roles import PROMPT_NAMES
from runs.tools.breaker import Breakers
from runs.tools.recorded import recorded_now
from runs.tools.registry import Sources, ToolRegistry, build_registry, new_client

BREAKER_FAILURES = 3
BREAKER_COOL_DOWN_S = 30.0
ROLE_FAMILIES = tuple(dict.fromkeys(role.family for role in Role))


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one attempt of a run is given, pinned at its start."""

    models: Mapping[Role, ChatModel]
    registry: ToolRegistry
    breakers: Mapping[str, Breaker]
    prompts: Mapping[Role, Prompt]
    pinned: PinnedPrompts
    rule_set: RuleSet
    limits: Limits
    evidence_now: Callable[[], datetime] | None
    looks_back: bool = False


class Equipment:
    """One for each process that drives runs. `aclose` on the same loop."""

    def __init__(self) -> None:
        self._models: Mapping[Role, ChatModel] | None = None
        self._opening = threading.Lock()
        self._client: httpx.AsyncClient | None = None
        self._registry: tuple[KnowledgeIndex, ToolRegistry] | None = None
        self._preparing = asyncio.Lock()
        self._breakers = _new_breakers()

    @property
    def limits(self) -> Limits:
        return limits_of(settings.SUPERBIZ)

    def tools_left_alone(self) -> list[str]:
        """Tools that no run of this process asks now, because their source failed again and again."""
        states = self._breakers.states()
        breakers.show(states)
        return breakers.left_alone(states)

    async def open(self) -> None:
        """Open the models before a run waits for them: to load a provider's library takes a second and more.

        A wrong setting is told by the runs that meet it.
        """
        with contextlib.suppress(ConfigurationError):
            await asyncio.to_thread(self._open_models)

    async def prepare(self, *, question: bool, order: Order = NOTHING_SPECIAL) -> Prepared:
        """For a question or an alert. Raises `ConfigurationError` where a setting, prompt or rule is wrong."""
        # One at a time: runs that come together would stay in step, all waiting for their models and then all at
        # work at once, and each would wait for all the others at every step.
        async with self._preparing:
            stored = await run_in_orm(_stored, CHAT_SET if question else AIOPS_SET, order)
        senses = await self._senses(stored.index, order.rehearsal)
        # A provider's library takes a second to import: not on the loop that keeps the leases of other runs.
        models = await asyncio.to_thread(self._open_models)
        return Prepared(
            models=models,
            registry=senses.registry,
            breakers=senses.breakers,
            prompts=stored.prompts,
            pinned=stored.pinned,
            rule_set=stored.rule_set,
            limits=self.limits,
            evidence_now=None if senses.now is None else _fixed(senses.now),
            looks_back=senses.looks_back,
        )

    async def _senses(self, index: KnowledgeIndex, rehearsal: Rehearsal | None) -> "_Senses":
        """A bundled incident is read by tools of its own, whose failures say nothing about the configured sources."""
        if rehearsal is not None and rehearsal.incident is not None:
            registry = await asyncio.to_thread(_tools_of_incident, rehearsal.incident, index)
            own = _new_breakers()
            return _Senses(registry, {name: own.of(name) for name in registry.names}, rehearsal.now)
        registry = self._tools(index)
        shared = {name: CountedBreaker(name, self._breakers.of(name)) for name in registry.names}
        recorded = settings.SUPERBIZ.recorded_evidence
        if recorded is not None:
            return _Senses(registry, shared, recorded_now(recorded))
        if rehearsal is not None:
            return _Senses(registry, shared, rehearsal.now, looks_back=True)
        return _Senses(registry, shared, None)

    def _open_models(self) -> Mapping[Role, ChatModel]:
        with self._opening:
            if self._models is None:
                self._models = _models_of(settings.SUPERBIZ)
            return self._models

    def _tools(self, index: KnowledgeIndex) -> ToolRegistry:
        """The registry over this index; a new index makes a new one, on the same HTTP pool."""
        if self._registry is None or self._registry[0] is not index:
            self._registry = (index, build_registry(sources_of(settings.SUPERBIZ, self._shared_client), index))
        return self._registry[1]

    def _shared_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = new_client()
        return self._client

    async def aclose(self) -> None:
        if self._models is not None:
            await close_models(self._models.values())
        if self._client is not None:
            await self._client.aclose()


@dataclass(frozen=True, slots=True)
class _Senses:
    """What a run looks at the world with. `now` None: the clock."""

    registry: ToolRegistry
    breakers: Mapping[str, Breaker]
    now: datetime | None
    looks_back: bool = False


@dataclass(frozen=True, slots=True)
class _Stored:
    index: KnowledgeIndex
    pinned: PinnedPrompts
    prompts: Mapping[Role, Prompt]
    rule_set: RuleSet


def _stored(prompt_set: str, order: Order) -> _Stored:
    try:
        pinned, rule_set = _pinned(prompt_set, order), rulesets.current()
    except (LookupError, rulesets.RuleSetError, MalformedRules) as error:
        raise ConfigurationError(str(error)) from error
    prompts = {
        role: Prompt(prompt.name, prompt.version, prompt.resource, prompt.sha256, prompt.text)
        for role, name in PROMPT_NAMES.items()
        if (prompt := pinned.prompts.get(name)) is not None
    }
    numbers = PinnedPrompts(
        prompt_set=pinned.version, prompts={name: prompt.number for name, prompt in pinned.prompts.items()}
    )
    return _Stored(SHELF.index(), numbers, prompts, rule_set)


def _pinned(prompt_set: str, order: Order) -> active.PinnedSet:
    """What an earlier attempt of the run had; else what is active now, but for what a rehearsal tries."""
    if order.pinned is not None:
        return active.pin_again(order.pinned.prompt_set, order.pinned.prompts)
    return active.pin(prompt_set, order.rehearsal.prompts if order.rehearsal else {})


def _tools_of_incident(slug: str, index: KnowledgeIndex) -> ToolRegistry:
    try:
        evidence = incident(slug).evidence
    except NoSuchIncident as error:
        raise ConfigurationError(str(error)) from error
    return build_registry(Sources(recorded_evidence=evidence, timeout_s=settings.SUPERBIZ.tool_timeout_s), index)


def _new_breakers() -> Breakers:
    return Breakers(failures=BREAKER_FAILURES, cool_down_s=BREAKER_COOL_DOWN_S, monotonic=SystemClock().monotonic)


def _fixed(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def _models_of(env: Any) -> Mapping[Role, ChatModel]:
    return build_models(
        env.llm,
        {family: getattr(env, f"llm_{family.lower()}") for family in ROLE_FAMILIES},
        env.llm_base_url,
        env.llm_api_key.get_secret_value() if env.llm_api_key else None,
        env.llm_output,
        env.model_timeout_s,
    )


def sources_of(env: Any, http_client: Callable[[], httpx.AsyncClient]) -> Sources:
    return Sources(
        prometheus_url=env.prometheus_url,
        alertmanager_url=env.alertmanager_url,
        log_dir=env.log_dir,
        recorded_evidence=env.recorded_evidence,
        timeout_s=env.tool_timeout_s,
        http_client=http_client,
    )


def limits_of(env: Any) -> Limits:
    return Limits(
        max_model_calls=env.run_max_model_calls,
        max_tool_calls=env.run_max_tool_calls,
        max_same_tool_calls=env.run_max_same_tool_calls,
        max_tokens=env.run_max_tokens,
        deadline_s=env.run_deadline_s,
        tool_timeout_s=env.tool_timeout_s,
        model_timeout_s=env.model_timeout_s,
    )
