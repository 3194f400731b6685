"""What may be said of a search that found nothing."""

import pytest

from gatekeeper.types import Claim, ClaimKind
from runs.harness.absence import only_negative, proves_absence, sayable, says_too_much, tells_empty
from tests.runs.harness.test_release import EMPTY, POOL, made

PROOFS = [
    "A deadlock is ruled out.",
    "This rules out a deadlock.",
    "We can rule the network out.",
    "We can rule the whole network out.",
    "Ruling out DNS, the pool remains.",
    "Network issues are without doubt ruled out.",
    "DNS was not only ruled out but forgotten.",
    "Confirmed none.",
    "It is confirmed that there are no errors.",
    "The logs confirm nothing was lost.",
    "This confirms the absence of errors.",
    "A leak is excluded.",
    "A leak has been excluded.",
    "A leak can be excluded.",
    "We can safely exclude a leak.",
    "This is proof of absence.",
    "This proves that there was no deadlock.",
    "There are definitely no errors.",
    "已排除死锁。",
    "排除了网络问题。",
    "可以排除内存泄漏。",
    "能够排除内存泄漏",
    "确认没有错误。",
    "确认无异常。",
    "确认不存在死锁。",
    "证明没有死锁。",
    "肯定没有丢失数据。",
    "确认并未发生重启。",
    "RULED  OUT: DNS",
    "The database is ruled-out.",
    "The database is rul\u00aded\u200b out.",
    "The network was ru\u034fled out.",
    "The database cannot be the cause.",
    "DNS can't have been the root cause.",
    "DNS could not be to blame.",
    "The pool was eliminated as a cause.",
    "We eliminated DNS as the culprit.",
    "A leak can be dismissed as an explanation.",
    "A leak can safely be dismissed.",
    "We verified there are no deadlocks.",
    "Verified that no deadlock exists.",
    "Verified: no deadlocks.",
    "Confirmed: no deadlocks.",
    "Confirmed, there were none.",
    "It is certain that no deadlock happened.",
    "The absence of deadlocks is established.",
    "验证了没有死锁。",
    "已核实不存在死锁。",
    "数据库不可能是原因。",
    "A deadlock is not the culprit.",
    "DNS isn't the root cause.",
    "The network was not to blame.",
    "The database is not involved.",
    "The outage was not due to the network.",
    "The outage was not caused by a deadlock.",
    "The network played no part in this.",
    "DNS had nothing to do with it.",
    "The outage is unrelated to the deploy.",
    "The deploy did not cause this.",
    "The deploy didn't contribute.",
    "死锁不是根因。",
    "数据库并非此次故障的原因。",
    "此次故障与网络无关。",
    "超时不是由死锁引起的。",
    "已排\u200b除死锁。",
    "ｒｕｌｅｄ　ｏｕｔ",
]

NO_PROOFS = [
    "A deadlock cannot be ruled out.",
    "A deadlock has not been ruled out.",
    "This does not rule out a deadlock.",
    "DNS was never fully ruled out.",
    "We cannot exclude a leak.",
    "A leak can not be excluded.",
    "We can not exclude a leak.",
    "This is not proof of absence.",
    "The search found nothing.",
    "No line of the log mentions a deadlock.",
    "The rule timed out.",
    "The pool is related to the database.",
    "The deploy caused this.",
    "It is not known what caused the outage.",
    "The primary is not reachable.",
    "死锁是根因。",
    "网络不可达。",
    "It was not verified that no lock is held.",
    "Verify that the disk is not full.",
    "It is not certain that no lock is held.",
    "The idle time was eliminated by pooling.",
    "Requests are eliminated as they time out.",
    "A leak cannot be dismissed.",
    "The pool can be the cause.",
    "The service cannot be reached because the pool is full.",
    "The cause could not be found.",
    "无法验证没有死锁。",
    "服务不可能恢复得这么快。",
    "An excluded path is listed in the config.",
    "尚未排除死锁。",
    "不能排除网络问题。",
    "无法排除网络问题。",
    "不排除内存泄漏。",
    "没有完全排除死锁。",
    "故障排除手册建议重启。",
    "查询没有找到结果。",
    "确认无误后重启。",
]


@pytest.mark.parametrize("text", PROOFS)
def test_wording_that_proves_absence(text: str) -> None:
    assert proves_absence(text, ())


@pytest.mark.parametrize("text", NO_PROOFS)
def test_wording_that_does_not(text: str) -> None:
    assert not proves_absence(text, ())


def test_words_of_a_log_may_be_repeated() -> None:
    quoted = made("c3", "The log says so.", "health check: disk failure ruled out by controller")
    assert not proves_absence("A disk failure was ruled out by the controller.", (quoted,))
    assert proves_absence("A disk failure was ruled out by the controller.", (EMPTY,))


SEARCHES = [
    "The search found no deadlock.",
    "query_logs returned nothing for deadlock.",
    "No line matched deadlock.",
    "The query for deadlocks gave no rows.",
    "No log line mentions a deadlock.",
    "No metric series was there in this window.",
    "查询没有找到死锁。",
    "日志中未发现死锁。",
    "搜索 deadlock 无结果。",
    "没有匹配的日志。",
]
STATES = [
    "No deadlock exists anywhere.",
    "There was no deadlock.",
    "Deadlocks did not occur.",
    "The database has no deadlock.",
    "没有死锁。",
    "不存在死锁。",
    "并未发生死锁。",
]
WELL = [
    "The query found nothing, so the database is healthy.",
    "No line matched: both services are fine.",
    "The search found nothing; the network works normally.",
    "The database is perf\u00adectly heal\u200bthy, as the search found.",
    "查询未发现错误，数据库正常。",
    "查询未发现错误，数据库没有问题。",
]
NOT_WELL = [
    "The query found nothing; this does not mean that the database is healthy.",
    "The search found no line that says whether the pool is fine.",
    "查询未发现错误，但不能说明数据库正常。",
]


@pytest.mark.parametrize("text", SEARCHES)
def test_what_a_search_gave_may_be_said(text: str) -> None:
    assert tells_empty(text)
    assert not says_too_much(text, (EMPTY,))


@pytest.mark.parametrize("text", STATES)
def test_how_things_are_may_not_be_said_of_an_empty_search(text: str) -> None:
    assert says_too_much(text, (EMPTY,))
    assert not says_too_much(text, (EMPTY, POOL))


@pytest.mark.parametrize("text", WELL)
def test_that_all_is_well_does_not_follow_from_empty_searches(text: str) -> None:
    assert proves_absence(text, (EMPTY,))
    assert not proves_absence(text, (EMPTY, POOL))
    assert not proves_absence(text, ())


@pytest.mark.parametrize("text", NOT_WELL)
def test_that_it_does_not_follow_may_be_said(text: str) -> None:
    assert not proves_absence(text, (EMPTY,))


def test_a_negative_claim_that_is_no_search_is_not_said() -> None:
    stated = made("n2", "No deadlock exists anywhere.", "found nothing", kind=ClaimKind.NEGATIVE_OBSERVATION)
    assert sayable((POOL, stated, EMPTY)) == (POOL, EMPTY)


def test_only_claims_that_prove_no_absence_may_be_said() -> None:
    proof = made("n2", "A deadlock is ruled out.", "found nothing", kind=ClaimKind.NEGATIVE_OBSERVATION)
    assert sayable((POOL, proof, EMPTY)) == (POOL, EMPTY)


@pytest.mark.parametrize(("claims", "only"), [((EMPTY,), True), ((EMPTY, POOL), False), ((POOL,), False)])
def test_a_report_of_empty_searches_is_known_as_one(claims: tuple[Claim, ...], only: bool) -> None:
    assert only_negative(claims) is only
