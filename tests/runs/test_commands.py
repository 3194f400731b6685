import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from runs import live, tasks
from runs.access import token_digest
from runs.library import SHELF, version
from runs.models import Alert, ApiToken, DiagnosisRun, KnowledgeChunk, KnowledgeDocument
from tests.runs.watching import Told

ROOT = Path(__file__).resolve().parents[2]
INCIDENT = ROOT / "eval" / "incidents" / "pool-exhausted"

pytestmark = pytest.mark.django_db(transaction=True)


def run(name: str, *words: str) -> str:
    out = io.StringIO()
    call_command(name, *words, stdout=out)
    return out.getvalue()


# ---- create_token ---------------------------------------------------------------------------------------------


def test_a_token_is_printed_alone_and_kept_as_a_digest() -> None:
    printed = run("create_token", "alertmanager", "--scope", "alerts:write", "--scope", "runs:read")
    assert re.fullmatch(r"sbz_[\w-]{40,}\n", printed)
    token = ApiToken.objects.get()
    assert token.digest == token_digest(printed.strip())
    assert token.scopes == ["alerts:write", "runs:read"]


@pytest.mark.parametrize(
    "words",
    [
        ("x",),
        ("x", "--scope", "everything"),
        *((name, "--scope", "runs:read") for name in ("", " ", "a\nb", "a\x1b[31m", "\udcff", "a\0b", "a\u202eb")),
    ],
)
def test_a_bad_token_request_is_one_line(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        run("create_token", *words)


def test_a_token_name_is_taken_once() -> None:
    run("create_token", "x", "--scope", "runs:read")
    with pytest.raises(CommandError, match="already"):
        run("create_token", "x", "--scope", "runs:read")


# ---- import_runbooks ------------------------------------------------------------------------------------------


def test_runbooks_come_in_once_and_again_when_they_change(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    book = tmp_path / "deep" / "Pool_Full.md"
    book.write_text("---\ntitle: Pool full\nalerts: [PoolFull]\n---\n\nAsk for a bigger one.\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not knowledge", encoding="utf-8")
    assert run("import_runbooks", str(tmp_path)).startswith("1 of 1")
    before = version()
    assert run("import_runbooks", str(tmp_path)).startswith("0 of 1")
    assert version() == before
    book.write_text("# Pool full\n\nRestart nothing.\n", encoding="utf-8")
    assert run("import_runbooks", str(tmp_path)).startswith("1 of 1")
    document = KnowledgeDocument.objects.get()
    assert (document.id, document.title, document.source) == ("deep-pool-full", "Pool full", "deep/Pool_Full.md")
    assert document.hints["alerts"] == []
    assert "Restart nothing." in KnowledgeChunk.objects.get().text


def test_the_bundled_runbooks_are_found_by_search(told: Told) -> None:
    run("import_runbooks", "--bundled")
    found = SHELF.index().search("HikariPool-1 connection is not available")
    assert found.hits[0].document_id == "connection-pool-exhausted"
    KnowledgeDocument.objects.filter(id="connection-pool-exhausted").delete()
    again = SHELF.index().search("HikariPool-1 connection is not available")
    assert all(hit.document_id != "connection-pool-exhausted" for hit in again.hits)


def test_bad_runbooks_are_named_and_nothing_is_brought_in(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Fine\n\ntext\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("no title at all", encoding="utf-8")
    (tmp_path / "b.md").write_bytes(b"\xff\xfe")
    for words in [(str(tmp_path),), (str(tmp_path / "none"),), ()]:
        with pytest.raises(CommandError):
            run("import_runbooks", *words)
    assert not KnowledgeDocument.objects.exists()


@pytest.mark.parametrize(
    "text",
    [
        f"# {'t' * 301}\n\ntext\n",
        f"---\ntitle: {'t' * 301}\n---\ntext\n",
        '---\ntitle: "a\\0b"\n---\ntext\n',
        '---\ntitle: a\naliases: ["x\\0y"]\n---\ntext\n',
        '---\ntitle: a\nalerts: ["\\ud800"]\n---\ntext\n',
    ],
)
def test_what_cannot_be_stored_of_a_runbook_is_named_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=r"a\.md: "):
        run("import_runbooks", str(tmp_path))


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 200] * 3)
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("# A\n\ntext\n", encoding="utf-8")
    with pytest.raises(CommandError, match="longer than 500"):
        run("import_runbooks", str(tmp_path))


# ---- diagnose -------------------------------------------------------------------------------------------------


@pytest.fixture
def ready(shipped: None, settings: Settings) -> None:
    """Everything that a run needs, on recorded evidence."""
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"recorded_evidence": INCIDENT / "evidence"})


@pytest.fixture
def shipped(told: Told) -> None:
    """Rules, prompts and runbooks as they come."""
    for name, words in {"sync_rules": [], "sync_prompts": [], "import_runbooks": ["--bundled"]}.items():
        call_command(name, *words, verbosity=0, stdout=io.StringIO())


def diagnose(*words: str) -> tuple[Any, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command("diagnose", *words, stdout=out)
    return left.value.code, out.getvalue()


def test_diagnose_drives_the_run_itself_where_no_worker_serves(ready: None) -> None:
    for expected in (1, 2):  # asking again is another run
        code, report = diagnose(str(INCIDENT / "alert.json"))
        assert code == 0
        assert "HikariPool-1" in report
        assert re.search(r"query_logs inv_[a-z2-7]{6} \$\.", report)
        assert DiagnosisRun.objects.count() == expected
    stored = DiagnosisRun.objects.order_by("queued_at").last()
    assert stored is not None
    assert (stored.trigger, stored.outcome) == ("MANUAL", "SUCCESS")
    assert Alert.objects.get().source == "CLI"


def test_diagnose_reads_a_single_alert_from_standard_input(ready: None, monkeypatch: pytest.MonkeyPatch) -> None:
    alert = json.loads((INCIDENT / "alert.json").read_text(encoding="utf-8"))["alerts"][0]
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(alert).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert diagnose("-")[0] == 0


def test_diagnose_with_own_sources_drives_the_run_itself_though_a_worker_serves(
    ready: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.announce_worker("elsewhere:1")
    handed: list[list[str]] = []
    monkeypatch.setattr(tasks, "enqueue", handed.append)
    code, report = diagnose(str(INCIDENT / "alert.json"))
    assert (code, handed) == (0, [])
    assert "Connection is not available" in report


def test_diagnose_hands_the_run_to_a_worker_that_serves(shipped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    live.announce_worker("elsewhere:1")
    handed: list[str] = []
    enqueue = tasks.enqueue

    def ended_elsewhere(run_ids: list[str]) -> int:
        handed.extend(run_ids)
        DiagnosisRun.objects.filter(id__in=run_ids).update(
            status="FAILED", outcome="FAILED", failure_code="INTERNAL", finished_at="2026-01-01T00:00:00Z",
            safe_content={"headline": "The run failed.", "reason": "It did.", "lookedAt": []},
        )  # fmt: skip
        return enqueue(run_ids)

    monkeypatch.setattr(tasks, "enqueue", ended_elsewhere)
    code, report = diagnose(str(INCIDENT / "alert.json"))
    assert (code, len(handed)) == (1, 1)
    assert "Outcome  FAILED (INTERNAL)" in report


@pytest.mark.parametrize(
    "body", ["{", "[]", '{"alerts": []}', '{"alerts": [{"status": "resolved", "labels": {}}]}', "[" * 50_000]
)
def test_a_bad_payload_is_one_line(tmp_path: Path, body: str) -> None:
    file = tmp_path / "alert.json"
    file.write_text(body, encoding="utf-8")
    with pytest.raises(CommandError) as refused:
        call_command("diagnose", str(file))
    assert refused.value.returncode == 2
    assert "\n" not in str(refused.value)


def test_a_missing_payload_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        call_command("diagnose", str(tmp_path / "none.json"))
