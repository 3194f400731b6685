"""Nobody gets a forged quotation of the bundled incidents' evidence past the gate; a true one passes however it looks.

Every quotation goes through every forger and every printer of `forging.py`, with seeded dice. The counts stand at the
end of a test run.
"""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.gatekeeper.forging import FORGERS, PRINTERS, REFUSED_BY, Printer
from tests.gatekeeper.incident_quotations import SLUGS, Quotation, incident_run, quotations

TRIES = 2
"""Forgeries of one kind made of one quotation."""
LEAST_ACCEPTED = 0.995
Tell = Callable[[str], None]


def test_there_is_much_to_forge() -> None:
    """Real evidence of ten incidents in two languages, and each quotation holds as it is."""
    made = quotations()
    assert len(SLUGS) >= 10
    assert len(made) >= 1_000
    assert {each.citation.tool_name for each in made} >= {"query_logs", "query_metrics", "lookup_knowledge"}
    assert sum(re.search(r"[\u4e00-\u9fff]", each.excerpt) is not None for each in made) >= 50
    assert all(incident_run(slug).claims for slug in SLUGS)
    assert [each for each in made if not each.run.accepts(each.claim)] == []


@pytest.mark.parametrize("name", FORGERS)
def test_no_forgery_is_accepted(name: str, tell_at_the_end: Tell) -> None:
    forger, dice = FORGERS[name], random.Random(name)
    forged = [
        (quotation, claim)
        for quotation in quotations()
        for _ in range(TRIES)
        if (claim := forger(quotation, dice)) is not None
    ]
    judged = [quotation.run.judged(claim) for quotation, claim in forged]
    accepted = [result.claim for result in judged if result.accepted]
    tell_at_the_end(f"forged from the incidents, {name.replace('_', ' ')}: {len(forged)}, accepted {len(accepted)}")
    assert accepted == []
    assert [result.claim for result in judged if not REFUSED_BY[forger] & set(result.failed_codes)] == []
    assert len(forged) >= 50, "this forger had next to nothing to work on"


def in_the_excerpt(quotation: Quotation, printer: Printer, dice: random.Random) -> bool:
    return quotation.run.accepts(quotation.citing(evidence_excerpt=printer(quotation.excerpt, dice)))


def in_the_evidence(quotation: Quotation, printer: Printer, dice: random.Random) -> bool:
    cited = quotation.citation
    call = quotation.run.invocations[cited.source_invocation_id]
    ref = call.refs[cited.raw_path]
    printed = replace(call, refs={**call.refs, cited.raw_path: replace(ref, text=printer(ref.text, dice))})
    run = replace(quotation.run, invocations={**quotation.run.invocations, call.invocation_id: printed})
    return run.accepts(quotation.claim)


def in_the_claim(quotation: Quotation, printer: Printer, dice: random.Random) -> bool:
    return quotation.run.accepts(quotation.saying(printer(quotation.claim.claim_text, dice)))


@pytest.mark.parametrize("where", [in_the_excerpt, in_the_evidence, in_the_claim], ids=lambda where: where.__name__)
@pytest.mark.parametrize("name", PRINTERS)
def test_how_a_true_quotation_looks_does_not_count(
    name: str, where: Callable[[Quotation, Printer, random.Random], bool], tell_at_the_end: Tell
) -> None:
    dice = random.Random(name)
    made = quotations()
    refused = [each for each in made if not where(each, PRINTERS[name], dice)]
    kept = len(made) - len(refused)
    place = where.__name__.replace("_", " ")
    tell_at_the_end(f"harmless variants of the incidents, {name} {place}: {len(made)}, accepted {kept}")
    assert kept / len(made) >= LEAST_ACCEPTED, refused[:3]
