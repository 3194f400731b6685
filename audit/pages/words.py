"""Codes of the record in plain words, and how loud each of them is."""

from typing import Any

from django.utils.translation import gettext_lazy as _

from runs.harness.events import EventType
from runs.harness.ports import Role
from runs.pages.words import STATUS_TONES, Tone, Words, tone_of_code

KIND_WORDS: dict[str, Words] = {
    "observation": _("Observation"),
    "guidance": _("Guidance"),
    "negative_observation": _("Nothing found"),
}

RULE_WORDS: dict[str, Words] = {
    "GK001_ANSWER_VERSION": _("the draft keeps to the agreed structure"),
    "GK002_INVOCATION_EXISTS": _("the cited tool call belongs to this run"),
    "GK003_TOOL_MATCHES": _("the cited tool is the one that was called"),
    "GK004_PATH_EXISTS": _("the cited path exists and was shown to the model"),
    "GK005_EXCERPT_SUPPORTED": _("the excerpt stands word for word in the evidence"),
    "GK006_NEGATIVE_EVIDENCE": _("“nothing found” is claimed only where a query found nothing"),
    "GK007_NUMBERS_SUPPORTED": _("every number, code and name stands in the evidence"),
    "GK008_INVOCATION_SUCCEEDED": _("the cited tool call did not fail"),
    "GK009_CURRENT_STATE": _("what is so now comes from telemetry, not from a runbook"),
    "AR001_REPORT_EXISTS": _("there is a report"),
    "AR002_ABOUT_THE_ALERT": _("the report is about the alert that came in"),
    "AR003_TOOLS_TRIED": _("telemetry and knowledge were both asked"),
    "AR004_MAIN_SUBJECT": _("no unrelated alert became the main subject"),
}
RULE_VERDICT_WORDS: dict[str, Words] = {"PASS": _("pass"), "FAIL": _("fail"), "NA": _("does not apply")}
FAILS_IN_SHADOW = _("would fail")
_RULE_TONES = {"PASS": Tone.GOOD, "FAIL": Tone.BAD, "NA": Tone.QUIET}

EVENT_WORDS: dict[str, Words] = {
    EventType.RUN_STARTED: _("Run started"),
    EventType.RUN_CANCEL_REQUESTED: _("Cancel requested"),
    EventType.RUN_RECOVERED: _("Run handed back to the queue"),
    EventType.BUDGET_EXHAUSTED: _("Budget exhausted"),
    EventType.RUN_FINISHED: _("Run finished"),
    EventType.ROUTING_DECISION: _("Routing"),
    EventType.AGENT_MODEL_STEP: _("Model step"),
    EventType.SUPERVISION_DECISION: _("Supervisor decision"),
    EventType.CONVERGENCE_STOP: _("Search stopped"),
    EventType.TOOL_INVOCATION: _("Tool call"),
    EventType.EVIDENCE_GUARD_INITIAL: _("Evidence gate"),
    EventType.EVIDENCE_GUARD_REPAIR: _("Evidence gate after repair"),
    EventType.SEMANTIC_GUARD_DECISION: _("Semantic check"),
    EventType.AIOPS_RULE_EVALUATION: _("Report rules"),
    EventType.RELEASE_DECISION: _("Release"),
}

ROLE_WORDS: dict[str, Words] = {
    Role.ROUTER: _("Router"),
    Role.SYSTEM_CHAT: _("General chat"),
    Role.CHAT_PLANNER: _("Planner"),
    Role.CHAT_EXECUTOR: _("Executor"),
    Role.CHAT_VERIFIER: _("Verifier"),
    Role.CHAT_COMPOSER: _("Composer"),
    Role.AIOPS_SUPERVISOR: _("Supervisor"),
    Role.AIOPS_PLANNER: _("Planner"),
    Role.AIOPS_EXECUTOR: _("Executor"),
}

_WARN_EVENTS = frozenset(
    {
        EventType.RUN_CANCEL_REQUESTED,
        EventType.RUN_RECOVERED,
        EventType.BUDGET_EXHAUSTED,
        EventType.CONVERGENCE_STOP,
    }
)


# What the timeline's filter for problems asks the database for: the same as `tone_of_event` calls bad or a warning.
LOUD_EVENTS = _WARN_EVENTS
LOUD_OUTCOMES = frozenset(status.value for status, tone in STATUS_TONES.items() if tone in {Tone.BAD, Tone.WARN})


def tone_of_event(event_type: str, status: str | None, details: dict[str, Any]) -> Tone:
    if event_type == EventType.RUN_FINISHED:
        return STATUS_TONES.get(details.get("outcome", ""), Tone.NORMAL)
    if event_type in _WARN_EVENTS:
        return Tone.WARN
    if details.get("replaced_because") or details.get("violation") or details.get("contract_violations"):
        return Tone.WARN
    return tone_of_code(status)


def tone_of_rule(verdict: str) -> Tone:
    return _RULE_TONES.get(verdict, Tone.NORMAL)
