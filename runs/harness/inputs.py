"""What each role is told, as JSON text. Pure: values in, messages out."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from gatekeeper.text import fold
from gatekeeper.types import Claim
from runs.harness.context import KeptInvocation, RunContext
from runs.harness.ports import Tool, UserMessage
from runs.harness.run import AlertSubject
from runs.harness.wire import Plan

WINDOW_BEFORE = timedelta(minutes=30)
WINDOW_AFTER = timedelta(minutes=15)
CONTEXT_CHARS = 800


def to_message(value: Mapping[str, Any]) -> UserMessage:
    return UserMessage(json.dumps(value, ensure_ascii=False, default=str))


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None


def alert_json(alert: AlertSubject | None) -> dict[str, Any] | None:
    if alert is None:
        return None
    return {
        "alertname": alert.alertname,
        "severity": alert.severity,
        "status": alert.status,
        "startsAt": iso(alert.starts_at),
        "labels": alert.labels,
        "annotations": alert.annotations,
        "generatorURL": alert.generator_url,
    }


def situation(ctx: RunContext) -> dict[str, Any]:
    """Query, alert, the reference time and the window worth looking at first."""
    now = ctx.kit.evidence_now() if ctx.kit.evidence_now else ctx.kit.clock.now()
    alert = ctx.run.subject.alert
    onset = alert.starts_at if alert and alert.starts_at and alert.starts_at <= now else now
    return {
        "query": ctx.run.query,
        "alert": alert_json(alert),
        "other_alerts": [alert_json(other) for other in ctx.run.subject.others],
        "now": iso(now),
        "window": {"start": iso(onset - WINDOW_BEFORE), "end": iso(min(now, onset + WINDOW_AFTER))},
    }


def remembered(ctx: RunContext) -> dict[str, Any]:
    """The turns before a question, and what the last of them released; nothing for an alert."""
    if not ctx.run.is_question:
        return {}
    return {"history": ctx.run.memory.history_json(), "previous": ctx.run.memory.previous_json()}


def for_router(ctx: RunContext) -> UserMessage:
    return to_message({"query": ctx.run.query, "history": ctx.run.memory.history_json()})


def for_system_chat(ctx: RunContext) -> UserMessage:
    return to_message({"query": ctx.run.query, "history": ctx.run.memory.history_json()})


def for_supervisor(
    ctx: RunContext, *, round_no: int, rounds_left: int, allowed: Iterable[str], plan: Plan | None, claims: int
) -> UserMessage:
    tried = [
        {key: entry[key] for key in ("tool_name", "status", "evidence_count")} for entry in ctx.tool_trace_summary()
    ]
    return to_message(
        {
            "query": ctx.run.query,
            "alert": alert_json(ctx.run.subject.alert),
            "round": round_no,
            "rounds_left": rounds_left,
            "allowed": list(allowed),
            "plan": plan.model_dump(mode="json") if plan else None,
            "tools_tried": tried,
            "claims": claims,
        }
    )


def for_planner(ctx: RunContext, tools: Iterable[Tool]) -> UserMessage:
    offered = [{"name": tool.name, "description": tool.description} for tool in tools]
    return to_message(situation(ctx) | remembered(ctx) | {"tools": offered})


def for_executor(ctx: RunContext, plan: Plan | None) -> UserMessage:
    return to_message(situation(ctx) | remembered(ctx) | {"plan": plan.model_dump(mode="json") if plan else None})


def executor_continues(plan: Plan | None) -> UserMessage:
    return to_message(
        {
            "continue": True,
            "plan": plan.model_dump(mode="json") if plan else None,
            "instruction": "Look further where something is missing, then answer with the whole draft of claims again.",
        }
    )


def executor_concludes(reason: str) -> UserMessage:
    return to_message(
        {
            "conclude_now": True,
            "reason": reason,
            "instruction": "No more tool calls. Answer with the claims that the evidence you have seen supports.",
        }
    )


def executor_repairs(failed: list[dict[str, Any]]) -> UserMessage:
    return to_message(
        {
            "repair": {"failed": failed},
            "instruction": "These citations did not hold. Correct them from evidence you were shown, look again with "
            "a tool, or drop the claim. Answer with the whole draft of claims.",
        }
    )


def executor_reminded(violation: str) -> UserMessage:
    return to_message(
        {
            "contract": violation,
            "instruction": "Answer with one JSON object of the form executor_evidence_v2 and nothing else.",
        }
    )


def for_judges(ctx: RunContext, claims: Iterable[Claim]) -> UserMessage:
    """The one message that verifier and composer get."""
    return to_message(
        {
            "query": ctx.run.query,
            "claims": [claim_json(claim, ctx.invocations) for claim in claims],
            "tool_trace_summary": ctx.tool_trace_summary(),
        }
    )


def claim_json(claim: Claim, invocations: Mapping[str, KeptInvocation]) -> dict[str, Any]:
    return {
        "claim_id": claim.claim_id,
        "kind": claim.kind.value,
        "claim_text": claim.claim_text,
        "critical": claim.critical,
        "evidence": [
            {
                "source_invocation_id": item.source_invocation_id,
                "tool_name": item.tool_name,
                "raw_path": item.raw_path,
                "evidence_excerpt": item.evidence_excerpt,
                "context": context_of(
                    ref_text(invocations, item.source_invocation_id, item.raw_path), item.evidence_excerpt
                ),
            }
            for item in claim.evidence
        ],
    }


def ref_text(invocations: Mapping[str, KeptInvocation], invocation_id: str, raw_path: str) -> str:
    kept = invocations.get(invocation_id)
    refs = kept.record.evidence_refs if kept else ()
    return next((ref["text"] for ref in refs if ref["raw_path"] == raw_path), "")


def context_of(text: str, excerpt: str) -> str:
    """The whole line or paragraph around an excerpt, at most CONTEXT_CHARS."""
    if len(text) <= CONTEXT_CHARS:
        return text
    if excerpt not in text:
        text, excerpt = fold(text), fold(excerpt)
    at = max(0, text.find(excerpt))
    start = max(0, text.rfind("\n\n", 0, at) + 2 if "\n\n" in text[:at] else 0)
    end = text.find("\n\n", at + len(excerpt))
    paragraph = text[start : end if end >= 0 else len(text)]
    if len(paragraph) <= CONTEXT_CHARS:
        return paragraph
    left = max(start, at - (CONTEXT_CHARS - min(len(excerpt), CONTEXT_CHARS)) // 2)
    return text[left : left + CONTEXT_CHARS]
