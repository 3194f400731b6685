"""Planning and supervising by rules: what to look at for an alert or a question, and when it is enough. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gatekeeper.types import EvidenceStatus
from runs.harness.wire import Plan, PlanStep, Supervision
from runs.llm.offline.brief import Situation, iso, objects

_STEPS_EN = {
    "lookup_knowledge": "Find what the runbooks say about {subject}.",
    "query_logs": "Read warnings and errors of {service} around {since}, and which of them began then.",
    "query_metrics": "Compare the alert's own expression and the metrics of {service} before and after {since}.",
    "query_alerts": "See which other alerts are active and concern {service}.",
}
_STEPS_ZH = {
    "lookup_knowledge": "在运行手册中查找与 {subject} 有关的内容。",
    "query_logs": "查看 {service} 在 {since} 前后的警告和错误日志，找出此时才开始出现的内容。",
    "query_metrics": "比较 {service} 的指标在 {since} 前后的变化，包括告警自身的表达式。",
    "query_alerts": "查看与 {service} 有关的其他活动告警。",
}
_CHANGES = {
    False: "Look for deployments, configuration changes and restarts before {since}.",
    True: "查找 {since} 之前的发布、配置变更和重启。",
}


def plan(situation: Situation, offered: Sequence[str]) -> Plan:
    """A plan from the alert's labels; `offered` are tool names, and only they are hinted at."""
    chinese = situation.chinese
    subject = situation.alert_name or situation.summary[:120] or "this question"
    service = situation.service or ("相关服务" if chinese else "the services concerned")
    if not situation.has_alert and set(offered) <= {"lookup_knowledge"}:
        subject = situation.query[:120]
    said = {"subject": subject, "service": service, "since": iso(situation.onset)}
    steps = [
        PlanStep(step=text.format(**said)[:500], tool_hint=name)
        for name, text in (_STEPS_ZH if chinese else _STEPS_EN).items()
        if name in offered
    ]
    if "query_logs" in offered:
        steps.append(PlanStep(step=_CHANGES[chinese].format(**said), tool_hint="query_logs"))
    return Plan(focus=_focus(situation, subject)[:500], steps=steps)


def _focus(situation: Situation, subject: str) -> str:
    if not situation.has_alert:
        return situation.query or subject
    severity = situation.labels.get("severity")
    head = f"{subject} ({severity})" if severity else subject
    return f"{head}: {situation.summary}" if situation.summary else head


def supervise(payload: Mapping[str, Any]) -> Supervision:
    """PLAN, then EXECUTE, then FINISH; a second EXECUTE only where the first gave nothing and rounds are left."""
    allowed = [str(name) for name in payload.get("allowed") or ("PLAN", "EXECUTE", "FINISH")]
    tried = objects(payload.get("tools_tried"))
    wanted, reason = _wanted(payload, tried)
    if wanted not in allowed:
        order = [name for name in ("EXECUTE", "FINISH", "PLAN") if name in allowed]
        wanted, reason = (order[0] if order else "FINISH"), "It is the step that is possible now."
    return Supervision.model_validate({"next": wanted, "reason": reason})


def _wanted(payload: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if not payload.get("plan"):
        return "PLAN", "There is no plan yet."
    if not tried:
        return "EXECUTE", "There is a plan and no evidence has been looked at yet."
    claims = payload.get("claims")
    if isinstance(claims, int) and claims > 0:
        return "FINISH", "The evidence gathered so far carries claims; they can be judged now."
    failed = {str(item.get("tool_name")) for item in tried if _failed(item.get("status"))}
    succeeded = {str(item.get("tool_name")) for item in tried if not _failed(item.get("status"))}
    rounds_left = payload.get("rounds_left")
    if isinstance(rounds_left, int) and rounds_left > 0 and failed - succeeded:
        return "EXECUTE", "The first look gave no claim and some sources failed; they are tried once more."
    return "FINISH", "Nothing is left that another round would look at."


def _failed(status: Any) -> bool:
    return status in set(EvidenceStatus) and EvidenceStatus(status).failed
