"""Streaming the events of a folder of log files.

Plain files and gzip, in any depth; a file is never held whole. An event is a head line with the
undated lines that follow it (a stack trace). In a plain file whose times ascend, the window's start is
found by bisecting byte offsets and reading stops after its end. A symbolic link is followed only to a
file inside the folder; binary files are left out.
"""

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TypeAlias

from runs.tools.loglines import Head, continues, head_of

CHUNK = 1 << 20
PROBE_BYTES = 64 * 1024
PROBES = 24
BISECT_FROM_BYTES = 512 * 1024
SLACK_S = 60.0
LONGEST_LINE = 64 * 1024
LONGEST_EVENT = 32 * 1024
STOP_CHECK_LINES = 2_000

_TERMINAL_CODES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


Readable: TypeAlias = BinaryIO | gzip.GzipFile


class ScanStopped(Exception):
    """The caller went away or the time was up; raised out of the iteration."""


@dataclass(slots=True)
class Scanned:
    """What was looked at. `first` and `last`: the span of times the data states, in Unix seconds."""

    files: int = 0
    lines: int = 0
    bytes: int = 0
    unreadable: int = 0
    first: float | None = None
    last: float | None = None

    def saw(self, moment: float) -> None:
        self.first = moment if self.first is None else min(self.first, moment)
        self.last = moment if self.last is None else max(self.last, moment)


@dataclass(frozen=True, slots=True)
class LogFile:
    """`name` is relative to the folder, with `/`."""

    path: Path
    name: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class Place:
    """`line` counts from the byte offset `begun_at`, where reading began; see `lines_between`."""

    file: LogFile
    begun_at: int
    line: int


@dataclass(slots=True)
class Event:
    """A head line with its continuation; `raw` is at most about `LONGEST_EVENT` bytes, without terminal codes."""

    place: Place
    head: Head
    raw: bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """What to read: a window in Unix seconds, and `stop`, asked every couple of thousand lines.

    `needles`: lower case; every wanted event holds one of them. Empty where nothing is known of the wanted ones.
    """

    start: float
    end: float
    reference: float
    stop: Callable[[], bool]
    needles: tuple[bytes, ...] = ()
    scanned: Scanned = field(default_factory=Scanned)


def list_files(folder: Path) -> list[LogFile]:
    """Every readable regular file under `folder`, by name, each once however many links lead to it."""
    root = folder.resolve()
    found: dict[tuple[int, int], LogFile] = {}
    for directory, folders, names in os.walk(root, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(directory, name)
            try:
                real = path.resolve()
                if not real.is_relative_to(root) or not real.is_file():
                    continue
                stat = real.stat()
            except (OSError, RuntimeError):
                continue  # rotated away in this moment, or a link that leads in circles
            file = LogFile(real, path.relative_to(root).as_posix(), stat.st_size, stat.st_mtime)
            found.setdefault((stat.st_dev, stat.st_ino), file)
    return sorted(found.values(), key=lambda file: file.name)


def events_of(file: LogFile, scan: Scan) -> Iterator[Event]:
    """The events of one file inside the window, in file order. Raises `ScanStopped`."""
    try:
        with file.path.open("rb") as opened:
            magic = opened.read(1024)
            opened.seek(0)
            scan.scanned.files += 1
            if magic[:2] == b"\x1f\x8b":
                with gzip.open(opened, "rb") as unpacked:
                    yield from _events(file, unpacked, 0, False, scan)
            elif b"\0" not in magic:
                offset, ascending = _begin(file, opened, scan)
                if offset is not None:
                    for begin, length in _regions(file, opened, offset, ascending, scan):
                        yield from _events(file, opened, begin, ascending, scan, length)
    except (OSError, EOFError, zlib.error):
        scan.scanned.unreadable += 1  # a file that vanished, was cut off or may not be read is counted and told


def lines_between(file: LogFile, begin: int, end: int, stop: Callable[[], bool]) -> int:
    """How many lines end between two byte offsets; reads them all. Raises `ScanStopped`, `OSError`."""
    before, left = 0, end - begin
    if left:
        with file.path.open("rb") as opened:
            opened.seek(begin)
            while left > 0 and (chunk := opened.read(min(CHUNK, left))):
                if stop():
                    raise ScanStopped
                before += chunk.count(b"\n")
                left -= len(chunk)
    return before


def _begin(file: LogFile, opened: Readable, scan: Scan) -> tuple[int | None, bool]:
    """Where to begin reading (None: nothing of it is in the window) and whether its times ascend."""
    if file.size < BISECT_FROM_BYTES:
        return 0, False
    # Unevenly spread (multiples of the golden ratio): a file that repeats itself shall not look ascending.
    inner = sorted(int(file.size * (part * 0.618034 % 1)) for part in range(PROBES))
    points = [*inner, max(0, file.size - PROBE_BYTES)]
    times = [_time_after(opened, point, scan.reference, last=point == points[-1]) for point in points]
    known = [moment for moment in times if moment is not None]
    if len(known) < len(times) or any(later < earlier - SLACK_S for earlier, later in pairwise(known)):
        return 0, False
    scan.scanned.saw(known[0])
    scan.scanned.saw(known[-1])
    if known[-1] < scan.start - SLACK_S or known[0] > scan.end + SLACK_S:
        return None, True
    return _bisect(opened, file.size, scan.start - SLACK_S, scan.reference), True


def _regions(file: LogFile, opened: BinaryIO, offset: int, ascending: bool, scan: Scan) -> list[tuple[int, int | None]]:
    """Where to read, as begin and length in bytes (None: to the end): all from `offset`, or what is near a needle.

    A big file is looked through in blocks first, which is many times faster than line by line. What is read then is
    counted here, once. Raises `ScanStopped`.
    """
    if not scan.needles or file.size < BISECT_FROM_BYTES:
        return [(offset, None)]
    hits: list[tuple[int, int]] = []
    longest = max(map(len, scan.needles))
    tail, position = b"", offset
    opened.seek(offset)
    while block := opened.read(CHUNK):
        if scan.stop():
            raise ScanStopped
        scan.scanned.bytes += len(block)
        scan.scanned.lines += block.count(b"\n")
        if ascending and _begins_after(block, scan):
            break
        folded = (tail + block).lower()
        if b"\x1b" in folded or any(needle in folded for needle in scan.needles):
            begin, end = max(offset, position - PROBE_BYTES), position + len(block) + PROBE_BYTES
            if hits and begin <= hits[-1][1]:
                begin, _ = hits.pop()
            hits.append((begin, end))
        tail, position = block[-longest:], position + len(block)
    starts = [offset if begin == offset else _line_start(opened, begin) for begin, _ in hits]
    return [(start, end - start) for start, (_, end) in zip(starts, hits, strict=True)]


def _begins_after(block: bytes, scan: Scan) -> bool:
    """Whether the first time stated in a block lies after the window."""
    for line in block[:PROBE_BYTES].split(b"\n")[1:]:
        moment = None if continues(line) else head_of(line, scan.reference).time
        if moment is not None:
            return moment > scan.end + SLACK_S
    return False


def _bisect(opened: Readable, size: int, moment: float, reference: float) -> int:
    low, high = 0, size
    while high - low > PROBE_BYTES:
        middle = (low + high) // 2
        found = _time_after(opened, middle, reference)
        if found is not None and found < moment:
            low = middle
        else:
            high = middle
    return _line_start(opened, low)


def _line_start(opened: Readable, offset: int) -> int:
    """The first byte of the first whole line at or after `offset`."""
    if offset == 0:
        return 0
    opened.seek(offset - 1)
    opened.readline(LONGEST_LINE)
    return opened.tell()


def _time_after(opened: Readable, offset: int, reference: float, *, last: bool = False) -> float | None:
    """The first (or last) time stated in the whole lines of the `PROBE_BYTES` after `offset`."""
    opened.seek(_line_start(opened, offset))
    lines = opened.read(PROBE_BYTES).split(b"\n")
    for line in reversed(lines) if last else lines:
        if line and not continues(line):
            moment = head_of(line, reference).time
            if moment is not None:
                return moment
    return None


def _lines(opened: Readable, scan: Scan, length: int | None) -> Iterator[bytes]:
    """Lines without their ends; one longer than `LONGEST_LINE` is cut there and its rest dropped.

    With `length`, those that begin within so many bytes, which `_regions` has counted already.
    """
    scanned = scan.scanned if length is None else Scanned()
    while (length is None or scanned.bytes < length) and (line := opened.readline(LONGEST_LINE)):
        scanned.lines += 1
        if scanned.lines % STOP_CHECK_LINES == 0 and scan.stop():
            raise ScanStopped
        scanned.bytes += len(line)
        if not line.endswith(b"\n"):
            while (rest := opened.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                scanned.bytes += len(rest)
                if scan.stop():
                    raise ScanStopped
            scanned.bytes += len(rest)
        line = line.rstrip(b"\r\n")
        yield _TERMINAL_CODES.sub(b"", line) if b"\x1b" in line else line


def _events(
    file: LogFile, opened: Readable, offset: int, ascending: bool, scan: Scan, length: int | None = None
) -> Iterator[Event]:
    opened.seek(offset)
    current: Event | None = None
    dated = False
    for number, line in enumerate(_lines(opened, scan, length), start=1):
        joins = current is not None and continues(line)
        head = None if joins else head_of(line, scan.reference)
        if current is not None and (joins or (head is not None and head.time is None and dated)):
            if len(current.raw) < LONGEST_EVENT:
                current.raw += b"\n" + line
            continue
        if current is not None and _inside(current, scan):
            yield current
        if head is None or not line.strip():
            current = None
            continue
        if head.time is not None:
            dated = True
            scan.scanned.saw(head.time)
            if ascending and head.time > scan.end + SLACK_S:
                return
        current = Event(Place(file, offset, number), head, line)
    if current is not None and _inside(current, scan):
        yield current


def _inside(event: Event, scan: Scan) -> bool:
    """An undated event counts as inside when its file was last written within or after the window."""
    if event.head.time is None:
        return event.place.file.modified >= scan.start
    return scan.start <= event.head.time <= scan.end
