"""The chain of a run's frames and the digests that tie them to the ledgers. Pure.

    genesis      digest("genesis", run id)
    frame hash   digest("frame", [previous hash, every other field of the frame])
    ledger digest of a frame
        TOOL_INVOCATION               the fields of its `tool_invocation` row
        AGENT_MODEL_STEP STARTED      the fields its `agent_step` row was opened with
        AGENT_MODEL_STEP COMPLETED    the fields the row was closed with, the step's reasoning
          or FAILED                   and all its model calls in the order of their attempts
        RUN_FINISHED                  every row that no other frame answers for: steps that were never
                                      closed, with their reasoning and calls, and invocations without a frame
    content digest of RUN_FINISHED    the run's own row as it ended

Who read a run's restricted texts is a chain beside it, which goes on after the run has ended:

    genesis      digest("reasoning_access.genesis", run id)
    hash         digest("reasoning_access", [previous hash, every other field of the reading])

A row is a mapping from column names to values, as Django's `.values()` gives it; the tuples below name the
columns that count. Columns left out are the surrogate key, the `legacy` mark, and those of the run that may
change after its end (links that are set null when what they point at is deleted, the heartbeat).
`audit.verification` re-derives all of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from audit.canonical import digest
from runs.harness.events import EventType

Row: TypeAlias = Mapping[str, Any]

FRAME_FIELDS = (
    "run_id",
    "session_id",
    "sequence_no",
    "phase",
    "event_type",
    "status",
    "step_id",
    "invocation_id",
    "summary",
    "details",
    "duration_ms",
    "created_at",
    "ledger_digest",
    "content_digest",
)
STEP_OPENING_FIELDS = (
    "id",
    "run_id",
    "session_id",
    "step_index",
    "agent_name",
    "role",
    "model",
    "prompt_version",
    "model_input",
    "started_at",
)
STEP_CLOSING_FIELDS = (
    "status",
    "model_output",
    "has_tool_call",
    "tool_plan",
    "input_tokens",
    "output_tokens",
    "token_count",
    "duration_ms",
    "finished_at",
)
REASONING_FIELDS = ("run_id", "session_id", "step_id", "thought", "assistant_text", "created_at")
CALL_FIELDS = (
    "call_id",
    "run_id",
    "session_id",
    "step_id",
    "role",
    "attempt",
    "model",
    "status",
    "error_code",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "finish_reason",
    "duration_ms",
    "started_at",
)
INVOCATION_FIELDS = (
    "invocation_id",
    "run_id",
    "session_id",
    "step_id",
    "tool_name",
    "source_kind",
    "input_params",
    "output",
    "output_preview",
    "evidence_status",
    "evidence_refs",
    "retrieval_layer",
    "l0_match_count",
    "l1_match_count",
    "retrieval_details",
    "relevance_level",
    "dedup_reason",
    "duration_ms",
    "success",
    "error_code",
    "error_message",
    "truncated",
    "started_at",
)
RUN_FIELDS = (
    "id",
    "session_id",
    "trigger",
    "intent",
    "status",
    "outcome",
    "verdict",
    "release_decision",
    "failure_code",
    "cancel_reason",
    "query",
    "subject",
    "published_result",
    "safe_content",
    "self_evaluation",
    "model",
    "rule_set_version",
    "prompt_set_version",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "model_calls",
    "tool_calls",
    "emitted",
    "attempts",
    "queued_at",
    "started_at",
    "finished_at",
)

READING_FIELDS = ("run_id", "sequence_no", "reader", "user_id", "token_name", "what", "at")

STEP_FIELDS = STEP_OPENING_FIELDS + STEP_CLOSING_FIELDS


def picked(row: Row, fields: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in fields}


def genesis(run_id: str) -> str:
    return digest("genesis", run_id)


def frame_hash(previous_hash: str, frame: Row) -> str:
    return digest("frame", [previous_hash, picked(frame, FRAME_FIELDS)])


def reading_genesis(run_id: str) -> str:
    return digest("reasoning_access.genesis", run_id)


def reading_hash(previous_hash: str, reading: Row) -> str:
    return digest("reasoning_access", [previous_hash, picked(reading, READING_FIELDS)])


def invocation_digest(invocation: Row) -> str:
    return digest("tool_invocation", picked(invocation, INVOCATION_FIELDS))


def step_opening_digest(step: Row) -> str:
    return digest("agent_step.opened", picked(step, STEP_OPENING_FIELDS))


def step_closing_digest(step: Row, reasoning: Iterable[Row], calls: Iterable[Row]) -> str:
    return digest(
        "agent_step.closed",
        {
            "step": picked(step, ("id", *STEP_CLOSING_FIELDS)),
            "reasoning": [picked(row, REASONING_FIELDS) for row in reasoning],
            "model_calls": [picked(row, CALL_FIELDS) for row in sorted(calls, key=lambda call: call["attempt"])],
        },
    )


def run_digest(run: Row) -> str:
    return digest("diagnosis_run", picked(run, RUN_FIELDS))


@dataclass(frozen=True, slots=True)
class Anchors:
    """The ids of ledger rows that frames answer for."""

    opened: frozenset[str]
    closed: frozenset[str]
    invocations: frozenset[str]


def anchors(frames: Iterable[Row]) -> Anchors:
    """What the frames answer for: those with a ledger digest. `frames` need event_type, status and the ids."""
    opened: set[str] = set()
    closed: set[str] = set()
    invocations: set[str] = set()
    for frame in frames:
        if frame["ledger_digest"] is None:
            continue
        if frame["event_type"] == EventType.TOOL_INVOCATION:
            invocations.add(frame["invocation_id"])
        elif frame["event_type"] == EventType.AGENT_MODEL_STEP:
            (opened if frame["status"] == "STARTED" else closed).add(frame["step_id"])
    return Anchors(frozenset(opened), frozenset(closed), frozenset(invocations))


@dataclass(frozen=True, slots=True)
class Ledgers:
    """Rows of one run."""

    steps: tuple[Row, ...] = ()
    reasoning: tuple[Row, ...] = ()
    calls: tuple[Row, ...] = ()
    invocations: tuple[Row, ...] = ()

    def loose(self, held: Anchors) -> "Ledgers":
        """The rows that no frame but RUN_FINISHED answers for."""
        return Ledgers(
            steps=tuple(row for row in self.steps if row["id"] not in held.closed),
            reasoning=tuple(row for row in self.reasoning if row["step_id"] not in held.closed),
            calls=tuple(row for row in self.calls if row["step_id"] not in held.closed),
            invocations=tuple(row for row in self.invocations if row["invocation_id"] not in held.invocations),
        )


def loose_digest(loose: Ledgers) -> str:
    return digest(
        "loose",
        {
            "agent_step": sorted((picked(row, STEP_FIELDS) for row in loose.steps), key=lambda row: row["id"]),
            "agent_reasoning_audit": sorted(
                (picked(row, REASONING_FIELDS) for row in loose.reasoning), key=lambda row: row["step_id"]
            ),
            "model_call_ledger": sorted(
                (picked(row, CALL_FIELDS) for row in loose.calls), key=lambda row: row["call_id"]
            ),
            "tool_invocation": sorted(
                (picked(row, INVOCATION_FIELDS) for row in loose.invocations), key=lambda row: row["invocation_id"]
            ),
        },
    )
