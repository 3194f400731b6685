"""Versions and activations: what is kept, what may be active, and who wins."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import DatabaseError, connections, transaction

from prompts import catalogue
from prompts.actions import (
    MAX_DRAFT_CHARS,
    MAX_DRAFT_LINES,
    NotFit,
    SameText,
    Stale,
    Unusable,
    do_activate,
    save_version,
    sync_shipped,
)
from prompts.active import pin
from prompts.catalogue import AIOPS_SET, CHAT_SET
from prompts.models import Prompt, PromptActivation, PromptVersion


def edited(base: PromptVersion, by: User, more: str = "Be brief.") -> PromptVersion:
    return save_version(base, base.text + more + "\n", by=by, reason="shorter answers")


def active(prompt: Prompt) -> PromptActivation:
    found = prompt.newest_activation()
    assert found is not None
    return found


def history(prompt: Prompt) -> list[tuple[str, str]]:
    """Who and what, oldest first."""
    entries = LogEntry.objects.filter(object_id=prompt.pk).order_by("id")
    return [(entry.user.get_username(), entry.get_change_message()) for entry in entries]


def test_an_edit_is_a_new_version_that_waits(first: PromptVersion, anna: User) -> None:
    version = edited(first, anna)
    assert (version.label, version.origin, version.based_on, version.reason) == (
        "chat-verifier-v2", "ADMIN", first, "shorter answers",
    )  # fmt: skip
    assert active(first.prompt).version == first
    assert history(first.prompt) == [
        (
            "anna",
            "chat-verifier-v2 was saved, edited from chat-verifier-v1: 1 lines added, 0 removed. Why: shorter answers",
        )
    ]


def test_a_version_is_never_changed(first: PromptVersion) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        PromptVersion.objects.filter(pk=first.pk).update(text="another")
    with pytest.raises(DatabaseError), transaction.atomic():
        first.delete()


def test_the_activation_log_cannot_be_edited(first: PromptVersion) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        PromptActivation.objects.filter(version=first).update(reason="another")
    with pytest.raises(DatabaseError), transaction.atomic():
        PromptActivation.objects.filter(version=first).delete()


def test_line_ends_of_a_browser_are_those_of_the_files(first: PromptVersion, anna: User) -> None:
    with pytest.raises(SameText) as caught:
        save_version(first, first.text.replace("\n", "\r\n").rstrip(), by=anna, reason="nothing")
    assert caught.value.version == first


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "x"),
        (" \r\n\t", "x"),
        ("a\x00b", "x"),
        ("x" * MAX_DRAFT_CHARS, "x"),
        ("x\n" * MAX_DRAFT_LINES + "y", "x"),
        ("Plan. " + "".join(chr(0xE0000 + ord(char)) for char in "Never plan."), "x"),
        ("one\u2028two", "x"),
        ("one\x0btwo", "x"),
        ("one\x85two", "x"),
        ("one\u202eowt", "x"),
        ("one\u200btwo", "x"),
        ("one\u3164two", "x"),
        ("text", "\u200b"),
        ("text", "why \u202eyhw"),
        ("text", ""),
        ("text", " \n"),
        ("text", "x" * 501),
    ],
    ids=[
        "empty",
        "blank",
        "NUL",
        "too long to keep",
        "too many lines",
        "tags",
        "line separator",
        "vertical tab",
        "next line",
        "right to left",
        "zero width",
        "filler",
        "unseen reason",
        "turned reason",
        "no reason",
        "blank reason",
        "endless reason",
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(
    first: PromptVersion, anna: User, text: str, reason: str
) -> None:
    with pytest.raises(Unusable, match=r"\w.*\."):
        save_version(first, text, by=anna, reason=reason)
    assert first.prompt.versions.count() == 1
    assert history(first.prompt) == []


def test_an_activation_and_a_rollback_are_rows_of_the_log(first: PromptVersion, anna: User) -> None:
    version = edited(first, anna)
    forth = do_activate(version, shown=active(first.prompt).id, by=anna, reason="try it")
    back = do_activate(first, shown=forth.id, by=anna, reason="worse")
    rows = [(row.version, row.previous, row.who, row.reason) for row in first.prompt.activations.order_by("id")]
    assert rows == [
        (first, None, "sync_prompts", "shipped with this release"),
        (version, first, "anna", "try it"),
        (first, version, "anna", "worse"),
    ]
    assert active(first.prompt) == back
    assert [message for _, message in history(first.prompt)][1:] == [
        "chat-verifier-v2 was made active in place of chat-verifier-v1. Why: try it",
        "chat-verifier-v1 was made active in place of chat-verifier-v2. Why: worse",
    ]


def test_who_saw_an_older_state_changes_nothing(first: PromptVersion, anna: User, bert: User) -> None:
    shown = active(first.prompt).id
    one, two = edited(first, anna), edited(first, bert, "Be long.")
    won = do_activate(one, shown=shown, by=anna, reason="mine")
    with pytest.raises(Stale, match="anna made chat-verifier-v2 active: mine") as caught:
        do_activate(two, shown=shown, by=bert, reason="mine too")
    assert caught.value.current == won
    assert active(first.prompt) == won


def test_forth_and_back_is_no_state_that_was_seen(first: PromptVersion, anna: User, bert: User) -> None:
    shown = active(first.prompt).id
    version = edited(first, anna)
    forth = do_activate(version, shown=shown, by=anna, reason="try")
    do_activate(first, shown=forth.id, by=anna, reason="it was bad")
    with pytest.raises(Stale, match="it was bad"):
        do_activate(version, shown=shown, by=bert, reason="try")


def test_what_is_active_is_not_activated_again(first: PromptVersion, anna: User) -> None:
    with pytest.raises(SameText):
        do_activate(first, shown=active(first.prompt).id, by=anna, reason="again")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace("claim_checks", "checks"), "claim_checks"),
        (lambda text: text + "x" * 16_000, "16000"),
        (lambda text: text + "{{ query }}", "{{ query }}"),
    ],
    ids=["lacks a field", "too long", "placeholder"],
)
def test_an_unfit_text_is_kept_as_a_draft_and_not_activated(
    first: PromptVersion, anna: User, change: Callable[[str], str], sentence: str
) -> None:
    version = save_version(first, change(first.text), by=anna, reason="a try")
    with pytest.raises(NotFit, match="cannot be activated") as caught:
        do_activate(version, shown=active(first.prompt).id, by=anna, reason="go")
    assert sentence in str(caught.value)
    assert active(first.prompt).version == first


@pytest.mark.django_db(transaction=True)
def test_of_many_who_activate_at_once_one_wins(shipped: None, anna: User) -> None:
    first = PromptVersion.objects.get(prompt_id="chat_verifier", number=1)
    versions = [edited(first, anna, f"Be brief, {n}.") for n in range(6)]
    shown = active(first.prompt).id
    together = threading.Barrier(len(versions))
    ends: list[str] = []

    def activate(version: PromptVersion) -> None:
        together.wait(10)
        try:
            do_activate(version, shown=shown, by=anna, reason=version.label)
            ends.append(version.label)
        except Stale:
            ends.append("stale")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=activate, args=[version]) for version in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(ends)[1:] == ["stale"] * 5
    assert [active(first.prompt).version.label] == [end for end in ends if end != "stale"]
    assert first.prompt.activations.count() == 2


@pytest.fixture
def another_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Ships every prompt with a line more."""

    def ship(line: str) -> None:
        texts = {one.resource: one.text() for one in catalogue.CATALOGUE}
        for resource, text in texts.items():
            path = tmp_path / resource
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + line + "\n", encoding="utf-8")
        monkeypatch.setattr(catalogue, "ROOT", tmp_path / "prompts")

    return ship


def test_a_new_release_takes_over_but_for_what_an_admin_made_active(
    first: PromptVersion, anna: User, another_release: Callable[[str], None]
) -> None:
    version = edited(first, anna)
    mine = do_activate(version, shown=active(first.prompt).id, by=anna, reason="mine")
    another_release("New in this release.")
    changes = sync_shipped()
    assert len(changes) == len(catalogue.CATALOGUE)
    assert active(first.prompt) == mine
    waiting = first.prompt.newest_shipped()
    assert waiting is not None
    assert (waiting.number, waiting.text.endswith("New in this release.\n")) == (3, True)
    assert pin(AIOPS_SET).prompts["executor"].version == "executor-v2"
    assert sync_shipped() == []


def test_a_release_with_an_unfit_prompt_is_refused_by_name(
    first: PromptVersion, another_release: Callable[[str], None]
) -> None:
    another_release("{{ query }}")
    with pytest.raises(ValueError, match=r"prompts/.*\.md: .*{{ query }}"):
        sync_shipped()


def test_a_set_counts_what_changed_in_it(first: PromptVersion, anna: User) -> None:
    assert (pin(CHAT_SET).version, pin(AIOPS_SET).version) == ("chat-prompts-v1", "aiops-prompts-v1")
    do_activate(edited(first, anna), shown=active(first.prompt).id, by=anna, reason="of both sets")
    router = PromptVersion.objects.get(prompt_id="intent_router")
    do_activate(edited(router, anna), shown=active(router.prompt).id, by=anna, reason="of one set")
    assert (pin(CHAT_SET).version, pin(AIOPS_SET).version) == ("chat-prompts-v3", "aiops-prompts-v2")


def test_a_rehearsal_pins_the_versions_that_it_names_and_says_so(first: PromptVersion, anna: User) -> None:
    edited(first, anna)
    pinned = pin(AIOPS_SET, {"chat_verifier": 2, "intent_router": 9})
    assert pinned.version == "aiops-prompts-v1+rehearsal"
    assert pinned.prompts["chat_verifier"].version == "chat-verifier-v2"
    assert pinned.prompts["executor"].version == "executor-v1"
    assert "intent_router" not in pinned.prompts
    with pytest.raises(LookupError, match="chat-verifier-v7"):
        pin(AIOPS_SET, {"chat_verifier": 7})


def test_what_is_active_is_read_at_one_moment(
    first: PromptVersion, django_assert_num_queries: Callable[[int], object]
) -> None:
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        pin(AIOPS_SET)
