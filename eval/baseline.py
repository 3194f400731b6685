"""The committed baseline: what was measured before, by model, and what counts as worse. Pure but for reading and
writing the one file.

Worse, so that `make eval` fails: a finding lost, something said that is forbidden, a worse verdict or outcome, and
false support of the verifier rising in a category. Tokens and seconds are shown as ratios and never fail anything.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.score import VERDICTS, Ended, Score
from eval.verifier import Figures

BASELINE = Path(__file__).with_name("baseline.json")
TOLERANCE = 1e-9


class BadBaseline(Exception):
    """The file cannot be read; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One model's: `incidents` by slug, `verifier` by category and language, as `incident_entry` and
    `verifier_entry` wrote them."""

    incidents: Mapping[str, Mapping[str, Any]]
    verifier: Mapping[str, Mapping[str, float]]


def read(model: str, path: Path = BASELINE) -> Baseline:
    """Empty where the model was never saved. Raises `BadBaseline`."""
    kept = _read_all(path).get(model, {})
    try:
        return Baseline(kept.get("incidents", {}), kept.get("verifier", {}))
    except AttributeError as error:
        raise BadBaseline(f"{path.name} has not the shape that --save writes.") from error


def save(
    model: str,
    incidents: Mapping[str, Mapping[str, Any]],
    verifier: Mapping[str, Mapping[str, float]],
    path: Path = BASELINE,
) -> None:
    """Keeps other models and whatever was not measured this time."""
    everything = _read_all(path)
    kept = everything.get(model, {})
    everything[model] = {
        "incidents": {**kept.get("incidents", {}), **incidents},
        "verifier": dict(verifier) or kept.get("verifier", {}),
    }
    path.write_text(json.dumps(everything, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_all(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadBaseline(f"{path.name} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise BadBaseline(f"{path.name} does not hold an object.")
    return value


def incident_entry(ended: Ended, score: Score) -> dict[str, Any]:
    return {
        "found": list(score.found),
        "expected": score.expected,
        "outcome": ended.outcome,
        "outcome_expected": score.outcome_expected,
        "verdict": ended.verdict,
        "groundedness": ended.groundedness,
        "tokens": ended.tokens,
        "model_calls": ended.model_calls,
        "seconds": round(ended.seconds, 2),
    }


def verifier_entry(figures: Mapping[str, Figures]) -> dict[str, dict[str, float]]:
    """Rates by key, rounded to what a file should hold."""
    return {
        key: {"false_support": round(each.false_support.rate, 6), "recall": round(each.recall.rate, 6)}
        for key, each in figures.items()
    }


def worse_incident(ended: Ended, score: Score, kept: Mapping[str, Any] | None) -> list[str]:
    """Why an incident fails the evaluation: faults always, the rest against what was kept."""
    reasons = list(score.faults)
    if kept is None:
        return reasons
    lost = [each for each in kept["found"] if each not in score.found]
    reasons += [f"lost the finding {each}" for each in lost]
    if kept["outcome_expected"] and not score.outcome_expected:
        reasons.append(f"outcome {ended.outcome}, was {kept['outcome']}")
    if _rank(ended.verdict) > _rank(kept["verdict"]):
        reasons.append(f"verdict {ended.verdict}, was {kept['verdict']}")
    return reasons


def _rank(verdict: str | None) -> int:
    """PASS is best; no verdict at all is worst."""
    return next((rank for rank, each in enumerate(VERDICTS) if each.value == verdict), len(VERDICTS))


def worse_verifier(figures: Mapping[str, Figures], kept: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Where false support is more frequent than it was."""
    return [
        f"false support of {key} rose from {kept[key]['false_support']:.1%} to {each.false_support.rate:.1%}"
        for key, each in figures.items()
        if key in kept and round(each.false_support.rate, 6) > kept[key]["false_support"] + TOLERANCE
    ]


def ratio(now: float, before: float | None) -> float | None:
    """None where there is nothing to divide by."""
    return now / before if before else None


def total(values: Iterable[float | None]) -> float | None:
    """The sum, or None where one is missing."""
    known = list(values)
    return None if None in known else sum(each for each in known if each is not None)
