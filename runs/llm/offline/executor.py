"""The offline executor: look, look again where that look points, then claim what the evidence states. Pure.

The conversation is the whole state: what was called and what came back is read from the messages each time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gatekeeper.types import ANSWER_VERSION, ClaimKind
from runs.harness.ports import AssistantMessage, ModelRequest, ToolCall, ToolSpec, UserMessage
from runs.harness.wire import ExecutorClaim, ExecutorEvidence
from runs.llm.offline import claims as wording
from runs.llm.offline import evidence as facts
from runs.llm.offline import families, selection
from runs.llm.offline.brief import SERVICE_LABELS, Situation, iso, payload_of, situation
from runs.llm.offline.calls import (
    first_look,
    knowledge_look,
    looked_from,
    named_services,
    second_look,
    third_look,
    tool_calls,
)
from runs.llm.offline.names import names_of
from runs.llm.offline.questions import asks_for_the_worst, asks_in_general, matter_of
from runs.llm.offline.tokens import character_pairs, words

_SERVICE_FIELD = re.compile(r'(?:"(?:service|app)"\s*:\s*"|\b(?:service|app)=)([A-Za-z][\w-]{2,60})')
_EXPLAIN = re.compile(
    r"^\W*(?:what(?:\s+is|\s+are|'s)|explain|describe|define)\b|什么是|是什么|什么意思", re.IGNORECASE
)
MAX_CLAIMS = 12
MAX_TURNS = 3
MAX_WORST = 2
KNOWLEDGE = "lookup_knowledge"


@dataclass(frozen=True, slots=True)
class Turn:
    """What to answer: tool calls, or else the draft."""

    calls: tuple[ToolCall, ...]
    draft: ExecutorEvidence | None


@dataclass(frozen=True, slots=True)
class Seen:
    """The evidence of a conversation, sorted by kind. `first_logs` are of the alert's own service."""

    found: tuple[facts.Answer, ...]
    logs: tuple[facts.LogFact, ...]
    metrics: tuple[facts.MetricFact, ...]
    alerts: tuple[facts.AlertFact, ...]
    passages: tuple[facts.Passage, ...]


def execute(request: ModelRequest) -> Turn:
    brief, told = _briefs(request)
    earlier = facts.answers(request.messages)
    seen = _seen(earlier)
    now = _with_guess(situation(brief), seen)
    if told.get("repair") is not None:
        return Turn((), _repaired(request, told["repair"], lambda: _draft(now, seen)))
    turns = _turns(request)
    if "conclude_now" not in told and "contract" not in told and request.tools and turns < MAX_TURNS:
        calls = _next_calls(now, seen, earlier, request.tools, turns)
        if calls:
            return Turn(calls, None)
    return Turn((), _draft(now, seen))


def _briefs(request: ModelRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """The task, and the last word on it where one came later (`continue`, `repair`, `conclude_now`, `contract`)."""
    told = [payload_of(m.text) for m in request.messages if isinstance(m, UserMessage)]
    tasks = [payload for payload in told if "query" in payload]
    last = told[-1] if told else {}
    return (tasks[-1] if tasks else {}), ({} if "query" in last else last)


def _turns(request: ModelRequest) -> int:
    """Rounds of tool calls since the task was given or was to be continued."""
    turns = 0
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            turns += bool(message.tool_calls)
        elif isinstance(message, UserMessage) and {"query", "continue"} & payload_of(message.text).keys():
            turns = 0
    return turns


def _seen(earlier: Sequence[facts.Answer]) -> Seen:
    good = facts.usable(earlier)
    return Seen(
        found=tuple(good),
        logs=tuple(f for a in good if a.tool_name == "query_logs" for f in facts.log_facts(a)),
        metrics=tuple(f for a in good if a.tool_name == "query_metrics" for f in facts.metric_facts(a)),
        alerts=tuple(f for a in good if a.tool_name == "query_alerts" for f in facts.alert_facts(a)),
        passages=tuple(f for a in good if a.tool_name == KNOWLEDGE for f in facts.passages(a)),
    )


def _next_calls(
    now: Situation, seen: Seen, earlier: Sequence[facts.Answer], offered: Sequence[ToolSpec], turns: int
) -> tuple[ToolCall, ...]:
    if {spec.name for spec in offered} == {KNOWLEDGE}:
        return tool_calls([knowledge_look(now)], offered, earlier, turns)
    if turns == 0:
        return tool_calls(first_look(now), offered, earlier, turns)
    found = _symptoms(now, seen)
    second = families.second_family(found, now)
    if turns > 1:
        widespread = families.is_widespread(seen.alerts, now)
        wanted = third_look(now, found, _names(now, seen, found), second, widespread=widespread)
        return tool_calls(wanted, offered, earlier, turns) if found else ()
    others = named_services(found, _known_names(seen), now.service)
    family = selection.family_prefix(selection.moved(seen.metrics, found, now))
    lasting = selection.lasting_errors(seen.logs, now, looked_from(now))
    return tool_calls(second_look(now, found, lasting, others, family), offered, earlier, turns)


def _with_guess(now: Situation, seen: Seen) -> Situation:
    """A question that says "orders" means the service whose name begins so, where the evidence knows one."""
    if now.has_alert or now.service is not None:
        return now
    asked = words(now.query)
    spoken = [name for fact in seen.logs for name in _SERVICE_FIELD.findall(fact.ref.text)]
    named = sorted({*spoken, *_known_names(seen)}, key=lambda name: (-spoken.count(name), name))
    meant = [name for name in named if name.lower() in now.query.lower() or words(selection.stem(name) or "") & asked]
    guessed = meant[0] if meant else _alerting(now, seen)
    return replace(now, guessed=guessed) if guessed else now


def _alerting(now: Situation, seen: Seen) -> str | None:
    """The service of the active alert that speaks of what is asked; of the first, where it is asked in general."""
    asked = now.terms | character_pairs(matter_of(now.query))
    said = [words(fact.ref.text) | character_pairs(fact.ref.text) for fact in seen.alerts]
    rated = [(len(said[i] & asked), -i, fact) for i, fact in enumerate(seen.alerts)]
    shared, _, best = max(rated, key=lambda item: item[:2], default=(0, 0, None))
    if best is None or not (shared or asks_in_general(now.query)):
        return None
    return next((best.labels[label] for label in SERVICE_LABELS if best.labels.get(label)), None)


def _known_names(seen: Seen) -> set[str]:
    """Names of services as labels and log folders have them."""
    names = {value for fact in seen.metrics for key, value in fact.labels.items() if key in {"service", "job", "app"}}
    return names | {part for fact in seen.logs for part in fact.file.split("/")[:-1]}


def _symptoms(now: Situation, seen: Seen) -> list[selection.Scored]:
    """Each line once, at its largest count: one query may have seen only a part of the window."""
    own: dict[str, facts.LogFact] = {}
    for fact in seen.logs:
        key = facts.shape(fact.line.message)
        if selection.owns(fact, now) and (key not in own or own[key].count < fact.count):
            own[key] = fact
    return selection.symptoms(own.values(), now, looked_from(now), _usual(now, seen))


def _names(now: Situation, seen: Seen, found: Sequence[selection.Scored]) -> list[str]:
    """What else the errors name: first in the lines of others that speak of them, then in the service's own."""
    others = selection.elsewhere(seen.logs, found, (), now, looked_from(now))
    return names_of([s.fact for s in [*others[:2], *found[:2]]], now.service)


def _usual(now: Situation, seen: Seen) -> dict[str, int]:
    """How often each error came up to the quiet time before the alert, where that was asked for."""
    quiet = selection.quiet_until(now)
    asked = [a for a in seen.found if quiet and a.tool_name == "query_logs" and a.arguments.get("end") == iso(quiet)]
    return {facts.shape(f.line.message): f.count for answer in asked for f in facts.log_facts(answer)}


# ---- the draft -------------------------------------------------------------------------------


def _draft(now: Situation, seen: Seen) -> ExecutorEvidence:
    given = [now.asked or now.query, now.alert_name, *now.labels.values(), *now.annotations.values()]
    proposals = _proposals(now, seen)
    if asks_for_the_worst(now.asked):
        proposals = proposals[:MAX_WORST]
    return ExecutorEvidence(answer_version=ANSWER_VERSION, claims=wording.claims_of(proposals, given, MAX_CLAIMS))


def _proposals(now: Situation, seen: Seen) -> list[wording.Proposal]:
    said = wording.frames(now.chinese)
    found = _symptoms(now, seen)
    moved = selection.moved(seen.metrics, found, now)
    if not found and not moved:
        telemetry = any(answer.tool_name != KNOWLEDGE for answer in seen.found)
        return _nothing_notable(now, seen, said) if telemetry else _only_knowledge(now, seen, said)
    changes = selection.changes(seen.logs, found, now, _names(now, seen, found))
    others = selection.elsewhere(seen.logs, found, changes, now, looked_from(now))
    second = families.second_family(found, now)
    told = [found[0], second, *(s for s in found[1:] if s is not second)] if second else found
    slow = families.slow_statements(seen.logs, found, now, looked_from(now))
    standing = families.standing(seen.logs, found, now, looked_from(now))
    wanted = selection.rare_words(found, now) | selection.rare_words(changes, now) | now.terms
    by_rank = [
        [wording.of_log(s.fact, said, critical=i == 0 or s is second) for i, s in enumerate(told[:3])],
        _metrics(now, seen, moved, said),
        [wording.of_log(s.fact, said, critical=i == 0) for i, s in enumerate(changes[:3])],
        [wording.of_log(s.fact, said) for s in [*slow[:1], *others[:2], *standing[:1]]],
        _advice(seen, wanted, said, most=2, each=1) if second is None else _advice_on_both(now, seen, told[:2], said),
        [p for s in found[:2] if (p := wording.of_cause(s.fact, said)) is not None][:1],
        [wording.of_alert(a.ref, said) for a in selection.related_alerts(seen.alerts, found, now)[:1]],
    ]
    return [ranked[i] for i in range(5) for ranked in by_rank if i < len(ranked)]


def _metrics(
    now: Situation, seen: Seen, moved: Sequence[selection.Change], said: wording.Frames
) -> list[wording.Proposal]:
    """What changed, the most telling first; right after the first of it, a use that stands at its limit."""
    changed = [wording.of_metric(c.fact, said, critical=i == 0) for i, c in enumerate(moved[:4])]
    full = [wording.of_metric(fact, said) for pair in selection.saturated(seen.metrics, now)[:1] for fact in pair]
    return [*changed[:1], *full[:1], *changed[1:2], *full[1:], *changed[2:]]


def _advice(
    seen: Seen, wanted: frozenset[str], said: wording.Frames, *, most: int, each: int, least: float = 2.0
) -> list[wording.Proposal]:
    """The best sentences of the best passages: `each` of one passage, `most` in all, the best first."""
    rated: list[tuple[float, wording.Proposal]] = []
    for passage, score in selection.advice(seen.passages, wanted)[:4]:
        best = sorted(wording.of_passage(passage, wanted, said), key=lambda item: -item[0])[:each]
        rated += [(fit + score, proposal) for fit, proposal in best if fit >= least]
    return [proposal for _, proposal in sorted(rated, key=lambda item: -item[0])[:most]]


def _advice_on_both(
    now: Situation, seen: Seen, matters: Sequence[selection.Scored], said: wording.Frames
) -> list[wording.Proposal]:
    """The best sentence for each of two matters, by the words of each alone, from passages that say what to do."""
    fixing = replace(seen, passages=tuple(p for p in seen.passages if selection.FIXES.search(p.section)))
    return [
        proposal
        for matter in matters
        for proposal in _advice(fixing, selection.rare_words([matter], now), said, most=1, each=1, least=1.0)
    ]


def _only_knowledge(now: Situation, seen: Seen, said: wording.Frames) -> list[wording.Proposal]:
    """What the best document says, in reading order: retrieval has judged that it fits, also across languages."""
    ranked = selection.advice(seen.passages, now.terms, explain=_EXPLAIN.search(now.query) is not None)
    subject = ranked[0][0].title if ranked else ""
    proposals: list[wording.Proposal] = []
    for passage in [passage for passage, _ in ranked if passage.title == subject][:2]:
        wanted = now.terms | words(passage.title) | words(now.subject)
        rated = [(fit, -i, p) for i, (fit, p) in enumerate(wording.of_passage(passage, wanted, said, strict=False))]
        best = sorted((item for item in rated if item[0] > 0), key=lambda item: item[:2], reverse=True)[:4]
        proposals += [proposal for _, _, proposal in sorted(best, key=lambda item: -item[1])]
    return [replace(proposal, critical=i == 0) for i, proposal in enumerate(proposals)]


def _nothing_notable(now: Situation, seen: Seen, said: wording.Frames) -> list[wording.Proposal]:
    """Queries that found nothing, and metrics that did not move: neutral facts, no finding."""
    nothing = [a for a in seen.found if a.nothing is not None and a.tool_name != KNOWLEDGE]
    nothing.sort(key=lambda a: "any_of" in a.arguments)
    calm = selection.steady(seen.metrics, now)
    return [wording.of_nothing(ref) for a in nothing[:4] if (ref := a.nothing)] + [
        wording.of_metric(fact, said) for fact in calm
    ]


# ---- repair ----------------------------------------------------------------------------------


def _repaired(request: ModelRequest, repair: Any, anew: Any) -> ExecutorEvidence:
    """The last draft without what failed; where only the wording failed, in the excerpt's own words."""
    last = _last_draft(request)
    draft: ExecutorEvidence = last if last is not None else anew()
    failed = _failures(repair)
    kept: list[ExecutorClaim] = []
    for claim in draft.claims:
        codes = failed.get(claim.claim_id)
        if codes is None:
            kept.append(claim)
        elif codes and all(code.startswith("GK007") for code in codes):
            restated = wording.verbatim(claim)
            kept += [restated] if restated is not None and claim.kind is not ClaimKind.NEGATIVE_OBSERVATION else []
    return ExecutorEvidence(answer_version=ANSWER_VERSION, claims=kept)


def _last_draft(request: ModelRequest) -> ExecutorEvidence | None:
    for message in reversed(request.messages):
        if isinstance(message, AssistantMessage) and message.text and not message.tool_calls:
            try:
                return ExecutorEvidence.model_validate_json(message.text)
            except ValueError:
                return None
    return None


def _failures(repair: Any) -> dict[str, set[str]]:
    """Rule codes by claim id, wherever the feedback holds them."""
    found: dict[str, set[str]] = {}
    if isinstance(repair, Mapping):
        claim_id = repair.get("claim_id")
        if isinstance(claim_id, str):
            codes = [repair.get(key) for key in ("code", "rule", "rule_code")]
            found.setdefault(claim_id, set()).update(code for code in codes if isinstance(code, str))
        nested = list(repair.values())
    else:
        nested = repair if isinstance(repair, list) else []
    for item in nested:
        for claim_id, codes_below in _failures(item).items():
            found.setdefault(claim_id, set()).update(codes_below)
    return found
