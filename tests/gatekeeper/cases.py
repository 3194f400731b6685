"""A small run to judge drafts against, and short ways to write claims about it."""

from dataclasses import replace

from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import (
    ANSWER_VERSION,
    NO_EVIDENCE_PATH,
    Case,
    Citation,
    Claim,
    ClaimKind,
    Draft,
    EvidenceRef,
    EvidenceStatus,
    Invocation,
    Relevance,
    RuleMode,
    RuleSet,
    SourceKind,
)

LINE = "10:42:17 ERROR HikariPool-1 - Connection is not available, request timed out after 30000ms"
OTHER_LINE = "10:42:18 WARN order-service has 1,024 waiting threads"
ADVICE = "When the pool is exhausted, look for transactions that stay open."
REFERENCE_ONLY = "Connection pools are described in the platform handbook."
NOTHING = "query_logs for 'deadlock' from 10:30 to 10:45 scanned 2 files and found nothing"


def invocation(
    invocation_id: str,
    *refs: EvidenceRef,
    tool: str = "query_logs",
    status: EvidenceStatus = EvidenceStatus.OK,
    source: SourceKind = SourceKind.TELEMETRY,
) -> Invocation:
    return Invocation(invocation_id, tool, status, source, {ref.raw_path: ref for ref in refs})


def run_of_the_tests() -> dict[str, Invocation]:
    failed = EvidenceRef("$.error", "no answer within the time allowed")
    nothing = EvidenceRef(NO_EVIDENCE_PATH, NOTHING)
    calls = [
        invocation(
            "inv_logs",
            EvidenceRef("$.lines[0].text", LINE),
            EvidenceRef("$.lines[1].text", OTHER_LINE),
            EvidenceRef("$.lines[2].text", "cut from what the model saw", shown=False),
            EvidenceRef("$.level", "ERROR"),
        ),
        invocation(
            "inv_book",
            EvidenceRef("$.hits[0].text", ADVICE, relevance=Relevance.PRECISE),
            EvidenceRef("$.hits[1].text", REFERENCE_ONLY, relevance=Relevance.REFERENCE),
            tool="lookup_knowledge",
            source=SourceKind.KNOWLEDGE,
        ),
        invocation("inv_none", nothing, status=EvidenceStatus.NO_EVIDENCE),
        invocation("inv_again", nothing, status=EvidenceStatus.DEDUPLICATED),
        invocation("inv_seen", EvidenceRef("$.lines[0].text", LINE), status=EvidenceStatus.DEDUPLICATED),
        invocation("inv_twice", EvidenceRef("$.t", "request took 15000 ms, then request took 15 s")),
        invocation("inv_odd", nothing, status=EvidenceStatus.OK),
        invocation("inv_failed", failed, status=EvidenceStatus.FAILED),
        invocation("inv_timeout", failed, status=EvidenceStatus.TIMEOUT),
        invocation("inv_refused", failed, status=EvidenceStatus.REJECTED),
        invocation("inv_clock", EvidenceRef("$.now", "it is 10:45 now"), tool="clock", source=SourceKind.OTHER),
    ]
    return {call.invocation_id: call for call in calls}


def cite(
    invocation_id: str = "inv_logs",
    path: str = "$.lines[0].text",
    excerpt: str = "request timed out after 30000ms",
    tool: str = "query_logs",
) -> Citation:
    return Citation(invocation_id, tool, path, excerpt)


def advice(path: str = "$.hits[0].text", excerpt: str = "look for transactions that stay open") -> Citation:
    return cite("inv_book", path, excerpt, "lookup_knowledge")


def nothing(invocation_id: str = "inv_none") -> Citation:
    return cite(invocation_id, NO_EVIDENCE_PATH, "scanned 2 files and found nothing")


def claim(
    *evidence: Citation,
    text: str = "Requests time out.",
    kind: ClaimKind = ClaimKind.OBSERVATION,
    claim_id: str = "c1",
) -> Claim:
    return Claim(claim_id, kind, text, False, evidence)


def case_of(*claims: Claim, version: str | None = ANSWER_VERSION, inputs: tuple[str, ...] = ()) -> Case:
    return Case(Draft(version, claims), run_of_the_tests(), inputs)


def rule_set(**modes: RuleMode) -> RuleSet:
    """The shipped set, with some modes changed: `rule_set(GK005=RuleMode.SHADOW)`."""
    shipped = shipped_rule_set()
    rules = tuple(replace(rule, mode=modes.get(rule.code[:5], rule.mode)) for rule in shipped.rules)
    return replace(shipped, rules=rules)
