"""The runbooks that ship with SuperBiz can be found by what an alert says and are written for someone on call."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[3] / "runs/knowledge/runbooks"
PATHS = sorted(FOLDER.glob("*.md"))
KEYS = {"title", "alerts", "error_codes", "aliases", "services"}


def parts(path: Path) -> tuple[dict[str, Any], str]:
    """Front matter and body."""
    _, front, body = path.read_text().split("---\n", 2)
    return yaml.safe_load(front), body


def test_twenty_are_bundled() -> None:
    assert len(PATHS) == 20


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
class TestRunbook:
    def test_its_file_name_is_a_slug(self, path: Path) -> None:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem)

    def test_its_front_matter_holds_a_title_and_lists_of_text(self, path: Path) -> None:
        front, _ = parts(path)
        assert set(front) == KEYS
        assert front["title"].strip()
        for key in KEYS - {"title"}:
            assert all(isinstance(item, str) and item.strip() == item != "" for item in front[key]), key
            assert len(front[key]) == len({item.lower() for item in front[key]}), key
        assert front["alerts"]
        assert front["aliases"]

    def test_its_heading_is_its_title(self, path: Path) -> None:
        front, body = parts(path)
        heading = body.strip().splitlines()[0].removeprefix("# ")
        assert front["title"].split(" (")[0].startswith(heading.split(" (")[0])

    def test_it_leads_from_symptoms_to_escalation(self, path: Path) -> None:
        _, body = parts(path)
        sections = re.findall(r"^## (.+)$", body, re.MULTILINE)
        assert sections[0] == "Symptoms"
        assert sections[1] == "First checks"
        assert "What not to do" in sections
        assert any(section == "Fixes" or section.startswith("Fix: ") for section in sections)
        assert sections[-1] == "Escalate when"
        assert "```" in body

    def test_it_is_dense_and_no_book(self, path: Path) -> None:
        assert 60 <= len(path.read_text().splitlines()) <= 140


@pytest.mark.parametrize("key", ["title", "aliases", "error_codes"])
def test_a_hint_names_few_runbooks(key: str) -> None:
    """A title or alias leads to one runbook; an error code may concern two."""
    owners: dict[str, set[str]] = {}
    for path in PATHS:
        value = parts(path)[0][key]
        for item in [value] if isinstance(value, str) else value:
            owners.setdefault(item.lower(), set()).add(path.stem)
    most = 2 if key == "error_codes" else 1
    assert {item: names for item, names in owners.items() if len(names) > most} == {}


def test_no_two_runbooks_are_for_the_same_set_of_alerts() -> None:
    for one, other in combinations(PATHS, 2):
        assert set(parts(one)[0]["alerts"]) - set(parts(other)[0]["alerts"])
