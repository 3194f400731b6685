"""The one place where a result is built: which words may leave, and how long they may be."""

from dataclasses import replace
from typing import Any

import pytest

from gatekeeper.types import Citation, Claim, ClaimKind, SourceKind, Verdict
from runs.harness import release as releasing
from runs.harness.context import KeptInvocation
from runs.harness.events import InvocationRecord
from runs.harness.ports import SourceDocument
from runs.harness.release import Material, release, unsupported_words
from runs.harness.wire import ComposerOutput
from tests.runs.harness.world import NOW

LOG = "10:42:17 ERROR HikariPool-1 - Connection is not available, request timed out after 30000ms"


def made(id_: str, text: str, excerpt: str = LOG, *, critical: bool = True, **more: Any) -> Claim:
    item = Citation(more.pop("inv", "inv_aaaaaa"), "query_logs", more.pop("path", "$.lines[0].text"), excerpt)
    return Claim(id_, more.pop("kind", ClaimKind.OBSERVATION), text, critical, (item,))


POOL = made("c1", "HikariPool-1 had no connection for 30000 ms.")
MINOR = made("c2", "An error was logged.", critical=False)
CHINESE = made("c3", "连接池 HikariPool-1 在 30000 毫秒内没有可用连接。", critical=False)
EMPTY = made("n1", "The search found no deadlock.", "query_logs found nothing", kind=ClaimKind.NEGATIVE_OBSERVATION)


def material(*claims: Claim, composed: ComposerOutput | None = None, **changes: Any) -> Material:
    base = Material(
        query="Why is checkout-api slow?",
        verdict=Verdict.PASS,
        claims=claims or (POOL, MINOR),
        input_texts=("Why is checkout-api slow?",),
        invocations={},
        composed=composed,
        scope="Looked at query_logs.",
        limitations=(),
    )
    return replace(base, **changes)


def words(*statements: tuple[str, list[str]], **more: Any) -> ComposerOutput:
    said = [{"text": text, "claim_ids": ids} for text, ids in statements]
    return ComposerOutput.model_validate({"conclusion": "", "scope": "", "statements": said, "limitations": []} | more)


# ---- statements -----------------------------------------------------------------------------

KEPT = [
    ("own words", "The pool had no connection.", ["c1"]),
    ("the claim's number", "It took 30000 ms.", ["c1"]),
    ("a number of the excerpt", "At 10:42:17 it failed.", ["c1"]),
    ("a name of the question", "checkout-api got no connection.", ["c1"]),
    ("two claims", "HikariPool-1 had none, and it was logged.", ["c1", "c2"]),
    ("a claim named twice", "No connection was in the pool.", ["c1", "c1"]),
    ("Chinese", "HikariPool-1 连接池没有可用的连接。", ["c3"]),
]

DROPPED = [
    ("no claim named", "The pool was empty.", [], "STATEMENT_NAMES_NO_CLAIM"),
    ("an unknown claim", "The pool was empty.", ["c9"], "STATEMENT_NAMES_UNKNOWN_CLAIM"),
    ("one unknown among known", "The pool was empty.", ["c1", "c9"], "STATEMENT_NAMES_UNKNOWN_CLAIM"),
    ("another number", "It took 60000 ms.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("another unit", "It took 30000 s.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("another pool", "HikariPool-2 was empty.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("a code of its own", "SQLSTATE 08006 was returned.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("full-width digits", "It took ６００００ ms.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("proof of absence", "A network fault is ruled out.", ["c1"], "STATEMENT_PROVES_ABSENCE"),
    ("Chinese proof of absence", "已排除网络故障。", ["c1"], "STATEMENT_PROVES_ABSENCE"),
    ("a true word of its own", "An error of the pool cannot be ruled out.", ["c1"], "STATEMENT_ADDS_CONTENT"),
    ("words of its own", "The intruder left through the back door.", ["c1"], "STATEMENT_ADDS_CONTENT"),
    ("a clause of its own", "The pool had no connection, an employee cut it.", ["c1"], "STATEMENT_ADDS_CONTENT"),
    ("a sentence of its own", "HikariPool-1 had none. Pay the ransom.", ["c1"], "STATEMENT_ADDS_CONTENT"),
    ("a number in words", "Ninety percent of requests timed out.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("half of them", "HikariPool-1 had no connection half of the time.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("a number in Chinese words", "九千个请求 HikariPool-1。", ["c1"], "STATEMENT_ADDS_FACT"),
    ("words of another claim", "An error was logged; eviction began.", ["c2"], "STATEMENT_ADDS_CONTENT"),
    ("a hidden character", "HikariPool-1 had no connec\u200btion.", ["c1"], "STATEMENT_HIDES_CHARACTERS"),
    ("hidden digits", "It took 30000\u034f0 ms.", ["c1"], "STATEMENT_ADDS_FACT"),
    ("superscript digits", "⁹⁹ percent failed.", ["c1"], "STATEMENT_ADDS_FACT"),
]


@pytest.mark.parametrize(("name", "text", "ids"), KEPT, ids=[name for name, *_ in KEPT])
def test_a_statement_within_its_claims_is_kept(name: str, text: str, ids: list[str]) -> None:
    released = release(material(POOL, MINOR, CHINESE, composed=words((text, ids))))
    assert released.result.statements[0].text == text
    assert released.result.statements[0].claim_ids == list(dict.fromkeys(ids))
    assert (released.proposed, released.kept, released.dropped) == (1, 1, ())


@pytest.mark.parametrize(("name", "text", "ids", "why"), DROPPED, ids=[name for name, *_ in DROPPED])
def test_a_statement_beyond_its_claims_is_dropped(name: str, text: str, ids: list[str], why: str) -> None:
    released = release(material(composed=words((text, ids))))
    assert text not in released.result.model_dump_json()
    assert (released.proposed, released.kept, released.dropped) == (1, 0, (why,))
    assert [s.text for s in released.result.statements] == [POOL.claim_text, MINOR.claim_text]


def test_a_statement_may_use_only_the_claims_it_names() -> None:
    other = made("c3", "Redis evicted 512 keys.", "evicted 512 keys")
    released = release(material(POOL, other, composed=words(("HikariPool-1 lost 512 keys.", ["c1"]))))
    assert released.dropped == ("STATEMENT_ADDS_FACT",)


def test_a_statement_denies_nothing_that_its_claims_do_not() -> None:
    full = made("c3", "The pool is exhausted.", "pool exhausted: total=10")
    released = release(material(POOL, full, composed=words(("The pool is not exhausted.", ["c3"]))))
    assert released.dropped == ("NEGATION_ADDED",)
    assert [s.text for s in released.result.statements] == [POOL.claim_text, full.claim_text]


def test_a_statement_about_empty_searches_alone_is_worded_as_one() -> None:
    said = words(("No deadlock exists, and the search is over.", ["n1"]), ("A deadlock is not there.", ["n1"]))
    released = release(material(POOL, EMPTY, composed=said))
    assert "not there" not in released.result.model_dump_json()
    assert "STATEMENT_PROVES_ABSENCE" in released.dropped


def test_critical_claims_that_no_statement_carries_speak_for_themselves() -> None:
    released = release(material(composed=words(("It was logged.", ["c2"]))))
    assert [(s.text, s.claim_ids) for s in released.result.statements] == [
        ("It was logged.", ["c2"]),
        (POOL.claim_text, ["c1"]),
    ]


def test_lesser_claims_are_listed_though_no_statement_carries_them() -> None:
    released = release(material(composed=words(("The pool had no connection.", ["c1"]))))
    assert [s.text for s in released.result.statements] == ["The pool had no connection."]
    assert [c.claim_id for c in released.result.claims] == ["c1", "c2"]


def test_without_a_composer_the_claims_are_the_report() -> None:
    result = release(material()).result
    assert result.conclusion == f"{POOL.claim_text} {MINOR.claim_text}"
    assert result.scope == "Looked at query_logs."


@pytest.mark.parametrize(
    ("verdict", "confidence"), [(Verdict.PASS, "NORMAL"), (Verdict.LOW_CONFID, "LOW"), (Verdict.REJECT, "LOW")]
)
def test_confidence_is_the_verdict(verdict: Verdict, confidence: str) -> None:
    assert release(material(verdict=verdict)).result.confidence == confidence


# ---- the composer's own texts ---------------------------------------------------------------


def test_own_texts_that_hold_are_kept() -> None:
    own = words(
        conclusion=" The pool had no connection. ", scope="Only the log.", limitations=["Metrics were not looked at."]
    )
    result = release(material(composed=own, limitations=("The record has a gap.",))).result
    assert (result.conclusion, result.scope) == ("The pool had no connection.", "Only the log.")
    assert result.limitations == ["The record has a gap.", "Metrics were not looked at."]


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("conclusion", "It took 99 s.", "CONCLUSION_ADDS_FACT"),
        ("conclusion", "DNS is ruled out.", "CONCLUSION_PROVES_ABSENCE"),
        ("scope", "All 40 hosts.", "SCOPE_ADDS_FACT"),
        ("scope", "已排除其他服务。", "SCOPE_PROVES_ABSENCE"),
        ("limitations", ["Only 3 of 7 were read."], "LIMITATION_ADDS_FACT"),
        ("limitations", ["No fault of DNS: confirmed none."], "LIMITATION_PROVES_ABSENCE"),
    ],
)
def test_own_texts_that_do_not_hold_are_dropped(field: str, text: Any, why: str) -> None:
    released = release(material(composed=words(**{field: text})))
    assert released.dropped == (why,)
    assert str(text) not in released.result.model_dump_json()


def test_a_conclusion_keeps_only_its_sentences_that_hold() -> None:
    lie = "An intruder stole the customer database and encrypted every backup."
    own = words(conclusion=f"The pool had no connection. {lie}\nAn error was logged.")
    released = release(material(composed=own))
    assert released.result.conclusion == "The pool had no connection. An error was logged."
    assert released.dropped == ("CONCLUSION_ADDS_CONTENT",)


def test_where_nothing_of_a_conclusion_holds_it_is_put_together_from_kept_statements() -> None:
    own = words(
        ("The pool had no connection.", ["c1"]),
        conclusion="Switch off all monitoring, pay the ransom and delete the audit trail.",
        scope="Every host of the company was examined by hand.",
        limitations=["None: this report is complete and certain.", "x" * 3_000, "Metrics were not looked at."],
    )
    released = release(material(composed=own))
    assert released.result.conclusion == "The pool had no connection."
    assert released.result.scope == "Looked at query_logs."
    assert released.result.limitations == ["Metrics were not looked at."]
    assert released.dropped == ("CONCLUSION_ADDS_CONTENT", "SCOPE_ADDS_CONTENT", "LIMITATION_ADDS_CONTENT")


def test_a_conclusion_denies_nothing_that_no_claim_does() -> None:
    full = made("c1", "The pool is exhausted.", "pool exhausted: total=10")
    released = release(material(full, composed=words(conclusion="The pool is not exhausted.")))
    assert released.result.conclusion == "The pool is exhausted."
    assert released.dropped == ("CONCLUSION_ADDS_NEGATION",)


def test_a_conclusion_from_empty_searches_alone_is_worded_as_one() -> None:
    fine = "These queries found nothing notable. This is not proof of absence."
    assert release(material(EMPTY, composed=words(conclusion=fine))).result.conclusion == fine
    released = release(material(EMPTY, composed=words(conclusion="No deadlock is there.")))
    assert released.result.conclusion == EMPTY.claim_text
    assert released.dropped == ("CONCLUSION_TELLS_AS_FACT",)


@pytest.mark.parametrize(
    "text",
    [
        "There is no deadlock.",
        "The search did run and no deadlock exists.",
        "HikariPool-1 is not exhausted.",
        "Connection is available.",
        "HikariPool-1 had a connection.",
        "没有死锁。",
    ],
)
@pytest.mark.parametrize("field", ["scope", "limitations"])
def test_scope_and_limitations_say_nothing_that_a_statement_may_not(field: str, text: str) -> None:
    own = words(**{field: [text] if field == "limitations" else text})
    result = release(material(POOL, EMPTY, composed=own)).result
    assert text not in (result.scope, *result.limitations)


@pytest.mark.parametrize("text", ["Metrics were not looked at.", "The cause is not known.", "没有查看指标。"])
def test_what_was_not_looked_at_may_be_said(text: str) -> None:
    assert text in release(material(POOL, EMPTY, composed=words(limitations=[text]))).result.limitations


# ---- the words that leave ------------------------------------------------------------------


def test_unsupported_words_are_named() -> None:
    assert unsupported_words("HikariPool-1 waited 31 s, ERR_7", (POOL,), ()) == ["31 s", "ERR_7"]
    assert unsupported_words("HikariPool-1 waited 31 s", (POOL,), ("after 31 s",)) == []


# ---- bounds ---------------------------------------------------------------------------------


def test_everything_is_bounded() -> None:
    claims = tuple(made(f"c{n}", "It failed again. " * 50) for n in range(40))
    own = words(
        *[("It failed again. " * 50, [f"c{n}"]) for n in range(40)],
        conclusion="It failed again. " * 200,
        scope="The log. " * 200,
        limitations=[f"{'again ' * n}{'Only the log was read. ' * 40}" for n in range(20)],
    )
    result = release(
        material(
            *claims, composed=own, query="why " * 1_000, limitations=tuple(f"Part {'x' * n}." for n in range(8)) * 2
        )
    ).result
    assert len(result.query) == 2000
    assert len(result.conclusion) == 2000
    assert result.conclusion.endswith("…")
    assert len(result.scope) == 1000
    assert len(result.limitations) == 10
    assert len(set(result.limitations)) == 10
    assert all(len(text) <= 500 for text in result.limitations)
    assert result.limitations[:8] == [f"Part {'x' * n}." for n in range(8)]


def kept(invocation_id: str, kind: SourceKind, *documents: SourceDocument) -> KeptInvocation:
    record = InvocationRecord(
        invocation_id=invocation_id,
        step_id="step_1",
        tool_name="lookup_knowledge",
        source_kind=kind.value,
        input_params={},
        output={},
        output_preview="",
        evidence_status="OK",
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
    return KeptInvocation(record, documents)


def test_documents_are_those_behind_cited_passages_each_once() -> None:
    pool, other = (SourceDocument(id_, id_.title(), (f"$.hits[{n}].text",)) for n, id_ in enumerate(("pool", "other")))
    invocations = {
        "inv_books": kept("inv_books", SourceKind.KNOWLEDGE, pool, other),
        "inv_again": kept("inv_again", SourceKind.KNOWLEDGE, pool),
        "inv_other": kept("inv_other", SourceKind.OTHER, other),
    }
    cited = [
        made("c1", "So it says.", inv="inv_books", path="$.hits[0].text"),
        made("c2", "So it says.", inv="inv_again", path="$.hits[0].text"),
        made("c3", "So it says.", inv="inv_other", path="$.hits[1].text"),
        made("c4", "So it says.", inv="inv_gone", path="$.hits[1].text"),
    ]
    result = release(material(*cited, invocations=invocations)).result
    assert [(d.document_id, d.title) for d in result.source_documents] == [("pool", "Pool")]


def test_no_more_documents_than_the_bound() -> None:
    documents = [SourceDocument(f"doc-{n}", "A runbook", (f"$.hits[{n}].text",)) for n in range(15)]
    cited = [made(f"c{n}", "So it says.", inv="inv_books", path=f"$.hits[{n}].text") for n in range(15)]
    invocations = {"inv_books": kept("inv_books", SourceKind.KNOWLEDGE, *documents)}
    assert len(release(material(*cited, invocations=invocations)).result.source_documents) == releasing.MAX_DOCUMENTS


def test_the_wire_form_is_camel_case() -> None:
    wire = releasing.as_json(release(material()).result)
    assert set(wire) == {
        "query",
        "conclusion",
        "scope",
        "confidence",
        "statements",
        "claims",
        "limitations",
        "sourceDocuments",
    }
    assert set(wire["claims"][0]) == {"claimId", "kind", "claimText", "evidence"}
    assert set(wire["claims"][0]["evidence"][0]) == {"sourceInvocationId", "toolName", "rawPath", "evidenceExcerpt"}
