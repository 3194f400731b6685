"""A small run as the kernel tells it: routing, one executor step with a call retried, one tool call, the gates."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from runs.harness.events import (
    Emission,
    EventType,
    Frame,
    GuardDecision,
    InvocationRecord,
    ModelCall,
    ModelStep,
    Reasoning,
    ReleaseDecided,
    RoutingDecision,
    RunFinished,
    RunStarted,
    StepClosed,
    StepOpened,
    ToolInvoked,
)

AT = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def routing(seconds: float = 0) -> Emission:
    details = RoutingDecision(intent="DIAGNOSIS", source="ALERT")
    return Emission(Frame(EventType.ROUTING_DECISION, details, "Routed to DIAGNOSIS.", at(seconds)))


def step_frame(step_id: str, index: int, status: str, **changes: Any) -> Frame:
    details = ModelStep(role="aiops_executor", agent_name="executor", step_index=index, model="offline", **changes)
    duration = None if status == "STARTED" else 120
    return Frame(
        EventType.AGENT_MODEL_STEP, details, f"Executor {status}.", at(index), status, step_id, duration_ms=duration
    )


def opened(step_id: str = "stp_1", index: int = 1) -> Emission:
    record = StepOpened(
        step_id, index, "executor", "aiops_executor", "offline", "aiops-executor-v1", "3 messages", at(index)
    )
    return Emission(step_frame(step_id, index, "STARTED"), (record,))


def call(step_id: str = "stp_1", attempt: int = 1, **changes: Any) -> ModelCall:
    record = ModelCall(
        call_id=f"call_{step_id}_{attempt}",
        step_id=step_id,
        role="aiops_executor",
        attempt=attempt,
        model="offline",
        status="OK",
        error_code=None,
        input_tokens=100,
        output_tokens=20,
        cost_usd=Decimal("0.0012"),
        finish_reason="tool_calls",
        duration_ms=80,
        started_at=at(1),
    )
    return replace(record, **changes)


def closed(step_id: str = "stp_1", index: int = 1, calls: tuple[ModelCall, ...] = ()) -> Emission:
    record = StepClosed(
        step_id, "COMPLETED", "1 tool call", True, ({"call_id": "t1", "tool_name": "query_logs"},), 100, 20, 120, at(2)
    )
    reasoning = Reasoning(step_id, "The pool looks full.", "Let me read the logs.", at(2))
    frame = step_frame(step_id, index, "COMPLETED", attempts=2, input_tokens=100, output_tokens=20)
    return Emission(frame, (*calls, reasoning, record))


def invoked(invocation_id: str = "inv_aaaaaa", step_id: str = "stp_1", **changes: Any) -> Emission:
    text = "HikariPool-1 - Connection is not available (total=10, active=10, idle=0, waiting=61)"
    record = InvocationRecord(
        invocation_id=invocation_id,
        step_id=step_id,
        tool_name="query_logs",
        source_kind="TELEMETRY",
        input_params={"service": "checkout-api", "any_of": ["HikariPool"]},
        output={"lines": [{"text": text, "rate": 1e22, "share": 0.25}]},
        output_preview=text,
        evidence_status="OK",
        evidence_refs=({"raw_path": "$.lines[0].text", "text": text, "shown": True, "relevance": None},),
        retrieval_layer=None,
        l0_match_count=None,
        l1_match_count=None,
        retrieval_details={"scanned": 1200},
        relevance_level=None,
        dedup_reason=None,
        duration_ms=31,
        success=True,
        error_code=None,
        error_message=None,
        truncated=False,
        started_at=at(3),
    )
    details = ToolInvoked(tool_name="query_logs", evidence_status="OK", evidence_count=1)
    frame = Frame(
        EventType.TOOL_INVOCATION, details, "query_logs: 1 ref.", at(3), "OK", step_id, invocation_id, duration_ms=31
    )
    return Emission(frame, (replace(record, **changes),))


def guarded() -> Emission:
    details = GuardDecision(verdict="PASS", claims=1, accepted=1, removed=0, failed_rules=(), rule_set_version=1)
    return Emission(
        Frame(EventType.EVIDENCE_GUARD_INITIAL, details, "1 of 1 claims stand.", at(4), "PASS", content_digest="a" * 64)
    )


def released() -> Emission:
    details = ReleaseDecided(
        decision="RELEASED", confidence="NORMAL", statements_proposed=1, statements_kept=1, claims=1, limitations=0
    )
    return Emission(Frame(EventType.RELEASE_DECISION, details, "Released.", at(5), "RELEASED"))


def started() -> Emission:
    details = RunStarted(trigger="ALERT", attempt=1, model="offline", prompt_set_version="p1", rule_set_version=1)
    return Emission(Frame(EventType.RUN_STARTED, details, "Attempt 1 started.", at(0)))


def finished() -> Emission:
    details = RunFinished(
        outcome="SUCCESS",
        verdict="PASS",
        release_decision="RELEASED",
        failure_code=None,
        cancel_reason=None,
        model_calls=2,
        tool_calls=1,
        input_tokens=100,
        output_tokens=20,
    )
    return Emission(Frame(EventType.RUN_FINISHED, details, "The run ended.", at(6)))


def small_run(step_id: str = "stp_1") -> Iterator[Emission]:
    """Everything between RUN_STARTED and RUN_FINISHED: 6 frames, 1 step, 2 model calls, 1 invocation."""
    yield routing()
    yield opened(step_id)
    failed_call = call(step_id, status="ERROR", error_code="HTTP_500", input_tokens=None, output_tokens=None)
    yield Emission(None, (replace(failed_call, cost_usd=None, finish_reason=None),))
    yield closed(step_id, calls=(call(step_id, attempt=2),))
    yield invoked(step_id=step_id)
    yield guarded()
    yield released()
