"""Markdown runbooks as documents with metadata, and documents as passages.

A passage is a run of whole paragraphs under one heading, at most about `PASSAGE_CHARS` long, verbatim.
A code block stays whole unless it alone is longer; then it is cut at line ends.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

PASSAGE_CHARS = 900
MAX_DOCUMENT_CHARS = 1_000_000
MAX_TITLE_CHARS = 300


class BadDocument(ValueError):
    """The text is no runbook; the message says why, for the person who wrote it."""


@dataclass(frozen=True, slots=True)
class Document:
    """A knowledge document. `document_id` is the caller's; the text is Markdown without front matter."""

    document_id: str
    title: str
    text: str
    alerts: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage. `chunk_id` is `DOCUMENT_ID#ORDINAL`; `section` the headings above it, joined with ` > `."""

    chunk_id: str
    document_id: str
    ordinal: int
    section: str
    text: str


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def _as_texts(value: Any) -> Any:
    """A list of texts; numbers (error code 1205) as YAML reads them become text again."""
    items = [value] if isinstance(value, str | int) else value
    if not isinstance(items, list) or any(not isinstance(item, str | int) or isinstance(item, bool) for item in items):
        raise ValueError("must be a list of texts")
    if any(_UNSTORABLE.search(str(item)) for item in items):
        raise ValueError("holds a NUL or half a character")
    return tuple(text for item in items if (text := str(item).strip()))


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]


class FrontMatter(BaseModel):
    """The YAML block at the top of a runbook. Keys of other tools are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    title: str | None = None
    alerts: Texts = ()
    error_codes: Texts = ()
    aliases: Texts = ()
    services: Texts = ()


_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIRST_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


def read_markdown(document_id: str, text: str, *, fallback_title: str | None = None) -> Document:
    """The document of a Markdown file. Title: front matter, else the first `#` heading, else `fallback_title`.

    Raises `BadDocument`.
    """
    if len(text) > MAX_DOCUMENT_CHARS:
        raise BadDocument(f"the document is longer than {MAX_DOCUMENT_CHARS} characters")
    if "\0" in text:
        raise BadDocument("the document holds NUL characters and is no text")
    match = _FRONT_MATTER.match(text)
    front = _front_matter(match[1]) if match else FrontMatter()
    body = (text[match.end() :] if match else text.removeprefix("\ufeff")).replace("\r\n", "\n").strip("\n")
    heading = _FIRST_HEADING.search(body)
    title = front.title or (heading[1].strip() if heading else None) or fallback_title
    if not title or not title.strip():
        raise BadDocument("the document has no title: give one in its front matter or as its first # heading")
    if _UNSTORABLE.search(title):
        raise BadDocument("its title holds a NUL or half a character")
    if len(title.strip()) > MAX_TITLE_CHARS:
        raise BadDocument(f"its title is longer than {MAX_TITLE_CHARS} characters")
    return Document(document_id, title.strip(), body, front.alerts, front.error_codes, front.aliases, front.services)


def _front_matter(block: str) -> FrontMatter:
    try:
        value = yaml.safe_load(block)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadDocument("its front matter is not valid YAML") from error
    if value is None:
        return FrontMatter()
    if not isinstance(value, dict):
        raise BadDocument("its front matter must be a YAML mapping such as title: …")
    try:
        return FrontMatter.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadDocument(f"its front matter is wrong at {where}: {first['msg']}") from error


@dataclass(slots=True)
class _Block:
    """A paragraph, list or code block, verbatim."""

    text: str
    code: bool = False


@dataclass(slots=True)
class _Section:
    headings: tuple[str, ...]
    blocks: list[_Block] = field(default_factory=list)


def chunk(document: Document, *, limit: int = PASSAGE_CHARS) -> tuple[Chunk, ...]:
    """The passages of a document in order. A document without text gives none."""
    passages = [
        (" > ".join(section.headings), text)
        for section in _sections(document)
        for text in _packed(section.blocks, limit)
    ]
    return tuple(
        Chunk(f"{document.document_id}#{ordinal}", document.document_id, ordinal, section, text)
        for ordinal, (section, text) in enumerate(passages)
    )


_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def _sections(document: Document) -> list[_Section]:
    """The document's sections; a first heading that repeats the title is no section of its own."""
    levels: list[tuple[int, str]] = []
    sections = [_Section(())]
    lines: list[str] = []
    fence: str | None = None

    def close(*, code: bool = False) -> None:
        text = "\n".join(lines).strip("\n")
        if text.strip():
            sections[-1].blocks.append(_Block(text, code))
        lines.clear()

    for line in document.text.split("\n"):
        if fence is not None:
            lines.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                close(code=True)
                fence = None
            continue
        opening, heading = _FENCE.match(line), _HEADING.match(line)
        if opening:
            close()
            fence = opening[1]
            lines.append(line)
        elif heading:
            close()
            depth, name = len(heading[1]), heading[2].strip()
            levels = [(level, text) for level, text in levels if level < depth]
            if name.casefold() != document.title.casefold():
                levels.append((depth, name))
            sections.append(_Section(tuple(text for _, text in levels)))
        elif line.strip():
            lines.append(line)
        else:
            close()
    close(code=fence is not None)
    return sections


def _packed(blocks: list[_Block], limit: int) -> Iterator[str]:
    """Blocks joined while they fit; a block that is too long alone is cut at line ends or words."""
    current = ""
    for block in blocks:
        for piece in [block.text] if len(block.text) <= limit else _cut(block.text, limit):
            joined = f"{current}\n\n{piece}" if current else piece
            if len(joined) <= limit:
                current = joined
            else:
                yield current
                current = piece
    if current:
        yield current


def _cut(text: str, limit: int) -> Iterator[str]:
    while len(text) > limit:
        at = max(text.rfind("\n", 1, limit), 0) or max(text.rfind(" ", 1, limit), 0) or limit
        yield text[:at]
        text = text[at:].lstrip("\n") if text[at : at + 1] == "\n" else text[at:].lstrip(" ")
    if text.strip():
        yield text
