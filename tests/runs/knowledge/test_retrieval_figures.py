"""The retrieval evaluation's own arithmetic, on data small enough to see through."""

import json
from pathlib import Path

import pytest

from eval.retrieval import main

DOCUMENTS = [
    {"id": "disk", "title": "NodeDiskFull", "text": "The filesystem has no space left."},
    {"id": "pool", "title": "PoolExhausted", "text": "Requests wait for a connection."},
    {"id": "tls", "title": "CertificateExpires", "text": "Renew the certificate."},
]
PAIRS = [
    {"alert": "NodeDiskFull", "summary": "filesystem space", "description": "", "relevant": ["disk"]},
    {"alert": "PoolExhausted", "summary": "certificate", "description": "", "relevant": ["pool"]},
]


def test_shares_are_of_alerts_whose_runbook_was_among_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rows in (("documents", DOCUMENTS), ("alert_pairs", PAIRS)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert main(["--data", str(tmp_path), "--details"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 documents, 3 passages, 2 alerts")
    figures = {tuple(line.split()[:2]): line.split()[2:] for line in lines[2:6]}
    assert figures["full", "superbiz"] == ["1.000", "1.000", "1.000"]
    assert figures["noname", "superbiz"] == ["0.500", "0.500", "0.500"]
    assert lines[6] == "noname PoolExhausted: wanted pool; found tls"


def test_a_folder_without_the_data_ends_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
