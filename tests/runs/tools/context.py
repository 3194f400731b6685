"""What the tests of the tools share: a context, calling a tool as the kernel does, and checking every result."""

import json
from datetime import UTC, datetime
from typing import Any

from gatekeeper.types import NO_EVIDENCE_PATH, EvidenceStatus
from runs.harness.ports import Tool, ToolContext, ToolResult
from runs.tools.paths import resolve

NOW = datetime(2026, 11, 12, 10, 10, 0, tzinfo=UTC)


def context(**changes: Any) -> ToolContext:
    return ToolContext(**{"run_id": "run", "session_id": "session", "now": NOW, **changes})


async def call(tool: Tool, *, within: ToolContext | None = None, **arguments: Any) -> ToolResult:
    """Validates the arguments, runs the tool, and holds the result against what every result promises."""
    result = await tool.run(tool.arguments.model_validate(arguments), within or context())
    check(result)
    return result


def check(result: ToolResult) -> None:
    json.dumps(result.output, allow_nan=False)
    paths = [ref.raw_path for ref in result.evidence_refs]
    assert len(set(paths)) == len(paths)
    for ref in result.evidence_refs:
        assert resolve(ref.raw_path, result.output) == ref.text
        assert ref.text.strip()
    assert (paths == [NO_EVIDENCE_PATH]) is (result.status is EvidenceStatus.NO_EVIDENCE)
    for document in result.documents:
        assert set(document.raw_paths) <= set(paths)
