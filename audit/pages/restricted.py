"""The restricted texts behind one event: what a model thought and wrote, drafts, rejected claims, judges' reasons.

Whoever calls this has checked the permission and recorded the access first.
"""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from audit.pages.details import GATE_ROUNDS
from audit.pages.jsonhtml import JsonTree, json_tree
from audit.trace import TimelineEvent, load_reasoning
from runs.harness.events import EventType
from runs.models import DiagnosisRun
from runs.pages.hostile import Cut, shown
from runs.pages.words import Words

REASONING = "reasoning"
SELF_EVALUATION = "self_evaluation"


@dataclass(frozen=True, slots=True)
class RestrictedText:
    """One of `tree` and `text`: what is JSON is shown as a tree."""

    title: Words
    tree: JsonTree | None = None
    text: Cut | None = None


def what_of(event: TimelineEvent) -> str:
    """Under which name reading it is recorded."""
    return REASONING if event.event_type == EventType.AGENT_MODEL_STEP else SELF_EVALUATION


def restricted_texts(run: DiagnosisRun, event: TimelineEvent) -> tuple[RestrictedText, ...]:
    """Empty: there is nothing on record."""
    if event.event_type == EventType.AGENT_MODEL_STEP:
        return _reasoning(run.id, event.step_id)
    kept = run.self_evaluation or {}
    verifier = kept.get("verifier_evaluation") or {}
    return tuple(
        RestrictedText(title, tree=json_tree(value))
        for title, value in _judged(event, verifier, kept)
        if value is not None
    )


def _reasoning(run_id: str, step_id: str | None) -> tuple[RestrictedText, ...]:
    texts = [
        (title, text)
        for entry in load_reasoning(run_id)
        if entry.step_id == step_id
        for title, text in ((_("Thought"), entry.thought), (_("Assistant text"), entry.assistant_text))
    ]
    return tuple(_of_text(title, text) for title, text in texts if text)


def _of_text(title: Words, text: str) -> RestrictedText:
    """Models that answer in a structure write JSON."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return RestrictedText(title, tree=json_tree(json.loads(text)))
        except (ValueError, RecursionError):
            # Prose that begins like it, or JSON that was cut: as it was written.
            return RestrictedText(title, text=shown(text))
    return RestrictedText(title, text=shown(text))


def _judged(event: TimelineEvent, verifier: dict[str, Any], kept: dict[str, Any]) -> list[tuple[Words, Any]]:
    position = GATE_ROUNDS.get(EventType(event.event_type))
    if position is not None:
        rounds = (verifier.get("gatekeeper_result") or {}).get("rounds", [])
        return [(_("Draft, and what the gate said of it"), rounds[position] if position < len(rounds) else None)]
    if event.event_type == EventType.SEMANTIC_GUARD_DECISION:
        return [
            (_("The verifier’s answer"), verifier.get("evaluation")),
            (_("Contract violations"), verifier.get("contract_violations") or None),
        ]
    if event.event_type == EventType.AIOPS_RULE_EVALUATION:
        return [(_("Report rules, with reasons"), kept.get("aiops_rule_evaluation"))]
    if event.event_type == EventType.RELEASE_DECISION:
        return [
            (_("The composer’s draft"), verifier.get("composer_output")),
            (_("What release dropped, and why"), (verifier.get("release") or {}).get("dropped") or None),
        ]
    return []
