"""Routing by rules, and the short answer about SuperBiz itself. English and Chinese. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gatekeeper.types import Intent
from runs.llm.offline.questions import asks_in_general, intent_followed
from runs.llm.offline.tokens import is_chinese

_SMALL_TALK = re.compile(
    r"""^\W*(?:(?:hi|hello|hey|yo|good\s+(?:morning|afternoon|evening|day))(?:\s+(?:there|superbiz|all|team))?
    |(?:many\s+)?thanks?(?:\s+(?:you|a\s+lot|so\s+much|very\s+much))*|thx|cheers|bye|goodbye|see\s+you|ok(?:ay)?|great|nice|cool|test|ping
    |你好|您好|嗨|哈喽|早上好|下午好|晚上好|谢谢(?:你|您|啦|了)?|多谢|感谢|辛苦了|再见|好的|好)[\s,，。.!！~?？]*$""",
    re.IGNORECASE | re.VERBOSE,
)
_ABOUT_US = re.compile(
    r"""what\s+(?:can|do)\s+you\s+(?:do|know|help)|who\s+are\s+you|what\s+are\s+you|how\s+(?:do|can|should)\s+i\s+use\s+(?:you|this|superbiz)
    |what\s+is\s+superbiz|how\s+does\s+superbiz|what(?:'s|\s+is)\s+your\s+name|are\s+you\s+(?:an?\s+)?(?:ai|bot|robot|human|llm|model)
    |tell\s+me\s+about\s+(?:yourself|superbiz)|^\W*help\W*$|(?:can|could)\s+you\s+help(?:\s+me)?\W*$|tell\s+me\s+a\s+joke
    |你是谁|你叫什么|你能(?:做|干|帮)|你会(?:做|干)?什么|你可以(?:做|干|帮)|怎么使用(?:你|superbiz)|(?:介绍|说说)(?:一下)?(?:你自己|superbiz)|superbiz\s*是什么|^帮助$""",
    re.IGNORECASE | re.VERBOSE,
)
_ASKS_KNOWLEDGE = re.compile(
    r"""^\W*(?:please\s+)?(?:how\s+(?:do|can|should|would|to|does|is|are)\b|what\s+(?:is|are|does|do|should|would|causes?|steps?)\b|what's\b|when\s+should\b
    |which\s+(?:command|runbook|metric|setting|step)|where\s+(?:is|are|can|do)\b|explain\b|describe\b|define\b|show\s+me\s+(?:the\s+)?(?:runbook|docs?|steps)
    |list\b|give\s+me\s+(?:the\s+)?(?:runbook|steps)|tell\s+me\s+(?:how|about|what)\b|can\s+you\s+explain|is\s+there\s+an?\s+(?:runbook|guide|procedure))
    |\b(?:runbook|playbook|documentation|procedure|best\s+practices?|mean(?:s|ing)?\s*\??$|difference\s+between|steps\s+(?:to|for)|sop)\b
    |什么是|是什么(?:意思)?|什么意思|怎么(?:办|处理|解决|配置|设置|做|查|排查|修复|调整|扩容|重启)|如何|怎样|运行手册|手册|文档|步骤|流程|最佳实践|区别|解释|介绍""",
    re.IGNORECASE | re.VERBOSE,
)
_DEFINES = re.compile(
    r"^\W*(?:what(?:'s|\s+is|\s+are)\s+an?\s|什么是|[^\s，。]{1,20}是什么(?:意思)?\W*$)", re.IGNORECASE
)
_TROUBLE_NOW = re.compile(
    r"""\bwhy\s+(?:is|are|does|do|did|was|were|has|have|can't|isn't|won't)\b|\b(?:is|are|was|were|keeps?|started|been|just|still|currently|suddenly)\s+(?:\w+\s+){0,2}?
    (?:failing|down|broken|slow|crash\w*|timing\s+out|unavailable|unreachable|restarting|erroring|stuck|hanging|throwing|spiking|degraded|firing|dropping|full|not\s+\w+)
    |\b(?:alerts?\s+(?:is|are|fired|firing)|firing|outage|incident|root\s+cause|diagnos\w+|investigat\w+|troubleshoot|spik(?:e|ed|ing)|what\s+(?:happened|went\s+wrong|is\s+wrong|is\s+happening|changed|broke|caused)
    |what's\s+(?:wrong|happening|going\s+on)|right\s+now|(?:last|past)\s+(?:\d+\s*)?(?:minutes?|mins?|hours?|hrs?)|since\s+\d|today|tonight|this\s+morning|going\s+on)\b
    |\b(?:analy[sz]e|check)\s+(?:the\s+)?(?:current|latest|recent)
    |\bhow\s+(?:is|are)\s+[\w-]+\s+doing\b|^\W*(?:is|are)\s+(?:the\s+)?[\w-]+\s+(?:service\s+)?(?:healthy|ok|okay|fine|up|alive|running)\b
    |^\W*(?:please\s+)?(?:check|show|look\s+at|list|get|read)\b.*\b(?:logs?|metrics?|alerts|status|health)\b
    |(?:看看|查看|查一下|检查).*(?:日志|指标|告警|状态)|当前|是否正常
    |为什么|为何|原因|根因|诊断|排查一下|分析(?:一下)?|出(?:了)?(?:什么)?(?:问题|故障)|怎么(?:回事|了|这么)|咋(?:回事|了)|正在(?:报警|告警)|告警了|报警了|挂了|宕机|崩溃|变慢|很慢|超时了|报错|失败了|现在|刚才|刚刚|最近|今天|过去\d*""",
    re.IGNORECASE | re.VERBOSE,
)
_SYMPTOM = re.compile(
    r"""\b(?:errors?|5\d\d|4\d\d|timeouts?|timed\s+out|latency|slow|fail(?:s|ed|ing|ures?)?|crash\w*|oom\w*|exception|down|lag|leak\w*|exhausted|unavailable|refused|full|high|cpu|memory|disk|evict\w*|alert)\b
    |错误|异常|超时|延迟|慢|失败|崩溃|不可用|拒绝|满|高|积压|泄漏|告警|报警|故障|问题""",
    re.IGNORECASE | re.VERBOSE,
)

_REPLY_EN = (
    "I am SuperBiz, a diagnosis agent for alerts and production incidents. Send me an alert, or ask why a service is "
    "failing: I look at the logs, metrics, active alerts and runbooks that are connected here, and I report only what "
    "this evidence shows, with a quotation for each statement. I can also look things up in the runbooks. I change "
    "nothing in your systems. I am running on the built-in offline model, which works by rules and quotations and "
    "needs no network; this reply is general talk and rests on no evidence."
)
_REPLY_ZH = (
    "我是 SuperBiz，用于分析告警和线上故障的诊断助手。您可以发来一条告警，或者询问某个服务为什么出错："
    "我会查看这里接入的日志、指标、当前告警和运行手册，只报告证据显示的内容，并为每条陈述附上原文引用。"
    "我也可以查阅运行手册。我不会改动您的系统。当前使用内置的离线模型，按规则和引用工作，不需要网络；"
    "本条回复属于一般性说明，不以证据为依据。"
)


def route(query: str, history: Sequence[Mapping[str, Any]] = ()) -> Intent:
    """The intent of a question. What fits nowhere is looked up: reading is harmless, and cheaper than diagnosing."""
    text = " ".join(query.split())
    if not text or _SMALL_TALK.match(text) or (_ABOUT_US.search(text) and not _names_a_system(text)):
        return Intent.SYSTEM_CHAT
    if (followed := intent_followed(text, history)) is not None:
        return followed
    if _DEFINES.match(text):
        return Intent.KNOWLEDGE_QUERY
    if asks_in_general(text):
        return Intent.DIAGNOSIS
    if _TROUBLE_NOW.search(text) and not _asks_procedure(text):
        return Intent.DIAGNOSIS
    if _ASKS_KNOWLEDGE.search(text):
        return Intent.KNOWLEDGE_QUERY
    if _SYMPTOM.search(text):
        return Intent.DIAGNOSIS
    return Intent.KNOWLEDGE_QUERY


def system_reply(query: str) -> str:
    return _REPLY_ZH if is_chinese(query) else _REPLY_EN


def _names_a_system(text: str) -> bool:
    """`can you help: checkout-api is failing` is no question about us."""
    return bool(_TROUBLE_NOW.search(text)) and bool(_SYMPTOM.search(text))


def _asks_procedure(text: str) -> bool:
    """`How do I investigate replication lag?` asks for a method, not about now."""
    return bool(
        re.match(
            r"\W*(?:please\s+)?(?:how\s+(?:do|can|should|would|to)\b|what\s+(?:does|should|steps?)\b|explain\b)",
            text,
            re.IGNORECASE,
        )
        or re.search(r"如何|怎样|怎么(?:处理|解决|配置|排查|修复)|是什么意思|什么意思", text)
    )
