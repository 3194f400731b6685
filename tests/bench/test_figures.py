"""A figure knows its aim and its baseline; the driver prints and saves what the benchmarks give. Nothing is timed."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import bench.__main__ as driver
from bench import figures
from bench.figures import Figure


@pytest.fixture(autouse=True)
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "baseline.json"
    monkeypatch.setattr(figures, "BASELINE", path)
    return path


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("time", 50, "ms", aim=50), True),
        (Figure("time", 50.1, "ms", aim=50), False),
        (Figure("rate", 2_000, "events/s", aim=2_000, higher_is_better=True), True),
        (Figure("rate", 1_999, "events/s", aim=2_000, higher_is_better=True), False),
        (Figure("size", 7, "MB"), None),
    ],
)
def test_an_aim_is_a_bound_on_the_side_that_is_better(figure: Figure, met: bool | None) -> None:
    assert figure.meets_aim is met


@pytest.mark.parametrize(
    ("figure", "known", "ratio"),
    [
        (Figure("time", 20, "ms"), 10, 2.0),
        (Figure("rate", 20, "events/s", higher_is_better=True), 10, 0.5),
        (Figure("time", 20, "ms"), None, None),
        (Figure("rate", 0, "events/s", higher_is_better=True), 10, None),
    ],
)
def test_a_ratio_above_one_is_worse_whichever_side_is_better(
    figure: Figure, known: float | None, ratio: float | None
) -> None:
    assert figure.against(known) == ratio


def test_a_saved_baseline_keeps_the_lines_that_were_not_measured(baseline: Path) -> None:
    figures.write_baseline([Figure("a", 1, "ms"), Figure("b", 2, "ms")])
    figures.write_baseline([Figure("b", 3, "ms")])
    assert json.loads(baseline.read_text()) == {"a": 1, "b": 3}


def run_driver(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["bench", *words])
    return driver.main()


@pytest.fixture
def two_benchmarks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Benchmarks that take no time; the list fills with the names of those that ran."""
    ran: list[str] = []

    def module(path: str) -> SimpleNamespace:
        name = path.removeprefix("bench.")

        def run() -> list[Figure]:
            ran.append(name)
            return [Figure(f"{name}: time", 12.5, "ms", aim=50)]

        return SimpleNamespace(run=run)

    monkeypatch.setattr(driver, "BENCHMARKS", ("one", "two"))
    monkeypatch.setattr(driver, "importlib", SimpleNamespace(import_module=module))
    return ran


def test_the_driver_runs_all_or_those_named(
    monkeypatch: pytest.MonkeyPatch, two_benchmarks: list[str], capsys: pytest.CaptureFixture[str], baseline: Path
) -> None:
    assert run_driver(monkeypatch) == 0
    assert two_benchmarks == ["one", "two"]
    assert run_driver(monkeypatch, "two") == 0
    assert two_benchmarks == ["one", "two", "two"]
    assert "12.5" in capsys.readouterr().out
    assert not baseline.exists()


def test_save_writes_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, two_benchmarks: list[str], baseline: Path
) -> None:
    assert run_driver(monkeypatch, "one", "--save") == 0
    assert two_benchmarks == ["one"]
    assert json.loads(baseline.read_text()) == {"one: time": 12.5}


def test_one_that_fails_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], baseline: Path
) -> None:
    def fail() -> list[Figure]:
        raise RuntimeError("the worker did not start")

    modules = {"bench.one": fail, "bench.two": lambda: [Figure("two: time", 3, "ms")]}
    monkeypatch.setattr(driver, "BENCHMARKS", ("one", "two"))
    found = SimpleNamespace(import_module=lambda path: SimpleNamespace(run=modules[path]))
    monkeypatch.setattr(driver, "importlib", found)
    assert run_driver(monkeypatch, "--save") == 1
    assert "the worker did not start" in capsys.readouterr().out
    assert json.loads(baseline.read_text()) == {"two: time": 3}


def test_an_unknown_benchmark_is_refused(monkeypatch: pytest.MonkeyPatch, two_benchmarks: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        run_driver(monkeypatch, "three")
    assert refused.value.code == 2
    assert two_benchmarks == []
