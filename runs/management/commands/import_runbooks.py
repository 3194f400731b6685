"""Bring Markdown runbooks in as knowledge."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.text import slugify

from runs import library
from runs.knowledge import chunking
from runs.knowledge.chunking import BadDocument, Document

BUNDLED = Path(chunking.__file__).parent / "runbooks"
ID_LIMIT = 200
NAME_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Found:
    """A Markdown file: `name` is its path inside the folder that was named."""

    path: Path
    name: str

    @property
    def document_id(self) -> str:
        stem = self.name.removesuffix(".md").removesuffix(".markdown").replace("/", "-").replace("_", "-")
        return slugify(stem, allow_unicode=True)[:ID_LIMIT]


class Command(BaseCommand):
    help = (
        "Bring Markdown files in as knowledge documents, folders with all that is in them. A file that has not "
        "changed is left alone; one that has takes the place of its document. A document's id is its file's name."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a .md file, or a folder of them")
        parser.add_argument("--bundled", action="store_true", help="the runbooks that come with SuperBiz")

    def handle(self, *args: Any, **options: Any) -> None:
        paths = [*options["paths"], *([BUNDLED] if options["bundled"] else [])]
        if not paths:
            raise CommandError("Name a file or folder, or say --bundled.", returncode=2)
        read = [(self._read(found), found.name) for path in paths for found in files_under(path)]
        if not read:
            raise CommandError("There is no .md file there.", returncode=2)
        ids = [document.document_id for document, _ in read]
        twice = next((document_id for document_id in ids if ids.count(document_id) > 1), None)
        if twice:
            raise CommandError(f"Two files would become the document {twice}; rename one.", returncode=2)
        changed = sum(library.store(document, source=name) for document, name in read)
        self.stdout.write(f"{changed} of {len(read)} documents brought in; the others had not changed.")

    def _read(self, found: Found) -> Document:
        try:
            found.name.encode()
        except UnicodeEncodeError as error:
            raise CommandError(f"{found.path}: its name is not UTF-8 text.", returncode=2) from error
        try:
            text = found.path.read_text(encoding="utf-8")
            if not found.document_id:
                raise BadDocument("its name has no letter or digit to make an id of")
            if len(found.name) > NAME_LIMIT:
                raise BadDocument(f"its path in the folder is longer than {NAME_LIMIT} characters")
            return chunking.read_markdown(found.document_id, text, fallback_title=found.path.stem)
        except UnicodeDecodeError as error:
            raise CommandError(f"{found.path}: it is not UTF-8 text.", returncode=2) from error
        except (OSError, BadDocument) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CommandError(f"{found.path}: {reason}.", returncode=2) from error


def files_under(path: Path) -> Iterator[Found]:
    """A file by its name; a folder's files by their paths in it, in a stable order."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in {".md", ".markdown"} and file.is_file():
                yield Found(file, file.relative_to(path).as_posix())
    elif path.is_file():
        yield Found(path, path.name)
    else:
        raise CommandError(f"{path} is neither a file nor a folder.", returncode=2)
