"""The docs say what the code has: every setting, event type, rule and command, and no name that is gone."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from gatekeeper.rules import CODES
from runs.harness.events import EventType
from superbiz.env import BASE_DIR, INTERNAL_NAMES, setting_names

DOCS = BASE_DIR / "docs"
OURS = {"audit", "gatekeeper", "prompts", "runs", "superbiz"}


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_setting_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", text_of("settings.md"), re.MULTILINE))
    assert documented == set(setting_names()) - INTERNAL_NAMES


@pytest.mark.parametrize("event_type", list(EventType))
def test_every_event_type_is_explained_where_it_happens(event_type: EventType) -> None:
    assert f"`{event_type.value}`" in text_of("how-a-run-flows.md")


@pytest.mark.parametrize("code", CODES)
def test_every_gatekeeper_rule_is_documented(code: str) -> None:
    assert code in text_of("gates.md")


def test_every_command_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\| `manage\.py ([a-z_]+)", text_of("commands.md"), re.MULTILINE))
    assert documented == {name for name, app in get_commands().items() if app in OURS}


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), BASE_DIR / "README.md"], ids=lambda page: page.name)
def test_files_named_in_the_docs_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:runs|audit|gatekeeper|prompts|superbiz|templates|docs|eval|bench)/[\w./-]+)`", text)
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", text)
    missing = [name for name in named if not (BASE_DIR / name).exists()]
    missing += [name for name in linked if not (page.parent / name).exists()]
    assert missing == []


def test_every_promise_of_reliability_names_tests_that_exist() -> None:
    promises = [line for line in text_of("reliability.md").splitlines() if re.match(r"\| [A-Z]", line)]
    assert promises
    written = "".join(path.read_text(encoding="utf-8") for path in sorted((BASE_DIR / "tests").rglob("test_*.py")))
    existing = set(re.findall(r"def (test_\w+)", written))
    for promise in promises:
        named = re.findall(r"`(test_\w+)`", promise)
        assert named, promise
        assert set(named) <= existing, promise


def test_every_key_is_documented_and_no_other() -> None:
    shown = (BASE_DIR / "templates" / "parts" / "keys.html").read_text(encoding="utf-8")
    documented = [line for line in text_of("explorer.md").splitlines() if line.startswith("| `")]
    assert re.findall(r"`([^`]+)`", " ".join(line.split("|")[1] for line in documented)) == re.findall(
        r"<kbd>(.+?)</kbd>", shown
    )
