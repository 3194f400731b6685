"""What a role's prompt must hold before it may be active.

A model answers in the shape that its prompt describes, and code throws away what has another shape. So a text that no
longer names its answer's fields would cost every claim of every run, and only show there. The words below are those
of the model wire: the schema's name, the fields and the values of the answer, and the fields of the message that
the role must understand. A text in any language holds them as they are.

A prompt is sent exactly as it is written. A placeholder would reach the model unfilled, so there may be none.
"""

import re
import unicodedata
from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from prompts.catalogue import shipped_of

_PLAN = ("focus", "steps", "step", "tool_hint", "query", "now", "window", "tools")
_EVIDENCE = (
    *("executor_evidence_v2", "answer_version", "claims", "claim_id", "kind", "claim_text", "critical", "evidence"),
    *("source_invocation_id", "tool_name", "raw_path", "evidence_excerpt", "evidence_refs"),
    *("observation", "guidance", "negative_observation", "$.no_evidence", "NO_EVIDENCE"),
    *("query", "now", "window", "plan", "conclude_now", "repair"),
)

NEEDS: Mapping[str, tuple[str, ...]] = {
    "intent_router": (
        *("router_intent", "intent", "SYSTEM_CHAT", "KNOWLEDGE_QUERY", "DIAGNOSIS"),
        *("query", "history"),
    ),
    "system_chat": ("system_chat_reply", "reply", "query", "history"),
    "chat_planner": ("chat_plan", *_PLAN),
    "chat_executor": _EVIDENCE,
    "chat_verifier": (
        *("verifier_evaluation", "verdict", "PASS", "LOW_CONFID", "REJECT", "groundedness_score"),
        *("critical_fact_count", "claim_checks", "claim_id", "supported", "reason", "facts_checked", "rationale"),
        *("query", "claims", "evidence", "context", "negative_observation", "tool_trace_summary"),
    ),
    "chat_composer": (
        *("composer_output", "conclusion", "scope", "statements", "text", "claim_ids", "limitations"),
        *("query", "claims", "negative_observation", "tool_trace_summary"),
    ),
    "supervisor": (
        *("aiops_supervision", "next", "reason", "PLAN", "EXECUTE", "FINISH"),
        *("alert", "round", "rounds_left", "allowed", "plan", "tools_tried", "claims"),
    ),
    "planner": ("aiops_plan", "alert", *_PLAN),
    "executor": (*_EVIDENCE, "alert"),
}

# What opens one is enough: `}}` alone also ends nested JSON.
_PLACEHOLDER = re.compile(
    r"\{\{[^{}]{0,80}(?:\}\})?|\{%[^%]{0,80}(?:%\})?|\$\{[^{}]{0,80}\}?|<%[^%]{0,80}(?:%>)?|<<[A-Za-z_]{1,80}>>"
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def missing_words(name: str, text: str) -> tuple[str, ...]:
    """The words of the role that the text does not hold as whole words, in the order of `NEEDS`.

    What stands in a comment tells a model nothing of its answer.
    """
    told = _COMMENT.sub("", text)
    return tuple(word for word in NEEDS.get(name, ()) if not _holds(told, word))


def placeholders(text: str) -> tuple[str, ...]:
    """What looks like a template's, also in full-width characters, each with up to 80 characters beside it."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(unicodedata.normalize("NFKC", text))))


def shortfalls(name: str, text: str) -> list[str]:
    """Why the text may not be active, one sentence each, for people; empty where nothing is wrong."""
    shipped = shipped_of(name)
    if shipped is None:
        return [_("No role of this release uses this prompt.")]
    found = []
    missing = missing_words(name, text)
    if missing:
        sentence = ngettext(
            "It lacks a word that its role needs: %(words)s.",
            "It lacks words that its role needs: %(words)s.",
            len(missing),
        )
        found.append(sentence % {"words": ", ".join(missing)})
    unfilled = placeholders(text)
    if unfilled:
        sentence = _("Nothing fills placeholders; the model would read them as they are: %(marks)s.")
        found.append(sentence % {"marks": ", ".join(unfilled)})
    if len(text) > shipped.max_chars:
        sentence = _("It has %(chars)d characters; this role's prompt may have %(limit)d.")
        found.append(sentence % {"chars": len(text), "limit": shipped.max_chars})
    return found


def _holds(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
