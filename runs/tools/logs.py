"""`query_logs` over a folder of log files."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gatekeeper.types import EvidenceRef, EvidenceStatus, SourceKind
from runs.errors import ToolFailed, ToolRejected
from runs.harness.ports import ToolContext, ToolResult
from runs.tools.evidence import cut, no_evidence, preview_of
from runs.tools.logfiles import (
    Event,
    LogFile,
    Place,
    Scan,
    Scanned,
    ScanStopped,
    events_of,
    lines_between,
    list_files,
)
from runs.tools.loglines import LEVEL_NAMES, Level, level_named, level_of, message_of, speaks_of, template_of
from runs.tools.logpatterns import Collection, pattern_rows, time_text
from runs.tools.redaction import clean
from runs.tools.timewindow import Window, resolve_window

DEFAULT_WINDOW = timedelta(hours=1)
LINE_CHARS = 2_000
# Lines are kept a little longer than they are shown, so that a secret across the cut is still recognised.
CUT_MARGIN = 1_000
MAX_LINES = 200
MAX_PATTERN_ROWS = 40
MAX_FILE_NAMES = 20
# The scan ends a little before the caller's own time limit, so that what was found by then can still be told.
SHARE_OF_TIMEOUT = 0.9

Words = Annotated[str, Field(min_length=1, max_length=200)]


class LogQuery(BaseModel):
    """Search log lines. All given conditions must hold. Without any, the window's lines are summarised."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str | None = Field(
        None, max_length=500, description="Words that must all occur in the line, in any order; case is ignored."
    )
    any_of: list[Words] | None = Field(
        None, max_length=30, description="Alternatives: at least one of these words or phrases must occur in the line."
    )
    level: str | list[str] | None = Field(
        None, description="The lowest level wanted, such as WARN (then ERROR and FATAL too), or a list of exact levels."
    )
    service: str | None = Field(
        None,
        max_length=200,
        description="A service, application or pod name: matched with the file's path and with fields of the line.",
    )
    start: str | None = Field(
        None, max_length=60, description="Begin of the window: ISO 8601 (UTC), or relative such as -30m. Default: -1h."
    )
    end: str | None = Field(
        None, max_length=60, description="End of the window: ISO 8601 (UTC), relative, or now. Default: now."
    )
    limit: int = Field(50, ge=1, le=MAX_LINES, description="The most lines to return; patterns count all matches.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions of a query in the form they are tested in; words are lower case."""

    words: tuple[str, ...]
    any_of: tuple[str, ...]
    levels: frozenset[Level]
    service: str | None

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes of which every event that holds has one, where case does not matter to them (ASCII)."""
        choice = (max(self.words, key=len),) if self.words else self.any_of
        return tuple(word.encode() for word in choice) if all(map(str.isascii, choice)) else ()

    def holds(self, event: Event, path_names_service: bool) -> bool:
        if self.words or self.any_of:
            text = event.raw.decode("utf-8", "replace").lower()
            if not all(word in text for word in self.words):
                return False
            if self.any_of and not any(word in text for word in self.any_of):
                return False
        if self.levels and level_of(event.head, event.raw) not in self.levels:
            return False
        if self.service is None or path_names_service:
            return True
        return speaks_of(self.service, event.head, event.raw[:LINE_CHARS].decode("utf-8", "replace"))


def wanted(query: LogQuery) -> Wanted:
    """Raises `ToolRejected` for a level nobody knows."""
    return Wanted(
        words=tuple((query.text or "").lower().split()),
        any_of=tuple(word.strip().lower() for word in query.any_of or () if word.strip()),
        levels=_levels(query.level),
        service=(query.service or "").strip().lower() or None,
    )


def _levels(asked: str | list[str] | None) -> frozenset[Level]:
    if not asked:
        return frozenset()
    exact = not isinstance(asked, str) or "," in asked
    names = asked.split(",") if isinstance(asked, str) else asked
    levels = set()
    for name in names:
        level = level_named(name.strip().removesuffix("+"))
        if level is None:
            raise ToolRejected(f"A log level is unknown; known are {', '.join(LEVEL_NAMES)}.", error_code="BAD_LEVEL")
        levels.add(level)
    return frozenset(levels) if exact else frozenset(level for level in Level if level >= min(levels))


@dataclass(frozen=True, slots=True)
class Search:
    """What a scan of the folder came to. `complete` is False when the time was up before the end."""

    collection: Collection
    scanned: Scanned
    files: tuple[LogFile, ...]
    service_in_paths: bool
    complete: bool


def search(folder: Path, query: LogQuery, window: Window, reference: float, stop: Callable[[], bool]) -> Search:
    """Reads the folder. Blocking; asks `stop` all the time. Raises `OSError` where the folder cannot be listed."""
    conditions = wanted(query)
    files = list_files(folder)
    named = {file.name for file in files if conditions.service and _path_names(conditions.service, file.name)}
    collection = Collection(query.limit)
    scan = Scan(window.start.timestamp(), window.end.timestamp(), reference, stop, conditions.needles)
    complete = True
    try:
        for file in sorted(files, key=lambda file: file.name not in named):
            for event in events_of(file, scan):
                if conditions.holds(event, file.name in named):
                    text = event.raw.decode("utf-8", "replace")
                    level = level_of(event.head, event.raw)
                    template = template_of(level, message_of(event.head, text))
                    collection.add(template, event.place, event.head.time, level, text[: LINE_CHARS + CUT_MARGIN])
    except ScanStopped:
        complete = False
    return Search(collection, scan.scanned, tuple(files), bool(named), complete)


def _path_names(service: str, path: str) -> bool:
    return service in path.lower()


# Reading is work for the processor. A dozen runs that all read at once would leave the process no time for its
# event loop, and the runs their leases; so a few read, and the others wait for their turn within their time limit.
_SCANS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="log-scan")


class QueryLogs:
    """The tool. `timeout_s` bounds one call's reading."""

    name = "query_logs"
    description = (
        "Search log files: by words, alternatives, level, service and time window. Returns matching lines in time "
        "order and, for all matches, patterns with counts and first/last times. Access-log lines with status 5xx count "
        "as ERROR, with 4xx as WARN. "
        "Without start and end, the last hour before the reference time is searched."
    )
    arguments: type[BaseModel] = LogQuery
    source_kind = SourceKind.TELEMETRY

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._folder = folder
        self._timeout_s = timeout_s

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        query: LogQuery = arguments
        window = resolve_window(query.start, query.end, context.now, default=DEFAULT_WINDOW)
        wanted(query)
        gone = threading.Event()
        until = time.monotonic() + self._timeout_s * SHARE_OF_TIMEOUT

        def stop() -> bool:
            return gone.is_set() or time.monotonic() > until

        try:
            return await asyncio.get_running_loop().run_in_executor(
                _SCANS, self._answer, query, window, context.now.timestamp(), stop
            )
        except OSError as error:
            raise ToolFailed("The log folder cannot be read.", error_code="LOGS_UNREADABLE") from error
        finally:
            gone.set()

    def _answer(self, query: LogQuery, window: Window, reference: float, stop: Callable[[], bool]) -> ToolResult:
        if not self._folder.is_dir():
            raise ToolFailed("The log folder does not exist.", error_code="LOGS_UNREADABLE")
        found = search(self._folder, query, window, reference, stop)
        if not found.collection.matched:
            if not found.complete:
                raise ToolFailed(
                    f"The logs could not be read within the time limit: {_looked_at(found)} and nothing had matched "
                    "by then; ask for a shorter window or a service.",
                    error_code="TIMEOUT",
                )
            return _nothing(query, window, found)
        return _result(window, found, stop)


def _result(window: Window, found: Search, stop: Callable[[], bool]) -> ToolResult:
    numbers = _LineNumbers(stop)
    lines = [
        {
            "file": clean(kept.place.file.name),
            "line_no": numbers.of(kept.place),
            "time": time_text(kept.time),
            "level": kept.level.name if kept.level else None,
            "text": cut(clean(kept.text), LINE_CHARS),
        }
        for kept in found.collection.chosen()
    ]
    patterns = pattern_rows(found.collection.patterns()[:MAX_PATTERN_ROWS])
    output: dict[str, Any] = {
        "window": window.as_json(),
        "scanned": _scanned(found.scanned),
        "matched": found.collection.matched,
        "lines": lines,
        "patterns": patterns,
    }
    if not found.complete:
        output["incomplete"] = f"The time limit ended the search: {_looked_at(found)}."
    refs = [EvidenceRef(f"$.lines[{i}].text", str(line["text"])) for i, line in enumerate(lines)]
    refs += [EvidenceRef(f"$.patterns[{i}].text", str(row["text"])) for i, row in enumerate(patterns)]
    return ToolResult(
        status=EvidenceStatus.OK,
        output=output,
        evidence_refs=tuple(refs),
        preview=preview_of([str(row["text"]) for row in patterns]),
        details={"matched": found.collection.matched, "scanned": _scanned(found.scanned), "complete": found.complete},
    )


class _LineNumbers:
    """Line numbers; what lies before a place is counted on from the last place of the same file."""

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop
        self._known: dict[str, tuple[int, int]] = {}

    def of(self, place: Place) -> int | None:
        """None where the lines before could not be counted any more (time is up, the file was rotated away)."""
        offset, before = self._known.get(place.file.name, (0, 0))
        if place.begun_at < offset:
            offset, before = 0, 0
        try:
            before += lines_between(place.file, offset, place.begun_at, self._stop)
        except (ScanStopped, OSError):
            return None
        self._known[place.file.name] = (place.begun_at, before)
        return before + place.line


def _nothing(query: LogQuery, window: Window, found: Search) -> ToolResult:
    scanned = found.scanned
    sentences = [f"query_logs found no line with {_conditions(query)} from {window}: {_looked_at(found)}."]
    if scanned.first is not None and scanned.last is not None:
        covers = f"The data covers {time_text(scanned.first)} to {time_text(scanned.last)}"
        outside = scanned.last < window.start.timestamp() or scanned.first > window.end.timestamp()
        sentences.append(f"{covers}; the window lies wholly outside it." if outside else f"{covers}.")
    names = [file.name for file in found.files]
    if query.service and not found.service_in_paths and names:
        more = f" and {len(names) - MAX_FILE_NAMES} more" if len(names) > MAX_FILE_NAMES else ""
        sentences.append(
            f"No file path names the service {query.service!r}; files are: {', '.join(names[:MAX_FILE_NAMES])}{more}."
        )
    return no_evidence(
        " ".join(sentences),
        output={"window": window.as_json(), "scanned": _scanned(scanned), "matched": 0, "lines": [], "patterns": []},
        details={"matched": 0, "scanned": _scanned(scanned), "complete": True},
    )


def _conditions(query: LogQuery) -> str:
    parts = []
    if query.text:
        parts.append(f"text {query.text!r}")
    if query.any_of:
        parts.append(f"any of {', '.join(map(repr, query.any_of))}")
    if query.level:
        parts.append(f"level {query.level if isinstance(query.level, str) else ' or '.join(query.level)}")
    if query.service:
        parts.append(f"service {query.service!r}")
    return ", ".join(parts) or "any content"


def _looked_at(found: Search) -> str:
    scanned = found.scanned
    text = f"{scanned.files} files were opened and {scanned.lines} lines read"
    return f"{text}, {scanned.unreadable} files could not be read" if scanned.unreadable else text


def _scanned(scanned: Scanned) -> dict[str, int]:
    counts = {"files": scanned.files, "lines": scanned.lines, "bytes": scanned.bytes}
    return {**counts, "unreadable": scanned.unreadable} if scanned.unreadable else counts
