"""A migration builds an index without CONCURRENTLY; writes to `orders` wait. A batch job makes a lot of CPU noise.

`CREATE INDEX` holds a SHARE lock on the table until it is done: reads go on, every INSERT and UPDATE waits and is
cancelled by the service's `lock_timeout` of 10 s. The report job has been burning a node for 25 minutes by then, with a
warning alert of its own; orders-api was fine all that time, and its pods on quiet nodes fail just as often.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import noise
from .shape import (
    STEP_S,
    ActiveAlert,
    Answer,
    Incident,
    LogFile,
    Series,
    above,
    arrivals,
    comma,
    count_until,
    counter,
    every,
    gauge,
    hex_id,
    iso,
    quantile,
    rate,
    rng_for,
    total,
    utc,
    wobble,
)

SLUG = "cpu-red-herring"
FIRED = utc("2026-11-17 14:18:30")
RECORDED = FIRED + 8 * 60 + 10
METRICS_FROM = int(FIRED) - 108 * 60
LOGS_FROM = FIRED - 45 * 60
MIGRATION = utc("2026-11-17 14:10:21.640")
JOB_STARTED = utc("2026-11-17 13:45:02.115")
NODE_ALERT = utc("2026-11-17 14:04:45")
LOCK_TIMEOUT_S = 10.0
READS_PER_S, WRITES_PER_S, SAMPLED_READS = 0.95, 0.115, 0.15
BUCKETS = (0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 15.0)
BUSY_NODE = "worker-3"
MIGRATOR_PID = 19_044

SECONDS = "http_request_duration_seconds"
P95 = f'histogram_quantile(0.95, sum by (le, service, namespace) (rate({SECONDS}_bucket{{service="orders-api"}}[5m])))'
NODE_CPU = '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'


@dataclass(frozen=True)
class Pod:
    name: str
    address: str
    node: str


@dataclass(frozen=True)
class Request:
    at: float
    took: float
    write: bool
    failed: bool

    @property
    def done(self) -> float:
        return self.at + self.took


PODS = [
    Pod("orders-api-5f9c6b7d4-8vq2m", "10.42.1.23:8000", "worker-1"),
    Pod("orders-api-5f9c6b7d4-kd7xs", "10.42.2.64:8000", "worker-2"),
    Pod("orders-api-5f9c6b7d4-zt5rl", "10.42.3.90:8000", BUSY_NODE),
]


def simulate(pod: Pod) -> list[Request]:
    rng = rng_for(SLUG, "requests", pod.name)
    begin = METRICS_FROM - 600
    requests = [
        Request(at, 0.02 + 0.13 * rng.random() ** 2, write=False, failed=False)
        for at in arrivals(rng, begin, RECORDED, READS_PER_S)
    ]
    for at in arrivals(rng, begin, RECORDED, WRITES_PER_S):
        usual_s = 0.05 + 0.25 * rng.random() ** 2
        locked = at + usual_s > MIGRATION
        requests.append(Request(at, LOCK_TIMEOUT_S + usual_s if locked else usual_s, write=True, failed=locked))
    return sorted(requests, key=lambda request: request.done)


# --- logs ------------------------------------------------------------------------------------------------------------


def orders_log(pod: Pod, requests: list[Request]) -> LogFile:
    """A FastAPI service, JSON lines with `timestamp`."""
    rng = rng_for(SLUG, "log", pod.name)
    entries: noise.Entries = []

    def line(at: float, level: str, event: str, **fields: object) -> None:
        base = {"timestamp": iso(at), "level": level, "service": "orders-api", "pod": pod.name}
        entries.append((at, noise.json_line(**base, event=event, **fields)))

    failures = 0
    for request in requests:
        if not LOGS_FROM <= request.done < RECORDED:
            continue
        ms, trace = round(request.took * 1000), hex_id(rng, 16)
        if request.failed:
            order = f"o_{hex_id(rng, 8)}"
            sql = "INSERT INTO orders" if rng.random() < 0.7 else "UPDATE orders SET status"
            fields: dict[str, object] = {"order": order, "statement": sql, "sqlstate": "55P03", "trace_id": trace}
            if failures % 12 == 0:
                fields["exception"] = (
                    "Traceback (most recent call last):\n"
                    '  File "/app/orders/api.py", line 118, in create_order\n    await repository.save(order)\n'
                    '  File "/app/orders/repository.py", line 64, in save\n    await conn.execute(statement, values)\n'
                    "psycopg.errors.LockNotAvailable: canceling statement due to lock timeout\n"
                )
            line(
                request.done - 0.004,
                "error",
                "database write failed: canceling statement due to lock timeout",
                **fields,
            )
            line(request.done, "warning", "request finished", method="POST", path="/v1/orders", status=503,
                 duration_ms=ms, trace_id=trace)  # fmt: skip
            failures += 1
        elif request.write:
            line(request.done, "info", "request finished", method="POST", path="/v1/orders", status=201,
                 duration_ms=ms, trace_id=trace)  # fmt: skip
        elif rng.random() < SAMPLED_READS:
            line(request.done, "info", "request finished", method="GET",
                 path=f"/v1/orders/o_{hex_id(rng, 8)}", status=200, duration_ms=ms, trace_id=trace)  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 20):
        line(at, "debug", "health check", path="/healthz", status=200)
    for at in every(rng, LOGS_FROM, RECORDED, 180):
        line(at, "warning", "deprecated field 'coupon' in request, use 'discounts'", client="pos-terminal/2.8")
    for at in every(rng, LOGS_FROM, RECORDED, 290):
        line(at, "warning", "payment-gateway answered 429, retry 1/3 in 250 ms")
    for at in every(rng, LOGS_FROM, RECORDED, 600):
        line(at, "debug", "pool check", size=20, dsn="postgresql://orders_app:W1nter-Orders-9@pg-orders:5432/orders")
    return LogFile(f"orders-api/{pod.name}.json", entries)


def migration_log() -> LogFile:
    def line(at: float, level: str, text: str, logger: str = "alembic.runtime.migration") -> tuple[float, str]:
        return at, f"{comma(at)} {level} [{logger}] {text}"

    at = MIGRATION
    return LogFile(
        "orders-migrate/orders-migrate-118-hx2bd.log",
        [
            line(at - 2.4, "INFO ", "Context impl PostgresqlImpl."),
            line(at - 2.4, "INFO ", "Will assume transactional DDL."),
            line(at - 0.1, "INFO ", "Running upgrade 3c1f90aa7d12 -> 7e2b64d09c55, index orders by status and date"),
            line(at, "INFO ", "CREATE INDEX ix_orders_status_created_at ON orders (status, created_at)",
                 "sqlalchemy.engine.Engine"),
            line(at + 60, "WARN ", "7e2b64d09c55 still running after 60s: CREATE INDEX ix_orders_status_created_at ON "
                                   f"orders (backend {MIGRATOR_PID}, 214 GB, not CONCURRENTLY)", "migrate.watch"),
            line(at + 300, "WARN ", "7e2b64d09c55 still running after 300s: CREATE INDEX ix_orders_status_created_at "
                                    "ON orders", "migrate.watch"),
            line(at + 600, "WARN ", "7e2b64d09c55 still running after 600s: CREATE INDEX ix_orders_status_created_at "
                                    "ON orders", "migrate.watch"),
        ],
    )  # fmt: skip


def database_log(requests: dict[str, list[Request]]) -> LogFile:
    """PostgreSQL with `log_lock_waits = on` and `deadlock_timeout = 1s`; the shipper keeps a part of each kind."""
    rng = rng_for(SLUG, "pg")
    entries = noise.postgres(rng, LOGS_FROM, RECORDED, "orders", "10.42.2")
    failed = sorted((r for many in requests.values() for r in many if r.failed), key=lambda request: request.done)
    waits = [(request.done - LOCK_TIMEOUT_S, request.done - 0.006, rng.randrange(20_000, 29_000)) for request in failed]
    statement = "INSERT INTO orders (id, customer_id, status, total_minor) VALUES ($1, $2, $3, $4)"
    for begins, ends, pid in waits:
        if rng.random() < 0.5:
            at = begins + 1
            queue = ", ".join(str(other) for since, until, other in waits if since <= at < until)
            waited = (
                f"process {pid} still waiting for RowExclusiveLock on relation 16712 of database 16390 "
                f"after {1000 + rng.random():.3f} ms"
            )
            entries.append(noise.pg_line(at, pid, "LOG", waited))
            holder = f"Process holding the lock: {MIGRATOR_PID}. Wait queue: {queue}."
            entries.append(noise.pg_line(at, pid, "DETAIL", holder))
            entries.append(noise.pg_line(at, pid, "STATEMENT", statement))
        if rng.random() < 0.4:
            entries.append(noise.pg_line(ends, pid, "ERROR", "canceling statement due to lock timeout"))
            entries.append(noise.pg_line(ends, pid, "STATEMENT", statement))
    return LogFile("postgres/pg-orders-0.log", entries)


def report_log() -> LogFile:
    """The batch job: loud, coloured, and nothing to do with orders-api."""
    rng = rng_for(SLUG, "report")
    entries: noise.Entries = []

    def line(at: float, colour: str, level: str, text: str) -> None:
        entries.append((at, f"{comma(at)} {colour}{level:<8}{noise.RESET} sales_report {text}"))

    line(JOB_STARTED, noise.GREEN, "INFO", "job sales-report-29388 started, 16 processes, source=replica pg-orders-1")
    for at in arrivals(rng, JOB_STARTED + 20, RECORDED, 0.25):
        line(at, noise.GREEN, "INFO", f"aggregated region={rng.choice(('emea', 'apac', 'amer'))} "
                                      f"shop={rng.randrange(100, 999)} rows={rng.randrange(9_000, 90_000)} "
                                      f"in {2 + 3 * rng.random():.1f}s")  # fmt: skip
    for at in every(rng, JOB_STARTED + 60, RECORDED, 45):
        line(at, noise.YELLOW, "WARNING", f"cpu saturated on {BUSY_NODE}: load average "
                                          f"{17 + 3 * rng.random():.1f} on 16 cores, workers wait for CPU")  # fmt: skip
    return LogFile("sales-report/sales-report-29388-qq8ws.log", entries)


def logs(requests: dict[str, list[Request]]) -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    bearer = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJvcmRlcnMtcGF5In0.bm90LWEtcmVhbC1zaWduYXR1cmU"
    routes = {
        "/v1/orders/o_{n}": ("orders-api", 200, 0.07),
        "/products/{n}": ("catalog-api", 200, 0.06),
        "/account": ("storefront", 200, 0.05),
        "/robots.txt": ("storefront", 404, 0.001),
    }
    return [
        *(orders_log(pod, requests[pod.name]) for pod in PODS),
        migration_log(),
        database_log(requests),
        report_log(),
        LogFile(
            f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
            noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.12),
        ),
        LogFile(
            "payment-gateway/payment-gateway.json", noise.payment_gateway(rng_for(SLUG, "pay"), *span, 0.14, bearer)
        ),
        LogFile("notification-service/notify.log", noise.notifications(rng_for(SLUG, "mail"), *span, 0.1)),
    ]


# --- metrics ---------------------------------------------------------------------------------------------------------


def pod_series(pod: Pod, requests: list[Request]) -> list[Series]:
    rng = rng_for(SLUG, "metrics", pod.name)
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    labels = {
        "job": "orders-api",
        "service": "orders-api",
        "namespace": "shop",
        "pod": pod.name,
        "instance": pod.address,
        "node": pod.node,
    }
    container = {"namespace": "shop", "pod": pod.name, "container": "orders-api", "node": pod.node}
    codes = {"200": (False, False), "201": (True, False), "503": (True, True)}
    counts = [
        count_until("http_requests_total", {**labels, "method": "POST" if kind[0] else "GET", "code": code}, ticks,
                    [r.done for r in requests if (r.write, r.failed) == kind])
        for code, kind in codes.items()
    ]  # fmt: skip
    buckets = [
        count_until(f"{SECONDS}_bucket", {**labels, "le": le}, ticks, [r.done for r in requests if r.took <= bound])
        for le, bound in [*((f"{bound:g}", bound) for bound in BUCKETS), ("+Inf", float("inf"))]
    ]
    waiting = gauge(
        "db_pool_connections_in_use",
        labels,
        ticks,
        lambda at: sum(1 for r in requests if r.write and r.at <= at < r.done) + rng.randrange(3),
    )
    return [
        *counts,
        *buckets,
        waiting,
        counter("container_cpu_usage_seconds_total", container, ticks, wobble(rng, 0.22, 0.03), 7_000.0, 2),
        counter("container_cpu_cfs_throttled_periods_total", container, ticks, lambda _at: 0.0, 12.0),
        gauge("container_memory_working_set_bytes", container, ticks, wobble(rng, 3.6e8, 4e6)),
        gauge("up", labels, ticks, lambda _at: 1),
    ]


def other_series(requests: dict[str, list[Request]]) -> list[Series]:
    rng = rng_for(SLUG, "metrics", "others")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    pg = {"job": "postgres-exporter", "instance": "pg-orders-0:9187", "datname": "orders"}
    blocked = [r for many in requests.values() for r in many if r.failed]

    def waiting(at: int) -> float:
        return sum(1 for r in blocked if r.at <= at < r.done)

    def migrating(at: int) -> bool:
        return at >= MIGRATION

    many = [
        gauge("pg_locks_count", {**pg, "mode": "sharelock"}, ticks, lambda at: int(migrating(at))),
        gauge("pg_locks_count", {**pg, "mode": "rowexclusivelock"}, ticks, lambda at: waiting(at) + rng.randrange(4)),
        gauge("pg_stat_activity_waiting_on_lock", pg, ticks, waiting),
        gauge("pg_stat_activity_max_tx_duration", {**pg, "state": "active"}, ticks,
              lambda at: at - MIGRATION if migrating(at) else 0.05 + 0.3 * rng.random(), 2),
        gauge("pg_stat_activity_count", {**pg, "state": "idle"}, ticks, lambda _at: 38 + rng.randrange(6)),
        gauge("kube_job_status_active", {"namespace": "shop", "job_name": "orders-migrate-118"}, ticks,
              lambda at: int(at >= MIGRATION - 9)),
        gauge("kube_job_status_active", {"namespace": "backoffice", "job_name": "sales-report-29388"}, ticks,
              lambda at: int(at >= JOB_STARTED)),
        counter("container_cpu_usage_seconds_total",
                {"namespace": "backoffice", "pod": "sales-report-29388-qq8ws", "container": "sales-report",
                 "node": BUSY_NODE}, range(int(JOB_STARTED) // STEP_S * STEP_S + STEP_S, int(RECORDED) + 1, STEP_S),
                wobble(rng, 11.4, 0.5), 0.0, 2),
    ]  # fmt: skip
    for node, cores in (("worker-1", 16), ("worker-2", 16), (BUSY_NODE, 16), ("pg-orders-0", 8)):
        labels = {"job": "node-exporter", "instance": node, "mode": "idle"}

        def idle(at: int, node: str = node, cores: int = cores) -> float:
            if node == BUSY_NODE and at >= JOB_STARTED:
                return cores * (0.03 + 0.02 * rng.random())
            return cores * (0.62 + 0.06 * rng.random() - (0.1 if node == "pg-orders-0" and migrating(at) else 0))

        many.append(counter("node_cpu_seconds_total", labels, ticks, idle, 4.1e6, 2))
    for service, per_s in (("payment-gateway", 4.6), ("notification-service", 2.2)):
        labels = {"job": service, "service": service, "namespace": "shop", "code": "200"}
        many.append(counter("http_requests_total", labels, ticks, wobble(rng, per_s, per_s / 12), 2e6))
    return many


def answers(series: list[Series]) -> list[Answer]:
    def named(name: str, **match: str) -> list[Series]:
        wanted = {"__name__": name, **match}.items()
        return [one for one in series if wanted <= one.labels.items()]

    def rates(many: list[Series], *labels: str) -> list[Series]:
        return [rate(one, {label: one.labels[label] for label in labels}) for one in many]

    bounds = {("+Inf" if bound == float("inf") else f"{bound:g}"): bound for bound in (*BUCKETS, float("inf"))}
    group = {"service": "orders-api", "namespace": "shop"}
    overall = {bound: total(rates(named(f"{SECONDS}_bucket", le=le)), {}) for le, bound in bounds.items()}
    by_pod = [
        quantile(0.95, {bound: rates(named(f"{SECONDS}_bucket", le=le, pod=pod.name))[0]
                        for le, bound in bounds.items()}, {"pod": pod.name, "node": pod.node})
        for pod in PODS
    ]  # fmt: skip
    p95 = quantile(0.95, overall, group)
    requests = named("http_requests_total", service="orders-api")
    by_code = [
        total(rates([r for r in requests if r.labels["code"] == code]), {"code": code, "method": method})
        for code, method in (("200", "GET"), ("201", "POST"), ("503", "POST"))
    ]
    nodes = []
    for one in named("node_cpu_seconds_total"):
        cores = 8 if one.labels["instance"] == "pg-orders-0" else 16
        idle = rate(one, {"instance": one.labels["instance"]})
        nodes.append(Series(idle.labels, [(at, 1 - value / cores) for at, value in idle.samples], 4))
    busy = [one for node in nodes for one in above(node, 0.9)]
    return [
        Answer(f"{P95} > 2", above(p95, 2.0)),
        Answer(P95, [p95]),
        Answer(
            f'histogram_quantile(0.95, sum by (le, pod, node) (rate({SECONDS}_bucket{{service="orders-api"}}[5m])))',
            by_pod,
        ),
        Answer('sum by (method, code) (rate(http_requests_total{service="orders-api"}[5m]))', by_code),
        Answer(NODE_CPU, nodes),
        Answer(f"{NODE_CPU} > 0.9", busy),
        Answer(
            'sum by (pod) (rate(container_cpu_usage_seconds_total{container="orders-api"}[5m]))',
            rates(named("container_cpu_usage_seconds_total", container="orders-api"), "pod"),
        ),
        Answer(
            'sum by (pod) (rate(container_cpu_cfs_throttled_periods_total{container="orders-api"}[5m]))',
            rates(named("container_cpu_cfs_throttled_periods_total"), "pod"),
        ),
        Answer('max(pg_stat_activity_max_tx_duration{datname="orders"})',
               [Series({}, named("pg_stat_activity_max_tx_duration")[0].samples, 2)]),
        Answer('sum by (mode) (pg_locks_count{datname="orders"})',
               [Series({"mode": one.labels["mode"]}, one.samples) for one in named("pg_locks_count")]),
    ]  # fmt: skip


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH: dict[str, object] = {
    "title": "Writes to orders wait for a lock held by a migration's CREATE INDEX",
    "cause": "The migration 7e2b64d09c55 runs CREATE INDEX on orders without CONCURRENTLY and holds a SHARE lock, so "
    "every INSERT and UPDATE of orders-api waits and is cancelled by lock_timeout after 10 s.",
    "expected_findings": [
        {
            "id": "lock-timeouts",
            "any_of": [r"(?i)canceling statement due to lock timeout", r"\b55P03\b", r"(?i)LockNotAvailable"],
            "must_cite_tool": ["query_logs"],
        },
        {
            "id": "index-build-holds-the-lock",
            "any_of": [
                r"(?i)CREATE INDEX ix_orders_status_created_at",
                r"(?i)still waiting for RowExclusiveLock",
                r"(?i)7e2b64d09c55",
                r"(?i)pg_stat_activity_max_tx_duration",
                r"(?i)pg_stat_activity_waiting_on_lock",
            ],
            "must_cite_tool": ["query_logs", "query_metrics"],
        },
    ],
    "forbidden_findings": [
        r"(?i)(caused by|because of|due to|root cause[^.]{0,30}) ?(the )?(high |node )?cpu",
        r"(?i)cpu\b[^.]{0,60}\b(is|was|as) the (root |likely )?cause",
        r"(?i)(caused by|because of|due to|root cause[^.]{0,30}) ?(the )?sales.?report",
        r"(?i)ruled out|confirmed none|已排除|确认没有",
    ],
    "expect_outcome": "SUCCESS",
    "expect_nothing_found": False,
    "note": "Saying that worker-3's CPU is high is true and allowed; calling it the cause is not. Its CPU rose at "
    "13:45, 25 minutes before the latency, and pods on worker-1 and worker-2 are as slow as the one on worker-3. "
    "Retries after 429 from payment-gateway are as frequent before as after.",
}


def build() -> Incident:
    requests = {pod.name: simulate(pod) for pod in PODS}
    series = [one for pod in PODS for one in pod_series(pod, requests[pod.name])] + other_series(requests)
    subject = ActiveAlert(
        {
            "alertname": "OrdersApiHighLatency",
            "severity": "critical",
            "service": "orders-api",
            "namespace": "shop",
            "team": "orders",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "orders-api is slow: 95th percentile above 2 s",
            "description": "The 95th percentile of the request duration of orders-api in namespace shop was above 2 s "
            "for 5 minutes.",
        },
        FIRED,
        f"{P95} > 2",
    )
    node = ActiveAlert(
        {
            "alertname": "NodeCPUHighUsage",
            "severity": "warning",
            "instance": BUSY_NODE,
            "job": "node-exporter",
            "team": "platform",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "High CPU usage",
            "description": f"CPU usage at {BUSY_NODE} has been above 90% for the last 15 minutes, is currently at 96%.",
        },
        NODE_ALERT,
        f"{NODE_CPU} > 0.9",
    )
    return Incident(SLUG, subject, [subject, node], RECORDED, logs(requests), series, answers(series), TRUTH)
