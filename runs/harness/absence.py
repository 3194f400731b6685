"""What an empty search may be made to say: that it found nothing, and never that nothing is there. Pure."""

import re
from collections.abc import Iterable

from gatekeeper.text import fold, legible
from gatekeeper.types import Claim, ClaimKind

_THERE_IS_NO = (
    r"(?:there\s+(?:is|are|was|were|has\s+been|have\s+been)\s+)?(?:no\b|none\b|not\b|nothing|(?:the\s+)?absence)"
)
_CAUSE = r"(?:(?:an?|the)\s+)?(?:\w+\s+){0,2}(?:cause|culprit|suspect|source|reason|factor|explanation|possibility)"

PROOF_OF_ABSENCE = re.compile(
    rf"""
    \brul(?:e[sd]?|ing)[\s-]+(?:(?!tim(?:e|ed|es|ing)\b|r[au]ns?\b)\w+\s+){{0,3}}out\b
  | \bconfirm(?:ed|s)?\s*[:;,-]?\s*(?:that\s+)?{_THERE_IS_NO}
  | \b(?:verified|we\s+verify|established|(?:is|are|it's|was)\s+certain)\s*[:;,-]?\s*(?:that\s+)?{_THERE_IS_NO}
  | \bverified\s+(?:to\s+be\s+)?(?:as\s+)?(?:healthy|fine|absent)
  | \babsence\s+of\s+(?:\w+\s+){{1,4}}(?:is|was|has\s+been|can\s+be)\s+(?:established|confirmed|certain|proven|shown)
  | \b(?:is|are|was|were|be|been|definitely|certainly|safely)\s+excluded\b
  | \bcan\s+(?!not\b)(?:\w+\s+)?exclude\b
  | \bcan\s+(?!not\b)(?:\w+\s+)?be\s+(?:\w+\s+)?(?:dismissed|discounted|eliminated)\b
  | \b(?:eliminat|dismiss|discount|exclud)(?:e[sd]?|es|ing|ed|s)?\s+(?:(?!as\b)\w+\s+){{0,3}}as\s+{_CAUSE}
  | \b(?:can(?:not|\s+not|['’]t)|could\s*(?:not|n['’]t))\s+(?:possibly\s+)?(?:be|have\s+been)\s+
    (?:{_CAUSE}|to\s+blame|at\s+fault|responsible)
  | \b(?:(?:is|are|was|were|be|been)\s+not|(?:is|are|was|were)n['’]t)\s+(?:\w+\s+)?
    (?:{_CAUSE}|to\s+blame|at\s+fault|responsible|involved|implicated|due\s+to|caused\s+by|because\s+of|related\s+to)\b
  | \b(?:never\s+was|was\s+never)\s+{_CAUSE}\b
  | \b(?:play(?:s|ed)?|ha[ds]|have|took)\s+no\s+(?:part|role|share|bearing|effect|influence|impact)\b
  | \b(?:ha[ds]|have)\s+nothing\s+to\s+do\s+with\b | \b(?:un|not\s+)related\s+to\b
  | \b(?:did|does|do)(?:\s+not|n['’]t)\s+(?:cause|contribute|play\s+a\s+(?:part|role)|affect)\b
  | \b(?:no\s+longer|neither)\s+{_CAUSE}\b
  | \bproof\s+of\s+absence
  | \b(?:prov(?:es?|en|ed)|proof)\s*[:;,-]?\s*(?:that\s+)?{_THERE_IS_NO}
  | \bdefinitely\s+(?:no\b|not\b|nothing)
  | 已?(?<!故障)排除(?!故障) | (?:确认|确定|核实|验证|查明|断定|证明|证实)了?(?:没有|无(?!误)|不存在|并?未)
  | 肯定(?:没有|不是|无) | 不可能(?:是|为)
  | (?:不是|并非|绝非|不属于|不构成)[^，。；\s]{{0,8}}(?:原因|根因|元凶|主因|诱因|症结|因素)
  | 与[^，。；\s]{{0,16}}(?:无关|没有关系|毫无关系)
  | (?:不是|并非)(?:由|因)[^，。；\s]{{1,16}}(?:引起|导致|造成|引发|所致)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_DENIED = re.compile(
    r"(?:(?:\bnot|n['’]t|\bno|\bnever|\bnor|cannot|without)\b(?!\s+(?:doubt|question|only)\b)\s*(?:\w+\s+){0,2}"
    r"|(?:不|没有|没|无法|难以|未|尚未)(?:完全|能够?|可以?|被|曾|得到)*\s*)$",
    re.IGNORECASE,
)
# Of a search that found nothing this is as much a proof of absence as "no fault exists".
_WELL = re.compile(
    r"\b(?:is|are|was|were|remains?|stays?|looks?|seems?|works?|runs?)\s+(?:\w+\s+){0,2}?"
    r"(?:healthy|fine|ok|okay|normal(?:ly)?|well|unaffected|innocent|intact|safe|clean)\b"
    r"|(?<!不)(?:正常|健康|良好|完好)|(?:没有|无)(?:任何)?问题",
    re.IGNORECASE,
)
_WELL_DENIED = re.compile(
    r"(?:\b(?:not?|never|cannot)|n['’]t)\s+(?:\w+\s+){0,2}?"
    r"(?:mean|say|show|pro(?:ve|of)|imply|tell|follow|indicate|known?|sign|evidence)\b"
    r"|\b(?:whether|if)\b|不(?:能|足以)?(?:说明|代表|意味|证明|表示|等于|表明)|是否|并非|未必|不一定",
    re.IGNORECASE,
)
# That a search was empty, and nothing about how things are.
_EMPTY = re.compile(
    r"\b(?:found|finds?|return(?:s|ed)?|match(?:es|ed)?|gave|yield(?:s|ed)?|show(?:s|ed)?)\s+"
    r"(?:no|nothing|none|0|zero)\b"
    r"|\bno\b[^.;]{1,60}\b(?:were|was|are|is|could\s+be)\s+(?:found|seen|returned|logged|recorded|matched|reported)\b|\bnothing\b[^.;]{0,30}\b(?:found|matched|returned|notable)\b"
    r"|\b(?:no|0|zero)\s+(?:\w+[\s-]+){0,4}?(?:lines?|entry|entries|records?|rows?|samples?|series|documents?|messages?"
    r"|match(?:es)?|results?|hits?|evidence|alerts?|logs?|passages?)\b"
    r"|\b(?:not|n['’]t|never)\b[^.;]{0,30}\b(?:found|find|match(?:ed)?|return(?:ed)?|seen|shown?|logged|recorded|succeed)\b"
    r"|(?:未|没有?|无)(?:能|曾)?(?:发现|找到|查到|返回|匹配|命中|见|检索到)|(?:没有|无)[^。；]{0,14}(?:行|条|日志|记录|样本|序列|文档|消息|结果|告警)",
    re.IGNORECASE,
)
_STATE = re.compile(
    r"\b(?:exist\w*|occur\w*|happen\w*|impossible|possible|clear(?:s|ed)?|innocent|problems?|faults?|culprit|role)\b|不存在|存在|发生|不可能|问题|故障",
    re.IGNORECASE,
)
_PROVEN = re.compile(r"\b(?:proof|prove[sdn]?|proving|clear(?:s|ed)?)\b|证明", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?;。！？；\n]")


def proves_absence(text: str, claims: Iterable[Claim]) -> bool:
    """Whether a text says that something was ruled out or confirmed absent.

    Denying to do so is fine, and so are words that stand in the excerpts of `claims` which found something. Where
    all of `claims` found nothing, that something is well is said too much as well.
    """
    said = legible(fold(text))
    claims = tuple(claims)
    found = [
        legible(fold(item.evidence_excerpt)).lower()
        for claim in claims
        if claim.kind is not ClaimKind.NEGATIVE_OBSERVATION
        for item in claim.evidence
    ]
    if any(
        not _DENIED.search(said[max(0, match.start() - 24) : match.start()])
        and not any(match.group().lower() in excerpt for excerpt in found)
        for match in PROOF_OF_ABSENCE.finditer(said)
    ):
        return True
    if not claims or not only_negative(claims):
        return False
    return any(not _WELL_DENIED.search(_sentence_before(said, match.start())) for match in _WELL.finditer(said))


def calls_well_or_excluded(text: str) -> bool:
    """Whether a text says that something is well, ruled out or absent, whoever says so."""
    said = legible(fold(text))
    return PROOF_OF_ABSENCE.search(said) is not None or _WELL.search(said) is not None


def tells_empty(text: str) -> bool:
    """Whether a text says that a search gave nothing, and says nothing about how things are."""
    said = legible(fold(text))
    return _EMPTY.search(said) is not None and _STATE.search(said) is None


def tells_state(text: str) -> bool:
    """Whether a text says with a report's own words how things are, or that something is proven."""
    return _PROVEN.search(legible(fold(text))) is not None


def says_too_much(text: str, claims: Iterable[Claim]) -> bool:
    """Whether a text makes more of empty searches than that they were empty.

    What rests on nothing but empty searches has to be worded as their result.
    """
    claims = tuple(claims)
    if claims and only_negative(claims) and not tells_empty(text):
        return True
    return proves_absence(text, claims)


def sayable(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims whose own text does not turn a query that found nothing into proof of absence."""
    return tuple(claim for claim in claims if not says_too_much(claim.claim_text, (claim,)))


def only_negative(claims: Iterable[Claim]) -> bool:
    return all(claim.kind is ClaimKind.NEGATIVE_OBSERVATION for claim in claims)


def _sentence_before(text: str, end: int) -> str:
    return _SENTENCE_END.split(text[:end])[-1]
