"""A simulated HTTP service: its requests, and the metrics that are read off them.

Stories that tell of a web service simulate `Call`s first; log lines and samples come from the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from .shape import Answer, Series, above, arrivals, count_until, counter, gauge, quantile, rate, ratio, total, wobble

BUCKETS = (0.1, 0.5, 1.0, 5.0, 10.0)
SECONDS = "http_request_duration_seconds"
Outcome = Callable[[Random, float, str], tuple[int, float]]
"""(randomness, time of arrival, route) → (HTTP status, seconds)."""


@dataclass(frozen=True)
class Call:
    """One request to `route` that arrived at `at` (Unix s) and was answered `took` seconds later."""

    at: float
    took: float
    status: int
    route: str

    @property
    def done(self) -> float:
        return self.at + self.took

    @property
    def failed(self) -> bool:
        return self.status >= 500

    @property
    def ms(self) -> int:
        return round(self.took * 1000)


@dataclass(frozen=True)
class Pod:
    name: str
    address: str
    service: str
    namespace: str
    node: str

    @property
    def labels(self) -> dict[str, str]:
        return {
            "job": self.service,
            "service": self.service,
            "namespace": self.namespace,
            "pod": self.name,
            "instance": self.address,
        }


def calls_of(rng: Random, start: float, end: float, routes: Mapping[str, float], outcome: Outcome) -> list[Call]:
    """Calls in order of their answers; `routes`: route → arrivals per second."""
    made = []
    for route, per_s in routes.items():
        for at in arrivals(rng, start, end, per_s):
            status, took = outcome(rng, at, route)
            made.append(Call(at, took, status, route))
    return sorted(made, key=lambda call: call.done)


def pod_series(
    pod: Pod, calls: list[Call], ticks: range, rng: Random, cpu_cores: float, memory_bytes: float
) -> list[Series]:
    """Requests by status, the duration's buckets, and a container that is in order."""
    container = {"namespace": pod.namespace, "pod": pod.name, "container": pod.service, "node": pod.node}
    codes = sorted({call.status for call in calls})
    bounds = [*((f"{bound:g}", bound) for bound in BUCKETS), ("+Inf", float("inf"))]
    return [
        *(
            count_until("http_requests_total", {**pod.labels, "code": str(code)}, ticks,
                        [call.done for call in calls if call.status == code])
            for code in codes
        ),
        *(
            count_until(f"{SECONDS}_bucket", {**pod.labels, "le": le}, ticks,
                        [call.done for call in calls if call.took <= bound])
            for le, bound in bounds
        ),
        counter("container_cpu_usage_seconds_total", container, ticks, wobble(rng, cpu_cores, cpu_cores / 8), 5_000, 1),
        gauge("container_memory_working_set_bytes", container, ticks, wobble(rng, memory_bytes, memory_bytes / 90)),
        gauge("up", pod.labels, ticks, lambda _at: 1),
    ]  # fmt: skip


def named(series: list[Series], name: str, /, **match: str) -> list[Series]:
    wanted = {"__name__": name, **match}.items()
    return [one for one in series if wanted <= one.labels.items()]


def rates(many: list[Series], *labels: str) -> list[Series]:
    return [rate(one, {label: one.labels[label] for label in labels}) for one in many]


def error_ratio(service: str) -> str:
    """The PromQL of the share of a service's answers that are 5xx."""
    by = "sum by (service, namespace)"
    errors = f'rate(http_requests_total{{service="{service}",code=~"5.."}}[5m])'
    return f'{by} ({errors}) / {by} (rate(http_requests_total{{service="{service}"}}[5m]))'


def p95(service: str) -> str:
    """The PromQL of the 95th percentile of a service's request duration, in seconds."""
    return (
        f'histogram_quantile(0.95, sum by (le, service, namespace) (rate({SECONDS}_bucket{{service="{service}"}}[5m])))'
    )


def http_answers(series: list[Series], service: str, namespace: str, threshold: float, *, of: str) -> list[Answer]:
    """Recorded answers about a service; the alert's own is on `errors` (share) or `latency` (seconds)."""
    group = {"service": service, "namespace": namespace}
    requests = named(series, "http_requests_total", **group)
    failed = total(rates([one for one in requests if one.labels["code"].startswith("5")]), {})
    share = ratio(failed, total(rates(requests), {}))
    share = Series(group, share.samples, share.digits)
    bounds = {("+Inf" if bound == float("inf") else f"{bound:g}"): bound for bound in (*BUCKETS, float("inf"))}
    slow = quantile(
        0.95,
        {bound: total(rates(named(series, f"{SECONDS}_bucket", le=le, **group)), {}) for le, bound in bounds.items()},
        group,
    )
    expression, own = (error_ratio(service), share) if of == "errors" else (p95(service), slow)
    codes = sorted({one.labels["code"] for one in requests})
    return [
        Answer(f"{expression} > {threshold:g}", above(own, threshold)),
        Answer(error_ratio(service), [share]),
        Answer(p95(service), [slow]),
        Answer(
            f'sum by (code) (rate(http_requests_total{{service="{service}"}}[5m]))',
            [total(rates([one for one in requests if one.labels["code"] == code]), {"code": code}) for code in codes],
        ),
    ]
