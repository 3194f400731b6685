import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from runs.knowledge.chunking import Document
from runs.knowledge.index import KnowledgeIndex
from runs.tools.clock import GetCurrentTime
from runs.tools.registry import Sources, build_registry
from tests.runs.tools.context import call

INDEX = KnowledgeIndex([Document("a", "A title", "Some text.")])


@pytest.mark.parametrize(
    ("sources", "index", "names"),
    [
        ({}, None, {"get_current_time"}),
        ({}, INDEX, {"get_current_time", "lookup_knowledge"}),
        ({"log_dir": Path()}, None, {"get_current_time", "query_logs"}),
        ({"prometheus_url": "http://p:9090"}, None, {"get_current_time", "query_metrics", "query_alerts"}),
        ({"alertmanager_url": "http://a:9093"}, None, {"get_current_time", "query_alerts"}),
    ],
)
def test_a_tool_exists_only_where_its_source_is_configured(
    sources: dict[str, Any], index: KnowledgeIndex | None, names: set[str]
) -> None:
    assert set(build_registry(Sources(**sources), index).names) == names


async def test_alertmanager_is_asked_before_prometheus() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.url.host}{request.url.path}")
        return httpx.Response(200, json=[])

    sources = Sources(
        prometheus_url="http://p:9090",
        alertmanager_url="http://a:9093",
        http_client=lambda: httpx.AsyncClient(transport=httpx.MockTransport(answer)),
    )
    alerts = build_registry(sources, None).get("query_alerts")
    assert alerts is not None
    await call(alerts)
    assert asked == ["a/api/v2/alerts"]


def test_a_model_is_told_names_descriptions_and_strict_schemas() -> None:
    registry = build_registry(Sources(log_dir=Path(), prometheus_url="http://p:9090"), INDEX)
    specs = registry.specs()
    assert [spec.name for spec in specs] == list(registry.names)
    for spec in specs:
        json.dumps(spec.parameters)
        assert len(spec.description) > 40
        assert spec.parameters["type"] == "object"
        assert spec.parameters["additionalProperties"] is False
        assert all(described["description"] for described in spec.parameters["properties"].values())
        assert "title" not in spec.parameters
    assert [spec.name for spec in registry.specs(["query_logs", "no_such_tool"])] == ["query_logs"]
    assert "query_logs" in registry
    assert registry.get("no_such_tool") is None


def test_sources_do_not_show_their_addresses() -> None:
    assert "s3cret" not in repr(Sources(prometheus_url="http://u:s3cret@p", alertmanager_url="http://u:s3cret@a"))


async def test_the_clock_tells_the_reference_time() -> None:
    result = await call(GetCurrentTime())
    assert result.output == {"now": "2026-11-12T10:10:00Z", "unix": 1794478200}
