import pytest

from runs.knowledge.tokens import identifier_parts, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KubePodCrashLooping", ["kubepodcrashlooping", "kube", "pod", "crash", "loop"]),
        ("maximumPoolSize", ["maximumpoolsize", "maximum", "pool", "size"]),
        ("max_pool-size", ["max_pool-size", "max", "pool", "size"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("SQLSTATE 53300", ["sqlstat", "53300"]),
        ("ORA-00001", ["ora-00001", "ora", "00001"]),
        ("the pods are failing", ["pod", "fail"]),
        ("连接池耗尽", ["连接", "接池", "池耗", "耗尽"]),
        ("库 down", ["库", "down"]),
        ("{{ $labels.pod }} restarts", ["restart"]),
        ("!!! ???", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("crashes", "crash"),
        ("crashed", "crash"),
        ("crashing", "crash"),
        ("replicas", "replica"),
        ("queries", "query"),
        ("stopped", "stop"),
        ("throttling", "throttled"),
        ("failures", "failure"),
        ("expired", "expires"),
        ("evicting", "evicted"),
    ],
)
def test_plain_endings_do_not_keep_words_apart(one: str, other: str) -> None:
    assert words(one) == words(other)


@pytest.mark.parametrize(
    ("one", "other"), [("status", "stat"), ("process", "proces"), ("disk", "dish"), ("used", "us")]
)
def test_different_words_stay_different(one: str, other: str) -> None:
    assert words(one) != words(other)


def test_parts_of_an_identifier() -> None:
    assert identifier_parts("NodeRAIDDegraded2") == ["node", "raid", "degraded", "2"]
