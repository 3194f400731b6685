"""Which names the offline model takes from log lines, to look for what changed there."""

import pytest

from runs.llm.offline.evidence import LogFact, Ref
from runs.llm.offline.loglines import read
from runs.llm.offline.names import mentions, names_in, names_of


def line(text: str, file: str = "") -> LogFact:
    ref = Ref("inv_1", "query_logs", "$.lines[0].text", text, {})
    return LogFact(ref, read(text), "ERROR", None, None, 1, file, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unable to write to stream /var/log/pdf-render/debug.log", ["pdf-render"]),
        ("read udp 10.1.4.9:51036->10.2.0.200:53: i/o timeout", ["10.2.0.200"]),
        ("lookup api.example on 10.3.0.10:53: server misbehaving", ["10.3.0.10"]),
        ("call to stock-api failed, see stock-db", ["stock-api", "stock-db"]),
        ("GET /v2/fares 429 x-ratelimit-limit=250000", []),
        ("/etc/app/conf.d/x.conf", ["conf.d"]),
        ("no name here", []),
    ],
)
def test_takes_folders_addresses_and_hyphenated_names(text: str, expected: list[str]) -> None:
    assert names_in(text) == expected


def test_leaves_out_the_own_service_the_speaker_and_ids() -> None:
    facts = [
        line("deployer release stock-api failed for checkout-api", "deployer/deploys.log"),
        line("worker-12 lost pod stock-api-7b5d6c9f88 of redis-main", "kubelet-agent/a.log"),
    ]
    assert names_of(facts, "checkout-api") == ["stock-api", "redis-main", "kubelet-agent"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("configmap kube-system/coredns changed", True),
        ("certificate risk/coredns-tls expired", True),
        ("my-coredns changed", False),
        ("corednses changed", False),
    ],
)
def test_a_name_is_mentioned_as_a_word_or_as_the_beginning_of_a_name(text: str, said: bool) -> None:
    assert mentions(text, ["coredns"]) is said
