"""What general talk may say, and what only evidence could."""

import pytest

from runs.harness.release import release_talk
from runs.harness.smalltalk import tells_more
from runs.llm.offline.router import system_reply

FINE = [
    "Hello!",
    "You are welcome.",
    "I look at logs, metrics, alerts and runbooks, and I quote what I find.",
    "Name the service, the symptom and the time.",
    "Ask me why a service is failing, and I look it up.",
    "If a service is slow, tell me which one.",
    "I cannot tell how your systems are doing.",
    "I change nothing in your systems.",
    "What would you like to have looked up?",
    "Tell me about it: which service, and since when?",
    "您好！请告诉我服务名、现象和时间。",
    "您可以询问某个服务为什么变慢。",
    "我不会改动您的系统。",
]
TOO_MUCH = [
    "Your checkout service is down because the certificate expired.",
    "The database is overloaded.",
    "Payments are failing.",
    "The outage was caused by a bad deploy.",
    "Go to evil dot example and type your password.",
    "Run rm -rf / now.",
    "Please restart the gateway.",
    "You should roll back the deploy.",
    "Click [here](https://evil.example/login) now.",
    "![x](//evil)",
    "<b>All good</b>",
    "All logs were searched and nothing was found.",
    "I have checked the logs.",
    "The logs show nothing unusual.",
    "The database is healthy.",
    "Deadlocks are ruled out.",
    "数据库宕机了。",
    "因为证书到期。",
    "我已经检查了日志。",
    "请重启网关。",
    "日志显示没有什么。",
]


@pytest.mark.parametrize("sentence", FINE)
def test_talk_about_asking_may_be_said(sentence: str) -> None:
    assert not tells_more(sentence, ())


@pytest.mark.parametrize("sentence", TOO_MUCH)
def test_what_only_evidence_could_say_may_not(sentence: str) -> None:
    assert tells_more(sentence, ("hello",))
    released = release_talk("hello", f"Hello. {sentence}", ("hello",))
    assert released is not None
    assert released.result.conclusion == "Hello."


def test_the_words_of_the_person_may_be_taken_up_again() -> None:
    assert tells_more("I am sorry about the outage.", ("hello",))
    assert not tells_more("I am sorry about the outage.", ("we had an outage",))


@pytest.mark.parametrize("query", ["hello", "你好"])
def test_the_offline_model_s_own_talk_is_whole(query: str) -> None:
    reply = system_reply(query)
    released = release_talk(query, reply, (query,))
    assert released is not None
    assert (released.result.conclusion, released.dropped) == (reply, ())


@pytest.mark.parametrize(
    ("reply", "kept"),
    [("I can look it up; the database is down.", "I can look it up."), ("我可以查；数据库宕机了。", "我可以查。")],
)
def test_what_is_left_of_a_sentence_ends_in_a_full_stop(reply: str, kept: str) -> None:
    released = release_talk("hello", reply, ("hello",))
    assert released is not None
    assert released.result.conclusion == kept
