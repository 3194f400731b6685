"""Sentences that say something false with the very words of their claims, and true ones that go on."""

import pytest

from gatekeeper.types import Citation, Claim, ClaimKind
from runs.harness.fidelity import Ground, first_fault, quotes


def claim(id_: str, kind: ClaimKind, text: str, excerpt: str) -> Claim:
    return Claim(id_, kind, text, True, (Citation("inv_aaaaaa", "query_logs", "$.lines[0].text", excerpt),))


POOL = claim(
    "c1",
    ClaimKind.OBSERVATION,
    "HikariPool-1 had no connection for 30000 ms.",
    "10:42:17 ERROR HikariPool-1 - Connection is not available, request timed out after 30000ms",
)
RELEASE = claim(
    "c2",
    ClaimKind.OBSERVATION,
    "Release 4.14.2 of checkout-api was deployed at 09:51.",
    "09:51:02 INFO deployer checkout-api: deployed release 4.14.2, maximumPoolSize=10 (was 50)",
)
LOAD = claim(
    "c3",
    ClaimKind.OBSERVATION,
    "CPU of payments-db was 97% at 10:05.",
    "payments-db: cpu rose from 20% to 97% at 10:05",
)
CAUSED = claim(
    "c4",
    ClaimKind.OBSERVATION,
    "The crash of checkout-api was caused by OOMKilled.",
    "checkout-api crash caused by OOMKilled",
)
CHINESE = claim("z1", ClaimKind.OBSERVATION, "连接池 HikariPool-1 没有可用连接。", "连接池 HikariPool-1 没有可用连接")
EMPTY = claim(
    "n1",
    ClaimKind.NEGATIVE_OBSERVATION,
    "The search of query_logs for deadlock found nothing.",
    'query_logs for "deadlock" from 09:10 to 10:10 found no lines in 4 files',
)
ADVICE = claim(
    "g1",
    ClaimKind.GUIDANCE,
    "The runbook advises: roll back the release.",
    "roll back (`kubectl rollout undo deployment/NAME`), then restart",
)
SUPPOSED = claim(
    "g2",
    ClaimKind.GUIDANCE,
    "The runbook advises to restart payment-api when the queue is full.",
    "When the queue is full, restart payment-api",
)

FALSE = [
    (
        "a cause out of two facts",
        "Release 4.14.2 left HikariPool-1 without a connection.",
        (POOL, RELEASE),
        "JOINS_CLAIMS",
    ),
    ("a figure of another place", "CPU of checkout-api was 97% at 09:51.", (RELEASE, LOAD), "JOINS_CLAIMS"),
    ("a part of another whole", "HikariPool-1 of payments-db had no connection.", (POOL, LOAD), "JOINS_CLAIMS"),
    ("a change told backwards", "CPU of payments-db rose from 97% to 20%.", (LOAD,), "REORDERS"),
    ("a change told as two states", "CPU was 97% and is 20%.", (LOAD,), "REORDERS"),
    ("before and after exchanged", "maximumPoolSize=50 (was 10)", (RELEASE,), "REORDERS"),
    ("a cause that no claim names", "CPU of payments-db caused this.", (LOAD,), "NAMES_CAUSE"),
    ("a cause excluded", "Nothing was found, so deadlock is not responsible.", (EMPTY,), "JOINS_CLAIMS"),
    ("a cause in Chinese", "没有可用连接的原因。", (CHINESE,), "NAMES_CAUSE"),
    ("words of two claims", "The deployed release had no connection.", (POOL, RELEASE), "JOINS_CLAIMS"),
    ("words of two clauses", "The request is not available.", (POOL,), "JOINS_CLAIMS"),
    ("the old value as the new", "CPU rose to 20%.", (LOAD,), "REORDERS"),
    ("what advice only supposes", "The runbook advises. The queue is full.", (SUPPOSED,), "TELLS_AS_FACT"),
    ("a state out of an empty search", "The search found nothing: no deadlock exists.", (EMPTY,), "TELLS_AS_FACT"),
    ("a denial left out", "HikariPool-1 had an available connection.", (POOL,), "TURNS_MEANING"),
    ("a denial left out in Chinese", "连接池 HikariPool-1 有可用连接。", (CHINESE,), "TURNS_MEANING"),
    ("a denial put in", "Release 4.14.2 was not deployed.", (POOL, RELEASE), "TURNS_MEANING"),
    ("advice told as done", "The release was rolled back.", (ADVICE,), "TELLS_AS_FACT"),
    ("advice with a real time", "Release 4.14.2 was rolled back at 09:51.", (RELEASE, ADVICE), "JOINS_CLAIMS"),
    ("an empty search told as a find", "The search found deadlock.", (EMPTY,), "TELLS_AS_FACT"),
]

TRUE = [
    ("the claim itself", POOL.claim_text, (POOL,)),
    ("the excerpt's words", "A request timed out after 30000ms.", (POOL,)),
    ("one claim a sentence", "Release 4.14.2 was deployed. HikariPool-1 had no connection.", (POOL, RELEASE)),
    ("a change in its order", "CPU rose from 20% to 97%.", (LOAD,)),
    ("figures in another order, of no change", "After 30000ms HikariPool-1 timed out.", (POOL,)),
    ("a cause that a claim names", "OOMKilled caused the crash.", (CAUSED,)),
    ("a cause said to be unknown", "The cause is not known from HikariPool-1.", (POOL,)),
    ("advice told as advice", "The runbook advises to roll back the release.", (ADVICE,)),
    ("advice that goes on", "The runbook advises: roll back. Then restart.", (ADVICE,)),
    ("advice with its condition", "The runbook advises to restart payment-api when the queue is full.", (SUPPOSED,)),
    ("an empty search told as one", "The search for deadlock found nothing.", (EMPTY,)),
    ("a denial in other words", "HikariPool-1 was without a connection.", (POOL,)),
]


@pytest.mark.parametrize(("text", "claims", "code"), [case[1:] for case in FALSE], ids=[case[0] for case in FALSE])
def test_true_words_do_not_make_a_false_sentence(text: str, claims: tuple[Claim, ...], code: str) -> None:
    assert first_fault(text, Ground(claims, ("Why is checkout-api slow?",))) == code


def test_what_no_verifier_has_judged_stands_only_as_a_quotation() -> None:
    invented = claim(
        "c9", ClaimKind.OBSERVATION, "The network is healthy and most requests succeed.", "request timed out"
    )
    assert [quotes(each) for each in (POOL, CHINESE, invented)] == [True, True, False]


@pytest.mark.parametrize(("text", "claims"), [case[1:] for case in TRUE], ids=[case[0] for case in TRUE])
def test_a_true_sentence_may_be_said(text: str, claims: tuple[Claim, ...]) -> None:
    assert first_fault(text, Ground(claims, ("Why is checkout-api slow?",))) is None
