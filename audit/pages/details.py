"""What stands beside the timeline for the selected event: the ledger rows that it points at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.pages.chart import Chart, chart_of
from audit.pages.jsonhtml import JsonTree, json_tree
from audit.pages.judged import RuleLine, rule_lines
from audit.pages.loglines import LogLines, log_lines
from audit.pages.marks import Marked, marked
from audit.pages.proof import citations_of
from audit.pages.timeline import TimelineRow, timeline_row
from audit.pages.words import ROLE_WORDS
from audit.restricted import visible_self_evaluation
from audit.trace import EventDetails, Invocation, ModelCallEntry, Step, TimelineEvent, event_details, tool_events_of
from runs.harness.events import EventType
from runs.models import DiagnosisRun
from runs.pages.hostile import Cut, one_line, seen, shown
from runs.pages.words import Tone, Words, tone_of_code

OTHER_REFS = 200
REF_CHARS = 2_000

GATE_ROUNDS = {EventType.EVIDENCE_GUARD_INITIAL: 0, EventType.EVIDENCE_GUARD_REPAIR: 1}
# Events whose restricted texts stand in the run's evaluation of itself.
JUDGED = frozenset(
    {*GATE_ROUNDS, EventType.SEMANTIC_GUARD_DECISION, EventType.AIOPS_RULE_EVALUATION, EventType.RELEASE_DECISION}
)


@dataclass(frozen=True, slots=True)
class ToolOfStep:
    """A tool that the step asked for. `sequence_no` None: no event near the step's tells of the call."""

    name: str
    sequence_no: int | None = None
    status: str = ""
    tone: Tone = Tone.NORMAL


@dataclass(frozen=True, slots=True)
class StepView:
    """`open_ended`: the run has ended and no end of this step was recorded. `backwards`: it ended before it began."""

    step: Step
    role: Words
    model_input: str
    model_output: str
    tools: tuple[ToolOfStep, ...]
    calls: tuple[ModelCallEntry, ...]
    open_ended: bool
    backwards: bool


@dataclass(frozen=True, slots=True)
class RefView:
    """One citable text. `cited_by`: ids of the published claims that cite it."""

    index: int
    raw_path: str
    text: Marked
    cited_by: tuple[str, ...]
    shown_to_model: bool
    relevance: str | None


@dataclass(frozen=True, slots=True)
class InvocationView:
    """`others`: refs that nothing published cites; `others_left_out`: how many more of them there are.

    `preview`: where no output was kept.
    """

    invocation: Invocation
    arguments: JsonTree
    output: JsonTree | None
    preview: Cut | None
    chart: Chart | None
    lines: LogLines | None
    error: str
    cited: tuple[RefView, ...]
    others: tuple[RefView, ...]
    others_left_out: int
    retrieval: JsonTree | None


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What a gate said of one drafted claim, without its text. `digest`: SHA-256 of the claim."""

    claim_id: str
    accepted: bool
    rules: tuple[RuleLine, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a semantic check or a report rule."""

    name: str
    rule: RuleLine | None
    passed: bool | None


@dataclass(frozen=True, slots=True)
class Panel:
    """Exactly what the template shows. `facts`: the frame's own metadata, by name.

    `missing`: the id of the ledger row that the event points at and that is not on record.
    """

    row: TimelineRow
    event_type: str
    facts: tuple[tuple[str, str], ...]
    step: StepView | None
    invocation: InvocationView | None
    claims: tuple[ClaimVerdict, ...]
    checks: tuple[Check, ...]
    restricted: bool
    missing: str


def panel_of(run: DiagnosisRun, sequence_no: int) -> Panel | None:
    """None: the run has no such event. Five queries at most."""
    found = event_details(run.id, sequence_no)
    if found is None:
        return None
    event = found.event
    is_call = event.event_type == EventType.TOOL_INVOCATION
    return Panel(
        row=timeline_row(event, run.started_at or event.created_at),
        event_type=event.event_type,
        facts=_facts(event),
        step=None if is_call else _step_view(found, ended=run.is_terminal),
        invocation=_invocation_view(run, found.invocation) if found.invocation else None,
        claims=_claim_verdicts(run, event),
        checks=_checks(run, event),
        restricted=_has_restricted(found),
        missing=_missing(found),
    )


def _missing(found: EventDetails) -> str:
    event = found.event
    if event.event_type == EventType.TOOL_INVOCATION and found.invocation is None:
        return event.invocation_id or "–"
    if event.event_type == EventType.AGENT_MODEL_STEP and found.step is None:
        return event.step_id or "–"
    return ""


def _has_restricted(found: EventDetails) -> bool:
    if found.event.event_type in JUDGED:
        return True
    return found.event.event_type == EventType.AGENT_MODEL_STEP and found.step is not None


def _facts(event: TimelineEvent) -> tuple[tuple[str, str], ...]:
    """Metadata that no other part of the panel shows. Its strings are short by the frames' own contract."""
    return tuple(
        (name.replace("_", " "), _plain(value))
        for name, value in event.details.items()
        if value not in (None, [], "", False)
    )


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(one_line(str(item)) for item in value)
    return one_line(str(value))


def _step_view(found: EventDetails, *, ended: bool) -> StepView | None:
    step = found.step
    if step is None:
        return None
    return StepView(
        step=step,
        role=ROLE_WORDS.get(step.role, step.role),
        model_input=seen(step.model_input),
        model_output=seen(step.model_output or ""),
        tools=_tools(found, step),
        calls=found.model_calls,
        open_ended=ended and step.finished_at is None,
        backwards=step.finished_at is not None and step.finished_at < step.started_at,
    )


def _tools(found: EventDetails, step: Step) -> tuple[ToolOfStep, ...]:
    """The calls that the step asked for; where their events follow it, with how they went."""
    asked = tuple(ToolOfStep(one_line(call.get("tool_name", ""), 60)) for call in step.tool_plan)
    if not asked or step.run_id is None or found.event.status == "STARTED":
        return asked
    made = tuple(
        ToolOfStep(one_line(str(event.details.get("tool_name", "")), 60), event.sequence_no, event.status or "", tone)
        for event in tool_events_of(step.run_id, step.id, found.event.sequence_no)
        for tone in (tone_of_code(event.status),)
    )
    return made if len(made) >= len(asked) else (*made, *asked[len(made) :])


def _invocation_view(run: DiagnosisRun, invocation: Invocation) -> InvocationView:
    citations = citations_of(run, invocation.invocation_id)
    claims = {path: [claim for claim, _excerpt in found] for path, found in citations.items()}
    cited: list[RefView] = []
    others: list[RefView] = []
    for index, ref in enumerate(invocation.evidence_refs):
        found = citations.get(ref["raw_path"], [])
        if found:
            cited.append(_ref_view(index, ref, found))
        elif len(others) < OTHER_REFS:
            others.append(_ref_view(index, ref, found))
    details = {name: value for name, value in invocation.retrieval_details.items() if value not in (None, "", [], {})}
    return InvocationView(
        invocation=invocation,
        arguments=json_tree(invocation.input_params),
        output=None if invocation.output is None else json_tree(invocation.output),
        preview=shown(invocation.output_preview) if invocation.output is None else None,
        chart=chart_of(invocation, claims),
        lines=log_lines(invocation, citations),
        error=seen(invocation.error_message or ""),
        cited=tuple(cited),
        others=tuple(others),
        others_left_out=len(invocation.evidence_refs) - len(cited) - len(others),
        retrieval=json_tree(details) if details else None,
    )


def _ref_view(index: int, ref: Mapping[str, Any], citations: list[tuple[str, str]]) -> RefView:
    text = str(ref["text"])
    return RefView(
        index=index,
        raw_path=one_line(str(ref["raw_path"]), 120),
        text=marked(text if citations else text[:REF_CHARS], [excerpt for _claim, excerpt in citations]),
        cited_by=tuple(dict.fromkeys(claim for claim, _excerpt in citations)),
        shown_to_model=bool(ref.get("shown", True)),
        relevance=ref.get("relevance"),
    )


def _evaluation(run: DiagnosisRun) -> dict[str, Any]:
    """What everyone may see of it."""
    return visible_self_evaluation(run, may_read_reasoning=False) or {}


def _claim_verdicts(run: DiagnosisRun, event: TimelineEvent) -> tuple[ClaimVerdict, ...]:
    position = GATE_ROUNDS.get(EventType(event.event_type))
    if position is None:
        return ()
    rounds = (_evaluation(run).get("verifier_evaluation") or {}).get("gatekeeper_result", {}).get("rounds", [])
    judged = rounds[position] if position < len(rounds) else {}
    drafted = judged.get("draft_rules", ())
    return tuple(
        ClaimVerdict(
            claim_id=one_line(str(claim["claim_id"]), 60),
            accepted=bool(claim["accepted"]),
            rules=rule_lines([*drafted, *claim["rules"]]),
            digest=claim["claim_sha256"],
        )
        for claim in judged.get("claims", ())
    )


def _checks(run: DiagnosisRun, event: TimelineEvent) -> tuple[Check, ...]:
    if event.event_type == EventType.SEMANTIC_GUARD_DECISION:
        verifier = _evaluation(run).get("verifier_evaluation") or {}
        checks = (verifier.get("evaluation") or {}).get("claim_checks", ())
        return tuple(Check(one_line(str(check["claim_id"]), 60), None, check["supported"]) for check in checks)
    if event.event_type == EventType.AIOPS_RULE_EVALUATION:
        rules = (_evaluation(run).get("aiops_rule_evaluation") or {}).get("rules", ())
        lines = rule_lines({"code": rule["code"], "verdict": "PASS" if rule["passed"] else "FAIL"} for rule in rules)
        return tuple(Check(line.code, line, line.verdict == "PASS") for line in lines)
    return ()
