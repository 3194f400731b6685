"""What a full look at a run's record found."""

from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from audit.trace import Count, Tokens, load_trace
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line
from runs.pages.words import Words

PROBLEMS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class RecordView:
    """`problems`: what does not hold, at most so many; `problems_left_out`: how many more."""

    terminal: bool
    complete: bool
    counts: tuple[tuple[Words, Count], ...]
    tokens: Tokens
    problems: tuple[str, ...]
    problems_left_out: int

    @property
    def holds(self) -> bool:
        return not self.problems


def record_view(run: DiagnosisRun) -> RecordView:
    """While a run goes, what it emitted may be on its way into the record."""
    trace = load_trace(run)
    summary = trace.summary
    return RecordView(
        terminal=run.is_terminal,
        complete=summary.complete or not run.is_terminal,
        counts=(
            (_("events"), summary.events),
            (_("steps"), summary.steps),
            (_("tool calls"), summary.tool_invocations),
            (_("model calls"), summary.model_calls),
        ),
        tokens=summary.tokens,
        problems=tuple(one_line(str(problem), 300) for problem in trace.problems[:PROBLEMS_SHOWN]),
        problems_left_out=max(0, len(trace.problems) - PROBLEMS_SHOWN),
    )
