"""Claims whose evidence does not exist or does not say it: nothing of them leaves, and the frames say which rule."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gatekeeper.types import ANSWER_VERSION
from runs.errors import ToolFailed
from runs.harness.events import EventType
from runs.harness.ports import ModelRequest
from runs.harness.release import as_json
from runs.harness.run import Conclusion
from runs.llm.scripted import cite, say, user_input
from tests.runs.harness.world import (
    EXECUTOR,
    LINES,
    LOOK,
    SUPERVISOR,
    VERIFIER,
    World,
    answer_of,
    calls,
    claim,
    draft,
    drafts,
    guidance_claim,
    honest,
    knowledge,
    limits,
    logs,
    pool_claim,
    raising,
    world,
)

# A word that occurs in no evidence: wherever it turns up, it leaked from the fabricated claim.
MARK = "Zanzibar"
EMPTY_LOOK = (*LOOK, ("query_logs", {"text": "deadlock"}))

Make = Callable[[ModelRequest], dict[str, Any]]


def of_logs(request: ModelRequest, **changes: str) -> dict[str, str]:
    return cite(answer_of(request, "query_logs")) | changes


def of_nothing(request: ModelRequest, **changes: str) -> dict[str, str]:
    return cite(answer_of(request, "query_logs", 1)) | changes


@dataclass(frozen=True)
class Case:
    name: str
    rule: str
    make: Make


def fabricated(*evidence: Callable[[ModelRequest], dict[str, str]], **more: Any) -> Make:
    return lambda request: claim("f1", f"It is {MARK}.", *(make(request) for make in evidence), **more)


CASES = [
    Case(
        "invented invocation",
        "GK002_INVOCATION_EXISTS",
        fabricated(lambda r: of_logs(r, source_invocation_id="inv_zzzzzz")),
    ),
    Case("no evidence at all", "GK002_INVOCATION_EXISTS", fabricated()),
    Case(
        "excerpt of another run",
        "GK002_INVOCATION_EXISTS",
        fabricated(
            lambda r: of_logs(r, source_invocation_id="inv_k7q2mf", evidence_excerpt=f"{MARK} failed yesterday")
        ),
    ),
    Case("wrong tool", "GK003_TOOL_MATCHES", fabricated(lambda r: of_logs(r, tool_name="query_metrics"))),
    Case("invented path", "GK004_PATH_EXISTS", fabricated(lambda r: of_logs(r, raw_path="$.lines[99].text"))),
    Case(
        "edited excerpt",
        "GK005_EXCERPT_SUPPORTED",
        fabricated(lambda r: of_logs(r, evidence_excerpt=LINES[0].replace("30000ms", "90000ms"))),
    ),
    Case(
        "two spans put together",
        "GK005_EXCERPT_SUPPORTED",
        fabricated(lambda r: of_logs(r, evidence_excerpt="Connection is not available after 30000ms")),
    ),
    Case("too little quoted", "GK005_EXCERPT_SUPPORTED", fabricated(lambda r: of_logs(r, evidence_excerpt="ERROR"))),
    Case(
        "one good item and one bad",
        "GK005_EXCERPT_SUPPORTED",
        fabricated(of_logs, lambda r: of_logs(r, evidence_excerpt=f"{MARK} is down, as the log says")),
    ),
    Case(
        "a log line as proof of absence",
        "GK006_NEGATIVE_EVIDENCE",
        fabricated(of_logs, kind="negative_observation"),
    ),
    Case("an empty search as an observation", "GK006_NEGATIVE_EVIDENCE", fabricated(of_nothing)),
    Case(
        "an invented number",
        "GK007_NUMBERS_SUPPORTED",
        lambda r: claim("f1", f"It is {MARK} for 4711 s.", of_logs(r)),
    ),
    Case(
        "a runbook as the state of the system",
        "GK009_CURRENT_STATE",
        lambda r: claim("f1", f"It is {MARK}.", cite(answer_of(r, "lookup_knowledge"))),
    ),
]


def leaked(conclusion: Conclusion, told: World) -> list[str]:
    """Where the mark of a fabricated claim got out."""
    places = {
        "published result": json.dumps(as_json(conclusion.published)) if conclusion.published else "",
        "safe content": conclusion.safe_content.model_dump_json(),
        "frames": told.said.text(),
        "summaries": json.dumps(conclusion.self_evaluation["verifier_evaluation"]["tool_trace_summary"]),
    }
    return [place for place, text in places.items() if MARK in text]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_fabricated_claim_does_not_leave_and_the_rest_is_low(case: Case) -> None:
    told, brain = world([calls(*EMPTY_LOOK), drafts(lambda r: draft(pool_claim(r), case.make(r), guidance_claim(r)))])
    conclusion = await told.drive()
    assert leaked(conclusion, told) == []
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1", "c2"]
    assert (conclusion.published.confidence, conclusion.release_decision) == ("LOW", "RELEASED_LOW_CONFIDENCE")
    assert "1 claim(s) were left out: their citations did not hold." in conclusion.published.limitations
    first, repair = told.said.of(EventType.EVIDENCE_GUARD_INITIAL, EventType.EVIDENCE_GUARD_REPAIR)
    for frame in (first, repair):
        assert case.rule in frame.details.model_dump()["failed_rules"]
        assert frame.details.model_dump()["removed"] == 1
    judged = user_input(brain.asked(VERIFIER)[0])["claims"]
    assert [c["claim_id"] for c in judged] == ["c1", "c2"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_run_with_nothing_but_fabrication_is_withheld(case: Case) -> None:
    told, brain = world([calls(*EMPTY_LOOK), drafts(lambda r: draft(case.make(r)))])
    conclusion = await told.drive()
    assert (conclusion.status, conclusion.release_decision, conclusion.published) == ("DEGRADED", "WITHHELD", None)
    assert leaked(conclusion, told) == []
    assert brain.asked(VERIFIER) == []
    assert conclusion.safe_content.looked_at == ["lookup_knowledge: 1 × OK", "query_logs: 1 × NO_EVIDENCE, 1 × OK"]


async def test_a_claim_about_a_call_that_failed_does_not_leave() -> None:

    broken = raising("query_metrics", ToolFailed("The source is away.", error_code="SOURCE_DOWN"))

    def cites_the_failure(request: ModelRequest) -> dict[str, Any]:
        failed = answer_of(request, "query_metrics")
        item = {
            "source_invocation_id": failed["invocation_id"],
            "tool_name": "query_metrics",
            "raw_path": "$.series[0]",
            "evidence_excerpt": f"{MARK} is at 100 %",
        }
        return draft(pool_claim(request), claim("f1", f"It is {MARK}.", item))

    told, _ = world(
        [calls(*LOOK, ("query_metrics", {"text": "up"})), drafts(cites_the_failure)],
        tools=[logs(), knowledge(), broken],
    )
    conclusion = await told.drive()
    assert leaked(conclusion, told) == []
    assert conclusion.published is not None
    assert "GK008_INVOCATION_SUCCEEDED" in told.said.of(EventType.EVIDENCE_GUARD_INITIAL)[0].summary
    assert (
        "query_metrics failed (SOURCE_DOWN): what it would have shown is unknown." in conclusion.published.limitations
    )


async def test_evidence_that_was_cut_away_before_the_model_saw_it_cannot_be_cited() -> None:
    lines = [f"line {n} checkout-api " + "x" * 100 for n in range(200)]

    def cites_the_unseen(request: ModelRequest) -> dict[str, Any]:
        item = cite(answer_of(request, "query_logs")) | {
            "raw_path": "$.lines[150].text",
            "evidence_excerpt": lines[150],
        }
        return draft(claim("f1", f"It is {MARK}.", item))

    told, _ = world(
        [calls(("query_logs", {"text": "checkout-api", "limit": 200})), drafts(cites_the_unseen)],
        tools=[logs(lines), knowledge()],
    )
    conclusion = await told.drive()
    assert told.said.invocations[0].truncated
    assert "GK004_PATH_EXISTS" in told.said.of(EventType.EVIDENCE_GUARD_INITIAL)[0].details.model_dump()["failed_rules"]
    assert conclusion.published is None


# ---- the repair round -----------------------------------------------------------------------


async def test_the_executor_is_told_what_failed_and_may_correct_it() -> None:
    def wrong(request: ModelRequest) -> dict[str, Any]:
        return draft(pool_claim(request, evidence_excerpt="never said by any log"))

    told, brain = world([calls(*LOOK), drafts(wrong), drafts(honest)])
    conclusion = await told.drive()
    told_failures = user_input(brain.asked(EXECUTOR)[-1], -1)["repair"]["failed"]
    assert ("c1", "GK005_EXCERPT_SUPPORTED") in [(f["claim_id"], f["rule"]) for f in told_failures]
    assert conclusion.published is not None
    assert (conclusion.published.confidence, conclusion.verdict) == ("NORMAL", "PASS")
    guards = told.said.of(EventType.EVIDENCE_GUARD_INITIAL, EventType.EVIDENCE_GUARD_REPAIR)
    assert [frame.status for frame in guards] == ["REJECT", "PASS"]
    rounds = conclusion.self_evaluation["verifier_evaluation"]["gatekeeper_result"]["rounds"]
    assert [r["verdict"] for r in rounds] == ["REJECT", "PASS"]


async def test_the_repair_round_may_look_again_with_a_tool() -> None:
    def wrong(request: ModelRequest) -> dict[str, Any]:
        return draft(pool_claim(request, raw_path="$.made.up"))

    told, _ = world([calls(*LOOK), drafts(wrong), calls(("query_logs", {"text": "leak"})), drafts(honest)])
    conclusion = await told.drive()
    assert conclusion.verdict == "PASS"
    assert len(told.said.invocations) == 3


async def test_there_is_one_repair_round_and_no_more() -> None:
    told, brain = world([calls(*LOOK), drafts(lambda r: draft(pool_claim(r), claim("f1", f"{MARK}!")))])
    await told.drive()
    assert len(told.said.of(EventType.EVIDENCE_GUARD_REPAIR)) == 1
    assert len(brain.asked(EXECUTOR)) == 3


async def test_a_repair_that_loses_everything_leaves_what_stood_before() -> None:
    told, _ = world(
        [
            calls(*LOOK),
            drafts(lambda r: draft(pool_claim(r), claim("f1", f"{MARK}!"))),
            drafts(draft(claim("f2", "So!"))),
        ]
    )
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1"]
    assert conclusion.published.confidence == "LOW"


async def test_a_clean_draft_gets_no_repair_round() -> None:
    told, brain = world()
    await told.drive()
    assert told.said.of(EventType.EVIDENCE_GUARD_REPAIR) == []
    assert len(brain.asked(EXECUTOR)) == 2


async def test_two_claims_under_one_id_are_not_both_published() -> None:
    def twice(request: ModelRequest) -> dict[str, Any]:
        return draft(pool_claim(request), pool_claim(request) | {"claim_text": f"{MARK} holds the connection."})

    told, _ = world([calls(*LOOK), drafts(twice)])
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert len(conclusion.published.claims) == 1
    assert leaked(conclusion, told) == []


# ---- an executor that does not keep to its form -----------------------------------------------

OLD = {"answer": "the pool", "evidence": ["log says so"], "answer_version": "executor_evidence_v1"}


@dataclass(frozen=True)
class Form:
    name: str
    answer: Any
    status: str
    confidence: str | None


def other_version(request: ModelRequest) -> dict[str, Any]:
    return honest(request) | {"answer_version": "executor_evidence_v1"}


def no_version(request: ModelRequest) -> dict[str, Any]:
    return {"claims": honest(request)["claims"]}


def extra_field(request: ModelRequest) -> dict[str, Any]:
    return honest(request) | {"summary": "all is well"}


def one_claim_broken(request: ModelRequest) -> dict[str, Any]:
    claims = honest(request)["claims"]
    return draft(claims[0], {"claim_id": "c9", "kind": "hunch", "claim_text": MARK})


def behind_prose(request: ModelRequest) -> str:
    return "With {some} thought: " + json.dumps(other_version(request))


FORMS = [
    Form("prose", "I think that the pool is exhausted.", "DEGRADED", None),
    Form("an old structure", OLD, "DEGRADED", None),
    Form("nothing", "", "DEGRADED", None),
    Form("blank", " \n", "DEGRADED", None),
    Form("a list", "[1, 2, 3]", "DEGRADED", None),
    Form("cut off", '{"answer_version": "executor_evidence_v2", "claims": [{"claim', "DEGRADED", None),
    Form("no claims", draft(), "DEGRADED", None),
    Form("claims of the wrong type", {"answer_version": ANSWER_VERSION, "claims": "c1"}, "DEGRADED", None),
    Form("claims that are no objects", {"answer_version": ANSWER_VERSION, "claims": [1, None, "c"]}, "DEGRADED", None),
    Form("half a surrogate pair", '{"answer_version": "\\ud800", "claims": ["\\ud800"]}', "DEGRADED", None),
    Form("nested without end", '{"claims":' + "[" * 50_000, "DEGRADED", None),
    Form("another version", other_version, "SUCCESS", "LOW"),
    Form("no version", no_version, "SUCCESS", "LOW"),
    Form("an unknown field", extra_field, "SUCCESS", "LOW"),
    Form("one claim broken", one_claim_broken, "SUCCESS", "LOW"),
    Form("an object behind prose", behind_prose, "SUCCESS", "LOW"),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_an_answer_out_of_form_degrades_or_lowers_but_does_not_fail(form: Form) -> None:
    told, brain = world([calls(*LOOK), drafts(form.answer)])
    conclusion = await told.drive()
    assert conclusion.status == form.status
    assert (conclusion.published.confidence if conclusion.published else None) == form.confidence
    assert leaked(conclusion, told) == []
    reminders = [m for request in brain.asked(EXECUTOR) for m in request.messages if "contract" in str(m)]
    assert bool(reminders) == (form.name != "no claims")


async def test_a_reminder_is_enough_for_a_model_that_slipped_once() -> None:
    told, _ = world([calls(*LOOK), drafts("Well, the pool."), drafts(honest)])
    conclusion = await told.drive()
    assert conclusion.verdict == "PASS"
    assert conclusion.published is not None
    assert conclusion.published.confidence == "NORMAL"


async def test_an_unreadable_answer_after_a_good_draft_does_not_lose_the_draft() -> None:
    def bad_second_claim(request: ModelRequest) -> dict[str, Any]:
        return draft(pool_claim(request), claim("f1", f"{MARK}!"))

    told, _ = world([calls(*LOOK), drafts(bad_second_claim), drafts("I give up.")])
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1"]
    assert conclusion.published.confidence == "LOW"


async def test_prose_in_a_later_round_does_not_lose_the_draft_of_an_earlier_one() -> None:
    told, _ = world(
        [calls(*LOOK), drafts(honest), drafts("Nothing more to say.")],
        moves={SUPERVISOR: [say(SUPERVISOR, {"next": "EXECUTE", "reason": "more"})]},
        limits=limits(max_rounds=2),
    )
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert [c.claim_id for c in conclusion.published.claims] == ["c1", "c2"]
    assert conclusion.published.confidence == "LOW"


async def test_a_nul_in_an_answer_is_made_storable() -> None:
    told, _ = world([calls(*LOOK), drafts(lambda r: draft(pool_claim(r) | {"claim_text": "No connection.\x00"}))])
    conclusion = await told.drive()
    assert conclusion.published is not None
    assert conclusion.published.claims[0].claim_text == "No connection.\ufffd"
