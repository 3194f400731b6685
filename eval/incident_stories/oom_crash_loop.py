"""A release loads a table of vectors that is larger than the container's memory limit; its pods are OOM-killed again.

A pod says it is ready before its table is loaded, so the rollout replaces every old pod; then each new one grows to the
limit of 512Mi, is killed by the kernel without a word of its own, and starts over after a growing back-off.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import noise, web
from .shape import (
    STEP_S,
    ActiveAlert,
    Answer,
    Finding,
    Incident,
    LogFile,
    Series,
    above,
    arrivals,
    counter,
    every,
    gauge,
    hex_id,
    iso,
    rng_for,
    total,
    truth_of_a_fault,
    utc,
    wobble,
)

SLUG = "oom-crash-loop"
FIRED = utc("2026-11-19 13:34:30")
RECORDED = FIRED + 7 * 60
METRICS_FROM = int(FIRED) - 105 * 60 - 30
LOGS_FROM = FIRED - 46 * 60
RELEASE = utc("2026-11-19 13:24:08.520")
JOB_FAILED_AT = utc("2026-11-19 04:12:00")
LIMIT = 512 * 1024 * 1024
BACKOFFS_S = (1, 10, 20, 40, 80, 160, 300)
READY_S = 12.0
OLD, NEW = "2026-08", "2026-11"
ROWS = {OLD: 620_000, NEW: 1_480_000}
BYTES_A_ROW = 96 * 4
RESTARTS = 'increase(kube_pod_container_status_restarts_total{namespace="shop",container="recommend-api"}[10m])'
LOOPING = f"sum by (namespace, container) ({RESTARTS})"
JOB_FAILED = 'kube_job_status_failed{namespace="backoffice"} > 0'


@dataclass(frozen=True)
class Life:
    """One run of a pod's container; `end` is when it was killed or stopped, or after the recording."""

    start: float
    end: float
    model: str

    def resident(self, at: float) -> float:
        """Memory in bytes: the interpreter, and what of the table is loaded by then."""
        table = ROWS[self.model] * BYTES_A_ROW
        loaded = min(1.0, max(0.0, at - self.start - 4) / (self.load_s - 4))
        return 142e6 + table * loaded

    @property
    def load_s(self) -> float:
        return 110.0 * ROWS[self.model] / ROWS[NEW]


def lives_of_new(start: float) -> list[Life]:
    rng = rng_for(SLUG, "lives", f"{start}")
    lives: list[Life] = []
    for backoff_s in BACKOFFS_S:
        killed = start + 72 + 6 * rng.random()
        lives.append(Life(start, killed, NEW))
        start = killed + backoff_s
        if start > RECORDED:
            break
    return lives


OLD_PODS = {
    web.Pod("recommend-api-5c7d8f6b9d-4kq2n", "10.42.2.31:8080", "recommend-api", "shop", "worker-2"): [
        Life(RELEASE - 9 * 86_400, RELEASE + 19, OLD)
    ],
    web.Pod("recommend-api-5c7d8f6b9d-tx8wv", "10.42.4.77:8080", "recommend-api", "shop", "worker-4"): [
        Life(RELEASE - 9 * 86_400, RELEASE + 37, OLD)
    ],
}
NEW_PODS = {
    web.Pod("recommend-api-7f4b6c8d55-hn5zr", "10.42.2.46:8080", "recommend-api", "shop", "worker-2"): lives_of_new(
        RELEASE + 3
    ),
    web.Pod("recommend-api-7f4b6c8d55-w9jcd", "10.42.4.92:8080", "recommend-api", "shop", "worker-4"): lives_of_new(
        RELEASE + 21
    ),
}
PODS = OLD_PODS | NEW_PODS
KILLS = sorted((life.end, pod.name, pod.node) for pod, lives in NEW_PODS.items() for life in lives)


def alive(lives: list[Life], at: float) -> Life | None:
    return next((life for life in lives if life.start <= at < life.end), None)


def ready(at: float) -> bool:
    running = [alive(lives, at) for lives in PODS.values()]
    return any(life is not None and at > life.start + READY_S for life in running)


# --- logs ------------------------------------------------------------------------------------------------------------


def service_log(pod: web.Pod, lives: list[Life]) -> LogFile:
    """A Python service; a killed process leaves no last word, the next line is the next start."""
    rng = rng_for(SLUG, "log", pod.name)
    entries: noise.Entries = []

    def line(at: float, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:<8} {logger:<18} {text}"))

    for life in lives:
        end = min(life.end, RECORDED)
        if life.start > LOGS_FROM:
            starting(life, line)
        for at in arrivals(rng, max(LOGS_FROM, life.start + READY_S), end, 0.31):
            line(at, "INFO", "recommend.http", f"GET /v1/recommendations/u{rng.randrange(10_000, 99_999)} 200 "
                                               f"{rng.randrange(9, 60)}ms trace={hex_id(rng, 16)}")  # fmt: skip
        for at in every(rng, max(LOGS_FROM, life.start + READY_S), end, 10):
            line(at, "DEBUG", "recommend.http", "GET /readyz 200")
        for at in every(rng, max(LOGS_FROM, life.start + READY_S), end, 140):
            line(at, "WARNING", "recommend.ranker", "user without history, popularity ranking used")
        if life.model == OLD and life.end < RECORDED:
            line(life.end - 0.4, "INFO", "uvicorn.error", "Shutting down")
    return LogFile(f"recommend-api/{pod.name}.log", entries)


def starting(life: Life, line: noise.Line) -> None:
    rows, megabytes = ROWS[life.model], ROWS[life.model] * BYTES_A_ROW / 1e6
    line(life.start + 0.8, "INFO", "uvicorn.error", "Started server process [1]")
    line(life.start + 1.1, "INFO", "recommend.config", "version=4.7.0 model=vectors-2026-11 cache=redis://recs:6379/2")
    line(life.start + 2.0, "INFO", "recommend.vectors",
         f"loading vectors-{life.model} in the background: {rows} rows x 96 float32 = {megabytes:.0f} MB "
         "(before: vectors-2026-08, 620000 rows, 238 MB)")  # fmt: skip
    line(life.start + 2.2, "INFO", "uvicorn.error", "Application startup complete.")
    for part in range(1, 20):
        at = life.start + 4 + part * 5.3
        if at < min(life.end, RECORDED):
            used = life.resident(at) / LIMIT
            level, mebibytes = "WARNING" if used > 0.9 else "INFO", life.resident(at) / 1048576
            loaded = f"loaded part {part}/20, memory {mebibytes:.0f}Mi of 512Mi ({used:.0%})"
            line(at, level, "recommend.vectors", loaded)


def cluster_log() -> LogFile:
    """Kubernetes events as an exporter writes them, JSON lines; noise of other namespaces among them."""
    rng = rng_for(SLUG, "events")
    entries: noise.Entries = []

    def line(at: float, level: str, reason: str, kind: str, name: str, message: str) -> None:
        entries.append((at, noise.json_line(ts=iso(at), level=level, reason=reason, kind=kind, name=name,
                                            namespace="shop" if kind != "Node" else "", message=message)))  # fmt: skip

    line(RELEASE, "info", "ScalingReplicaSet", "Deployment", "recommend-api",
         "Scaled up replica set recommend-api-7f4b6c8d55 to 1 from 0")  # fmt: skip
    for pod, lives in NEW_PODS.items():
        for number, life in enumerate(lives):
            if number:
                image = 'Container image "registry.example.com/recommend-api:4.7.0" already present on machine'
                line(life.start, "info", "Pulled", "Pod", pod.name, image)
                line(life.start + 0.4, "info", "Started", "Pod", pod.name, "Started container recommend-api")
            line(life.end + 0.2, "warn", "OOMKilling", "Node", pod.node,
                 f"Memory cgroup out of memory: Killed process {rng.randrange(20_000, 60_000)} (python) "
                 f"total-vm:{rng.randrange(1_800_000, 1_900_000)}kB, "
                 f"anon-rss:{rng.randrange(505_000, 512_000)}kB, file-rss:0kB, shmem-rss:0kB, UID:1000 "
                 "pgtables:1204kB oom_score_adj:984")  # fmt: skip
            if number:
                for at in every(rng, life.end + 1, life.end + BACKOFFS_S[number] + 1, 12):
                    line(at, "warn", "BackOff", "Pod", pod.name,
                         f"Back-off restarting failed container recommend-api in pod {pod.name}_shop")  # fmt: skip
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.06):
        line(at, "info", rng.choice(("Pulled", "Created", "Started", "Scheduled", "SuccessfulCreate")), "Pod",
             f"{rng.choice(('cart-cleanup', 'feed-export', 'sitemap'))}-{rng.randrange(29_400_000, 29_499_999)}",
             "job step done")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 330):
        line(at, "warn", "Unhealthy", "Pod", "legacy-crm-0",
             "Readiness probe failed: Get \"http://10.42.5.8:8080/health\": context deadline exceeded")  # fmt: skip
    return LogFile("k8s-events/events.json", entries)


def deployer_log() -> LogFile:
    entries: noise.Entries = []

    def line(at: float, level: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:<5} deployer {text}"))

    for hours, what in ((1.2, "cart-api 3.14.1 -> 3.14.2"), (0.6, "storefront-bff 88 -> 89")):
        line(RELEASE - hours * 3600, "INFO", f"release {what} namespace=shop requested by ci")
        line(RELEASE - hours * 3600 + 48, "INFO", f"rollout {what.split(maxsplit=1)[0]}: complete")
    line(RELEASE - 2, "INFO", "release recommend-api 4.6.3 -> 4.7.0 namespace=shop requested by ci")
    line(RELEASE - 1.9, "INFO", "values diff recommend-api: model vectors-2026-08 -> vectors-2026-11; "
                                "resources.limits.memory unchanged (512Mi)")  # fmt: skip
    line(RELEASE + 39, "INFO", "rollout recommend-api: complete, 2/2 ready")
    for number, (at, pod, _node) in enumerate(KILLS, 1):
        if at < RECORDED - 3:
            ended = f"{pod} container recommend-api terminated: OOMKilled, exit code 137"
            line(at + 2.5, "ERROR" if number > 2 else "WARN", f"watch recommend-api: {ended}")
    return LogFile("deployer/deploys.log", entries)


def frontend_log() -> LogFile:
    """The caller, Node.js: it falls back to bestsellers and says so."""
    rng = rng_for(SLUG, "bff")
    entries: noise.Entries = []

    def line(at: float, level: str, msg: str, **fields: object) -> None:
        entries.append((at, noise.json_line(time=iso(at), level=level, service="storefront-bff", msg=msg, **fields)))

    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.3):
        if ready(at) or rng.random() < 0.2:
            line(at, "info", "page rendered", page=rng.choice(("home", "product", "basket")), status=200,
                 took_ms=rng.randrange(40, 280), reqId=hex_id(rng, 12))  # fmt: skip
        else:
            line(at, "error", "recommendations unavailable: connect ECONNREFUSED 10.43.112.7:8080, "
                              "bestsellers shown instead", code="ECONNREFUSED", reqId=hex_id(rng, 12))  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 190):
        line(at, "warn", "image cdn answered 304 without etag", host="img.example.com")
    return LogFile("storefront-bff/bff.json", entries)


def logs() -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    routes = {
        "/product/{n}": ("storefront-bff", 200, 0.12),
        "/cart": ("cart-api", 200, 0.05),
        "/robots.txt": ("storefront-bff", 404, 0.001),
    }
    bearer = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyZWNvbW1lbmQifQ.c3RpbGwtbm90LXJlYWw"
    return [
        *(service_log(pod, lives) for pod, lives in PODS.items()),
        cluster_log(),
        deployer_log(),
        frontend_log(),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
                noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.1)),
        LogFile("payment-gateway/payment-gateway.json",
                noise.payment_gateway(rng_for(SLUG, "pay"), *span, 0.05, bearer)),
        LogFile("inventory-api/inventory-api.log", noise.python_stock(rng_for(SLUG, "stock"), *span, 0.08)),
    ]  # fmt: skip


# --- metrics ---------------------------------------------------------------------------------------------------------


def pod_series(pod: web.Pod, lives: list[Life]) -> list[Series]:
    rng = rng_for(SLUG, "metrics", pod.name)
    last = lives[-1].end if lives[-1].model == OLD else RECORDED
    ticks = [at for at in range(METRICS_FROM, int(RECORDED) + 1, STEP_S) if lives[0].start <= at < last]
    container = {"namespace": "shop", "pod": pod.name, "container": "recommend-api"}
    state = {"job": "kube-state-metrics", **container}
    served = [(max(METRICS_FROM - 600, life.start + READY_S), min(life.end, RECORDED)) for life in lives]
    answered = [at for begin, end in served for at in arrivals(rng, begin, end, 3.1)]

    def killed_by(at: int) -> int:
        return sum(1 for life in lives if life.model == NEW and life.end <= at)

    def begun(at: int) -> float:
        return max(life.start for life in lives if life.start <= at)

    def memory(at: int) -> float:
        life = alive(lives, at)
        return min(LIMIT, life.resident(at) + rng.random() * 2e6) if life else 0

    running = [at for at in ticks if alive(lives, at)]
    return [
        gauge("container_memory_working_set_bytes", {**container, "node": pod.node}, running, memory),
        gauge("kube_pod_container_resource_limits", {**state, "resource": "memory", "unit": "byte"}, ticks,
              lambda _at: LIMIT),
        gauge("kube_pod_container_status_restarts_total", state, ticks,
              lambda at: max(0, sum(1 for life in lives if life.start <= at) - 1)),
        gauge("kube_pod_container_status_ready", state, ticks,
              lambda at: int((life := alive(lives, at)) is not None and at > life.start + READY_S)),
        gauge("kube_pod_container_status_last_terminated_exitcode", state, [at for at in ticks if killed_by(at)],
              lambda _at: 137),
        gauge("kube_pod_container_status_last_terminated_reason", {**state, "reason": "OOMKilled"},
              [at for at in ticks if killed_by(at)], lambda _at: 1),
        gauge("up", pod.labels, ticks, lambda at: int(alive(lives, at) is not None)),
        gauge("http_requests_total", {**pod.labels, "code": "200"}, running,
              lambda at: sum(1 for moment in answered if begun(at) <= moment <= at)),
        gauge("process_resident_memory_bytes", pod.labels, running, memory),
    ]  # fmt: skip


def other_series() -> list[Series]:
    rng = rng_for(SLUG, "metrics", "others")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    many = [
        gauge("kube_deployment_status_replicas_available", {"job": "kube-state-metrics", "namespace": "shop",
                                                            "deployment": "recommend-api"}, ticks,
              lambda at: sum(1 for lives in PODS.values()
                             if (life := alive(lives, at)) and at > life.start + READY_S)),
        gauge("kube_job_status_failed", {"job": "kube-state-metrics", "namespace": "backoffice",
                                         "job_name": "feed-import-29410"}, ticks, lambda _at: 1),
    ]  # fmt: skip
    for node, free in (("worker-2", 1.9e10), ("worker-4", 2.3e10)):
        labels = {"job": "node-exporter", "instance": node}
        many.append(gauge("node_memory_MemAvailable_bytes", labels, ticks, wobble(rng, free, 2e8)))
        many.append(gauge("node_memory_MemTotal_bytes", labels, ticks, lambda _at: 33_554_432_000))
        many.append(counter("node_cpu_seconds_total", {**labels, "mode": "idle"}, ticks, wobble(rng, 9.8, 0.4), 4e6, 1))
    return many


def increase(series: Series) -> Series:
    """`increase(…[10m])` of a counter that may be younger than ten minutes."""
    grown = []
    for at, value in series.samples:
        oldest = next(earlier for since, earlier in series.samples if since > at - 600)
        grown.append((at, value - oldest))
    return Series({}, grown, 2)


def answers(series: list[Series]) -> list[Answer]:
    restarts = web.named(series, "kube_pod_container_status_restarts_total")
    looping = total([increase(one) for one in restarts], {"namespace": "shop", "container": "recommend-api"}, 2)
    used = []
    for one in web.named(series, "container_memory_working_set_bytes"):
        used.append(Series({"pod": one.labels["pod"]}, [(at, value / LIMIT) for at, value in one.samples], 4))
    failed = Series({**web.named(series, "kube_job_status_failed")[0].labels},
                    web.named(series, "kube_job_status_failed")[0].samples)  # fmt: skip
    return [
        Answer(f"{LOOPING} > 2", above(looping, 2)),
        Answer(LOOPING, [looping]),
        Answer(
            'max by (pod) (container_memory_working_set_bytes{container="recommend-api"}) / '
            'max by (pod) (kube_pod_container_resource_limits{container="recommend-api",resource="memory"})',
            used,
        ),
        Answer(JOB_FAILED, [failed]),
    ]


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "recommend-api 4.7.0 needs more memory than its limit and is OOM-killed in a loop",
    "Release 4.7.0 of recommend-api loads vectors-2026-11 (568 MB) into a container whose memory limit stayed at "
    "512Mi, so each pod reaches the limit within 80 seconds of starting and is OOM-killed.",
    [
        Finding("oom-killed",
                [r"\bOOMKilled\b", r"(?i)memory cgroup out of memory", r"(?i)exit code 137",
                 r"(?i)last_terminated_(reason|exitcode)"],
                ["query_logs", "query_metrics"]),
        Finding("memory-reaches-the-limit",
                [r"(?i)memory \d+Mi of 512Mi", r"(?i)process_resident_memory_bytes",
                 r"(?i)container_memory_working_set_bytes"],
                ["query_logs", "query_metrics"]),
        Finding("release-with-a-larger-table",
                [r"(?i)recommend-api 4\.6\.3 -> 4\.7\.0", r"(?i)vectors-2026-08 -> vectors-2026-11",
                 r"(?i)loading vectors-2026-11"],
                ["query_logs"]),
    ],
    [
        r"(?i)(caused by|because of|due to) .{0,40}(leak|node memory|memory pressure|liveness|probe|legacy-crm)",
        r"(?i)node[^.]{0,40}(ran|is|was|were) out of memory",
        r"(?i)feed-import[^.]{0,60}(cause|led to)",
    ],
    "It is no leak: memory grows only while the table is loaded, and the table alone is larger than the limit. The "
    "nodes have more than half of their memory free. The failed import job is an unrelated active alert, and the "
    "failing probe of legacy-crm-0 is as frequent before the release as after it.",
)  # fmt: skip


def build() -> Incident:
    series = [one for pod, lives in PODS.items() for one in pod_series(pod, lives)] + other_series()
    subject = ActiveAlert(
        {
            "alertname": "KubePodCrashLooping",
            "severity": "critical",
            "service": "recommend-api",
            "namespace": "shop",
            "container": "recommend-api",
            "team": "discovery",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "recommend-api restarts again and again",
            "description": "Containers recommend-api in namespace shop restarted more than 2 times in 10 minutes.",
        },
        FIRED,
        f"{LOOPING} > 2",
    )
    job = ActiveAlert(
        {
            "alertname": "KubeJobFailed",
            "severity": "info",
            "namespace": "backoffice",
            "job_name": "feed-import-29410",
            "cluster": "prod-eu-1",
        },
        {
            "summary": "Job failed to complete",
            "description": "Job backoffice/feed-import-29410 failed to complete.",
        },
        JOB_FAILED_AT,
        JOB_FAILED,
    )
    return Incident(SLUG, subject, [subject, job], RECORDED, logs(), series, answers(series), TRUTH)
