"""An alert about search-api with nothing behind it.

The rule looks at a 99th percentile over one minute of a quiet night and has no `for`: one slow answer is enough to fire
and the next evaluation resolves it. Nothing of that is in the recorded samples; the service is as it always is.
"""

from __future__ import annotations

from . import noise
from .shape import (
    STEP_S,
    ActiveAlert,
    Answer,
    Incident,
    Labels,
    LogFile,
    Series,
    arrivals,
    comma,
    counter,
    every,
    gauge,
    hex_id,
    iso,
    rate,
    rng_for,
    total,
    utc,
    wobble,
)

SLUG = "false-alarm"
FIRED = utc("2026-11-24 03:17:15")
RECORDED = FIRED + 5 * 60 + 45
METRICS_FROM = int(FIRED) - 105 * 60 - 15
LOGS_FROM = FIRED - 53 * 60
P99 = (
    "histogram_quantile(0.99, sum by (le, service, namespace, pod, instance) "
    '(rate(http_request_duration_seconds_bucket{service="search-api"}[1m])))'
)
PODS = {"search-api-79d4c8f6b5-4mlx7": "10.42.4.31:8080", "search-api-79d4c8f6b5-rb9dn": "10.42.7.15:8080"}


# --- logs ------------------------------------------------------------------------------------------------------------


def search_log(pod: str) -> LogFile:
    """A Go service, JSON with `ts`; its two warnings come as often at noon as at night."""
    rng = rng_for(SLUG, "log", pod)
    entries: noise.Entries = []

    def line(at: float, level: str, msg: str, **fields: object) -> None:
        entries.append((at, noise.json_line(ts=iso(at), level=level, service="search-api", msg=msg, **fields)))

    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.26):
        line(at, "info", "search", q_len=rng.randrange(3, 38), hits=rng.randrange(0, 4000), status=200,
             took_ms=rng.randrange(18, 170), trace_id=hex_id(rng, 16))  # fmt: skip
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.1):
        line(at, "info", "suggest", prefix_len=rng.randrange(1, 8), status=200, took_ms=rng.randrange(2, 22),
             trace_id=hex_id(rng, 16))  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 10):
        line(at, "debug", "probe", path="/readyz", status=200)
    for at in every(rng, LOGS_FROM, RECORDED, 150):
        line(at, "warn", "query parameter 'sort_by' is deprecated, use 'sort'", client="partner-feed/1.4")
    for at in every(rng, LOGS_FROM, RECORDED, 400):
        line(at, "warn", "synonym file has 3 unused entries, ignored", file="synonyms_de.txt")
    for at in every(rng, LOGS_FROM, RECORDED, 300):
        line(
            at,
            "info",
            "cache stats",
            entries=rng.randrange(8_000, 9_000),
            hit_ratio=round(0.8 + 0.05 * rng.random(), 3),
        )
    for at in every(rng, LOGS_FROM, RECORDED, 1500):
        line(at, "debug", "refresh catalog token", header=f"Authorization: Bearer sk-search-{hex_id(rng, 32)}")
    return LogFile(f"search-api/{pod}.json", entries)


def opensearch_log() -> LogFile:
    rng = rng_for(SLUG, "opensearch")
    entries: noise.Entries = []

    def line(at: float, level: str, logger: str, text: str) -> None:
        entries.append((at, f"[{comma(at).replace(' ', 'T')}][{level:<5}][{logger:<25}] [os-data-0] {text}"))

    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.1):
        line(at, "INFO", "o.o.c.m.MetadataMappingService",
             f"[catalog_v41/{hex_id(rng, 8)}] update_mapping [_doc]")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 60):
        line(at, "INFO", "o.o.c.r.a.AllocationService", "Cluster health status is [GREEN] (reason: [periodic check])")
    for at in every(rng, LOGS_FROM, RECORDED, 300):
        line(at, "INFO", "o.o.j.s.JobSweeper", "Running full sweep")
    for at in every(rng, LOGS_FROM, RECORDED, 320):
        line(
            at,
            "WARN",
            "o.o.d.PublicationTransport",
            "setting [index.merge.scheduler.max_thread_count] is at its default",
        )
    return LogFile("opensearch/os-data-0.log", entries)


def indexer_log() -> LogFile:
    """The nightly feed: colours, retries that succeed, batches without a failure."""
    rng = rng_for(SLUG, "indexer")
    entries: noise.Entries = []

    def line(at: float, colour: str, level: str, text: str) -> None:
        entries.append((at, f"{noise.DIM}{comma(at)}{noise.RESET} {colour}{level:<7}{noise.RESET} indexer.feed {text}"))

    line(LOGS_FROM + 3, noise.GREEN, "INFO",
         "sink https://indexer:Nightly-Feed-42@opensearch.search.svc:9200 connected")  # fmt: skip
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.2):
        line(at, noise.GREEN, "INFO", f"batch done docs={rng.randrange(200, 500)} failed=0 "
                                      f"took={rng.randrange(120, 600)}ms")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 230):
        line(at, noise.YELLOW, "WARNING", "image without alt text, indexed anyway "
                                          f"sku={rng.choice(noise.SKUS)}")  # fmt: skip
    return LogFile("search-indexer/indexer.log", entries)


def logs() -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    routes = {
        "/search?q={n}": ("search-api", 200, 0.09),
        "/suggest?p={n}": ("search-api", 200, 0.012),
        "/products/{n}": ("catalog-api", 200, 0.05),
        "/old-campaign/{n}": ("storefront", 301, 0.001),
        "/favicon.ico": ("storefront", 404, 0.001),
    }
    return [
        *(search_log(pod) for pod in PODS),
        opensearch_log(),
        indexer_log(),
        LogFile(
            f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
            noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.2),
        ),
        LogFile("notification-service/notify.log", noise.notifications(rng_for(SLUG, "mail"), *span, 0.08)),
    ]


# --- metrics ---------------------------------------------------------------------------------------------------------


def pod_series(pod: str, address: str) -> list[Series]:
    rng = rng_for(SLUG, "metrics", pod)
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    labels = {"job": "search-api", "service": "search-api", "namespace": "search", "pod": pod, "instance": address}
    container = {"namespace": "search", "pod": pod, "container": "search-api"}
    return [
        gauge("up", labels, ticks, lambda _at: 1),
        counter("http_requests_total", {**labels, "code": "200"}, ticks, wobble(rng, 3.6, 0.5), 9.1e6),
        counter("http_requests_total", {**labels, "code": "500"}, ticks, lambda _at: 0.0, 4.0),
        gauge("search_inflight_requests", labels, ticks, lambda _at: rng.randrange(0, 3)),
        gauge("go_goroutines", labels, ticks, lambda _at: rng.randrange(61, 69)),
        gauge("process_resident_memory_bytes", labels, ticks, wobble(rng, 2.2e8, 2e6)),
        counter("container_cpu_usage_seconds_total", container, ticks, wobble(rng, 0.09, 0.01), 40_000.0, 2),
        gauge("container_memory_working_set_bytes", container, ticks, wobble(rng, 2.4e8, 2e6)),
        gauge("kube_pod_container_status_restarts_total", container, ticks, lambda _at: 0),
    ]


def other_series() -> list[Series]:
    rng = rng_for(SLUG, "metrics", "others")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    cluster = {"job": "opensearch-exporter", "cluster": "search"}
    many = [
        gauge("opensearch_cluster_status", cluster, ticks, lambda _at: 0),
        gauge("opensearch_jvm_mem_heap_used_percent", {**cluster, "node": "os-data-0"}, ticks, wobble(rng, 47, 6)),
        gauge("opensearch_threadpool_threads_count", {**cluster, "name": "search", "type": "queue"}, ticks,
              lambda _at: 0),
        gauge("kube_deployment_status_replicas_available", {"namespace": "search", "deployment": "search-api"}, ticks,
              lambda _at: 2),
    ]  # fmt: skip
    many += [
        gauge("instance:node_cpu_utilisation:rate5m", {"instance": node}, ticks, wobble(rng, 0.23, 0.03), 4)
        for node in ("worker-4", "worker-7")
    ]
    return many


def answers(series: list[Series]) -> list[Answer]:
    rng = rng_for(SLUG, "answers")

    def named(name: str, **match: str) -> list[Series]:
        wanted = {"__name__": name, **match}.items()
        return [one for one in series if wanted <= one.labels.items()]

    def rates(many: list[Series], labels: Labels) -> Series:
        return total([rate(one, {}) for one in many], labels)

    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    p99 = []
    for pod, address in PODS.items():
        labels = {"service": "search-api", "namespace": "search", "pod": pod, "instance": address}
        slow = wobble(rng, 0.186, 0.011)
        p99.append(Series(labels, [(at, slow(at)) for at in ticks], 4))
    return [
        Answer(f"{P99} > 0.5", []),
        Answer(P99, p99),
        Answer(
            'sum by (code) (rate(http_requests_total{service="search-api"}[5m]))',
            [rates(named("http_requests_total", code=code), {"code": code}) for code in ("200", "500")],
        ),
        Answer(
            'sum by (pod) (rate(container_cpu_usage_seconds_total{container="search-api"}[5m]))',
            [rates(named("container_cpu_usage_seconds_total", pod=pod), {"pod": pod}) for pod in PODS],
        ),
        Answer('min(up{service="search-api"})', [Series({}, named("up")[0].samples)]),
    ]


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH: dict[str, object] = {
    "title": "A flapping latency rule fired for search-api; there is no fault",
    "cause": "No fault: the rule takes a 99th percentile over one minute of little traffic and has no `for`.",
    "expected_findings": [],
    "forbidden_findings": [
        r"(?i)\b(is|was) (the )?(root |likely )?cause",
        r"(?i)caused by|root cause (is|was|:)",
        r"(?i)ruled out|confirmed none|已排除|确认没有",
        r"(?i)(sort_by|synonym|alt text|max_thread_count)[^.]{0,80}(cause|led to|slow|latency)",
        r"(?i)search-api (is|was) (down|failing|unhealthy|overloaded)",
    ],
    "expect_outcome": "SUCCESS|DEGRADED",
    "expect_nothing_found": True,
    "note": "Accepted negative observations may be released (SUCCESS), or nothing stands (DEGRADED); either is right "
    "as long as no fault is claimed. The deprecation and synonym warnings come at the same rate the whole time.",
}


def build() -> Incident:
    series = [one for pod, address in PODS.items() for one in pod_series(pod, address)] + other_series()
    pod = min(PODS)
    subject = ActiveAlert(
        {
            "alertname": "SearchApiHighLatency",
            "severity": "warning",
            "service": "search-api",
            "namespace": "search",
            "pod": pod,
            "instance": PODS[pod],
            "team": "search",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "search-api 99th percentile above 500 ms",
            "description": f"The 99th percentile of the request duration of {pod} is above 500 ms.",
        },
        FIRED,
        f"{P99} > 0.5",
    )
    return Incident(SLUG, subject, [subject], RECORDED, logs(), series, answers(series), TRUTH)
