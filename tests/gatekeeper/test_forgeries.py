"""No forgery of a quotation is accepted; no harmless variant of one is refused.

Evidence is generated; a forger changes a true quotation of it, a printer changes only how it looks. Whether a
forged text happens to stand in the evidence after all is decided by plain containment, not by the gate's own code.
Counts stand at the end of a test run.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gatekeeper.gate import judge
from gatekeeper.rules import MIN_EXCERPT_CHARS
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import ANSWER_VERSION, Case, Citation, Claim, ClaimKind, Draft, EvidenceRef
from tests.gatekeeper.cases import invocation

RULES = shipped_rule_set()
BOUNDED = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
COUNTS: Counter[str] = Counter()

WORDS = "connection refused by upstream pool is exhausted slow query took retry café Größe naïve 连接 超时 失败".split()
word = st.sampled_from(WORDS)
number = st.integers(0, 99_999).map(str) | st.builds("{}ms".format, st.integers(1, 60_000))
identifier = st.builds("HikariPool-{}".format, st.integers(1, 30)) | st.builds("ERR_{}".format, st.integers(100, 999))
token = word | number | identifier
# At least 12 tokens with one number and one id among them; single spaces, NFC: plain to compare with.
evidence = st.builds(
    lambda head, figure, name, tail: [*head, figure, name, *tail],
    st.lists(token, min_size=6, max_size=20),
    number,
    identifier,
    st.lists(token, min_size=4, max_size=20),
)


@pytest.fixture(autouse=True)
def _tell_counts(tell_at_the_end: Callable[[str], None]) -> Iterator[None]:
    """Of one test: it counts under one name, and what it counts has held."""
    before = COUNTS.copy()
    yield
    for name, count in (COUNTS - before).items():
        tell_at_the_end(f"generated evidence, {name}: {count} judged as they should be")


def accepted(text: str, excerpt: str, claim_text: str = "The excerpt says so.", cited: str = "inv_here") -> bool:
    """Whether a claim that quotes `excerpt` of `text` (call inv_here; inv_there holds another text) is accepted."""
    claim = Claim("c1", ClaimKind.OBSERVATION, claim_text, True, (Citation(cited, "query_logs", "$.t", excerpt),))
    calls = [
        invocation("inv_here", EvidenceRef("$.t", text)),
        invocation("inv_there", EvidenceRef("$.t", "an altogether different line of text")),
    ]
    return bool(judge(Case(Draft(ANSWER_VERSION, (claim,)), {c.invocation_id: c for c in calls}), RULES).accepted)


@st.composite
def quotation(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text and a run of its tokens: those in the middle, with the sure number and id, and some around them."""
    tokens = draw(evidence)
    figure = next(at for at in range(6, len(tokens)) if any(char.isdigit() for char in tokens[at]))
    start, end = draw(st.integers(0, 6)), draw(st.integers(min(figure + 2, len(tokens)), len(tokens)))
    # Shorter ones are refused for that alone.
    assume(sum(map(len, tokens[start:end])) >= MIN_EXCERPT_CHARS)
    return " ".join(tokens), tokens[start:end]


@BOUNDED
@given(quotation())
def test_a_true_quotation_is_accepted(quoted: tuple[str, list[str]]) -> None:
    text, span = quoted
    COUNTS["true quotations"] += 1
    assert accepted(text, " ".join(span))


@BOUNDED
@given(quotation(), st.data())
def test_a_changed_digit_is_refused(quoted: tuple[str, list[str]], data: st.DataObject) -> None:
    text, span = quoted
    excerpt = " ".join(span)
    at = data.draw(st.sampled_from([at for at, char in enumerate(excerpt) if char in "0123456789"]))
    other = data.draw(st.sampled_from("0123456789").filter(lambda digit: digit != excerpt[at]))
    forged = excerpt[:at] + other + excerpt[at + 1 :]
    assume(forged not in text)
    COUNTS["changed digits"] += 1
    assert not accepted(text, forged)


@BOUNDED
@given(quotation(), st.data())
def test_an_added_word_is_refused(quoted: tuple[str, list[str]], data: st.DataObject) -> None:
    text, span = quoted
    at = data.draw(st.integers(1, len(span) - 1))
    forged = " ".join([*span[:at], data.draw(st.sampled_from(["not", "never", "不"])), *span[at:]])
    COUNTS["added words"] += 1
    assert not accepted(text, forged)


@BOUNDED
@given(quotation(), st.data())
def test_two_spans_put_together_are_refused(quoted: tuple[str, list[str]], data: st.DataObject) -> None:
    text, span = quoted
    assume(len(span) >= 3)
    left = data.draw(st.integers(1, len(span) - 2))
    right = data.draw(st.integers(left + 1, len(span) - 1))
    joint = data.draw(st.sampled_from([" ", "", " … ", "...", " ... ", " [...] "]))
    forged = " ".join(span[:left]) + joint + " ".join(span[right:])
    assume(forged not in text)
    COUNTS["spliced spans"] += 1
    assert not accepted(text, forged)


@BOUNDED
@given(quotation(), st.sampled_from(["inv_there", "inv_other_run", "INV_HERE", "inv_here ", ""]))
def test_a_text_of_another_call_or_run_is_refused(quoted: tuple[str, list[str]], cited: str) -> None:
    text, span = quoted
    COUNTS["texts of other calls"] += 1
    assert not accepted(text, " ".join(span), cited=cited)


@BOUNDED
@given(quotation(), identifier | number.map(lambda figure: f"the figure {figure}"))
def test_a_name_or_figure_from_nowhere_is_refused(quoted: tuple[str, list[str]], named: str) -> None:
    text, span = quoted
    assume(named.split()[-1].removesuffix("ms") not in {token.removesuffix("ms") for token in span})
    COUNTS["names and figures from nowhere"] += 1
    assert not accepted(text, " ".join(span), claim_text=f"It was {named} that failed.")


@BOUNDED
@given(quotation())
def test_names_and_figures_of_the_quotation_are_accepted(quoted: tuple[str, list[str]]) -> None:
    text, span = quoted
    figures = [token for token in span if any(char.isdigit() for char in token)]
    COUNTS["names and figures of the quotation"] += 1
    assert accepted(text, " ".join(span), claim_text=f"It was {' and '.join(figures)}.")


@BOUNDED
@given(quotation(), st.data())
def test_how_a_quotation_looks_does_not_count(quoted: tuple[str, list[str]], data: st.DataObject) -> None:
    text, span = quoted

    def printed(plain: str) -> str:
        """The same text, coloured, indented, widened or decomposed."""
        looks = data.draw(st.sets(st.sampled_from(["indented", "wide", "decomposed", "coloured"])))
        if "wide" in looks:
            chosen = set(data.draw(st.text("acemnops0123456789_-", max_size=6)))
            plain = "".join(chr(ord(char) + 0xFEE0) if char in chosen else char for char in plain)
        if "decomposed" in looks:
            plain = unicodedata.normalize("NFD", plain)
        if "indented" in looks:
            space = data.draw(st.text(" \t\r\n\u00a0\u3000", min_size=1, max_size=4))
            plain = space + plain.replace(" ", space) + space
        if "coloured" in looks:
            at = data.draw(st.integers(0, len(plain)))
            # A colour code between a letter and its accent would part them: terminals do not do that.
            while at < len(plain) and unicodedata.combining(plain[at]):
                at += 1
            plain = f"\x1b[1;31m{plain[:at]}\x1b[0m{plain[at:]}"
        return plain

    COUNTS["harmless variants"] += 1
    assert accepted(printed(text), printed(" ".join(span)))


@BOUNDED
@given(quotation(), st.data())
def test_a_figure_that_the_quotation_cuts_short_supports_no_claim(
    quoted: tuple[str, list[str]], data: st.DataObject
) -> None:
    _, span = quoted
    long = data.draw(st.integers(10_000, 99_999).map(str))
    cut = data.draw(st.integers(1, 4))
    excerpt = " ".join(span) + " " + long[:cut]
    assume(long[:cut] not in {token.removesuffix("ms") for token in span})
    COUNTS["figures cut short"] += 1
    whole = f"{' '.join(span)} {long} and so on"
    assert accepted(whole, excerpt)
    assert not accepted(whole, excerpt, claim_text=f"It took {long[:cut]} s.")
    assert not accepted(whole, excerpt, claim_text=f"It took {long[:cut]}.")
