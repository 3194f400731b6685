"""How a question is meant: what it follows up on, which time it speaks of, which of its words are the matter. Pure.

A follow-up is read together with the last question that was none: "and yesterday?" after "why is checkout slow?" asks
why checkout was slow yesterday. Only queries and released words of the turns before are used.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gatekeeper.types import Intent

_JOINS_ON = re.compile(
    r"^\W*(?:and|also|but|then|so|ok(?:ay)?,|what\s+about|how\s+about|what\s+else|anything\s+else|which\s+(?:of|one)|why\W*$"
    r"|same\s+for|since\s+when|when\s+did\s+(?:it|that|this)|那|那么|还有|另外|其中|哪个|哪一个|哪些|呢|为什么\W*$|什么时候)",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|this|that|these|those|them|they|the\s+(?:first|second|last|same|worst)|above)\b"
    r"|(?:这个|那个|这些|那些|它|它们|上面|刚才说|前面|该问题|这种|这样)",
    re.IGNORECASE,
)
_ONLY_A_TIME = re.compile(
    r"^\W*(?:yesterday|today|this\s+morning|last\s+night|now|(?:an?|\d+)\s+(?:hours?|minutes?)\s+ago|昨天|今天|现在|今早|昨晚)"
    r"(?:呢)?\W*$",
    re.IGNORECASE,
)
_ONLY_A_REMEDY = re.compile(
    r"^\W*(?:(?:so\s+)?what\s+(?:now|next|(?:should|can|do)\s+(?:i|we)\s+do(?:\s+now)?)|how\s+(?:do|can|should)\s+(?:i|we)\s+fix"
    r"(?:\s+(?:it|this|that))?|(?:那|我|该|应该|现在)*(?:怎么|如何)(?:办|处理|解决|修复|修))\W*$",
    re.IGNORECASE,
)
_WORST = re.compile(r"\b(?:worst|most\s+(?:serious|severe|important|urgent))\b|最(?:严重|重要|紧急|糟)", re.IGNORECASE)
_LONGEST_FOLLOW_UP = 160
_REMEDY = re.compile(
    r"\bhow\s+(?:do|can|should|would)\b|\bwhat\s+(?:should|can|do)\s+(?:i|we)\b|\bfix\b|\brunbook|怎么(?:办|处理|解决|修)|如何|手册",
    re.IGNORECASE,
)

_IN_GENERAL = re.compile(
    r"\b(?:what(?:'s|\s+is|\s+went|\s+was)?\s+(?:wrong|happening|happened|going\s+on|broken)|what\s+changed"
    r"|any(?:thing)?\s+(?:wrong|problems?|issues?|alerts?|incidents?)|is\s+everything)\b"
    r"|有(?:什么|没有)?(?:问题|异常|故障|告警)|怎么回事|出(?:了)?什么(?:事|问题)|一切正常|是否正常",
    re.IGNORECASE,
)
_ALERT = re.compile(r"Alert:|告警：")
_ADVICE = re.compile(r"The runbook advises:\s*|运行手册建议：\s*")

_SPAN = re.compile(
    r"\b(?:last|past|previous)\s+(?:(?P<n>\d{1,3})\s*)?(?P<unit>min(?:ute)?s?|h(?:ou)?rs?|days?)\b"
    r"|(?:过去|最近|近)\s*(?P<n_zh>\d{1,3})?\s*个?(?P<unit_zh>分钟|小时|天)",
    re.IGNORECASE,
)
_YESTERDAY = re.compile(r"\byesterday\b|昨天|昨日", re.IGNORECASE)
_TODAY = re.compile(r"\btoday\b|今天|今日", re.IGNORECASE)
_AGO = re.compile(r"\b(?P<n>an?|\d{1,3})\s+(?P<unit>min(?:ute)?s?|h(?:ou)?rs?|days?)\s+ago\b", re.IGNORECASE)
_UNITS = {
    "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1),
    "分": timedelta(minutes=1), "小": timedelta(hours=1), "天": timedelta(days=1),
}  # fmt: skip
_AROUND = timedelta(minutes=30)
_LONGEST_SPAN = timedelta(days=7)

_FRAME_WORDS = frozenset(
    """what how which when where why who do does did should would could can may i we you one say says said tell tells
    me us about runbook runbooks playbook playbooks documentation docs doc document documents procedure procedures step
    steps please explain describe show give list the a an is are be if there to for of in on with mean means meaning
    handle deal need my our some any this that it happens happen and""".split()
)
_FRAME_ZH = re.compile(
    r"运行手册|手册|文档|流程|步骤|请问|请|怎么(?:办|处理|解决|排查|修复|做)?|如何(?:处理|解决|排查|修复)?|怎样|什么是|是什么|什么意思"
    r"|关于|里|说|应该|介绍|解释|一下|了|的|吗|呢|我|该"
)


@dataclass(frozen=True, slots=True)
class Meant:
    """`text` is the question with what it follows up on; `subject`: released words that it points back to."""

    text: str
    follows: bool = False
    subject: str = ""


def follows_up(query: str, history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a question cannot be understood without the turns before it."""
    if not _substantial(history) or len(query) > _LONGEST_FOLLOW_UP:
        return False
    return bool(
        _JOINS_ON.match(query) or _ONLY_A_TIME.match(query) or _ONLY_A_REMEDY.match(query) or _POINTS_BACK.search(query)
    )


def meant(payload: Mapping[str, Any]) -> Meant:
    """Reads `query`, `history` and `previous` of a message."""
    query = str(payload.get("query") or "")
    history = _turns(payload.get("history"))
    if not follows_up(query, history):
        return Meant(query)
    earlier = _substantial(history)
    if _names_a_time(query):
        earlier = [turn for turn in earlier if turn["intent"] == Intent.DIAGNOSIS] or earlier
    base = next((str(turn["query"]) for turn in reversed(earlier) if not _needs_another(turn, history)), "")
    return Meant(
        f"{base.rstrip(' ?？')} {query}".strip(), follows=True, subject=_released(payload.get("previous"), query)
    )


def intent_followed(query: str, history: Sequence[Mapping[str, Any]]) -> Intent | None:
    """The intent that a follow-up keeps. What to do about a finding is for the runbooks, another time for a diagnosis.

    None: it is no follow-up.
    """
    if not follows_up(query, history):
        return None
    if _names_a_time(query):
        return Intent.DIAGNOSIS
    if _REMEDY.search(query):
        return Intent.KNOWLEDGE_QUERY
    return Intent(str(_substantial(history)[-1]["intent"]))


def asks_in_general(query: str) -> bool:
    """Whether it asks what is the matter, without saying with what."""
    return _IN_GENERAL.search(query) is not None


def _names_a_time(query: str) -> bool:
    return window_of(query, datetime(2026, 1, 1, tzinfo=UTC)) is not None


def asks_for_the_worst(query: str) -> bool:
    return _WORST.search(query) is not None


def window_of(query: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The time that a question names, in UTC; None where it names none."""
    if _YESTERDAY.search(query):
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - timedelta(days=1), midnight
    if span := _SPAN.search(query):
        number = span["n"] or span["n_zh"] or "1"
        return now - min(int(number) * _unit(span["unit"] or span["unit_zh"]), _LONGEST_SPAN), now
    if ago := _AGO.search(query):
        number = "1" if ago["n"].lower() in {"a", "an"} else ago["n"]
        then = now - min(int(number) * _unit(ago["unit"]), _LONGEST_SPAN)
        return then - _AROUND, min(now, then + _AROUND)
    if _TODAY.search(query):
        return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0), now
    return None


def matter_of(question: str) -> str:
    """The words of a question that a document can answer to: without "what does the runbook say about"."""
    plain = _FRAME_ZH.sub(" ", question)
    kept = [word for word in plain.split() if word.strip("?!.,:;？！。，\"'").lower() not in _FRAME_WORDS]
    return " ".join(kept).strip(" ?？!！.。,，") or question


def _unit(name: str) -> timedelta:
    return _UNITS[name[0].lower()]


def _turns(value: Any) -> list[Mapping[str, Any]]:
    found = [turn for turn in value if isinstance(turn, Mapping)] if isinstance(value, list) else []
    return [turn for turn in found if turn.get("intent") in set(Intent) and turn.get("query")]


def _substantial(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The turns that were not talk."""
    return [turn for turn in _turns(list(history)) if turn["intent"] != Intent.SYSTEM_CHAT]


def _needs_another(turn: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a turn was itself a follow-up of one that is still known."""
    before = list(history)[: list(history).index(turn)]
    return follows_up(str(turn["query"]), before)


def _released(previous: Any, query: str) -> str:
    """What "it" is: the strongest statement of the answer before; for what to do about it, its runbook and advice."""
    if not isinstance(previous, Mapping):
        return ""
    found = previous.get("statements")
    statements = [str(text) for text in found] if isinstance(found, list) else []
    statements = statements or [str(previous.get("conclusion") or "")]
    if not _REMEDY.search(query):
        return statements[0][:300]
    advice = [_ADVICE.sub("", text) for text in statements if _ADVICE.match(text)]
    alerts = [text for text in statements if _ALERT.match(text)]
    documents = previous.get("documents")
    titles = [str(title) for title in documents[:1]] if isinstance(documents, list) else []
    return " ".join(text[:300] for text in [*titles, *(advice[:1] or [*statements[:1], *alerts[:1]])])
