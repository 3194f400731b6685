"""Blocks that were cut into several passages: each passage is shown alone, as what it is a part of. Pure."""

import re
from collections.abc import Sequence

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


def left_open(text: str) -> str:
    """What to put before the text that follows: the fence of a code block, the head of a table that may go on."""
    lines = text.split("\n")
    return _fence_of(lines) or _table_head(lines)


def _fence_of(lines: Sequence[str]) -> str:
    """As `runs.knowledge.chunking` knows them."""
    opened, mark = "", ""
    for line in lines:
        if opened:
            bare = line.strip()
            if bare.startswith(mark) and not bare.strip(mark[0]):
                opened = ""
        elif found := _FENCE.match(line):
            opened, mark = line, found[1]
    return opened


def _table_head(lines: Sequence[str]) -> str:
    at = len(lines)
    while at and lines[at - 1].strip():
        at -= 1
    last = lines[at:]
    return "\n".join(last[:2]) if len(last) > 2 and "|" in last[0] and _is_rule(last[1]) else ""


def _is_rule(line: str) -> bool:
    return "|" in line and _TABLE_RULE.match(line) is not None


def going_on(opened: str, text: str) -> str:
    """The text with what the one before it left open, where it goes on with that."""
    if not opened:
        return text
    if _FENCE.match(opened):
        return f"{opened}\n{text}"
    first, second = f"{text}\n".split("\n")[:2]
    return f"{opened}\n{text}" if first.lstrip().startswith("|") and not _is_rule(second) else text
