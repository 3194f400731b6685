"""Rules for reports about alerts: each with what holds and what does not."""

from dataclasses import dataclass
from typing import Any

import pytest

from gatekeeper.types import Citation, Claim, ClaimKind, EvidenceStatus, SourceKind
from runs.harness.aiopsrules import AiopsFinding, evaluate
from runs.harness.context import KeptInvocation
from runs.harness.events import InvocationRecord
from runs.harness.run import AlertSubject, Subject
from tests.runs.harness.world import NOW

ALERT = AlertSubject(alertname="CheckoutLatencyHigh", labels={"service": "checkout-api", "job": "db", "team": "shop"})
OTHER = AlertSubject(alertname="DiskFillingUp", labels={"service": "postgres"})


def invocation(
    id_: str,
    kind: SourceKind = SourceKind.TELEMETRY,
    *,
    tool: str = "query_logs",
    status: EvidenceStatus = EvidenceStatus.OK,
    asked: dict[str, Any] | None = None,
    output: Any = None,
) -> KeptInvocation:
    record = InvocationRecord(
        invocation_id=id_,
        step_id="step_1",
        tool_name=tool,
        source_kind=kind.value,
        input_params=asked or {},
        output=output,
        output_preview="",
        evidence_status=status.value,
        evidence_refs=(),
        retrieval_layer=None,
        l0_match_count=None,
        l1_match_count=None,
        retrieval_details={},
        relevance_level=None,
        dedup_reason=None,
        duration_ms=0,
        success=True,
        error_code=None,
        error_message=None,
        truncated=False,
        started_at=NOW,
    )
    return KeptInvocation(record, ())


LOG = invocation("inv_log")
BOOK = invocation("inv_book", SourceKind.KNOWLEDGE, tool="lookup_knowledge")


def claim(text: str, excerpt: str = "an error", *, critical: bool = True, of: str = "inv_log") -> Claim:
    return Claim("c1", ClaimKind.OBSERVATION, text, critical, (Citation(of, "query_logs", "$.x", excerpt),))


def judged(
    code: str,
    *claims: Claim,
    alert: AlertSubject = ALERT,
    others: tuple[AlertSubject, ...] = (),
    more: tuple[Any, ...] = (),
) -> AiopsFinding:
    invocations = {kept.record.invocation_id: kept for kept in (LOG, BOOK, *more)}
    findings = evaluate(Subject(alert=alert, others=list(others)), claims, invocations)
    return next(finding for finding in findings if finding.code == code)


def test_there_are_four_rules_and_none_without_an_alert() -> None:
    codes = [finding.code for finding in evaluate(Subject(alert=ALERT), (claim("x"),), {})]
    assert codes == ["AR001_REPORT_EXISTS", "AR002_ABOUT_THE_ALERT", "AR003_TOOLS_TRIED", "AR004_MAIN_SUBJECT"]
    assert evaluate(Subject(), (claim("x"),), {}) == ()


def test_a_report_needs_a_claim() -> None:
    assert judged("AR001_REPORT_EXISTS", claim("x")).passed
    assert not judged("AR001_REPORT_EXISTS").passed


@dataclass(frozen=True)
class About:
    name: str
    claims: tuple[Claim, ...]
    passed: bool
    withhold: bool = False
    more: tuple[KeptInvocation, ...] = ()


LISTED = invocation(
    "inv_alerts",
    tool="query_alerts",
    output={"alerts": [{"alertname": "KafkaLag"}, {"alertname": "CheckoutLatencyHigh"}]},
)
ABOUT = [
    About("names the alert", (claim("CheckoutLatencyHigh fires."),), True),
    About("names its service, in another case", (claim("Checkout-API is slow."),), True),
    About("names it in the evidence", (claim("It is slow.", "checkout-api timed out"),), True),
    About("names a pod of it", (claim("It is slow.", "pod checkout-api-6c8f7d9b54-2xk4q"),), True),
    About(
        "asked the tool for it",
        (claim("It is slow.", of="inv_asked"),),
        True,
        more=(invocation("inv_asked", asked={"service": "checkout-api"}),),
    ),
    About("names it beside another", (claim("DiskFillingUp and CheckoutLatencyHigh fire."),), True),
    About("names nothing", (claim("It is slow."),), False),
    About("has its label only inside another word", (claim("Users give feedback."),), False),
    About("has a label that names no thing", (claim("The shop is slow."),), False),
    About("names another alert of the group", (claim("DiskFillingUp matters."),), False, withhold=True),
    About("names an alert that a tool listed", (claim("KafkaLag matters."),), False, withhold=True, more=(LISTED,)),
    About("has another's name only inside a word", (claim("KafkaLagging matters."),), False, more=(LISTED,)),
    About("no claims", (), True),
]


@pytest.mark.parametrize("case", ABOUT, ids=lambda case: case.name)
def test_a_report_is_about_the_alert_that_came_in(case: About) -> None:
    found = judged("AR002_ABOUT_THE_ALERT", *case.claims, others=(OTHER,), more=case.more)
    assert (found.passed, found.withhold) == (case.passed, case.withhold)


@pytest.mark.parametrize(
    ("tools", "missing"),
    [
        ((LOG, BOOK), None),
        ((LOG,), "knowledge"),
        ((BOOK,), "telemetry"),
        ((), "telemetry, knowledge"),
        ((invocation("inv_time", SourceKind.OTHER, tool="get_current_time"),), "telemetry, knowledge"),
        ((invocation("a", status=EvidenceStatus.FAILED), BOOK), None),
        ((invocation("a", status=EvidenceStatus.TIMEOUT), BOOK), None),
        ((invocation("a", status=EvidenceStatus.NO_EVIDENCE), BOOK), None),
        ((invocation("a", status=EvidenceStatus.REJECTED), BOOK), "telemetry"),
    ],
)
def test_telemetry_and_knowledge_were_both_tried(tools: tuple[KeptInvocation, ...], missing: str | None) -> None:
    invocations = {kept.record.invocation_id: kept for kept in tools}
    found = next(f for f in evaluate(Subject(alert=ALERT), (), invocations) if f.code == "AR003_TOOLS_TRIED")
    assert found.passed is (missing is None)
    assert found.reason == (f"not tried: {missing}" if missing else "telemetry and knowledge were both tried")


MINE, STRAY = claim("checkout-api is slow."), claim("DiskFillingUp on postgres.")
MAIN = [
    ("all about it", (MINE, MINE), True),
    ("half about another", (MINE, STRAY), True),
    ("most about another", (MINE, STRAY, STRAY), False),
    ("another as seen from it", (claim("DiskFillingUp slows checkout-api."),) * 3, True),
    ("another only beside the point", (MINE, *[claim("DiskFillingUp.", critical=False)] * 5), True),
    ("nothing critical and all about another", (claim("DiskFillingUp.", critical=False),), False),
    ("about nobody", (claim("It is slow."),), True),
    ("no claims", (), True),
]


@pytest.mark.parametrize(("name", "claims", "passed"), MAIN, ids=[name for name, _, _ in MAIN])
def test_no_unrelated_alert_is_the_main_subject(name: str, claims: tuple[Claim, ...], passed: bool) -> None:
    assert judged("AR004_MAIN_SUBJECT", *claims, others=(OTHER,)).passed is passed


def test_an_alert_whose_name_begins_like_anothers_is_not_the_other() -> None:
    mine = AlertSubject(alertname="HighCPUThrottling")
    other = AlertSubject(alertname="HighCPU")
    assert judged("AR004_MAIN_SUBJECT", claim("HighCPUThrottling fires."), alert=mine, others=(other,)).passed


@pytest.mark.parametrize("output", [None, [], "alerts", {"alerts": "many"}, {"alerts": [1, None, {"labels": {}}]}])
def test_a_strange_list_of_alerts_names_none(output: Any) -> None:
    odd = invocation("inv_alerts", tool="query_alerts", output=output)
    assert not judged("AR002_ABOUT_THE_ALERT", claim("It is slow."), more=(odd,)).withhold
