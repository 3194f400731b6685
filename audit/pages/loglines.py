"""Lines of a log search as lines: in their order, with what claims cite of them marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.pages.marks import Marked, marked
from audit.trace import Invocation
from runs.pages.hostile import one_line

TOOL = "query_logs"
MOST_LINES = 200
LINE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class LogLine:
    """`place`: file and line number. `cited_by`: ids of the published claims that cite it."""

    time: str
    level: str
    place: str
    text: Marked
    cited_by: tuple[str, ...]

    @property
    def loud(self) -> bool:
        return self.level in {"ERROR", "FATAL", "CRITICAL"}


@dataclass(frozen=True, slots=True)
class LogLines:
    lines: tuple[LogLine, ...]
    left_out: int


def log_lines(invocation: Invocation, cited: Mapping[str, Sequence[tuple[str, str]]]) -> LogLines | None:
    """None where the answer has no lines. `cited`: (claim id, excerpt) by path."""
    output = invocation.output
    if invocation.tool_name != TOOL or not isinstance(output, dict) or not isinstance(output.get("lines"), list):
        return None
    rows = [(index, row) for index, row in enumerate(output["lines"]) if isinstance(row, dict)]
    if not rows:
        return None
    lines = tuple(_line(row, cited.get(f"$.lines[{index}].text", ())) for index, row in rows[:MOST_LINES])
    return LogLines(lines, len(rows) - len(lines))


def _line(row: Mapping[str, object], citations: Sequence[tuple[str, str]]) -> LogLine:
    text = str(row.get("text") or "")
    number = row.get("line_no")
    place = str(row.get("file") or "") + (f":{number}" if number is not None else "")
    return LogLine(
        time=one_line(str(row.get("time") or ""), 40),
        level=one_line(str(row.get("level") or ""), 20),
        place=one_line(place, 120),
        text=marked(text if citations else text[:LINE_CHARS], [excerpt for _claim, excerpt in citations]),
        cited_by=tuple(dict.fromkeys(claim for claim, _excerpt in citations)),
    )
