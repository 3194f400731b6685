"""Two runs side by side: what tells them apart, what each looked at, said and left out, and where its time went.

Nothing here is restricted: claims that were left out stand by their ids, rule codes and digests, whoever looks.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, F, Func, IntegerField

from audit.models import ToolInvocation, TraceEvent
from audit.overview import FramesOverview, PhaseTotal, frames_overview
from audit.pages.comparefacts import Fact, facts_of
from audit.pages.details import GATE_ROUNDS
from audit.pages.removed import LeftOut, left_out
from audit.pages.timelineview import PHASE_WORDS
from runs.access import Caller
from runs.models import DiagnosisRun
from runs.models.token import Scope
from runs.pages.hostile import one_line, seen
from runs.pages.words import Tone, Words, tone_of_code

MOST_CALLS = 200
ARGUMENT_CHARS = 400
# Refs of evidence, without the one that says that nothing was found.
_EVIDENCE_COUNT = """
    jsonb_array_length(jsonb_path_query_array(%(expressions)s, '$[*] ? (@.raw_path != "$.no_evidence")'))
"""


@dataclass(frozen=True, slots=True)
class Side:
    """`reading`: number of the event whose restricted page holds the drafts; None without one or the permission."""

    letter: str
    id: str
    subject: str
    left_out: LeftOut
    open: bool
    calls_cut: bool
    reading: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of one of the runs. `sequence_no` None: no event tells of it."""

    status: str
    tone: Tone
    evidence: int
    duration_ms: int
    sequence_no: int | None


@dataclass(frozen=True, slots=True)
class CallPair:
    """The same tool with the same arguments: what came back in either run. One of the two may be None."""

    tool: str
    arguments: str
    a: Call | None
    b: Call | None


@dataclass(frozen=True, slots=True)
class Statements:
    """Released sentences, word for word: in both runs, only in one of them. In the order in which they were said."""

    both: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def any(self) -> bool:
        return bool(self.both or self.only_a or self.only_b)


@dataclass(frozen=True, slots=True)
class PhasePair:
    words: Words
    a: PhaseTotal
    b: PhaseTotal


@dataclass(frozen=True, slots=True)
class Comparison:
    """`same_subject` False: the runs were asked different things."""

    a: Side
    b: Side
    same_subject: bool
    facts: tuple[Fact, ...]
    calls: tuple[CallPair, ...]
    statements: Statements
    phases: tuple[PhasePair, ...]

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def open(self) -> bool:
        return self.a.open or self.b.open

    @property
    def differs(self) -> tuple[Words, ...]:
        return tuple(fact.label for fact in self.facts if fact.differs)

    @property
    def calls_in_both(self) -> int:
        return sum(pair.a is not None and pair.b is not None for pair in self.calls)


def compare(caller: Caller, a: DiagnosisRun, b: DiagnosisRun) -> Comparison:
    """Both are runs that the caller may see. Five queries at most, whatever they hold."""
    rows = {run.id: _invocations(run) for run in (a, b)}
    frames = {run.id: frames_overview(run.id, [row["invocation_id"] for row in rows[run.id]]) for run in (a, b)}
    gates = _gates(a, b) if caller.may(Scope.REASONING_READ) else {}
    of_a, of_b = (_side(letter, run, rows[run.id], gates) for letter, run in (("A", a), ("B", b)))
    return Comparison(
        a=of_a,
        b=of_b,
        same_subject=(a.query, a.subject) == (b.query, b.subject),
        facts=facts_of(a, b, caller),
        calls=pair_calls(_calls(rows[a.id], frames[a.id]), _calls(rows[b.id], frames[b.id])),
        statements=pair_statements(_said(a), _said(b)),
        phases=tuple(
            PhasePair(PHASE_WORDS[one.phase], one, other)
            for one, other in zip(frames[a.id].phases, frames[b.id].phases, strict=True)
        ),
    )


def _side(letter: str, run: DiagnosisRun, calls: list[dict[str, Any]], gates: dict[str, int]) -> Side:
    return Side(
        letter=letter,
        id=run.id,
        subject=one_line(run.alert_name or run.query, 160),
        left_out=left_out(run),
        open=not run.is_terminal,
        calls_cut=len(calls) > MOST_CALLS,
        reading=gates.get(run.id),
    )


def _gates(*runs: DiagnosisRun) -> dict[str, int]:
    """Number of each run's last gate event."""
    events = TraceEvent.objects.filter(run__in=runs, event_type__in=list(GATE_ROUNDS)).order_by("sequence_no")
    return dict(events.values_list("run_id", "sequence_no"))


# ---- what they looked at --------------------------------------------------------------------------------------


def _invocations(run: DiagnosisRun) -> list[dict[str, Any]]:
    """In the order of the calls, one more than is shown. Without outputs and texts."""
    counted = Func(F("evidence_refs"), template=_EVIDENCE_COUNT, output_field=IntegerField())
    arguments = Func(F("input_params"), template="(%(expressions)s)::text", output_field=CharField())
    rows = ToolInvocation.objects.filter(run_id=run.id).order_by("started_at", "id")
    rows = rows.annotate(evidence=counted, arguments=arguments)
    wanted = ("invocation_id", "tool_name", "arguments", "evidence_status", "evidence", "duration_ms")
    return list(rows.values(*wanted)[: MOST_CALLS + 1])


Called = tuple[tuple[str, str], Call]


def _calls(rows: list[dict[str, Any]], frames: FramesOverview) -> list[Called]:
    """Each call with what makes it the same as another: tool and arguments. jsonb writes equal objects alike."""
    return [
        (
            (row["tool_name"], row["arguments"]),
            Call(
                status=row["evidence_status"],
                tone=tone_of_code(row["evidence_status"]),
                evidence=row["evidence"],
                duration_ms=row["duration_ms"],
                sequence_no=frames.events_of_invocations.get(row["invocation_id"]),
            ),
        )
        for row in rows[:MOST_CALLS]
    ]


def pair_calls(of_a: Iterable[Called], of_b: Iterable[Called]) -> tuple[CallPair, ...]:
    """Those of `a` in their order, each with one of `b` where there is an equal; then the rest of `b`."""
    left: dict[tuple[str, str], list[Call]] = {}
    for key, call in of_b:
        left.setdefault(key, []).append(call)
    pairs = [_pair(key, call, left[key].pop(0) if left.get(key) else None) for key, call in of_a]
    rest = [_pair(key, None, call) for key, calls in left.items() for call in calls]
    return (*pairs, *rest)


def _pair(key: tuple[str, str], a: Call | None, b: Call | None) -> CallPair:
    tool, arguments = key
    return CallPair(one_line(tool, 80), _short(arguments), a, b)


def _short(arguments: str) -> str:
    """`service: checkout-api, limit: 5`, which is read faster than braces and quotes."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return one_line(arguments, ARGUMENT_CHARS)
    if not isinstance(values, dict):
        return one_line(arguments, ARGUMENT_CHARS)
    told = (
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
        if value is not None
    )
    return one_line(", ".join(told), ARGUMENT_CHARS)


# ---- what they said -------------------------------------------------------------------------------------------


def _said(run: DiagnosisRun) -> list[str]:
    statements = (run.published_result or {}).get("statements", ())
    return [seen(" ".join(statement["text"].split())) for statement in statements]


def pair_statements(of_a: list[str], of_b: list[str]) -> Statements:
    shared = Counter(of_a) & Counter(of_b)
    return Statements(tuple(_kept(of_a, shared)), tuple(_beyond(of_a, shared)), tuple(_beyond(of_b, shared)))


def _kept(said: list[str], shared: Counter[str]) -> Iterable[str]:
    left = Counter(shared)
    for text in said:
        if left[text]:
            left[text] -= 1
            yield text


def _beyond(said: list[str], shared: Counter[str]) -> Iterable[str]:
    left = Counter(shared)
    for text in said:
        if left[text]:
            left[text] -= 1
        else:
            yield text
