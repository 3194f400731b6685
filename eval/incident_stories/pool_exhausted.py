"""checkout-api 2.31.0 lowers HikariCP's maximumPoolSize from 50 to 10; the pool cannot carry the traffic it had.

A checkout holds its connection for about 4.8 s (fraud scoring and card authorisation happen inside the transaction), so
2.33 checkouts a second and pod need 11 to 12 connections: fine with 50, a queue that only grows with 10. When the
queue reaches 30 s, requests begin to fail. PostgreSQL, CPU, memory and the payment provider stay as they were.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from . import noise
from .shape import (
    STEP_S,
    ActiveAlert,
    Answer,
    Incident,
    Labels,
    LogFile,
    Series,
    above,
    arrivals,
    count_until,
    counter,
    every,
    gauge,
    hex_id,
    iso,
    rate,
    ratio,
    rng_for,
    total,
    utc,
    wobble,
)

SLUG = "pool-exhausted"
FIRED = utc("2026-11-12 10:04:00")
RECORDED = FIRED + 6 * 60 + 20
METRICS_FROM = int(FIRED) - 110 * 60
LOGS_FROM = FIRED - 30 * 60
DEPLOY = FIRED - 14 * 60
TIMEOUT_S = 30.0
CHECKOUTS_PER_S = 2.33
SAMPLED = 0.2
OLD, NEW = "2.30.4", "2.31.0"

ERROR_RATIO = (
    'sum by (service, namespace) (rate(http_server_requests_seconds_count{{service="checkout-api",status=~"5.."}}[5m]))'
    ' / sum by (service, namespace) (rate(http_server_requests_seconds_count{{service="checkout-api"}}[5m])){0}'
)
JOB_FAILED = 'kube_job_status_failed{namespace="backoffice"} > 0'


@dataclass(frozen=True)
class Pod:
    name: str
    address: str
    version: str
    pool: int
    started: float
    serves_from: float
    serves_until: float
    stopped: float


@dataclass(frozen=True)
class Checkout:
    """One simulated request; `got` is when it was given a connection, None if it gave up waiting."""

    at: float
    got: float | None
    done: float


PODS = [
    Pod("checkout-api-6c8f7d9b54-2xk4q", "10.42.3.18:8080", OLD, 50, METRICS_FROM - 6e5, METRICS_FROM - 6e5,
        DEPLOY + 43, DEPLOY + 75),
    Pod("checkout-api-6c8f7d9b54-n7wzr", "10.42.5.77:8080", OLD, 50, METRICS_FROM - 6e5, METRICS_FROM - 6e5,
        DEPLOY + 84, DEPLOY + 112),
    Pod("checkout-api-7b5d6c9f88-xw2lp", "10.42.3.41:8080", NEW, 10, DEPLOY + 9, DEPLOY + 43, RECORDED + 60,
        RECORDED + 60),
    Pod("checkout-api-7b5d6c9f88-h4t9c", "10.42.6.12:8080", NEW, 10, DEPLOY + 47, DEPLOY + 84, RECORDED + 60,
        RECORDED + 60),
]  # fmt: skip


def simulate(pod: Pod) -> list[Checkout]:
    """A first-come-first-served pool: a request takes the connection that frees first, or gives up after 30 s."""
    rng = rng_for(SLUG, "requests", pod.name)
    free = [0.0] * pod.pool
    checkouts = []
    for at in arrivals(rng, max(pod.serves_from, METRICS_FROM - 600), pod.serves_until, CHECKOUTS_PER_S):
        hold_s = 3.5 + 2.6 * rng.random()
        got = max(at, free[0])
        if got - at > TIMEOUT_S:
            checkouts.append(Checkout(at, None, at + TIMEOUT_S + 0.002 * rng.random()))
        else:
            heapq.heapreplace(free, got + hold_s)
            checkouts.append(Checkout(at, got, got + hold_s))
    return checkouts


def in_use(checkouts: list[Checkout], at: float) -> int:
    return sum(1 for c in checkouts if c.got is not None and c.got <= at < c.done)


def waiting(checkouts: list[Checkout], at: float) -> int:
    return sum(1 for c in checkouts if c.at <= at < (c.done if c.got is None else c.got))


# --- logs ------------------------------------------------------------------------------------------------------------


def spring(at: float, level: str, thread: str, logger: str, text: str) -> tuple[float, str]:
    return at, f"{iso(at)} {level:>5} 1 --- [checkout-api] [{thread[-15:]:>15}] {logger:<40} : {text}"


def timeout_trace(waited: str) -> str:
    return "\n".join(
        (
            f"java.sql.SQLTransientConnectionException: {waited}",
            "\tat com.zaxxer.hikari.pool.HikariPool.createTimeoutException(HikariPool.java:709)",
            "\tat com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:188)",
            "\tat com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:146)",
            "\tat com.zaxxer.hikari.HikariDataSource.getConnection(HikariDataSource.java:128)",
            (
                "\tat org.hibernate.engine.jdbc.connections.internal.DatasourceConnectionProviderImpl.getConnection"
                "(DatasourceConnectionProviderImpl.java:126)"
            ),
            "\tat org.springframework.orm.jpa.JpaTransactionManager.doBegin(JpaTransactionManager.java:420)",
            "\tat shop.checkout.order.OrderService.place(OrderService.java:84)",
            "\tat shop.checkout.web.CheckoutController.checkout(CheckoutController.java:52)",
            "\t... 61 common frames omitted",
        )
    )


def failure_lines(rng: random.Random, pod: Pod, checkout: Checkout, queue: int, with_trace: bool) -> noise.Entries:
    """What one timed-out checkout writes; the trace only now and then, as the service's log filter lets it through."""
    at, thread = checkout.done, f"nio-8080-exec-{rng.randrange(1, 200)}"
    ms = round((checkout.done - checkout.at) * 1000)
    waited = (
        f"HikariPool-1 - Connection is not available, request timed out after {ms}ms "
        f"(total={pod.pool}, active={pod.pool}, idle=0, waiting={queue})"
    )
    entries = [
        spring(at, "ERROR", thread, "o.h.engine.jdbc.spi.SqlExceptionHelper", waited),
        spring(at + 0.002, "WARN", thread, "shop.checkout.web.RequestLog",
               f"POST /api/v1/checkout 500 {ms + 3}ms traceId={hex_id(rng, 16)}"),
    ]  # fmt: skip
    if with_trace:
        text = (
            "Servlet.service() for servlet [dispatcherServlet] threw exception [Request processing failed: "
            "org.springframework.transaction.CannotCreateTransactionException: Could not open JPA EntityManager for "
            f"transaction] with root cause\n{timeout_trace(waited)}"
        )
        entries.append(spring(at + 0.001, "ERROR", thread, "o.a.c.c.C.[.[.[/].[dispatcherServlet]", text))
    return entries


def start_lines(pod: Pod) -> noise.Entries:
    jdbc = "jdbc:postgresql://pg-checkout.prod.svc:5432/checkout?user=checkout_app&password=tr0ub4dor-Pg-77&sslmode=require"
    at = pod.started
    return [
        spring(at + 3.1, "INFO", "main", "shop.checkout.CheckoutApplication",
               f"Starting CheckoutApplication v{pod.version} using Java 21.0.5 with PID 1 (/app/checkout-api.jar)"),
        spring(at + 3.1, "INFO", "main", "shop.checkout.CheckoutApplication",
               'The following 1 profile is active: "prod"'),
        spring(at + 11.4, "INFO", "main", "o.s.b.w.embedded.tomcat.TomcatWebServer",
               "Tomcat initialized with port 8080 (http)"),
        spring(at + 12.9, "INFO", "main", "com.zaxxer.hikari.HikariDataSource", "HikariPool-1 - Starting..."),
        spring(at + 13.2, "INFO", "main", "com.zaxxer.hikari.pool.HikariPool",
               "HikariPool-1 - Added connection org.postgresql.jdbc.PgConnection@4f1bfe23"),
        spring(at + 13.2, "INFO", "main", "com.zaxxer.hikari.HikariDataSource", "HikariPool-1 - Start completed."),
        spring(at + 13.3, "INFO", "main", "shop.checkout.config.StartupReport",
               f"datasource HikariPool-1 maximumPoolSize={pod.pool} minimumIdle={pod.pool} connectionTimeout=30000 "
               f"leakDetectionThreshold=0 url={jdbc}"),
        spring(at + 13.3, "INFO", "main", "shop.checkout.config.StartupReport",
               "request log: failures=all sample-successes=0.2; stack traces: 1 in 15"),
        spring(at + 21.7, "WARN", "main", "JpaBaseConfiguration$JpaWebConfiguration",
               "spring.jpa.open-in-view is enabled by default. Therefore, database queries may be performed during "
               "view rendering. Explicitly configure spring.jpa.open-in-view to disable this warning"),
        spring(at + 29.8, "INFO", "main", "shop.checkout.CheckoutApplication",
               "Started CheckoutApplication in 27.312 seconds (process running for 29.771)"),
    ]  # fmt: skip


def checkout_log(pod: Pod, checkouts: list[Checkout]) -> LogFile:
    rng = rng_for(SLUG, "log", pod.name)
    begin, end = max(pod.started, LOGS_FROM), min(pod.stopped, RECORDED)
    entries = start_lines(pod) if pod.version == NEW else []
    failures = 0
    for checkout in checkouts:
        if not begin <= checkout.done < end:
            continue
        if checkout.got is None:
            entries += failure_lines(rng, pod, checkout, waiting(checkouts, checkout.done), failures % 15 == 0)
            failures += 1
        elif rng.random() < SAMPLED:
            thread = f"nio-8080-exec-{rng.randrange(1, 200)}"
            entries.append(
                spring(checkout.done, "INFO", thread, "shop.checkout.order.OrderService",
                       f"order placed orderId=ord_{hex_id(rng, 10)} items={rng.randrange(1, 7)} "
                       f"totalCents={rng.randrange(900, 24_000)} currency=EUR "
                       f"durationMs={round((checkout.done - checkout.at) * 1000)} traceId={hex_id(rng, 16)}")
            )  # fmt: skip
    serving = max(pod.serves_from, begin)
    for at in every(rng, serving, end, 10):
        entries.append(spring(at, "INFO", f"nio-8080-exec-{rng.randrange(1, 200)}", "shop.checkout.web.RequestLog",
                              f"GET /actuator/health/readiness 200 {rng.randrange(1, 5)}ms ua=kube-probe"))  # fmt: skip
    for at in every(rng, serving, end, 75):
        entries.append(spring(at, "WARN", f"nio-8080-exec-{rng.randrange(1, 200)}", "org.hibernate.orm.query",
                              "HHH90003004: firstResult/maxResults specified with collection fetch; "
                              "applying in memory"))  # fmt: skip
    for at in every(rng, serving, end, 150):
        entries.append(spring(at, "WARN", "task-1", "shop.checkout.payment.PaymentClient",
                              "attempt 1/3 to payment-gateway got 502, retrying in 200ms"))  # fmt: skip
    for at in every(rng, serving, end, 60):
        entries.append(spring(at, "INFO", "scheduling-1", "shop.checkout.outbox.OutboxPublisher",
                              f"published {rng.randrange(8, 90)} events, 0 left"))  # fmt: skip
    entries += noise.jvm_gc(rng, serving, end, 22, 1024, 40 if pod.version == NEW else 30_412)
    if pod.version == OLD:
        entries.append(spring(pod.stopped - 31, "INFO", "ionShutdownHook", "o.s.b.w.e.tomcat.GracefulShutdown",
                              "Commencing graceful shutdown. Waiting for active requests to complete"))  # fmt: skip
        entries.append(spring(pod.stopped - 1, "INFO", "ionShutdownHook", "com.zaxxer.hikari.HikariDataSource",
                              "HikariPool-1 - Shutdown completed."))  # fmt: skip
    return LogFile(f"checkout-api/{pod.name}.log", entries)


def deploy_log() -> LogFile:
    def line(at: float, level: str, text: str) -> tuple[float, str]:
        return at, f"{iso(at)} {level:<5} deployer {text}"

    entries = [
        line(DEPLOY - 0.8, "INFO", f"release checkout-api {OLD} -> {NEW} namespace=shop requested by ci run=48213"),
        line(DEPLOY - 0.5, "INFO", "values diff checkout-api: image.tag: \"2.30.4\" -> \"2.31.0\""),
        line(DEPLOY - 0.5, "INFO", "values diff checkout-api: env.SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE: "
                                   "\"50\" -> \"10\" (change 8f31c2e: use the shared datasource defaults)"),
        line(DEPLOY - 0.4, "WARN", "policy datasource-settings: checkout-api 2.31.0 changes maximumPoolSize 50 -> 10 "
                                   "and has no load test attached (advisory, not blocking)"),
        line(DEPLOY + 9, "INFO", f"pod {PODS[2].name} created"),
        line(DEPLOY + 43, "INFO", f"pod {PODS[2].name} ready, draining {PODS[0].name}"),
        line(DEPLOY + 47, "INFO", f"pod {PODS[3].name} created"),
        line(DEPLOY + 84, "INFO", f"pod {PODS[3].name} ready, draining {PODS[1].name}"),
        line(DEPLOY + 113, "INFO", f"release checkout-api {NEW} rolled out 2/2 pods ready"),
        line(FIRED - 1571, "INFO", "release recommendation-api 5.8.1 -> 5.8.2 namespace=shop rolled out 3/3 ready"),
        line(FIRED - 402, "INFO", "release docs-site 812 -> 813 namespace=web rolled out 1/1 pods ready"),
    ]  # fmt: skip
    rng = rng_for(SLUG, "deploys")
    entries += [
        line(at, "INFO", f"sync ok applications={rng.randrange(61, 63)} drift=0")
        for at in every(rng, LOGS_FROM, RECORDED, 60)
    ]
    return LogFile("deployer/deploys.log", entries)


def logs(checkouts: dict[str, list[Checkout]]) -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    bearer = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwYXltZW50LWdhdGV3YXkifQ.c2lnbmF0dXJlLW9mLWEtdG9rZW4"
    routes = {
        "/": ("storefront", 200, 0.04),
        "/products/{n}": ("catalog-api", 200, 0.06),
        "/api/v1/cart": ("cart-api", 200, 0.02),
        "/static/app.{n}.js": ("storefront", 304, 0.002),
        "/favicon.ico": ("storefront", 404, 0.001),
    }
    return [
        *(checkout_log(pod, checkouts[pod.name]) for pod in PODS),
        deploy_log(),
        LogFile(
            f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
            noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.3),
        ),
        LogFile(
            "payment-gateway/payment-gateway.json", noise.payment_gateway(rng_for(SLUG, "pay"), *span, 0.2, bearer)
        ),
        LogFile("inventory-api/inventory-api.log", noise.python_stock(rng_for(SLUG, "stock"), *span, 0.22)),
        LogFile("cart-api/cart-api.log", noise.cart_service(rng_for(SLUG, "cart"), *span, 0.22)),
        LogFile("postgres/pg-checkout-0.log", noise.postgres(rng_for(SLUG, "pg"), *span, "checkout", "10.42.3")),
    ]


# --- metrics ---------------------------------------------------------------------------------------------------------


def pod_labels(pod: Pod) -> Labels:
    return {
        "job": "checkout-api",
        "service": "checkout-api",
        "namespace": "shop",
        "pod": pod.name,
        "instance": pod.address,
    }


def pod_series(pod: Pod, checkouts: list[Checkout]) -> list[Series]:
    rng = rng_for(SLUG, "metrics", pod.name)
    scrapes_from = METRICS_FROM if pod.started < METRICS_FROM else (int(pod.started + 30) // STEP_S + 1) * STEP_S
    ticks = range(scrapes_from, int(min(pod.stopped, RECORDED)) + 1, STEP_S)
    labels = pod_labels(pod)
    pool = {**labels, "pool": "HikariPool-1"}
    web = {**labels, "method": "POST", "uri": "/api/v1/checkout"}
    health = {**labels, "method": "GET", "uri": "/actuator/health/readiness", "status": "200", "outcome": "SUCCESS"}
    container = {"namespace": "shop", "pod": pod.name, "container": "checkout-api"}
    first = scrapes_from - 1
    good = [c.done for c in checkouts if c.got is not None and c.done > first]
    lost = [c.done for c in checkouts if c.got is None]

    def busy(at: int) -> float:
        return in_use(checkouts, at)

    return [
        gauge("hikaricp_connections_active", pool, ticks, busy),
        gauge("hikaricp_connections_idle", pool, ticks, lambda at: pod.pool - busy(at)),
        gauge("hikaricp_connections_pending", pool, ticks, lambda at: waiting(checkouts, at)),
        gauge("hikaricp_connections_max", pool, ticks, lambda _at: pod.pool),
        count_until("hikaricp_connections_timeout_total", pool, ticks, lost),
        count_until("http_server_requests_seconds_count", {**web, "status": "200", "outcome": "SUCCESS"}, ticks, good,
                    812_440 if pod.version == OLD else 0),
        count_until("http_server_requests_seconds_count", {**web, "status": "500", "outcome": "SERVER_ERROR"}, ticks,
                    lost, 7 if pod.version == OLD else 0),
        counter("http_server_requests_seconds_count", health, ticks, lambda _at: 0.2, 96_000 if pod.pool == 50 else 0),
        gauge("http_server_requests_seconds_max", {**web, "status": "200", "outcome": "SUCCESS"}, ticks,
              lambda at: max((c.done - c.at for c in checkouts if c.got is not None and at - 120 < c.done <= at),
                             default=0.0), 3),
        gauge("tomcat_threads_busy_threads", labels, ticks,
              lambda at: busy(at) + waiting(checkouts, at) + rng.randrange(1, 4)),
        gauge("jvm_memory_used_bytes", {**labels, "area": "heap"}, ticks, wobble(rng, 4.3e8, 1.4e8)),
        gauge("process_cpu_usage", labels, ticks, wobble(rng, 0.17, 0.03), 4),
        counter("container_cpu_usage_seconds_total", container, ticks, wobble(rng, 0.34, 0.05), 91_000.0, 2),
        gauge("container_memory_working_set_bytes", container, ticks, wobble(rng, 1.31e9, 9e6)),
        gauge("kube_pod_container_status_restarts_total", container, ticks, lambda _at: 0),
        gauge("app_info", {**labels, "version": pod.version}, ticks, lambda _at: 1),
    ]  # fmt: skip


def other_series(checkouts: dict[str, list[Checkout]]) -> list[Series]:
    """The database, the neighbours and the nodes: none of them changes."""
    rng = rng_for(SLUG, "metrics", "others")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    pg = {"job": "postgres-exporter", "instance": "pg-checkout-0:9187", "datname": "checkout"}

    def busy(at: int) -> float:
        return sum(in_use(checkouts[pod.name], at) for pod in PODS if pod.stopped > at)

    def pooled(at: int) -> float:
        return sum(pod.pool for pod in PODS if pod.started + 13 <= at < pod.stopped)

    many = [
        gauge("pg_up", {"job": "postgres-exporter", "instance": "pg-checkout-0:9187"}, ticks, lambda _at: 1),
        gauge("pg_settings_max_connections", {"job": "postgres-exporter", "instance": "pg-checkout-0:9187"}, ticks,
              lambda _at: 300),
        gauge("pg_stat_activity_count", {**pg, "state": "active"}, ticks, lambda _at: rng.randrange(2, 6)),
        gauge("pg_stat_activity_count", {**pg, "state": "idle in transaction"}, ticks, lambda at: max(busy(at) - 3, 0)),
        gauge("pg_stat_activity_count", {**pg, "state": "idle"}, ticks,
              lambda at: max(pooled(at) - busy(at), 0) + rng.randrange(3, 6)),
        gauge("pg_locks_count", {**pg, "mode": "rowexclusivelock"}, ticks, lambda _at: rng.randrange(9, 22)),
        gauge("kube_deployment_status_replicas_available", {"namespace": "shop", "deployment": "checkout-api"}, ticks,
              lambda _at: 2),
        gauge("kube_job_status_failed", {"namespace": "backoffice", "job_name": "invoice-export-29402"}, ticks,
              lambda _at: 1),
    ]  # fmt: skip
    many += [
        gauge("instance:node_cpu_utilisation:rate5m", {"instance": node}, ticks, wobble(rng, 0.41, 0.05), 4)
        for node in ("worker-1", "worker-2", "worker-3")
    ]
    for service, per_s in (("payment-gateway", 5.1), ("inventory-api", 14.0), ("cart-api", 31.0)):
        labels = {"job": service, "service": service, "namespace": "shop"}
        many.append(gauge("up", {**labels, "instance": f"{service}:8080"}, ticks, lambda _at: 1))
        many.append(
            counter("http_requests_total", {**labels, "code": "200"}, ticks, wobble(rng, per_s, per_s / 12), 4e6)
        )
        many.append(
            counter("http_requests_total", {**labels, "code": "500"}, ticks, lambda _at: rng.random() * 0.006, 90)
        )
    return many


def answers(series: list[Series]) -> list[Answer]:
    def named(name: str, keep: Callable[[Labels], bool] = lambda _labels: True) -> list[Series]:
        return [one for one in series if one.labels["__name__"] == name and keep(one.labels)]

    requests = [rate(one, one.labels) for one in named("http_server_requests_seconds_count")]
    failed = [one for one in requests if one.labels["status"] == "500"]
    group = {"service": "checkout-api", "namespace": "shop"}
    share = ratio(total(failed, {}), total(requests, {}))
    share = Series(group, share.samples, share.digits)
    by_status = [total([r for r in requests if r.labels["status"] == s], {"status": s}) for s in ("200", "500")]
    cpu = [rate(one, {"pod": one.labels["pod"]}) for one in named("container_cpu_usage_seconds_total")]

    def by_pod(name: str) -> list[Series]:
        return [Series({"pod": one.labels["pod"]}, one.samples, 0) for one in named(name)]

    return [
        Answer(ERROR_RATIO.format(" > 0.05"), above(share, 0.05)),
        Answer(ERROR_RATIO.format(""), [share]),
        Answer('sum by (status) (rate(http_server_requests_seconds_count{service="checkout-api"}[5m]))', by_status),
        Answer('sum by (pod) (rate(http_server_requests_seconds_count{service="checkout-api",status=~"5.."}[5m]))',
               [Series({"pod": one.labels["pod"]}, one.samples, 4) for one in failed]),
        Answer('max by (pod) (hikaricp_connections_max{service="checkout-api"})', by_pod("hikaricp_connections_max")),
        Answer('sum by (pod) (hikaricp_connections_active{service="checkout-api"})',
               by_pod("hikaricp_connections_active")),
        Answer('sum by (pod) (hikaricp_connections_pending{service="checkout-api"})',
               by_pod("hikaricp_connections_pending")),
        Answer('sum(hikaricp_connections_pending{service="checkout-api"})',
               [total(named("hikaricp_connections_pending"), {}, 0)]),
        Answer('sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="shop",container="checkout-api"}[5m]))',
               cpu),
        Answer('sum(pg_stat_activity_count{datname="checkout"})', [total(named("pg_stat_activity_count"), {}, 0)]),
        Answer(JOB_FAILED, named("kube_job_status_failed")),
    ]  # fmt: skip


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH: dict[str, object] = {
    "title": "checkout-api runs out of database connections after its pool was cut from 50 to 10",
    "cause": "Release 2.31.0 of checkout-api lowered HikariCP's maximumPoolSize from 50 to 10, fewer connections than "
    "its traffic needs, so checkouts wait 30 s for a connection and fail with 500.",
    "expected_findings": [
        {
            "id": "pool-timeouts",
            "any_of": [
                r"(?i)HikariPool-1 - Connection is not available",
                r"(?i)connection\b.{0,40}\btimed out",
                r"(?i)SQLTransientConnectionException",
            ],
            "must_cite_tool": ["query_logs"],
        },
        {
            "id": "pool-was-cut",
            "any_of": [
                r"(?i)maximum.?pool.?size\D{0,20}50\D{1,12}10\b",
                r"(?i)hikaricp_connections_max",
                r"(?i)maximumPoolSize=10\b",
            ],
            "must_cite_tool": ["query_logs", "query_metrics"],
        },
        {
            "id": "requests-wait",
            "any_of": [r"(?i)hikaricp_connections_(pending|active)", r"(?i)waiting=\d+", r"(?i)idle=0"],
            "must_cite_tool": ["query_metrics", "query_logs"],
        },
    ],
    "forbidden_findings": [
        r"(?i)(cpu|memory|garbage collection|gc)\b.{0,60}\b(is|was) the (root )?cause",
        r"(?i)caused by .{0,40}(payment|inventory|invoice-export|max_connections)",
        r"(?i)(?<!`)FATAL: .*too many clients",
        r"(?i)ruled out|confirmed none|已排除|确认没有",
    ],
    "expect_outcome": "SUCCESS",
    "expect_nothing_found": False,
    "note": "The failed back-office job is an unrelated active alert. Payment retries (502) and the Hibernate warning "
    "are as frequent before the release as after it.",
}  # fmt: skip


def build() -> Incident:
    checkouts = {pod.name: simulate(pod) for pod in PODS}
    series = [one for pod in PODS for one in pod_series(pod, checkouts[pod.name])] + other_series(checkouts)
    subject = ActiveAlert(
        {
            "alertname": "CheckoutHighErrorRate",
            "severity": "critical",
            "service": "checkout-api",
            "namespace": "shop",
            "team": "checkout",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "checkout-api answers more than 5% of requests with 5xx",
            "description": "The share of 5xx answers of checkout-api in namespace shop was above 5% for 5 minutes.",
            "runbook_url": "https://runbooks.example.com/checkout/high-error-rate",
        },
        FIRED,
        ERROR_RATIO.format(" > 0.05"),
    )
    job = ActiveAlert(
        {
            "alertname": "KubeJobFailed",
            "severity": "info",
            "namespace": "backoffice",
            "job_name": "invoice-export-29402",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "Job failed to complete",
            "description": "Job backoffice/invoice-export-29402 failed to complete. Remove the failed job after "
            "investigation to clear this alert.",
        },
        FIRED - 7 * 3600,
        JOB_FAILED,
    )
    return Incident(SLUG, subject, [subject, job], RECORDED, logs(checkouts), series, answers(series), TRUTH)
