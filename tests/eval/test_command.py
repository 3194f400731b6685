"""`python -m eval` ends red where something is worse than its baseline, and only there."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.baseline import BASELINE
from superbiz.env import BASE_DIR, setting_names
from tests.superbiz.instance import PATIENCE_S

INCIDENT = "pool-exhausted"
Kept = dict[str, Any]


def evaluate(*words: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eval", *words],
        cwd=BASE_DIR, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.fixture
def environ() -> dict[str, str]:
    """Of a person who has set nothing."""
    return {name: value for name, value in os.environ.items() if name not in setting_names()}


def as_measured(_kept: Kept) -> None:
    """Nothing is changed."""


def one_finding_more(kept: Kept) -> None:
    kept["incidents"][INCIDENT]["found"].append("found-last-time")


def better_verifier(kept: Kept) -> None:
    """As if false support had been rarer than nothing, which any figure is worse than."""
    kept["verifier"]["wrong_number en"]["false_support"] = -0.01


@pytest.mark.parametrize(
    ("part", "change", "code", "said"),
    [
        (INCIDENT, as_measured, 0, ""),
        (INCIDENT, one_finding_more, 1, f"WORSE  {INCIDENT}: lost the finding found-last-time"),
        ("verifier", as_measured, 0, ""),
        ("verifier", better_verifier, 1, "WORSE  verifier: false support of wrong_number en rose"),
    ],
)
def test_a_regression_is_red(
    tmp_path: Path, environ: dict[str, str], part: str, change: Callable[[Kept], None], code: int, said: str
) -> None:
    kept = json.loads(BASELINE.read_text(encoding="utf-8"))
    change(kept["offline"])
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps(kept), encoding="utf-8")
    done = evaluate(part, "--baseline", str(baseline), environ=environ)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    # The figure that matters is printed, by category and language.
    assert ("false support" in done.stdout) is (part == "verifier")
    assert ("WORSE" in done.stdout) is bool(code)


def test_without_a_baseline_there_is_nothing_to_be_worse_than(tmp_path: Path, environ: dict[str, str]) -> None:
    done = evaluate(INCIDENT, "--baseline", str(tmp_path / "none.json"), environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "There is no baseline of offline yet" in done.stdout
