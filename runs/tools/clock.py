"""`get_current_time`: the run's reference time."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from gatekeeper.types import EvidenceRef, EvidenceStatus, SourceKind
from runs.harness.ports import ToolContext, ToolResult
from runs.tools.timewindow import format_time


class NoArguments(BaseModel):
    """Takes no arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GetCurrentTime:
    name = "get_current_time"
    description = "The reference time of this run (UTC), from which relative times such as -15m are counted."
    arguments: type[BaseModel] = NoArguments
    source_kind = SourceKind.OTHER

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        now = format_time(context.now)
        return ToolResult(
            status=EvidenceStatus.OK,
            output={"now": now, "unix": int(context.now.timestamp())},
            evidence_refs=(EvidenceRef("$.now", now),),
            preview=now,
        )
