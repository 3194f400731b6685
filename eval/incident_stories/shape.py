"""What a recorded incident is made of, and how it is put into files.

Times inside are Unix seconds (float, UTC). Every random choice comes from `rng_for`, so the same code always gives the
same bytes.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

STEP_S = 30
RATE_WINDOW_S = 300

Labels = dict[str, str]
Json = dict[str, object]


@dataclass(frozen=True)
class LogFile:
    """One file below `evidence/logs`; `entries` are (time, text), a text may hold several lines."""

    path: str
    entries: list[tuple[float, str]]

    def text(self, until: float) -> str:
        """What was written by `until`, in order of time; entries of one instant keep the order they were made in."""
        written = sorted((entry for entry in self.entries if entry[0] <= until), key=lambda entry: entry[0])
        return "".join(f"{text}\n" for _, text in written)


@dataclass(frozen=True)
class Series:
    """One labelled time series: (Unix seconds, value) pairs; `digits` is how its values are printed."""

    labels: Labels
    samples: list[tuple[int, float]]
    digits: int = 0

    def as_json(self) -> Json:
        return {"metric": self.labels, "values": [[at, _number(value, self.digits)] for at, value in self.samples]}


@dataclass(frozen=True)
class Answer:
    """The recorded result of one PromQL query."""

    query: str
    result: list[Series]

    def as_json(self) -> Json:
        return {"query": self.query, "result": [series.as_json() for series in self.result]}


@dataclass(frozen=True)
class ActiveAlert:
    """An alert as Alertmanager knows it; `expression` is the rule's own PromQL."""

    labels: Labels
    annotations: Labels
    starts_at: float
    expression: str
    receiver: str = "superbiz"

    @property
    def fingerprint(self) -> str:
        """FNV-1a over the sorted labels, as prometheus/common `LabelSet.Fingerprint` computes it."""
        value = 0xCBF29CE484222325
        for name in sorted(self.labels):
            for byte in name.encode() + b"\xff" + self.labels[name].encode() + b"\xff":
                value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        return f"{value:016x}"

    @property
    def generator_url(self) -> str:
        return f"http://prometheus:9090/graph?g0.expr={quote(self.expression, safe='')}&g0.tab=1"


@dataclass(frozen=True)
class Incident:
    """A whole recorded incident: what came in, what could be seen, and what is true."""

    slug: str
    subject: ActiveAlert
    active: list[ActiveAlert]
    recorded_at: float
    logs: list[LogFile]
    series: list[Series]
    answers: list[Answer]
    truth: Json = field(default_factory=dict)


NEVER_SAID = r"(?i)ruled out|confirmed none|已排除|确认没有"
"""No query proves an absence: forbidden in every report."""


@dataclass(frozen=True)
class Finding:
    """What an SRE must learn: one of the patterns, cited from one of the tools."""

    id: str
    any_of: list[str]
    must_cite_tool: list[str]


def truth_of_a_fault(title: str, cause: str, findings: list[Finding], forbidden: list[str], note: str) -> Json:
    """The `truth.json` of an incident that has a cause which the evidence shows."""
    return {
        "title": title,
        "cause": cause,
        "expected_findings": [vars(finding) for finding in findings],
        "forbidden_findings": [*forbidden, NEVER_SAID],
        "expect_outcome": "SUCCESS",
        "expect_nothing_found": False,
        "note": note,
    }


# --- time ------------------------------------------------------------------------------------------------------------


def utc(text: str) -> float:
    """`2026-11-12 10:04:00` (UTC) as Unix seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def iso(at: float) -> str:
    """`2026-11-12T10:04:11.123Z`"""
    return f"{comma(at)[:10]}T{comma(at)[11:19]}.{comma(at)[20:]}Z"


def comma(at: float) -> str:
    """`2026-11-12 10:04:11,123`, the default of Python's logging and of log4j."""
    ms = round(at * 1000)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S},{ms % 1000:03d}"


def dotted(at: float) -> str:
    """`2026-11-12 10:04:11.123 UTC`, PostgreSQL's `%m`."""
    return f"{comma(at).replace(',', '.')} UTC"


# --- randomness ------------------------------------------------------------------------------------------------------


def rng_for(*parts: str) -> random.Random:
    """A generator of its own for each named part: adding a log line to one file changes no other file."""
    return random.Random("/".join(parts))


def arrivals(rng: random.Random, start: float, end: float, per_s: float) -> Iterator[float]:
    """Times of a Poisson process with `per_s` events a second."""
    at = start + rng.expovariate(per_s)
    while at < end:
        yield at
        at += rng.expovariate(per_s)


def every(rng: random.Random, start: float, end: float, period_s: float) -> Iterator[float]:
    """A periodic job with a little jitter."""
    at = start + rng.random() * period_s
    while at < end:
        yield at + rng.random() * 0.2
        at += period_s


def hex_id(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


# --- metrics ---------------------------------------------------------------------------------------------------------


def gauge(name: str, labels: Labels, ticks: Iterable[int], value: Callable[[int], float], digits: int = 0) -> Series:
    return Series({"__name__": name, **labels}, [(at, value(at)) for at in ticks], digits)


def wobble(rng: random.Random, base: float, spread: float) -> Callable[[int], float]:
    """A flat line with uniform noise of +-`spread`."""
    return lambda _at: base + spread * (2 * rng.random() - 1)


def counter(
    name: str, labels: Labels, ticks: Iterable[int], per_s: Callable[[int], float], start: float = 0.0, digits: int = 0
) -> Series:
    """A counter that grows by `per_s(t)` each second."""
    total, samples = start, []
    for at in ticks:
        total += per_s(at) * STEP_S
        samples.append((at, total))
    return Series({"__name__": name, **labels}, samples, digits)


def count_until(name: str, labels: Labels, ticks: Iterable[int], events: Iterable[float], start: int = 0) -> Series:
    """A counter of events: at each tick, how many have happened by then."""
    happened, index, samples = sorted(events), 0, []
    for at in ticks:
        while index < len(happened) and happened[index] <= at:
            index += 1
        samples.append((at, float(start + index)))
    return Series({"__name__": name, **labels}, samples)


def rate(series: Series, labels: Labels, window_s: int = RATE_WINDOW_S, digits: int = 4) -> Series:
    """`rate()` of a counter over `window_s`; ticks with less than a full window behind them are left out."""
    before = dict(series.samples)
    samples = [
        (at, (value - before[at - window_s]) / window_s) for at, value in series.samples if at - window_s in before
    ]
    return Series(labels, samples, digits)


def total(many: Iterable[Series], labels: Labels, digits: int = 4) -> Series:
    """`sum()` over series, tick by tick, of whatever exists at that tick."""
    sums: dict[int, float] = {}
    for series in many:
        for at, value in series.samples:
            sums[at] = sums.get(at, 0.0) + value
    return Series(labels, sorted(sums.items()), digits)


def ratio(part: Series, whole: Series, digits: int = 4) -> Series:
    by_time = dict(whole.samples)
    samples = [(at, value / by_time[at]) for at, value in part.samples if by_time.get(at)]
    return Series({}, samples, digits)


def quantile(share: float, rates: dict[float, Series], labels: Labels) -> Series:
    """`histogram_quantile` with its linear interpolation inside a bucket; `rates` by upper bound, +Inf included."""
    bounds = sorted(rates)
    by_time = {bound: dict(rates[bound].samples) for bound in bounds}
    samples = []
    for at, everything in rates[bounds[-1]].samples:
        rank, lower, below = share * everything, 0.0, 0.0
        for bound in bounds:
            here = by_time[bound][at]
            if here >= rank:
                inside = here - below
                value = lower if bound == float("inf") else lower + (bound - lower) * (rank - below) / inside
                samples.append((at, value))
                break
            lower, below = bound, here
    return Series(labels, samples, 4)


def above(series: Series, threshold: float) -> list[Series]:
    """`series > threshold`: the samples that pass, or no series at all."""
    kept = [(at, value) for at, value in series.samples if value > threshold]
    return [Series(series.labels, kept, series.digits)] if kept else []


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- files -----------------------------------------------------------------------------------------------------------


def webhook_body(incident: Incident) -> Json:
    """The Alertmanager webhook, version 4, of the subject's group."""
    alert = incident.subject
    group = {name: alert.labels[name] for name in ("alertname", "service")}
    selector = ", ".join(f'{name}="{value}"' for name, value in group.items())
    one = {
        "status": "firing",
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": iso(alert.starts_at),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": alert.generator_url,
        "fingerprint": alert.fingerprint,
    }
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{selector}}}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": alert.receiver,
        "groupLabels": group,
        "commonLabels": alert.labels,
        "commonAnnotations": alert.annotations,
        "externalURL": "http://alertmanager:9093",
        "alerts": [one],
    }


def active_alerts(incident: Incident) -> list[Json]:
    """What Alertmanager's `GET /api/v2/alerts` answered at the time of recording."""
    return [
        {
            "annotations": alert.annotations,
            "endsAt": iso(incident.recorded_at + 210),
            "fingerprint": alert.fingerprint,
            "receivers": [{"name": alert.receiver}],
            "startsAt": iso(alert.starts_at),
            "status": {"inhibitedBy": [], "silencedBy": [], "state": "active"},
            "updatedAt": iso(incident.recorded_at - 30),
            "generatorURL": alert.generator_url,
            "labels": alert.labels,
        }
        for alert in incident.active
    ]


def files_of(incident: Incident) -> dict[str, bytes]:
    """Every file of the incident by its path below the incident's folder; `*.gz` logs are still plain here."""
    metrics = {
        "series": [series.as_json() for series in incident.series],
        "answers": [answer.as_json() for answer in incident.answers],
    }
    files = {
        "alert.json": _pretty(webhook_body(incident)),
        "truth.json": _pretty(incident.truth),
        "evidence/meta.json": _pretty({"recorded_at": iso(incident.recorded_at)}),
        "evidence/metrics.json": _compact(metrics),
        "evidence/alerts.json": _pretty(active_alerts(incident)),
        "evidence/mysql.json": b"[]\n",
    }
    return files | {f"evidence/logs/{log.path}": log.text(incident.recorded_at).encode() for log in incident.logs}


def write(incident: Incident, folder: Path) -> None:
    """Write the incident and remove what an older version of it left behind.

    A `.gz` that already holds the right text is left alone: compressed bytes depend on the zlib at hand.
    """
    files = files_of(incident)
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix != ".gz":
            target.write_bytes(content)
        elif not target.exists() or gzip.decompress(target.read_bytes()) != content:
            target.write_bytes(gzip.compress(content, mtime=0))
    for old in folder.rglob("*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in files:
            old.unlink()


def _pretty(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _compact(value: object) -> bytes:
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()
