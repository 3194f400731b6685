"""Which tools there are: those whose source is configured."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from runs.harness.ports import Tool, ToolSpec
from runs.tools.alerts import QueryAlerts
from runs.tools.clock import GetCurrentTime
from runs.tools.http import Server
from runs.tools.knowledge import Index, LookupKnowledge
from runs.tools.logs import QueryLogs
from runs.tools.metrics import QueryMetrics
from runs.tools.recorded import BASE_URL, Recording, client_of, load_recording


def new_client() -> httpx.AsyncClient:
    """The shared HTTP pool of a process. Redirects are not followed: a source is where it was configured to be."""
    return httpx.AsyncClient(follow_redirects=False)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where evidence comes from. `recorded_evidence`, when set, takes the place of all live ones.

    `timeout_s` bounds one call. `http_client` gives the client to use; whoever makes it closes it.
    """

    prometheus_url: str | None = field(default=None, repr=False)
    alertmanager_url: str | None = field(default=None, repr=False)
    log_dir: Path | None = None
    recorded_evidence: Path | None = None
    timeout_s: float = 20.0
    http_client: Callable[[], httpx.AsyncClient] = new_client


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """The tools of a process, by name."""

    tools: Mapping[str, Tool]

    def __contains__(self, name: object) -> bool:
        return name in self.tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())

    def get(self, name: str) -> Tool | None:
        return self.tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tools)

    def specs(self, names: Iterable[str] | None = None) -> tuple[ToolSpec, ...]:
        """What a model is told, for all tools or for those of `names` that exist."""
        wanted = self.names if names is None else tuple(names)
        return tuple(spec_of(self.tools[name]) for name in wanted if name in self.tools)


def spec_of(tool: Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, _without_titles(tool.arguments.model_json_schema()))


def build_registry(sources: Sources, index: Index | None) -> ToolRegistry:
    """Raises `ConfigurationError` where recorded evidence is configured and wrong."""
    tools: list[Tool] = [GetCurrentTime()]
    if index is not None:
        tools.insert(0, LookupKnowledge(index))
    if sources.recorded_evidence is not None:
        tools += _recorded(load_recording(sources.recorded_evidence), sources.timeout_s)
    else:
        tools += _live(sources)
    return ToolRegistry(MappingProxyType({tool.name: tool for tool in tools}))


def _live(sources: Sources) -> Iterator[Tool]:
    if sources.log_dir is not None:
        yield QueryLogs(sources.log_dir, sources.timeout_s)
    if sources.prometheus_url is None and sources.alertmanager_url is None:
        return
    client = sources.http_client()
    if sources.prometheus_url is not None:
        prometheus = Server("Prometheus", sources.prometheus_url, client, sources.timeout_s)
        yield QueryMetrics(prometheus)
        if sources.alertmanager_url is None:
            yield QueryAlerts(prometheus, prometheus=True)
    if sources.alertmanager_url is not None:
        yield QueryAlerts(Server("Alertmanager", sources.alertmanager_url, client, sources.timeout_s))


def _recorded(recording: Recording, timeout_s: float) -> Iterator[Tool]:
    client = client_of(recording)
    if recording.logs is not None:
        yield QueryLogs(recording.logs, timeout_s)
    if recording.metrics is not None:
        yield QueryMetrics(Server("Prometheus", BASE_URL, client, timeout_s))
    if recording.alerts is not None:
        yield QueryAlerts(Server("Alertmanager", BASE_URL, client, timeout_s))


def _without_titles(schema: Any) -> Any:
    """The JSON schema without the titles that pydantic derives from names: they tell a model nothing."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    return schema
