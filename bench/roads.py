"""The frames and ledger rows of one seeded run, chained as the recorder chains them. Pure.

A run is told in frames of the kernel's own shapes; digests and hashes come from `audit.chain`, so that
`verify_ledger` finds nothing wrong with what is seeded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from audit import chain
from runs.harness.digest import content_digest
from runs.harness.events import (
    DETAILS,
    PHASES,
    BudgetEnded,
    Details,
    EventType,
    GuardDecision,
    ModelStep,
    ReleaseDecided,
    RoutingDecision,
    RunCancelRequested,
    RunFinished,
    RunStarted,
    SemanticDecision,
    ToolInvoked,
)

MODEL = "offline"
TOKENS_IN, TOKENS_OUT = 1_850, 260
FIXED_FRAMES = 6
FRAMES_A_ROUND = 3
MODEL_CALL_BUDGET = 24
NOTHING_LOOSE = chain.loose_digest(chain.Ledgers())


@dataclass(slots=True)
class Told:
    """All rows of one run, each a mapping of column names to values."""

    run: dict[str, Any]
    frames: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    reasoning: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    invocations: list[dict[str, Any]] = field(default_factory=list)
    head_hash: str = ""

    @property
    def head(self) -> dict[str, Any]:
        return {
            "run_id": self.run["id"],
            "sequence_no": len(self.frames),
            "hash": self.head_hash,
            "events": len(self.frames),
            "steps": len(self.steps),
            "tool_invocations": len(self.invocations),
            "model_calls": len(self.calls),
            "closed": self.run["finished_at"] is not None,
        }


@dataclass(frozen=True, slots=True)
class Search:
    """One round: a model step that calls one tool. `line` is what the tool found; empty: nothing."""

    tool: str
    service: str
    line: str


@cache
def _plain(details: Details) -> dict[str, Any]:
    return details.model_dump(mode="json")


class Teller:
    """Appends frames to one run's record, each a moment after the one before."""

    def __init__(self, run: dict[str, Any], took: timedelta, frames: int) -> None:
        self.told = Told(run)
        self._at: datetime = run["started_at"] or run["queued_at"]
        self._pause = took / max(1, frames - 1)
        self._hash = self.told.head_hash = chain.genesis(run["id"])

    def frame(self, event_type: EventType, details: Details, summary: str, **columns: Any) -> None:
        assert type(details) is DETAILS[event_type]
        number = len(self.told.frames) + 1
        frame = {
            "run_id": self.told.run["id"],
            "session_id": self.told.run["session_id"],
            "sequence_no": number,
            "phase": PHASES[event_type].value,
            "event_type": event_type.value,
            "status": None,
            "step_id": None,
            "invocation_id": None,
            "summary": summary,
            "details": _plain(details),
            "duration_ms": None,
            "created_at": self._at,
            "ledger_digest": None,
            "content_digest": None,
            **columns,
        }
        frame |= {"previous_hash": self._hash, "hash": chain.frame_hash(self._hash, frame), "legacy": False}
        self._hash = self.told.head_hash = frame["hash"]
        self.told.frames.append(frame)
        self._at += self._pause

    def _own(self) -> dict[str, Any]:
        return {"run_id": self.told.run["id"], "session_id": self.told.run["session_id"], "legacy": False}

    def round(self, search: Search) -> None:
        """A step opened and completed, and the tool call that it made."""
        index = len(self.told.steps) + 1
        step_id = f"step_{self.told.run['id'][4:]}_{index}"
        self._open(step_id, index)
        self._close(step_id, index, search.tool)
        self._invoke(step_id, f"inv_{index:06d}", search)

    def _open(self, step_id: str, index: int) -> None:
        step = self._own() | {
            "id": step_id,
            "step_index": index,
            "agent_name": "executor",
            "role": "aiops_executor",
            "model": MODEL,
            "prompt_version": "aiops-executor-v1",
            "model_input": f"{2 * index} messages",
            "started_at": self._at,
            **_UNCLOSED,
        }
        self.told.steps.append(step)
        self.frame(
            EventType.AGENT_MODEL_STEP,
            _step_details(index),
            "Executor started.",
            status="STARTED",
            step_id=step_id,
            ledger_digest=chain.step_opening_digest(step),
        )

    def _close(self, step_id: str, index: int, tool: str) -> None:
        step, took = self.told.steps[-1], round(self._pause / timedelta(milliseconds=1))
        step |= {
            "status": "COMPLETED",
            "model_output": "1 tool call",
            "has_tool_call": True,
            "tool_plan": [{"call_id": "call-1", "tool_name": tool}],
            "input_tokens": TOKENS_IN,
            "output_tokens": TOKENS_OUT,
            "token_count": TOKENS_IN + TOKENS_OUT,
            "duration_ms": took,
            "finished_at": self._at,
        }
        reasoning = self._own() | {
            "step_id": step_id,
            "thought": f"The alert names a service; {tool} may show what changed.",
            "assistant_text": None,
            "created_at": self._at,
        }
        call = self._own() | {
            "call_id": f"call_{step_id[5:]}",
            "step_id": step_id,
            "role": "aiops_executor",
            "attempt": 1,
            "model": MODEL,
            "status": "OK",
            "error_code": None,
            "input_tokens": TOKENS_IN,
            "output_tokens": TOKENS_OUT,
            "cost_usd": None,
            "finish_reason": "tool_calls",
            "duration_ms": took,
            "started_at": step["started_at"],
        }
        self.told.reasoning.append(reasoning)
        self.told.calls.append(call)
        self.frame(
            EventType.AGENT_MODEL_STEP,
            _step_details(index, attempts=1, input_tokens=TOKENS_IN, output_tokens=TOKENS_OUT, tool_names=(tool,)),
            f"Executor completed: {tool}.",
            status="COMPLETED",
            step_id=step_id,
            duration_ms=took,
            ledger_digest=chain.step_closing_digest(step, [reasoning], [call]),
        )

    def _invoke(self, step_id: str, invocation_id: str, search: Search) -> None:
        status, path = ("OK", "$.lines[0].text") if search.line else ("NO_EVIDENCE", "$.no_evidence")
        text = search.line or f"{search.tool} found nothing for service={search.service}"
        invocation = self._own() | {
            "invocation_id": invocation_id,
            "step_id": step_id,
            "tool_name": search.tool,
            "source_kind": "KNOWLEDGE" if search.tool == "lookup_knowledge" else "TELEMETRY",
            "input_params": {"service": search.service},
            "output": {"lines": [{"text": text}] if search.line else []},
            "output_preview": text,
            "evidence_status": status,
            "evidence_refs": [{"raw_path": path, "text": text, "shown": True, "relevance": None}],
            "retrieval_layer": None,
            "l0_match_count": None,
            "l1_match_count": None,
            "retrieval_details": {"scanned": 1_200},
            "relevance_level": None,
            "dedup_reason": None,
            "duration_ms": 31,
            "success": True,
            "error_code": None,
            "error_message": None,
            "truncated": False,
            "started_at": self._at,
        }
        self.told.invocations.append(invocation)
        self.frame(
            EventType.TOOL_INVOCATION,
            ToolInvoked(tool_name=search.tool, evidence_status=status, evidence_count=1),
            f"{search.tool}: {status}, 1 ref.",
            status=status,
            step_id=step_id,
            invocation_id=invocation_id,
            duration_ms=31,
            ledger_digest=chain.invocation_digest(invocation),
        )

    # ---- how runs begin and end ---------------------------------------------------------------------------------

    def begin(self) -> None:
        run = self.told.run
        started = RunStarted(
            trigger=run["trigger"],
            attempt=1,
            model=MODEL,
            prompt_set_version=run["prompt_set_version"],
            rule_set_version=run["rule_set_version"],
        )
        self.frame(EventType.RUN_STARTED, started, "Attempt 1 started.")
        source = "ALERT" if run["trigger"] == "ALERT" else "MODEL"
        routed = RoutingDecision(intent=run["intent"], source=source)
        self.frame(EventType.ROUTING_DECISION, routed, f"Routed to {run['intent']}.")

    def judge(self) -> None:
        """The gate, the verifier, the release, as the run's row keeps them."""
        run = self.told.run
        kept = run["self_evaluation"]["verifier_evaluation"]
        gate = kept["gatekeeper_result"]["rounds"][0]
        published = run["published_result"]
        accepted = len(published["claims"]) if published else 0
        guard = GuardDecision(
            verdict=gate["verdict"],
            claims=2,
            accepted=accepted,
            removed=2 - accepted,
            failed_rules=() if accepted else ("GK005_EXCERPT_SUPPORTED",),
            rule_set_version=run["rule_set_version"],
        )
        summary = f"{accepted} of 2 claims stand."
        self._decide(EventType.EVIDENCE_GUARD_INITIAL, guard, summary, gate["verdict"], gate)
        semantic = SemanticDecision(
            verdict=run["verdict"], groundedness_score=0.9, supported=accepted, unsupported=2 - accepted
        )
        summary = f"{run['verdict']}: {accepted} follow."
        self._decide(EventType.SEMANTIC_GUARD_DECISION, semantic, summary, run["verdict"], kept["evaluation"])
        decided = ReleaseDecided(
            decision=run["release_decision"],
            confidence=published["confidence"] if published else None,
            statements_proposed=2,
            statements_kept=accepted,
            claims=accepted,
            limitations=0,
        )
        summary = f"{run['release_decision']}: {accepted} statement(s)"
        self._decide(EventType.RELEASE_DECISION, decided, summary, run["release_decision"], published)

    def _decide(self, event_type: EventType, details: Details, summary: str, status: str, kept: Any) -> None:
        self.frame(event_type, details, summary, status=status, content_digest=content_digest(kept))

    def run_short(self) -> None:
        ended = BudgetEnded(budget="MODEL_CALLS", limit=MODEL_CALL_BUDGET, used=len(self.told.calls))
        self.frame(EventType.BUDGET_EXHAUSTED, ended, "The model call budget ended.")

    def ask_to_cancel(self) -> None:
        reason = self.told.run["cancel_reason"]
        asked = RunCancelRequested(reason=reason)
        self.frame(EventType.RUN_CANCEL_REQUESTED, asked, f"Cancelling was asked for: {reason}.")

    def end(self) -> None:
        """RUN_FINISHED, over the run's row with its final counters."""
        told, run = self.told, self.told.run
        spent = {"input_tokens": TOKENS_IN * len(told.calls), "output_tokens": TOKENS_OUT * len(told.calls)}
        run |= spent | {"model_calls": len(told.calls), "tool_calls": len(told.invocations)}
        run["emitted"] = {"1": _counts(told, len(told.frames)), "others": {"events": 1}}
        finished = RunFinished(
            **{name: run[name] for name in ("outcome", "verdict", "release_decision", "failure_code")},
            cancel_reason=run["cancel_reason"],
            **{name: run[name] for name in ("model_calls", "tool_calls", "input_tokens", "output_tokens")},
        )
        self._at = run["finished_at"]
        self.frame(
            EventType.RUN_FINISHED,
            finished,
            f"The run ended: {run['outcome']}.",
            ledger_digest=NOTHING_LOOSE,
            content_digest=chain.run_digest(run),
        )
        run |= {"trace_event_count": len(told.frames), "trace_head_hash": told.head_hash, "record_complete": True}


def _counts(told: Told, events: int) -> dict[str, int]:
    calls, invocations = len(told.calls), len(told.invocations)
    return {"events": events, "steps": len(told.steps), "tool_invocations": invocations, "model_calls": calls}


def _step_details(index: int, **more: Any) -> ModelStep:
    return ModelStep(role="aiops_executor", agent_name="executor", step_index=index, model=MODEL, **more)


_UNCLOSED: Mapping[str, Any] = {
    "status": "RUNNING",
    "model_output": None,
    "has_tool_call": False,
    "tool_plan": [],
    "input_tokens": None,
    "output_tokens": None,
    "token_count": None,
    "duration_ms": None,
    "finished_at": None,
}


def tell(run: dict[str, Any], searches: list[Search], took: timedelta) -> Told:
    """The whole record of a run whose row says how it ended: `FIXED_FRAMES` and `FRAMES_A_ROUND` a search if judged.

    A run that waits has no record; one that goes has a beginning and its searches. More searches than the budget
    allows give one frame more.
    """
    teller = Teller(run, took, FIXED_FRAMES + FRAMES_A_ROUND * len(searches))
    if run["status"] == "QUEUED":
        return teller.told
    teller.begin()
    for search in searches:
        teller.round(search)
    if run["status"] == "FAILED" or len(searches) > MODEL_CALL_BUDGET:
        teller.run_short()
    if run["status"] in {"SUCCESS", "DEGRADED"}:
        teller.judge()
    if run["status"] == "CANCELLED":
        teller.ask_to_cancel()
    if run["finished_at"] is not None:
        teller.end()
    else:
        run["emitted"] = {"1": _counts(teller.told, len(teller.told.frames))}
    return teller.told
