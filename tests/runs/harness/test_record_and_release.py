"""What leaves a run beyond its happy end: gaps in the record, report rules, empty searches, the composer's words."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gatekeeper.types import Relevance
from runs.harness.events import EventType
from runs.harness.pipeline import drive
from runs.harness.ports import ModelRequest, Role
from runs.harness.run import AlertSubject, Settled, Subject
from runs.llm.scripted import cite, say
from tests.runs.harness.world import (
    ALERT,
    COMPOSER,
    LOOK,
    VERIFIER,
    Moves,
    World,
    answer_of,
    calls,
    claim,
    composed,
    draft,
    drafts,
    evaluation,
    guidance_claim,
    knowledge,
    logs,
    pool_claim,
    world,
)

INCOMPLETE = "The record of this run is incomplete: part of it could not be written."


# ---- the record -----------------------------------------------------------------------------


async def test_an_incomplete_record_makes_the_result_low_and_says_so() -> None:
    told, _ = world(settled=Settled(complete=False))
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert (conclusion.published.confidence, conclusion.release_decision) == ("LOW", "RELEASED_LOW_CONFIDENCE")
    assert INCOMPLETE in conclusion.published.limitations
    assert len(conclusion.published.claims) == 2


def first_invocation_lost(told: World) -> Settled:
    return Settled(complete=False, unrecorded_invocations=frozenset({told.said.invocations[0].invocation_id}))


async def test_claims_on_evidence_that_is_not_on_record_are_left_out() -> None:
    told, brain = world(settled=first_invocation_lost)
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c2"]
    assert INCOMPLETE in conclusion.published.limitations
    assert "HikariPool-1" not in str(brain.asked(COMPOSER)[0].messages)


async def test_without_any_evidence_on_record_nothing_is_released() -> None:
    told, brain = world([calls(*LOOK), drafts(lambda r: draft(pool_claim(r)))], settled=first_invocation_lost)
    conclusion = await told.drive()
    assert conclusion.release_decision == "WITHHELD"
    assert "the evidence could not be put on record" in conclusion.safe_content.reason
    assert brain.asked(COMPOSER) == []


# ---- the verifier's word --------------------------------------------------------------------


def judged(answer: dict[str, Any]) -> dict[Role, Moves]:
    return {VERIFIER: [say(VERIFIER, answer)]}


async def test_an_unsupported_claim_is_left_out() -> None:
    told, _ = world(moves=judged(evaluation({"c1": True, "c2": False}, verdict="LOW_CONFID")))
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1"]
    assert "1 claim(s) were left out: they did not follow from their evidence." in conclusion.published.limitations


async def test_a_rejection_withholds() -> None:
    told, brain = world(moves=judged(evaluation({"c1": True, "c2": True}, verdict="REJECT")))
    conclusion = await told.drive()
    assert (conclusion.status, conclusion.verdict, conclusion.published) == ("DEGRADED", "REJECT", None)
    assert "the semantic check rejected" in conclusion.safe_content.reason
    assert brain.asked(COMPOSER) == []


async def test_a_pass_over_an_unsupported_critical_claim_is_low() -> None:
    told, _ = world(moves=judged(evaluation({"c1": False, "c2": True})))
    conclusion = await told.drive()
    assert conclusion.verdict == "LOW_CONFID"
    frame = told.said.of(EventType.SEMANTIC_GUARD_DECISION)[0]
    assert "PASS_OVER_UNSUPPORTED_CRITICAL" in frame.details.model_dump()["contract_violations"]


# ---- the composer's words -------------------------------------------------------------------


async def test_words_of_the_composer_that_go_beyond_the_claims_do_not_leave() -> None:
    overdone = composed(
        [
            ("HikariPool-1 had no connection.", ["c1"]),
            ("It cost 90210 EUR.", ["c1"]),
            ("Nobody named this.", []),
            ("About another claim.", ["c77"]),
            ("A network fault is ruled out.", ["c1"]),
        ],
        conclusion="HikariPool-7 is to blame.",
        scope="All 512 hosts.",
        limitations=["Network faults were ruled out.", "Only one service was looked at."],
    )
    told, _ = world(moves={COMPOSER: [say(COMPOSER, overdone)]})
    conclusion = await told.drive()
    published = conclusion.published
    assert published is not None
    assert [s.text for s in published.statements] == ["HikariPool-1 had no connection."]
    assert published.conclusion == "HikariPool-1 had no connection."
    assert published.scope.startswith("Looked at lookup_knowledge, query_logs around 2026-11-17T10:12:00Z")
    assert published.limitations == ["Only one service was looked at."]
    details = told.said.of(EventType.RELEASE_DECISION)[0].details.model_dump()
    assert (details["statements_proposed"], details["statements_kept"]) == (5, 1)
    assert set(details["dropped_because"]) == {
        "STATEMENT_ADDS_FACT",
        "STATEMENT_NAMES_NO_CLAIM",
        "STATEMENT_NAMES_UNKNOWN_CLAIM",
        "STATEMENT_PROVES_ABSENCE",
        "CONCLUSION_ADDS_FACT",
        "SCOPE_ADDS_FACT",
        "LIMITATION_PROVES_ABSENCE",
    }


# ---- searches that found nothing ------------------------------------------------------------


def found_nothing(request: ModelRequest) -> dict[str, Any]:
    citation = cite(answer_of(request, "query_logs"))
    return draft(
        claim("n1", "The search of checkout-api for that word found no line.", citation, kind="negative_observation")
    )


EMPTY_SEARCH = [calls(("query_logs", {"text": "checkout-api deadlock"}), LOOK[1]), drafts(found_nothing)]


async def test_accepted_negatives_alone_may_be_released() -> None:
    told, _ = world(EMPTY_SEARCH)
    conclusion = await told.drive()
    assert conclusion.status == "SUCCESS"
    assert conclusion.safe_content.headline == "Nothing notable was found by these searches"
    assert conclusion.published is not None
    assert conclusion.published.claims[0].evidence[0].raw_path == "$.no_evidence"


@pytest.mark.parametrize("text", ["A deadlock is ruled out.", "已排除死锁。", "确认没有死锁。"])
async def test_a_claim_that_takes_an_empty_search_for_proof_is_not_said(text: str) -> None:
    def proves(request: ModelRequest) -> dict[str, Any]:
        proof = claim("n2", text, cite(answer_of(request, "query_logs")), kind="negative_observation")
        return draft(*found_nothing(request)["claims"], proof)

    told, _ = world([EMPTY_SEARCH[0], drafts(proves)])
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["n1"]
    assert conclusion.published.confidence == "LOW"


# ---- rules for reports about alerts ---------------------------------------------------------


async def test_a_report_without_a_look_at_the_runbooks_is_low() -> None:
    told, _ = world([calls(LOOK[0]), drafts(lambda r: draft(pool_claim(r)))])
    conclusion = await told.drive()
    assert conclusion.verdict == "LOW_CONFID"
    frame = told.said.of(EventType.AIOPS_RULE_EVALUATION)[0]
    assert frame.details.model_dump()["failed"] == ("AR003_TOOLS_TRIED",)
    assert conclusion.published is not None
    assert "Report rule not met: not tried: knowledge." in conclusion.published.limitations


async def test_a_report_about_another_alert_is_withheld() -> None:
    other = AlertSubject(alertname="DiskFillingUp", labels={"service": "postgres"})

    def strays(request: ModelRequest) -> dict[str, Any]:
        return draft(claim("c1", "DiskFillingUp is what matters here.", cite(answer_of(request, "query_logs"))))

    told, brain = world(
        [calls(("query_logs", {"text": "disk"}), LOOK[1]), drafts(strays)],
        tools=[logs(["disk usage of the volume grows, DiskFillingUp"]), knowledge()],
        subject=Subject(alert=ALERT, others=[other]),
    )
    conclusion = await told.drive()
    assert conclusion.release_decision == "WITHHELD"
    assert "about another alert" in conclusion.safe_content.reason
    assert brain.asked(COMPOSER) == []


async def test_guidance_on_a_weak_match_alone_is_weak() -> None:
    told, _ = world(
        [calls(*LOOK), drafts(lambda r: draft(pool_claim(r), guidance_claim(r)))],
        tools=[logs(), knowledge(relevance=Relevance.REFERENCE)],
    )
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1"]
    assert conclusion.published.source_documents == []


async def test_a_recording_is_named_as_a_limit() -> None:
    told, _ = world()
    kit = replace(told.kit(), evidence_now=lambda: datetime(2026, 11, 12, 10, 10, tzinfo=UTC))
    conclusion = await drive(told.run(), kit)
    assert conclusion.published is not None
    assert any("recording made at 2026-11-12T10:10:00Z" in text for text in conclusion.published.limitations)


async def test_without_a_source_the_answer_says_what_to_set_up() -> None:
    told, _ = world(executor=[drafts({"answer_version": "executor_evidence_v2", "claims": []})], tools=(knowledge(),))
    conclusion = await told.drive()
    assert conclusion.status == "DEGRADED"
    assert "PROMETHEUS_URL" in conclusion.safe_content.reason
    assert "tools below" not in conclusion.safe_content.reason
