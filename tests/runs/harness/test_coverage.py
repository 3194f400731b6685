"""Which sentences are made of their sources' words: honest paraphrases, but no inventions about the same service."""

import pytest

from runs.harness.coverage import Vocabulary, coverage, holds, only_frames, sentences, stem
from runs.llm.offline.composer import CHINESE, ENGLISH, Phrases

ENGLISH_TEXTS = (
    "checkout-api got no connection from HikariPool-1 within 30000 ms.",
    "10:42:17 ERROR checkout-api HikariPool-1 - Connection is not available, request timed out after 30000ms "
    "(total=10, active=10, idle=0, waiting=41)",
    "The deployment of 10:38 lowered the maximum pool size from 50 to 10.",
    "10:38:02 INFO rollout of checkout-api: MAXIMUM_POOL_SIZE 50 -> 10, connected to database orders",
    "The runbook advises to roll back the change of the pool size and to look for slow transactions.",
    "Alert CheckoutErrors on checkout-api: payments fail",
)
CHINESE_TEXTS = (
    "订单服务获取数据库连接失败，等待 30000 毫秒后超时。",
    "ERROR [order-api] 获取数据库连接失败：等待 30000 毫秒后超时，活动连接 10，空闲连接 0，排队请求 57",
    "10:38 的发布把连接池的最大连接数从 50 降到 10。",
    "运行手册建议回滚连接池配置，并检查长时间占用连接的事务。",
)
HONEST = [
    "checkout-api could not get a connection from the pool within 30000 ms.",
    "Requests of checkout-api time out while they wait for a connection.",
    "The evidence points to HikariPool-1: all 10 connections were active and 41 requests waited.",
    "Before that, a deployment lowered the pool's maximum size.",
    "The pool size was lowered from 50 to 10 by the rollout at 10:38.",
    "The runbook advises rolling back the change.",
    "Connections to the database were not available.",
    "Payments are failing.",
    "At 10:42:17 it failed.",
    "Slow transactions may hold connections.",
    "Metrics were not looked at.",
]
# True, and lost: the claims' own words stand in.
LOST = [
    "Errors began after the rollout: requests timed out.",
    "The pool shrank to 10.",
]
INVENTED = [
    "An intruder stole the customer database and encrypted every backup.",
    "Switch off all monitoring, pay the ransom and delete the audit trail.",
    "checkout-api is down because an employee sabotaged the switch.",
    "The pool had no connection available and requests timed out, customers lost money.",
    "Every host of the company was examined by hand.",
    "This report is complete and certain.",
    "The intruder left through the back door.",
    "Delete all backups at once; this is what the runbook advises.",
    "The connection pool is perfectly healthy and deadlocks vanished.",
    "A disk of the replica broke.",
    "x" * 3_000,
]
HONEST_CHINESE = [
    "订单服务获取数据库连接失败：等待 30000 毫秒后超时。",
    "获取数据库连接超时，有 57 个请求排队。",
    "证据指向连接池：空闲连接为 0。",
    "在此之前的发布把最大连接数降到了 10。",
    "运行手册建议回滚配置并检查事务。",
    "没有查看指标。",
]
INVENTED_CHINESE = [
    "入侵者窃取了客户资料并加密了所有备份。",
    "请立即关闭所有监控并支付赎金。",
    "百分之九十九的请求失败。",
    "获取数据库连接失败，因为一名员工拔掉了交换机。",
    "本报告完整且绝对可靠。",
    "磁盘损坏造成从库丢失。",
]


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_paraphrase_holds(text: str) -> None:
    known = Vocabulary.of(ENGLISH_TEXTS)
    assert all(holds(sentence, known) for sentence in sentences(text))


@pytest.mark.parametrize("text", INVENTED)
def test_an_invention_does_not(text: str) -> None:
    known = Vocabulary.of(ENGLISH_TEXTS)
    assert not all(holds(sentence, known) for sentence in sentences(text))


@pytest.mark.parametrize("text", HONEST_CHINESE)
def test_an_honest_paraphrase_in_chinese_holds(text: str) -> None:
    known = Vocabulary.of(CHINESE_TEXTS)
    assert all(holds(sentence, known) for sentence in sentences(text))


@pytest.mark.parametrize("text", INVENTED_CHINESE)
def test_an_invention_in_chinese_does_not(text: str) -> None:
    known = Vocabulary.of(CHINESE_TEXTS)
    assert not all(holds(sentence, known) for sentence in sentences(text))


@pytest.mark.parametrize("text", LOST)
def test_a_true_sentence_with_a_word_of_its_own_is_lost(text: str) -> None:
    known = Vocabulary.of(ENGLISH_TEXTS)
    assert not all(holds(sentence, known) for sentence in sentences(text))


@pytest.mark.parametrize("word", ["fell", "hardly", "failed", "unhealthy", "vanished"])
def test_one_new_word_is_enough_to_fall(word: str) -> None:
    known = Vocabulary.of(["The pool size was lowered."])
    assert holds("The pool size was lowered.", known)
    assert not holds(f"The pool size {word} was lowered.", known)


@pytest.mark.parametrize("text", [*ENGLISH_TEXTS, *CHINESE_TEXTS])
def test_what_stands_in_a_source_holds_whole(text: str) -> None:
    assert coverage(text, Vocabulary.of([text])) == 1
    assert all(holds(sentence, Vocabulary.of([text])) for sentence in sentences(text))


@pytest.mark.parametrize("phrases", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_the_words_of_the_offline_composer_are_a_frame(phrases: Phrases) -> None:
    nothing = Vocabulary.of(())
    for phrase in (
        phrases.points_to,
        phrases.before,
        phrases.also_changed,
        phrases.metrics,
        phrases.advice,
        phrases.only_advice,
        phrases.nothing,
        phrases.nothing_left,
        phrases.times,
        phrases.offline,
    ):
        for sentence in sentences(phrase.format("", "")):
            assert holds(sentence, nothing), sentence


@pytest.mark.parametrize(
    "text",
    [
        "Злоумышленник украл базу данных.",
        "공격자가 데이터베이스를 훔쳤습니다.",
        "こうげきしゃがぬすみました。",
        "Ein Angreifer hat alles gestohlen.",
        "Ένας εισβολέας έκλεψε τα δεδομένα.",
    ],
)
def test_no_language_passes_for_want_of_words(text: str) -> None:
    assert not holds(text, Vocabulary.of((*ENGLISH_TEXTS, *CHINESE_TEXTS)))
    assert holds(text, Vocabulary.of([text]))


@pytest.mark.parametrize("hidden", ["An in\u00adtruder s\u200btole it.", "Ａｎ ｉｎｔｒｕｄｅｒ stole it."])
def test_no_form_of_letters_hides_an_invention(hidden: str) -> None:
    assert not holds(hidden, Vocabulary.of(ENGLISH_TEXTS))


def test_an_endless_word_fills_no_memory() -> None:
    known = Vocabulary.of(["x" * 20_000])
    assert sum(map(len, known.starts)) < 10_000
    assert holds("x" * 20_000, known)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two!  Three", ["One. ", "Two!  ", "Three"]),
        ("at 10.5 s in db.orders.svc; then", ["at 10.5 s in db.orders.svc; ", "then"]),
        ("一。二；三", ["一。", "二；", "三"]),
        ("one\n\ntwo", ["one\n\n", "two"]),
        ("", []),
    ],
)
def test_sentences_together_are_the_text(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
    assert "".join(parts) == text


@pytest.mark.parametrize(
    "forms",
    [
        ("connection", "connections", "connected", "connect"),
        ("exhausted", "exhaustion", "exhausts", "depleted"),
        ("error", "errors", "failure", "failed", "failing"),
        ("rose", "rises", "increased", "grew"),
        ("retry", "retries", "retried"),
    ],
)
def test_forms_of_one_word_are_alike(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(("text", "only"), [("The evidence shows this at 10:42.", True), ("The pool is slow.", False)])
def test_a_frame_is_known_as_one(text: str, only: bool) -> None:
    assert only_frames(text) is only
