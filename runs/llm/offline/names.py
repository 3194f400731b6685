"""Names that log lines speak of: services, hosts, components, addresses, and the folders of services in paths. Pure.

A name found in an error is where to look next: what changed there, and what else is said of it.
"""

import re
from collections.abc import Iterable

from runs.llm.offline.evidence import LogFact

MIN_CHARS = 5
_PATH = re.compile(r"(?<![\w:/])/(?:[\w.-]+/)+[\w.-]*")
_USUAL_FOLDERS = frozenset(
    "var log logs lib etc opt srv home usr data mnt tmp run bin local share proc sys dev conf config app apps".split()
)
_ADDRESS = re.compile(r"(?:->|\bto |\bon |\bat )(\d{1,3}(?:\.\d{1,3}){3})(?::\d{1,4})?(?!\d)")
_HYPHENATED = re.compile(r"(?<![\w.-])[a-z][a-z0-9]*(?:-[a-z0-9]+)+(?![\w=-])")
_ID = re.compile(r"\d{3,}|-[0-9a-f]{8,}(?:-|$)|-\d+$")


def names_in(text: str) -> list[str]:
    """Names in the order of their kinds: folders of services, addresses that are asked, hyphenated names."""
    folders = [
        part
        for path in _PATH.findall(text)
        for part in path.split("/")[1:-1]
        if part not in _USUAL_FOLDERS and not part.isdigit()
    ]
    found = [*folders, *_ADDRESS.findall(text), *_HYPHENATED.findall(_PATH.sub(" ", text))]
    return [name.lower() for name in dict.fromkeys(found) if len(name) >= MIN_CHARS]


def names_of(facts: Iterable[LogFact], own: str | None) -> list[str]:
    """Names in the lines, the first line's first, and the folders of their logs; not the own service, no ids.

    Nor the name that a line begins with: that is who speaks, and it speaks of many things.
    """
    found: list[str] = []
    for fact in facts:
        message = fact.line.message.lower()
        folders = [part.lower() for part in fact.file.split("/")[:-1] if len(part) >= MIN_CHARS]
        found += [name for name in (*names_in(message), *folders) if not message.startswith(name)]
    service = (own or "").lower()
    return [
        name
        for name in dict.fromkeys(found)
        if not (service and service in name) and (_is_address(name) or not _ID.search(name))
    ]


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether the text has one of the names, as a word or as the beginning of a longer name."""
    folded = text.lower()
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![a-z0-9])", folded) for name in names)


def _is_address(name: str) -> bool:
    return name.replace(".", "").isdigit()
