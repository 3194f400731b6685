"""A whole alert run by script: what is told, in what order, what is recorded, what leaves."""

from dataclasses import replace

import pytest

from gatekeeper.types import Intent, Verdict
from runs.errors import ConfigurationError
from runs.harness.digest import content_digest
from runs.harness.events import EventType as E
from runs.harness.events import InvocationRecord, ModelCall, StepClosed, StepOpened
from runs.harness.pipeline import drive
from runs.harness.ports import Role
from runs.harness.release import as_json
from runs.harness.run import Conclusion, Emitted, PublishedResult
from runs.llm.scripted import ScriptedModel, say, user_input
from tests.runs.harness.world import (
    COMPOSER,
    EXECUTOR,
    LINES,
    LOOK,
    PLAN,
    PLANNER,
    SUPERVISOR,
    VERIFIER,
    World,
    calls,
    drafts,
    honest,
    knowledge,
    logs,
    says_the_claims,
    supports_all,
)


def script() -> ScriptedModel:
    return ScriptedModel(
        say(SUPERVISOR, {"next": "PLAN", "reason": "begin"}),
        say(PLANNER, PLAN),
        say(SUPERVISOR, {"next": "EXECUTE", "reason": "look"}),
        calls(*LOOK, thinking="The log first."),
        drafts(honest),
        say(SUPERVISOR, {"next": "FINISH", "reason": "enough"}),
        say(VERIFIER, supports_all),
        say(COMPOSER, says_the_claims),
    )


async def happy() -> tuple[World, Conclusion, ScriptedModel]:
    model = script()
    world = World(model)
    conclusion = await world.drive()
    model.assert_consumed()
    return world, conclusion, model


async def test_the_order_of_events_is_the_order_of_the_road() -> None:
    world, _, _ = await happy()
    step = [(E.AGENT_MODEL_STEP, "STARTED"), (E.AGENT_MODEL_STEP, "COMPLETED")]
    assert [(frame.event_type, frame.status) for frame in world.said.frames] == [
        (E.RUN_STARTED, None),
        (E.ROUTING_DECISION, "DIAGNOSIS"),
        *step,
        (E.SUPERVISION_DECISION, "PLAN"),
        *step,
        *step,
        (E.SUPERVISION_DECISION, "EXECUTE"),
        *step,
        (E.TOOL_INVOCATION, "OK"),
        (E.TOOL_INVOCATION, "OK"),
        *step,
        *step,
        (E.SUPERVISION_DECISION, "FINISH"),
        (E.EVIDENCE_GUARD_INITIAL, "PASS"),
        *step,
        (E.SEMANTIC_GUARD_DECISION, "PASS"),
        (E.AIOPS_RULE_EVALUATION, "PASS"),
        *step,
        (E.RELEASE_DECISION, "RELEASED"),
    ]


async def test_the_conclusion_is_a_released_diagnosis() -> None:
    _, conclusion, _ = await happy()
    assert (conclusion.status, conclusion.intent, conclusion.verdict, conclusion.release_decision) == (
        "SUCCESS",
        Intent.DIAGNOSIS,
        Verdict.PASS,
        "RELEASED",
    )
    published = conclusion.published
    assert published is not None
    assert published.confidence == "NORMAL"
    assert published.claims[0].evidence[0].evidence_excerpt == LINES[0]
    assert [statement.claim_ids for statement in published.statements] == [["c1"], ["c2"]]
    assert [document.document_id for document in published.source_documents] == ["doc-pool"]
    assert published.limitations == []
    assert PublishedResult.model_validate(as_json(published)) == published


async def test_every_step_opens_and_closes_once_and_frames_point_at_records() -> None:
    world, _, _ = await happy()
    said = world.said
    opened = [step.step_id for step in said.records(StepOpened)]
    assert [step.step_id for step in said.closed_steps] == opened
    assert [step.step_index for step in said.records(StepOpened)] == list(range(1, len(opened) + 1))
    assert {call.step_id for call in said.model_calls} == set(opened)
    invocations = {record.invocation_id: record for record in said.invocations}
    for frame in said.frames:
        if frame.step_id is not None:
            assert frame.step_id in opened
        if frame.event_type is E.TOOL_INVOCATION:
            assert frame.invocation_id is not None
            assert invocations[frame.invocation_id].step_id == frame.step_id
    for frame in said.of(E.SUPERVISION_DECISION, E.SEMANTIC_GUARD_DECISION, E.AGENT_MODEL_STEP, E.TOOL_INVOCATION):
        assert frame.step_id is not None


async def test_a_record_is_never_told_before_the_step_it_belongs_to() -> None:
    world, _, _ = await happy()
    open_steps: set[str] = set()
    for emission in world.said.emissions:
        for record in emission.records:
            if isinstance(record, StepOpened):
                open_steps.add(record.step_id)
            elif isinstance(record, ModelCall | InvocationRecord | StepClosed):
                assert record.step_id in open_steps


async def test_what_was_emitted_is_counted_and_what_was_used_is_spent() -> None:
    world, conclusion, _ = await happy()
    said = world.said
    assert conclusion.emitted == Emitted(
        events=len(said.frames),
        steps=len(said.records(StepOpened)),
        tool_invocations=len(said.invocations),
        model_calls=len(said.model_calls),
    )
    assert (len(said.model_calls), len(said.invocations)) == (8, 2)
    for total, one in (("input_tokens", 100), ("output_tokens", 20)):
        assert sum(getattr(spending, total) for spending in said.spent) == 8 * one
        assert sum(getattr(step, total) for step in said.closed_steps) == 8 * one
        assert sum(getattr(call, total) for call in said.model_calls) == 8 * one
    assert sum(spending.model_calls for spending in said.spent) == 8
    assert sum(spending.tool_calls for spending in said.spent) == 2


async def test_the_digests_vouch_for_what_the_run_keeps() -> None:
    world, conclusion, _ = await happy()
    kept = conclusion.self_evaluation["verifier_evaluation"]
    digests = {frame.event_type: frame.content_digest for frame in world.said.frames if frame.content_digest}
    assert conclusion.published is not None
    assert digests == {
        E.EVIDENCE_GUARD_INITIAL: content_digest(kept["gatekeeper_result"]["rounds"][0]),
        E.SEMANTIC_GUARD_DECISION: content_digest(kept["evaluation"]),
        E.AIOPS_RULE_EVALUATION: content_digest(conclusion.self_evaluation["aiops_rule_evaluation"]),
        E.RELEASE_DECISION: content_digest(as_json(conclusion.published)),
    }


async def test_the_runs_own_evaluation_keeps_each_stage() -> None:
    world, conclusion, _ = await happy()
    kept = conclusion.self_evaluation["verifier_evaluation"]
    assert kept["verdict"] == "PASS"
    assert kept["gatekeeper_result"]["rounds"][0]["rule_set_number"] == world.kit().rule_set.number
    assert [entry["tool_name"] for entry in kept["tool_trace_summary"]] == ["query_logs", "lookup_knowledge"]
    assert [entry["evidence_count"] for entry in kept["tool_trace_summary"]] == [3, 1]
    assert kept["composer_output"]["conclusion"] == "HikariPool-1 gave no connection."
    assert [claim["claim_id"] for claim in kept["executor_structured_output"]["claims"]] == ["c1", "c2"]
    audit = kept["prompt_audit"]
    assert audit["version"] == "aiops-prompts-v1"
    assert {"name", "version", "resource", "sha256"} == set(audit["prompts"][0])
    assert "You are" not in str(audit)


async def test_roles_are_asked_under_their_schema_with_their_prompt() -> None:
    _, _, model = await happy()
    assert [request.schema_name for request in model.requests] == [
        "aiops_supervision",
        "aiops_plan",
        "aiops_supervision",
        "executor_evidence_v2",
        "executor_evidence_v2",
        "aiops_supervision",
        "verifier_evaluation",
        "composer_output",
    ]
    assert {request.system for request in model.requests if request.role is EXECUTOR} == {"You are aiops_executor."}
    assert [bool(request.tools) for request in model.requests] == [
        request.role is EXECUTOR for request in model.requests
    ]


async def test_verifier_and_composer_see_claims_in_their_context_and_the_tool_trace() -> None:
    _, _, model = await happy()
    for request in model.requests[-2:]:
        message = user_input(request)
        assert set(message) == {"query", "claims", "tool_trace_summary"}
        assert message["claims"][0]["evidence"][0]["context"] == LINES[0]
        assert set(message["tool_trace_summary"][0]) == {
            "invocation_id",
            "tool_name",
            "status",
            "evidence_count",
            "relevance_level",
            "duration_ms",
        }


async def test_thoughts_and_texts_stay_out_of_the_frames() -> None:
    world, _, _ = await happy()
    assert [entry.thought for entry in world.said.reasoning if entry.thought] == ["The log first."]
    said = world.said.text()
    for secret in (
        "The log first.",
        LINES[0],
        "HikariPool-1 gave no connection.",
        "read it",
        "why checkout-api is slow",
    ):
        assert secret not in said


async def test_a_run_twice_with_the_same_ids_publishes_and_tells_the_same_bytes() -> None:
    (first, one, _), (second, other, _) = await happy(), await happy()
    assert one.published is not None
    assert other.published is not None
    assert one.published.model_dump_json(by_alias=True) == other.published.model_dump_json(by_alias=True)
    assert one == other
    assert first.said.emissions == second.said.emissions


async def test_other_ids_change_nothing_but_the_ids() -> None:
    world, conclusion, _ = await happy()
    again = World(script(), seed=8)
    other = await again.drive()
    assert [record.invocation_id for record in world.said.invocations] != [
        record.invocation_id for record in again.said.invocations
    ]
    assert conclusion.published is not None
    assert other.published is not None
    assert conclusion.published.statements == other.published.statements


async def test_a_later_attempt_goes_on_counting_where_the_first_stopped() -> None:
    world = World(script())
    run = replace(world.run(), attempt=2, next_step_index=12)
    await drive(run, world.kit())
    assert world.said.records(StepOpened)[0].step_index == 12
    assert world.said.frames[0].details.model_dump()["attempt"] == 2


async def test_tools_are_told_the_run_and_the_recorded_moment() -> None:
    log = logs()
    world = World(script(), [log, knowledge()])
    await world.drive()
    context = log.contexts[0]
    assert (context.run_id, context.session_id, context.query) == (
        "run_0000000000000001",
        "alert-1",
        "Why is checkout-api slow?",
    )
    assert context.now == world.clock.now()


async def test_a_role_without_a_model_is_a_configuration_error() -> None:
    world = World(script())
    kit = world.kit()
    kit = replace(kit, models={role: model for role, model in kit.models.items() if role is not Role.AIOPS_PLANNER})
    with pytest.raises(ConfigurationError, match="aiops_planner"):
        await drive(world.run(), kit)
