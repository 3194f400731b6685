"""What leaves is built in one place: no other module constructs a published result, also not by another name."""

import ast
from collections.abc import Iterator
from pathlib import Path

from superbiz.env import BASE_DIR

PACKAGES = ("superbiz", "audit", "runs", "gatekeeper", "prompts")
BUILDER = "runs/harness/release.py"
BUILT = "PublishedResult"
CONSTRUCTORS = {"model_validate", "model_validate_json", "model_construct", "model_copy", "parse_obj", "construct"}


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (BASE_DIR / package).rglob("*.py")


def constructions(tree: ast.AST) -> Iterator[int]:
    """Lines that call the class, or one of its constructors, under any name it was imported by."""
    names = {BUILT} | {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == BUILT and alias.asname
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in CONSTRUCTORS:
            called = called.value
        named = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if named in names:
            yield node.lineno


def test_one_module_builds_what_is_published() -> None:
    found = {
        str(path.relative_to(BASE_DIR)): lines
        for path in modules()
        if (lines := list(constructions(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert set(found) == {BUILDER}
    assert len(found[BUILDER]) == 1


def test_the_search_sees_every_way_to_build_one() -> None:
    ways = (
        "PublishedResult(query='')",
        "run.PublishedResult(query='')",
        "PublishedResult.model_construct()",
        "run.PublishedResult.model_validate({})",
        "from runs.harness.run import PublishedResult as P\nP()",
    )
    assert [list(constructions(ast.parse(way))) != [] for way in ways] == [True] * len(ways)
