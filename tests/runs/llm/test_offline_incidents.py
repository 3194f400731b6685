"""What someone on call learns from the offline model about the recorded incidents, through real tools and the gate."""

import json
import re
from dataclasses import replace
from datetime import datetime

import pytest

from gatekeeper.types import ClaimKind, Intent, Verdict
from runs.harness.absence import proves_absence
from runs.harness.pipeline import drive
from runs.harness.release import unsupported_words
from runs.harness.run import AlertSubject, Conclusion, Limits, Subject
from runs.harness.wire import ComposerOutput, ExecutorEvidence
from tests.runs.harness.world import World
from tests.runs.llm.offline_bench import INCIDENTS, MODEL, Bench

SLUGS = sorted(path.name for path in INCIDENTS.iterdir() if (path / "alert.json").exists())
KNOWN_GAPS: dict[str, list[str]] = {}
"""Findings that the offline model is known to miss. Compared exactly: what it learns to find has to be taken out."""


def report(composed: ComposerOutput) -> str:
    return "\n".join([composed.conclusion, *(statement.text for statement in composed.statements)])


def found(draft: ExecutorEvidence, finding: dict[str, list[str]]) -> bool:
    """Whether a claim says one of the patterns and cites one of the tools."""
    return any(
        any(re.search(pattern, claim.claim_text) for pattern in finding["any_of"])
        and any(item.tool_name in finding["must_cite_tool"] for item in claim.evidence)
        for claim in draft.claims
    )


@pytest.mark.parametrize("slug", SLUGS)
async def test_every_claim_passes_the_gate_and_the_verifier(slug: str) -> None:
    bench = Bench(slug)
    draft = await bench.execute()
    gated = bench.gate(draft)
    assert [(c.claim.claim_id, c.failed_codes) for c in gated.removed] == []
    assert gated.verdict is Verdict.PASS
    assert (await bench.verify(draft)).verdict is Verdict.PASS
    assert 2 <= len(draft.claims) <= 12


@pytest.mark.parametrize("slug", SLUGS)
async def test_the_report_says_what_is_true_but_for_known_gaps_and_nothing_that_is_forbidden(slug: str) -> None:
    bench = Bench(slug)
    draft = await bench.execute()
    composed = await bench.compose(draft)
    missing = [each["id"] for each in bench.truth["expected_findings"] if not found(draft, each)]
    assert missing == KNOWN_GAPS.get(slug, [])
    said = report(composed)
    assert [pattern for pattern in bench.truth["forbidden_findings"] if re.search(pattern, said)] == []
    assert not proves_absence(said, bench.gate(draft).accepted)


@pytest.mark.parametrize("query", ["", "为什么服务出错？"])
@pytest.mark.parametrize("slug", SLUGS)
async def test_release_keeps_every_word_of_the_composer(slug: str, query: str) -> None:
    bench = Bench(slug, query=query)
    draft = await bench.execute()
    composed, claims = await bench.compose(draft), bench.gate(draft).accepted
    given = (bench.query, json.dumps(bench.alert))
    for text in [composed.conclusion, composed.scope, *composed.limitations]:
        assert unsupported_words(text, claims, given) == []
        assert not proves_absence(text, claims)
    for statement in composed.statements:
        named = [claim for claim in claims if claim.claim_id in statement.claim_ids]
        assert named
        assert unsupported_words(statement.text, named, given) == []


async def test_the_exhausted_pool_is_told_with_the_change_before_it_and_the_advice() -> None:
    bench = Bench("pool-exhausted")
    draft = await bench.execute()
    conclusion = (await bench.compose(draft)).conclusion
    assert re.search(r"points to.*HikariPool-1 - Connection is not available", conclusion)
    assert re.search(r"Before that.*MAXIMUM_POOL_SIZE: \"50\" -> \"10\"", conclusion)
    assert re.search(r"runbook advises: .*roll back", conclusion)
    texts = "\n".join(claim.claim_text for claim in draft.claims)
    assert re.search(r"alert's expression: .*rose from 0", texts)
    assert re.search(r"hikaricp_connections_active\{.*\}: 10 at", texts)
    assert re.search(r"hikaricp_connections_pending\{.*rose from 0", texts)
    assert re.search(r"hikaricp_connections_max\{.*\}: 10 at", texts)


async def test_a_loud_neighbour_is_left_out() -> None:
    bench = Bench("cpu-red-herring")
    draft = await bench.execute()
    said = report(await bench.compose(draft))
    assert not re.search(r"(?i)\bcpu\b|sales.report", said)
    assert "CREATE INDEX ix_orders_status_created_at" in said


async def test_two_matters_of_their_own_are_both_named_each_with_its_advice() -> None:
    bench = Bench("two-causes")
    draft = await bench.execute()
    conclusion = (await bench.compose(draft)).conclusion
    assert re.search(
        r"points to.*429 Too Many Requests, daily quota exceeded.*; and: .*OOM command not allowed", conclusion
    )
    assert sum(claim.kind is ClaimKind.GUIDANCE for claim in draft.claims) == 2
    assert "; and: " in conclusion.split("The runbook advises: ")[1]


async def test_where_nothing_is_wrong_nothing_is_found() -> None:
    bench = Bench("false-alarm")
    draft = await bench.execute()
    assert not any(claim.critical for claim in draft.claims)
    assert {claim.evidence[0].tool_name for claim in draft.claims if claim.kind is ClaimKind.OBSERVATION} <= {
        "query_metrics"
    }
    assert "nothing notable" in (await bench.compose(draft)).conclusion


@pytest.mark.parametrize("slug", SLUGS)
async def test_the_same_run_gives_the_same_bytes(slug: str) -> None:
    first, second = Bench(slug), Bench(slug)
    drafts = [await first.execute(), await second.execute()]
    assert drafts[0] == drafts[1]
    assert first.messages == second.messages


async def test_a_chinese_question_gets_a_chinese_report_around_the_same_quotations() -> None:
    bench = Bench("pool-exhausted", query="为什么 checkout-api 一直返回 5xx？")
    draft = await bench.execute()
    assert bench.gate(draft).verdict is Verdict.PASS
    composed = await bench.compose(draft)
    assert "证据指向" in composed.conclusion
    assert "HikariPool-1 - Connection is not available" in composed.conclusion


async def test_a_question_without_an_alert_is_diagnosed_from_the_service_it_names() -> None:
    bench = Bench("pool-exhausted", query="Why is checkout-api failing with 5xx right now?")
    draft = await bench.execute(chat=True)
    assert bench.gate(draft).verdict is Verdict.PASS
    said = report(await bench.compose(draft))
    assert "HikariPool-1 - Connection is not available" in said
    assert "2.30.4 -> 2.31.0" in said


async def test_a_knowledge_question_is_answered_from_runbooks_alone() -> None:
    bench = Bench("pool-exhausted", query="What should I do when the HikariPool connection pool is exhausted?")
    draft = await bench.execute(chat=True, tools=("lookup_knowledge",))
    assert {call.name for call in bench.calls} == {"lookup_knowledge"}
    assert {claim.kind for claim in draft.claims} == {ClaimKind.GUIDANCE}
    assert bench.gate(draft, Intent.KNOWLEDGE_QUERY).verdict is Verdict.PASS
    assert "runbook" in (await bench.compose(draft)).conclusion.lower()


async def test_a_source_that_fails_is_named_as_a_limit_and_never_cited() -> None:
    bench = Bench("pool-exhausted", fail=frozenset({"query_metrics"}))
    draft = await bench.execute()
    assert bench.gate(draft).verdict is Verdict.PASS
    assert "query_metrics" not in {item.tool_name for claim in draft.claims for item in claim.evidence}
    limitations = (await bench.compose(draft)).limitations
    assert any("metrics did not succeed" in text for text in limitations)


async def test_when_every_source_fails_nothing_is_claimed() -> None:
    bench = Bench("pool-exhausted", fail=frozenset({"query_metrics", "query_logs", "query_alerts", "lookup_knowledge"}))
    draft = await bench.execute()
    assert draft.claims == []


async def test_no_tool_is_called_more_than_six_times_and_none_twice_with_the_same_question() -> None:
    for slug in SLUGS:
        bench = Bench(slug)
        await bench.execute()
        asked = [(call.name, json.dumps(json.loads(call.arguments), sort_keys=True)) for call in bench.calls]
        assert len(asked) == len(set(asked))
        assert max(sum(name == other for other, _ in asked) for name, _ in asked) <= 6


async def released(slug: str) -> tuple[Conclusion, World]:
    """A whole alert run of the kernel, every role played by the offline model."""
    bench = Bench(slug)
    labels = bench.alert["labels"]
    alert = AlertSubject(
        alertname=labels["alertname"],
        severity=labels["severity"],
        starts_at=datetime.fromisoformat(bench.alert["startsAt"]),
        labels=labels,
        annotations=bench.alert["annotations"],
        generator_url=bench.alert["generatorURL"],
    )
    world = World(MODEL, tools=tuple(bench.tools), subject=Subject(alert=alert))
    kit = replace(world.kit(), evidence_now=lambda: bench.now)
    run = replace(world.run(), query=f"{alert.alertname}: {alert.annotations['summary']}")
    return await drive(run, kit), world


@pytest.mark.parametrize("slug", SLUGS)
async def test_the_kernel_releases_what_the_offline_model_found(slug: str) -> None:
    conclusion, world = await released(slug)
    assert (conclusion.status, conclusion.verdict, conclusion.release_decision) == ("SUCCESS", Verdict.PASS, "RELEASED")
    assert conclusion.published is not None
    assert conclusion.published.confidence == "NORMAL"
    chinese = re.search(r"[\u4e00-\u9fff]", conclusion.published.query) is not None
    found_something = "证据指向" if chinese else "The evidence points to"
    assert ("nothing notable" if slug == "false-alarm" else found_something) in conclusion.published.conclusion
    assert sum(spent.input_tokens + spent.output_tokens for spent in world.said.spent) < Limits().max_tokens / 2
