"""Tool calls inside a run: what is run, what is refused, what is on record, what the model is told."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gatekeeper.types import EvidenceRef, EvidenceStatus, SourceKind
from runs.errors import ToolFailed, ToolRejected
from runs.harness.context import UNKNOWN_TOOL
from runs.harness.events import EventType
from runs.harness.pipeline import drive
from runs.harness.ports import ModelReply, ModelRequest, ToolCall, ToolContext, ToolResult
from runs.llm.scripted import Step, tool_answers
from runs.tools.redaction import clean_json
from tests.runs.harness.world import (
    EXECUTOR,
    LOOK,
    MemoryTool,
    Search,
    World,
    answer_of,
    calls,
    draft,
    drafts,
    found,
    hanging,
    honest,
    knowledge,
    limits,
    logs,
    pool_claim,
    raising,
    world,
)

LOGS = ("query_logs", {"text": "checkout-api"})


@dataclass(frozen=True)
class Bad:
    name: str
    arguments: Any
    code: str = "INVALID_ARGUMENTS"


BAD = [
    Bad("no JSON", "text=checkout"),
    Bad("cut off JSON", '{"text": "chec'),
    Bad("a list", "[1]"),
    Bad("null", "null"),
    Bad("a string", '"checkout-api"'),
    Bad("nothing where something is needed", ""),
    Bad("an empty object", {}),
    Bad("a wrong type", {"text": ["checkout-api"]}),
    Bad("out of range", {"text": "x", "limit": 0}),
    Bad("an unknown field", {"text": "x", "index": "secret"}),
    Bad("NaN", '{"text": "x", "limit": NaN}'),
    Bad("an endless number", '{"text": "x", "limit": 1e999}'),
    Bad("half a surrogate pair", '{"text": "\\ud800"}'),
    Bad("nested a thousand deep", '{"text": ' + "[" * 1_000 + "]" * 1_000 + "}"),
    Bad("longer than any honest call", '{"text": "' + "x" * 200_000 + '"}'),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
async def test_arguments_that_do_not_fit_are_told_to_the_model_and_never_run(bad: Bad) -> None:
    log = logs()
    told, brain = world([calls(("query_logs", bad.arguments)), calls(*LOOK), drafts(honest)], tools=[log, knowledge()])
    conclusion = await told.drive()
    assert [arguments.text for arguments in log.calls] == ["checkout-api"]
    (answer,) = tool_answers(brain.asked(EXECUTOR)[1])
    assert (answer["status"], answer["error"]["code"]) == ("REJECTED", bad.code)
    assert told.said.invocations[0].evidence_refs == ()
    assert conclusion.verdict == "PASS"


async def test_the_model_is_told_which_field_is_wrong() -> None:
    told, brain = world([calls(("query_logs", {"text": "x", "limit": 0, "k" * 10_000: 1})), drafts(draft())])
    await told.drive()
    (answer,) = tool_answers(brain.asked(EXECUTOR)[1])
    fields = [fault["field"] for fault in answer["error"]["details"]]
    assert "limit" in fields
    assert all(len(name) <= 200 for name in fields)


async def test_an_unknown_tool_is_refused_and_its_name_stays_out_of_the_trace() -> None:
    name = "drop_all_tables"
    told, brain = world([calls((name, {"text": "x"})), calls(*LOOK), drafts(honest)])
    await told.drive()
    (answer,) = tool_answers(brain.asked(EXECUTOR)[1])
    assert answer["error"]["code"] == "UNKNOWN_TOOL"
    assert told.said.invocations[0].tool_name == UNKNOWN_TOOL
    assert name not in told.said.text()
    assert name not in str(told.said.closed_steps)
    assert name not in str(told.said.invocations)


async def test_an_unknown_tool_that_loops_is_not_named_by_the_stop_either() -> None:
    told, _ = world([calls(("drop_all_tables", {}))])
    conclusion = await told.drive()
    assert told.said.of(EventType.CONVERGENCE_STOP)
    assert "drop_all_tables" not in told.said.text() + conclusion.safe_content.model_dump_json()


# ---- failing sources ------------------------------------------------------------------------


async def test_a_tool_that_does_not_answer_in_time_is_cancelled_and_recorded() -> None:
    slow = hanging("query_metrics")
    told, brain = world(
        [calls(*LOOK, ("query_metrics", {"text": "up"})), drafts(honest)],
        tools=[logs(), knowledge(), slow],
        limits=limits(tool_timeout_s=0.01),
    )
    conclusion = await told.drive()
    assert slow.cancelled == 1
    record = told.said.invocations[2]
    assert (record.evidence_status, record.success, record.error_code) == ("TIMEOUT", False, "TIMEOUT")
    assert answer_of(brain.asked(EXECUTOR)[1], "query_metrics")["status"] == "TIMEOUT"
    assert conclusion.published is not None
    assert "query_metrics failed (TIMEOUT): what it would have shown is unknown." in conclusion.published.limitations


FAILURES = [
    (ToolFailed("The source is away.", error_code="SOURCE_DOWN"), "FAILED", "SOURCE_DOWN"),
    (ToolRejected("Only SELECT may be run.", error_code="NOT_READ_ONLY"), "REJECTED", "NOT_READ_ONLY"),
    (RuntimeError("host db-7.internal refused"), "FAILED", "INTERNAL"),
]


@pytest.mark.parametrize(("error", "status", "code"), FAILURES, ids=[code for _, _, code in FAILURES])
async def test_a_failure_is_a_failure_and_never_nothing_found(error: Exception, status: str, code: str) -> None:
    told, brain = world(
        [calls(*LOOK, ("query_metrics", {"text": "up"})), drafts(honest)],
        tools=[logs(), knowledge(), raising("query_metrics", error)],
    )
    conclusion = await told.drive()
    record = told.said.invocations[2]
    assert (record.evidence_status, record.error_code, record.evidence_refs) == (status, code, ())
    answer = answer_of(brain.asked(EXECUTOR)[1], "query_metrics")
    assert (answer["status"], answer["error"]["code"], answer["evidence_refs"]) == (status, code, [])
    assert "db-7.internal" not in str(answer) + str(record) + told.said.text()
    assert conclusion.verdict == "PASS"


async def test_a_failed_call_may_be_made_again() -> None:
    flaky = raising(
        "query_metrics", ToolFailed("Away.", error_code="SOURCE_DOWN"), then=found(["up 1 for checkout-api"])
    )
    again = ("query_metrics", {"text": "up"})
    told, _ = world([calls(*LOOK, again), calls(again), drafts(honest)], tools=[logs(), knowledge(), flaky])
    await told.drive()
    assert [r.evidence_status for r in told.said.invocations if r.tool_name == "query_metrics"] == ["FAILED", "OK"]


def malformed(output: Any, text: str = "a line of the log") -> MemoryTool:
    async def answer(arguments: Search, context: ToolContext) -> ToolResult:
        return ToolResult(EvidenceStatus.OK, output, (EvidenceRef("$.x", text),), "")

    return MemoryTool("query_metrics", SourceKind.TELEMETRY, answer)


@pytest.mark.parametrize(
    "tool",
    [malformed({"x": "\ud800"}), malformed({"x": {1j: 2}}), malformed({}, text="\ud800")],
    ids=["surrogate in the output", "key that is no text", "surrogate in the evidence"],
)
async def test_a_result_that_cannot_be_written_as_json_is_a_failure_of_the_tool(tool: MemoryTool) -> None:
    told, _ = world(
        [calls(*LOOK, ("query_metrics", {"text": "up"})), drafts(honest)], tools=[logs(), knowledge(), tool]
    )
    conclusion = await told.drive()
    assert told.said.invocations[2].error_code == "MALFORMED_RESULT"
    assert conclusion.verdict == "PASS"


# ---- caps and breaker -----------------------------------------------------------------------


async def test_one_tool_may_be_called_so_often_and_no_more() -> None:
    log = logs()
    words = ("ERROR", "WARN", "leak", "500", "Hikari")
    told, _ = world(
        [
            calls(*[("query_logs", {"text": word}) for word in words], ("lookup_knowledge", {"text": "pool"})),
            drafts(honest),
        ],
        tools=[log, knowledge()],
        limits=limits(max_same_tool_calls=3),
    )
    conclusion = await told.drive()
    assert len(log.calls) == 3
    assert [record.error_code for record in told.said.invocations] == [None] * 3 + ["TOOL_CAP"] * 2 + [None]
    assert conclusion.published is not None
    assert "query_logs was called 3 times, the most one run may." in conclusion.published.limitations


async def test_equal_calls_of_one_round_count_once() -> None:
    log = logs()
    told, _ = world(
        [calls(LOGS, LOGS, LOGS, LOOK[1]), drafts(honest)],
        tools=[log, knowledge()],
        limits=limits(max_same_tool_calls=1),
    )
    await told.drive()
    assert len(log.calls) == 1
    assert [(r.evidence_status, r.dedup_reason) for r in told.said.invocations] == [
        ("OK", None),
        ("DEDUPLICATED", "SAME_CALL_IN_RUN"),
        ("DEDUPLICATED", "SAME_CALL_IN_RUN"),
        ("OK", None),
    ]


@dataclass
class Fuse:
    """A breaker that lets `left` calls pass."""

    left: int
    reports: list[str] = field(default_factory=list)

    def allow(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def succeeded(self) -> None:
        self.reports.append("succeeded")

    def failed(self) -> None:
        self.reports.append("failed")


async def test_an_open_breaker_refuses_and_the_report_says_what_is_unknown() -> None:
    metrics = logs(["up 1"], "query_metrics")
    told, _ = world(
        [calls(*LOOK, ("query_metrics", {"text": "up"})), drafts(honest)],
        tools=[logs(), knowledge(), metrics],
        breakers={"query_metrics": Fuse(0)},
    )
    conclusion = await told.drive()
    assert metrics.calls == []
    assert told.said.invocations[2].error_code == "BREAKER_OPEN"
    assert conclusion.published is not None
    unasked = "query_metrics was not asked, because its source had failed again and again: "
    assert unasked + "what it would have shown is unknown." in conclusion.published.limitations


REPORTS = [
    (logs(), "succeeded"),
    (raising("query_logs", ToolRejected("No.", error_code="NO")), "succeeded"),
    (raising("query_logs", ToolFailed("Away.", error_code="AWAY")), "failed"),
    (raising("query_logs", RuntimeError("boom")), "failed"),
    (hanging(), "failed"),
]


@pytest.mark.parametrize(("tool", "report"), REPORTS, ids=["answer", "refusal", "failure", "crash", "timeout"])
async def test_the_breaker_hears_of_failures_of_the_source_only(tool: MemoryTool, report: str) -> None:
    fuse = Fuse(9)
    told, _ = world(
        [calls(LOGS), drafts(draft())],
        tools=[tool, knowledge()],
        breakers={"query_logs": fuse},
        limits=limits(tool_timeout_s=0.01, max_rounds=1),
    )
    await told.drive()
    assert fuse.reports == [report]


async def test_bad_arguments_do_not_ask_the_breaker() -> None:
    fuse = Fuse(9)
    told, _ = world([calls(("query_logs", {})), drafts(draft())], breakers={"query_logs": fuse})
    await told.drive()
    assert (fuse.left, fuse.reports) == (9, [])


# ---- repeated calls -------------------------------------------------------------------------


async def test_the_same_call_is_answered_from_the_runs_own_record() -> None:
    log = logs()
    reordered = ("query_logs", '{"limit": 50, "text": "checkout-api"}')
    told, brain = world(
        [calls(*LOOK), calls(reordered, ("query_logs", {"text": "leak"})), drafts(honest)], tools=[log, knowledge()]
    )
    await told.drive()
    assert [arguments.text for arguments in log.calls] == ["checkout-api", "leak"]
    first, _, again, _ = told.said.invocations
    assert again.evidence_status == "DEDUPLICATED"
    assert again.retrieval_details == {"answered_by": first.invocation_id}
    assert again.evidence_refs == first.evidence_refs
    answers = tool_answers(brain.asked(EXECUTOR)[-1])
    assert answers[2]["output"]["same_as"] == first.invocation_id


async def test_evidence_may_be_cited_under_the_repeated_calls_own_id() -> None:
    def under_the_second_id(request: ModelRequest) -> dict[str, Any]:
        again = tool_answers(request)[2]["invocation_id"]
        return draft(pool_claim(request, source_invocation_id=again))

    told, _ = world([calls(*LOOK), calls(LOGS, ("query_logs", {"text": "leak"})), drafts(under_the_second_id)])
    conclusion = await told.drive()
    assert conclusion.verdict == "PASS"


async def test_calls_of_one_round_run_side_by_side_and_are_told_in_their_order() -> None:
    meeting = asyncio.Barrier(2)

    def waiting(name: str, kind: SourceKind) -> MemoryTool:
        async def answer(arguments: Search, context: ToolContext) -> ToolResult:
            await meeting.wait()
            return found([f"{name} answered about checkout-api"])

        return MemoryTool(name, kind, answer)

    told, _ = world(
        [calls(*LOOK), drafts(draft())],
        tools=[waiting("query_logs", SourceKind.TELEMETRY), waiting("lookup_knowledge", SourceKind.KNOWLEDGE)],
        limits=limits(tool_timeout_s=5, max_rounds=1),
    )
    await told.drive()
    assert [(r.tool_name, r.evidence_status) for r in told.said.invocations][:2] == [
        ("query_logs", "OK"),
        ("lookup_knowledge", "OK"),
    ]


async def test_documents_given_once_are_named_to_later_look_ups() -> None:
    books = knowledge()
    told, _ = world(
        [calls(*LOOK), calls(("lookup_knowledge", {"text": "leak"})), drafts(honest)], tools=[logs(), books]
    )
    await told.drive()
    assert [context.seen_in_run for context in books.contexts] == [frozenset(), frozenset({"doc-pool"})]


# ---- cancelling -----------------------------------------------------------------------------


async def cancelled_when(told: World, ready: Callable[[], Any]) -> None:
    """Drives the run and cancels it as soon as `ready` says so."""
    task = asyncio.ensure_future(told.drive())
    for _ in range(1_000):
        if ready():
            break
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_in_mid_tool_call_cancels_it_and_leaves_it_on_record() -> None:
    slow = hanging()
    told, _ = world([calls(*LOOK)], tools=[slow, knowledge()])
    await cancelled_when(told, lambda: slow.calls)
    assert slow.cancelled == 1
    assert [(r.tool_name, r.evidence_status, r.error_code) for r in told.said.invocations] == [
        ("query_logs", "FAILED", "CANCELLED"),
        ("lookup_knowledge", "OK", None),
    ]
    assert sum(spending.tool_calls for spending in told.said.spent) == 2


async def test_cancelling_in_mid_model_call_closes_its_step() -> None:
    told, brain = world([drafts(draft(), delay_s=3600)])
    await cancelled_when(told, lambda: brain.asked(EXECUTOR))
    last = told.said.of(EventType.AGENT_MODEL_STEP)[-1]
    assert (last.status, last.details.model_dump()["error_code"]) == ("FAILED", "CANCELLED")
    assert told.said.closed_steps[-1].status == "FAILED"
    assert told.said.model_calls[-1].status == "CANCELLED"
    assert told.said.of(EventType.RELEASE_DECISION) == []


# ---- how long a text may get in the trace ---------------------------------------------------


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings_of(item)]
    return [text for item in value for text in strings_of(item)] if isinstance(value, list | tuple) else []


async def test_no_text_of_a_frame_is_long_whatever_the_model_sends() -> None:
    long = "L" * 10_000
    hostile = ModelReply(
        text=long,
        thinking=long,
        tool_calls=(
            ToolCall(long, long, long),
            ToolCall(long, "query_logs", json.dumps({"text": long})),
            ToolCall(long, "query_logs", json.dumps({long: long})),
            ToolCall(long, "T" * 150, json.dumps({"text": "checkout-api"})),
        ),
        finish_reason=long,
        model=long,
    )
    named_long = logs(name="T" * 150)
    told, _ = world([Step(EXECUTOR, hostile), calls(*LOOK), drafts(honest)], tools=[logs(), knowledge(), named_long])
    conclusion = await told.drive()
    assert len(named_long.calls) == 1
    for frame in told.said.frames:
        for text in strings_of([frame.summary, frame.status, frame.details.model_dump(mode="json")]):
            assert len(text) <= 200, frame.event_type
        type(frame.details).model_validate(frame.details.model_dump())
    for record in told.said.invocations:
        assert len(json.dumps(dict(record.input_params))) <= 2_100
        assert len(record.tool_name) <= 100
    for step in told.said.closed_steps:
        assert len(step.model_output) <= 1_000
        assert all(len(text) <= 100 for text in strings_of([dict(call) for call in step.tool_plan]))
        assert [call["call_id"] for call in step.tool_plan] == [f"call-{n + 1}" for n in range(len(step.tool_plan))]
    for call in told.said.model_calls:
        assert len(call.model) <= 200
        assert call.finish_reason is None or len(call.finish_reason) <= 60
    assert conclusion.status == "SUCCESS"


async def test_many_tools_do_not_break_the_bounds_of_what_was_looked_at() -> None:
    tools = [logs(name=f"mcp__server__tool_{n:02d}") for n in range(60)]
    rounds = [calls(*[(t.name, {"text": "checkout-api"}) for t in tools[n : n + 15]]) for n in range(0, 60, 15)]
    told, _ = world([*rounds, drafts(draft())], tools=tools, limits=limits(max_tool_calls=100, max_rounds=1))
    conclusion = await told.drive()
    assert len(conclusion.safe_content.looked_at) <= 40


async def test_secrets_in_arguments_are_masked_on_record_and_reach_the_tool_as_they_are() -> None:
    tool = logs()
    asked = "password=hunter2Secret99"
    refused = {"text": "checkout-api", "password": "hunter2Secret99"}
    told, _ = world([calls(("query_logs", {"text": asked}), ("query_logs", refused)), drafts(draft())], tools=[tool])
    await drive(told.run(), replace(told.kit(), redact=clean_json))
    assert tool.calls[0].text == asked
    assert [record.input_params for record in told.said.invocations[:2]] == [
        {"text": "password=[redacted]", "limit": 50},
        {"text": "checkout-api", "password": "[redacted]"},
    ]
