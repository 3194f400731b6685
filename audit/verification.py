"""Re-derives the chain and the digests of a run's record and names what does not hold. Pure.

What an attacker with the database's superuser can do, and what gives it away:

    a frame is edited                   its hash is not the hash of its fields
    ... and hashed anew                 the next frame, or the head, follows another frame
    a frame is removed                  its number is missing, or the head is ahead of the last frame
    a frame is inserted                 the frame it displaced belongs in its place, or it is beyond the head
    frames change places                each carries the hash of its fields under another number
    a ledger row is edited or removed   the digest of the frame that answers for it
    a ledger row is inserted            the digest of its step's last frame, or of RUN_FINISHED; the head's counts
    the run's row is edited             the content digest of RUN_FINISHED
    the head is edited                  its number, hash, counts and close are those of the frames and rows
    a row is marked as an older one     rows of a run are never so marked

The readings of a run's restricted texts (`reasoning_access`) are a chain of their own with a head of its own, because
they go on when the run has ended: see `audit.links`, whose faults are those of frames.

Not covered: `diagnosis_run.alert_id`, `requested_by_id` and `requested_by_token_id`, which are set null when what they
name is deleted.

Who rewrites everything up to the head is found only by a head kept elsewhere (`verify_ledger --heads`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from audit import chain
from audit.chain import Row
from audit.links import Chain, Fault, Problem, end_problems, row_problems
from audit.record import Readings, Record
from runs.harness.digest import content_digest
from runs.harness.events import EventType
from runs.models.run import TERMINAL

__all__ = ["Fault", "Problem", "verify", "verify_readings"]


def verify_readings(readings: Readings) -> list[Problem]:
    """The problems of the record of who read a run's restricted texts; none where everything holds."""
    rows = Chain("reading", chain.reading_genesis(readings.run_id), readings.rows, chain.reading_hash)
    problems, faulty = row_problems(rows)
    head = readings.head
    if head is not None:
        return [*problems, *end_problems(rows, faulty, head["sequence_no"], head["hash"], None)]
    return [*problems, Problem(Fault.REMOVED, "reading head", "there are readings and no head")] if rows.rows else []


def verify(record: Record) -> list[Problem]:
    """The problems of a run's record; none where everything holds."""
    return [
        *_chain_problems(record),
        *_ledger_problems(record),
        *_legacy_problems(record),
        *_end_problems(record),
    ]


# ---- the chain --------------------------------------------------------------------------------------------------


def _name(frame: Row) -> str:
    return f"frame {frame['sequence_no']}"


def _chain_problems(record: Record) -> list[Problem]:
    frames = Chain("frame", chain.genesis(record.run_id), record.frames, chain.frame_hash)
    problems, faulty = row_problems(frames)
    return [*problems, *_head_problems(record, frames, faulty)]


def _head_problems(record: Record, frames: Chain, faulty: set[int]) -> Iterator[Problem]:
    head = record.head
    if head is None:
        if frames.rows:
            yield Problem(Fault.REMOVED, "head", "the run has frames and no head")
        return
    # The run's row is a second witness of which of the two was there first.
    ended_with = record.run["trace_head_hash"] if record.run is not None else None
    yield from end_problems(frames, faulty, head["sequence_no"], head["hash"], ended_with)
    yield from _head_edits(head, record.frames)
    counts = {
        "agent_step": (head["steps"], len(record.ledgers.steps)),
        "model_call_ledger": (head["model_calls"], len(record.ledgers.calls)),
        "tool_invocation": (head["tool_invocations"], len(record.ledgers.invocations)),
    }
    for table, (counted, found) in counts.items():
        if counted != found:
            fault = Fault.REMOVED if found < counted else Fault.INSERTED
            yield Problem(fault, table, f"the head counted {counted} rows, there are {found}")


def _head_edits(head: Row, frames: Sequence[Row]) -> Iterator[Problem]:
    """What the head says about itself that the frames contradict."""
    if head["events"] != head["sequence_no"]:
        message = f"it counts {head['events']} frames and stands at frame {head['sequence_no']}"
        yield Problem(Fault.EDITED, "head", message)
    ended = any(frame["event_type"] == EventType.RUN_FINISHED for frame in frames)
    if ended and not head["closed"]:
        yield Problem(Fault.EDITED, "head", "it is open, and the record has ended")


# ---- the ledgers ------------------------------------------------------------------------------------------------


def _ledger_problems(record: Record) -> Iterator[Problem]:
    steps = {row["id"]: row for row in record.ledgers.steps}
    invocations = {row["invocation_id"]: row for row in record.ledgers.invocations}
    reasoning, calls = _by_step(record.ledgers.reasoning), _by_step(record.ledgers.calls)
    for frame in record.frames:
        if frame["ledger_digest"] is None:
            continue
        if frame["event_type"] == EventType.TOOL_INVOCATION:
            yield from _invocation_problems(frame, invocations.get(frame["invocation_id"]))
        elif frame["event_type"] == EventType.AGENT_MODEL_STEP:
            step_id = frame["step_id"]
            yield from _step_problems(frame, steps.get(step_id), reasoning.get(step_id, []), calls.get(step_id, []))


def _by_step(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["step_id"], []).append(row)
    return found


def _invocation_problems(frame: Row, row: Row | None) -> Iterator[Problem]:
    where = f"tool_invocation {frame['invocation_id']}"
    if row is None:
        yield Problem(Fault.REMOVED, where, f"{_name(frame)} answers for it")
    elif chain.invocation_digest(row) != frame["ledger_digest"]:
        yield Problem(Fault.EDITED, where, f"{_name(frame)} was written over other content")


def _step_problems(frame: Row, step: Row | None, reasoning: Sequence[Row], calls: Sequence[Row]) -> Iterator[Problem]:
    where = f"agent_step {frame['step_id']}"
    if step is None:
        yield Problem(Fault.REMOVED, where, f"{_name(frame)} answers for it")
        return
    if frame["status"] == "STARTED":
        if chain.step_opening_digest(step) != frame["ledger_digest"]:
            yield Problem(Fault.EDITED, where, f"{_name(frame)} was written over another opening")
        return
    if chain.step_closing_digest(step, reasoning, calls) != frame["ledger_digest"]:
        yield _closing_problem(frame, where, reasoning, calls)


def _closing_problem(frame: Row, where: str, reasoning: Sequence[Row], calls: Sequence[Row]) -> Problem:
    """As exact as the frame's own details allow: it counts the attempts."""
    attempts = frame["details"].get("attempts", 0)
    ids = ", ".join(call["call_id"] for call in calls) or "none"
    if attempts and len(calls) != attempts:
        fault = Fault.REMOVED if len(calls) < attempts else Fault.INSERTED
        return Problem(fault, f"model_call_ledger of {where}", f"{attempts} calls were recorded, there are: {ids}")
    if not reasoning:
        return Problem(
            Fault.EDITED, where, f"its completion, its reasoning (there is none) or its model calls ({ids}) changed"
        )
    return Problem(Fault.EDITED, where, f"its completion, its reasoning or its model calls ({ids}) changed")


def _legacy_problems(record: Record) -> Iterator[Problem]:
    rows = record.ledgers
    named = [(row, _name(row)) for row in record.frames]
    named += [(row, f"agent_step {row['id']}") for row in rows.steps]
    named += [(row, f"agent_reasoning_audit of {row['step_id']}") for row in rows.reasoning]
    named += [(row, f"model_call_ledger {row['call_id']}") for row in rows.calls]
    named += [(row, f"tool_invocation {row['invocation_id']}") for row in rows.invocations]
    for row, where in named:
        if row["legacy"]:
            yield Problem(Fault.EDITED, where, "it is marked as from before runs had ids, and it has a run")


# ---- the end ----------------------------------------------------------------------------------------------------


def _end_problems(record: Record) -> Iterator[Problem]:
    run, head = record.run, record.head
    if run is None:
        yield Problem(Fault.REMOVED, f"diagnosis_run {record.run_id}", "records name it, and it is gone")
        return
    where = f"diagnosis_run {record.run_id}"
    ends = [frame for frame in record.frames if frame["event_type"] == EventType.RUN_FINISHED]
    if not ends:
        if run["status"] in TERMINAL:
            yield Problem(Fault.MISSING, "RUN_FINISHED", "the run has ended and its record has not")
        elif head is not None and head["closed"]:
            yield Problem(Fault.EDITED, where, "its record is closed and it has not ended")
        return
    end = ends[-1]
    if chain.run_digest(run) != end["content_digest"]:
        changed = ", ".join(_changed_decisions(record, run))
        about = f"; not what was decided: {changed}" if changed else ""
        yield Problem(Fault.EDITED, where, f"{_name(end)} was written over other content{about}")
    loose = record.ledgers.loose(chain.anchors(record.frames))
    if chain.loose_digest(loose) != end["ledger_digest"]:
        rows = [f"agent_step {row['id']}" for row in loose.steps]
        rows += [f"agent_reasoning_audit of {row['step_id']}" for row in loose.reasoning]
        rows += [f"model_call_ledger {row['call_id']}" for row in loose.calls]
        rows += [f"tool_invocation {row['invocation_id']}" for row in loose.invocations]
        fault, message = (Fault.INSERTED, "no frame answers for it") if rows else (Fault.REMOVED, "rows are missing")
        yield Problem(fault, ", ".join(rows) or "rows without a frame", f"{message}; {_name(end)} is held against them")
    if head is not None and (run["trace_event_count"], run["trace_head_hash"]) != (head["sequence_no"], head["hash"]):
        yield Problem(Fault.EDITED, where, "its event count or head hash is not that of the head")


def _changed_decisions(record: Record, run: Row) -> Iterator[str]:
    """Which of the decisions that the row keeps differ from what their frames, of the last attempt, vouch for."""
    attempt: list[Row] = []
    for frame in record.frames:
        if frame["event_type"] == EventType.RUN_STARTED:
            attempt.clear()
        else:
            attempt.append(frame)
    for frame in attempt:
        place = _DECIDED.get(frame["event_type"])
        if place is not None and frame["content_digest"] is not None:
            kept = _at(run, place)
            if content_digest(kept) != frame["content_digest"]:
                yield f"{'.'.join(map(str, place))} ({_name(frame)})"


_OF_VERIFIER = ("self_evaluation", "verifier_evaluation")
_DECIDED: dict[str, tuple[str | int, ...]] = {
    EventType.EVIDENCE_GUARD_INITIAL: (*_OF_VERIFIER, "gatekeeper_result", "rounds", 0),
    EventType.EVIDENCE_GUARD_REPAIR: (*_OF_VERIFIER, "gatekeeper_result", "rounds", 1),
    EventType.SEMANTIC_GUARD_DECISION: (*_OF_VERIFIER, "evaluation"),
    EventType.AIOPS_RULE_EVALUATION: ("self_evaluation", "aiops_rule_evaluation"),
    EventType.RELEASE_DECISION: ("published_result",),
}


def _at(value: Any, place: tuple[str | int, ...]) -> Any:
    """The value at a path of keys and indexes; None where it leads nowhere."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value
