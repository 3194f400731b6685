"""Two faults of booking-api at once, neither of which explains the other: both have to be found.

A loader fills the cache Valkey, which may not evict: holds (`POST /v1/holds`) cannot be stored. Four minutes later the
day's quota of the fare partner is used up: quotes (`GET /v1/quotes`) get 429 for the rest of the hour.
"""

from __future__ import annotations

from random import Random

from . import noise, web
from .shape import (
    STEP_S,
    ActiveAlert,
    Answer,
    Finding,
    Incident,
    LogFile,
    Series,
    arrivals,
    comma,
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

SLUG = "two-causes"
FIRED = utc("2026-11-27 16:29:30")
RECORDED = FIRED + 7 * 60
METRICS_FROM = int(FIRED) - 102 * 60 - 30
LOGS_FROM = FIRED - 44 * 60
LOADER = utc("2026-11-27 15:58:20.150")
MEMORY_FULL = utc("2026-11-27 16:20:05")
QUOTA_USED_UP = utc("2026-11-27 16:24:11")
NODE_WARNED = utc("2026-11-27 09:02:00")
MAX_MEMORY, MEMORY_BEFORE = 4_294_967_296, 1_610_000_000
THRESHOLD = 0.05
HOLD, QUOTE, READ = "POST /v1/holds", "GET /v1/quotes", "GET /v1/bookings/{id}"
PODS = [
    web.Pod("booking-api-7d6f9b8c4d-8jvxk", "10.42.1.83:8080", "booking-api", "travel", "worker-1"),
    web.Pod("booking-api-7d6f9b8c4d-mz4hr", "10.42.2.35:8080", "booking-api", "travel", "worker-2"),
]
INODES = 'node_filesystem_files_free{instance="worker-5"} / node_filesystem_files{instance="worker-5"} < 0.2'


def used_memory(at: float) -> float:
    share = min(1.0, max(0.0, (at - LOADER) / (MEMORY_FULL - LOADER)))
    return MEMORY_BEFORE + share * (MAX_MEMORY - MEMORY_BEFORE)


def outcome(rng: Random, at: float, route: str) -> tuple[int, float]:
    usual_s = 0.03 + 0.2 * rng.random() ** 2
    if route == HOLD and at > MEMORY_FULL:
        return 500, usual_s
    if route == QUOTE and at > QUOTA_USED_UP and rng.random() < 0.9:
        return 503, usual_s + 0.1
    return (201 if route == HOLD else 200), usual_s


# --- logs ------------------------------------------------------------------------------------------------------------


def booking_log(pod: web.Pod, calls: list[web.Call]) -> LogFile:
    """A Python service, JSON lines."""
    rng = rng_for(SLUG, "log", pod.name)
    entries: noise.Entries = []

    def line(at: float, level: str, event: str, **fields: object) -> None:
        entries.append((at, noise.json_line(timestamp=iso(at), level=level, service="booking-api", event=event,
                                            **fields)))  # fmt: skip

    failed_holds = 0
    for call in calls:
        if not LOGS_FROM <= call.done < RECORDED:
            continue
        trace = hex_id(rng, 12)
        if call.status == 500:
            more: dict[str, object] = {"hold": f"h_{hex_id(rng, 8)}", "trace_id": trace}
            if failed_holds % 12 == 0:
                more["exception"] = (
                    'Traceback (most recent call last):\n  File "/app/booking/holds.py", line 44, in place\n'
                    "    await cache.set(key, hold, ex=900)\nvalkey.exceptions.OutOfMemoryError: command not allowed "
                    "when used memory > 'maxmemory'."
                )
            line(call.done - 0.003, "error",
                 "hold not stored: OOM command not allowed when used memory > 'maxmemory'.", **more)  # fmt: skip
            failed_holds += 1
        elif call.status == 503:
            line(call.done - 0.003, "error", "fare partner refused: 429 Too Many Requests, daily quota exceeded",
                 partner="fares.partner.example", retry_after_s=int(utc("2026-11-28 00:00:00") - call.done),
                 trace_id=trace)  # fmt: skip
        if call.failed or rng.random() < 0.35:
            line(call.done, "warning" if call.failed else "info", "request finished", route=call.route,
                 status=call.status, duration_ms=call.ms, trace_id=trace)  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 20):
        line(at, "debug", "health check", path="/healthz", status=200)
    for at in every(rng, LOGS_FROM, RECORDED, 200):
        line(at, "warning", "airport code IST has two terminals, first one used")
    for at in every(rng, LOGS_FROM, RECORDED, 320):
        line(at, "warning", "seat map answered slowly, retry 1/2", took_ms=1200)
    for at in every(rng, LOGS_FROM, RECORDED, 1300):
        line(at, "debug", "fare request", header=f"Authorization: Bearer fp-{hex_id(rng, 32)}")
    return LogFile(f"booking-api/{pod.name}.json", entries)


def loader_log() -> LogFile:
    """Marketing's batch job: it writes keys without an expiry into the cache it shares."""
    rng = rng_for(SLUG, "loader")
    entries: noise.Entries = []

    def line(at: float, colour: str, level: str, text: str) -> None:
        entries.append((at, f"{comma(at)} {colour}{level:<8}{noise.RESET} segment_loader {text}"))

    line(LOADER, noise.GREEN, "INFO", "segment-loader 29512 started, target valkey-booking:6379 db 4, ttl none")
    for at in every(rng, LOADER + 5, MEMORY_FULL, 12):
        keys = int((at - LOADER) * 6_800)
        line(at, noise.GREEN, "INFO", f"wrote {keys} keys seg:* to valkey-booking, {rng.randrange(6500, 7000)} keys/s")
    line(MEMORY_FULL + 2, noise.RED, "ERROR", "write stopped: OOM command not allowed when used memory > 'maxmemory'.")
    for at in every(rng, MEMORY_FULL + 30, RECORDED, 60):
        line(at, noise.YELLOW, "WARNING", "waiting for memory on valkey-booking, 9 workers paused")
    return LogFile("segment-loader/segment-loader-29512-7xq2c.log", entries)


def cache_log() -> LogFile:
    rng = rng_for(SLUG, "valkey")
    entries: noise.Entries = []

    def line(at: float, sign: str, text: str) -> None:
        stamp = f"{noise.day(at)[8:]} Nov 2026 {comma(at)[11:19]}.{comma(at)[20:]}"
        entries.append((at, f"1:M {stamp} {sign} {text}"))

    for at in every(rng, LOGS_FROM, RECORDED, 300):
        line(at, "*", "10 changes in 300 seconds. Saving...")
        line(at + 0.02, "*", f"Background saving started by pid {rng.randrange(400, 900)}")
        line(at + 9, "*", "Background saving terminated with success")
    for at in every(rng, LOGS_FROM, RECORDED, 700):
        line(at, "#", "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to "
                      "Valkey. Connection from 10.42.0.1:41212 aborted.")  # fmt: skip
    return LogFile("valkey/valkey-booking-0.log", entries)


def fares_log(calls: list[web.Call]) -> LogFile:
    """The egress proxy that all calls to partners go through."""
    rng = rng_for(SLUG, "egress")
    entries: noise.Entries = []

    def line(at: float, level: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:<5} egress-proxy {text}"))

    for call in calls:
        if call.route == QUOTE and LOGS_FROM <= call.done < RECORDED and rng.random() < 0.45:
            status = 429 if call.status == 503 else 200
            left = max(0, int((QUOTA_USED_UP - call.done) * 3.1)) if status == 200 else 0
            line(call.done - 0.02, "WARN" if status == 429 else "INFO",
                 f"GET https://fares.partner.example/v2/fares {status} x-ratelimit-limit=250000 "
                 f"x-ratelimit-remaining={left} {rng.randrange(40, 190)}ms")  # fmt: skip
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.05):
        line(at, "INFO", f"GET https://weather.partner.example/v1/city 200 {rng.randrange(30, 90)}ms")
    return LogFile("egress-proxy/egress.log", entries)


def logs(calls: dict[str, list[web.Call]]) -> list[LogFile]:
    every_call = sorted((call for many in calls.values() for call in many), key=lambda call: call.done)
    routes = {
        "/flights/{n}": ("storefront-bff", 200, 0.12),
        "/account": ("storefront-bff", 200, 0.05),
        "/robots.txt": ("storefront-bff", 404, 0.001),
    }
    access = noise.ingress(rng_for(SLUG, "ingress"), LOGS_FROM, RECORDED, routes, 0.14)
    return [
        *(booking_log(pod, calls[pod.name]) for pod in PODS),
        loader_log(),
        cache_log(),
        fares_log(every_call),
        LogFile("notification-service/notify.log",
                noise.notifications(rng_for(SLUG, "mail"), LOGS_FROM, RECORDED, 0.08)),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz", access),
    ]  # fmt: skip


# --- metrics ---------------------------------------------------------------------------------------------------------


def other_series(calls: dict[str, list[web.Call]]) -> list[Series]:
    rng = rng_for(SLUG, "metrics")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    quotes = [call for many in calls.values() for call in many if call.route == QUOTE]
    cache = {"job": "redis-exporter", "instance": "valkey-booking-0:9121"}
    node = {"job": "node-exporter", "instance": "worker-5"}
    partner = {"job": "egress-proxy", "service": "booking-api", "upstream": "fares.partner.example"}

    def recent(at: int, *, refused: bool) -> float:
        done = (call.done for call in quotes if (call.status == 503) == refused)
        return sum(1 for moment in done if at - STEP_S < moment <= at) / STEP_S

    return [
        gauge("redis_memory_used_bytes", cache, ticks, used_memory),
        gauge("redis_memory_max_bytes", cache, ticks, lambda _at: MAX_MEMORY),
        counter("redis_evicted_keys_total", cache, ticks, lambda _at: 0, 0),
        gauge("redis_db_keys", {**cache, "db": "db4"}, ticks,
              lambda at: int(min(max(0.0, at - LOADER), MEMORY_FULL - LOADER) * 6_800)),
        gauge("redis_db_keys", {**cache, "db": "db0"}, ticks, lambda _at: 61_000 + rng.randrange(900)),
        gauge("redis_connected_clients", cache, ticks, lambda _at: 44 + rng.randrange(4)),
        counter("upstream_responses_total", {**partner, "code": "200"}, ticks,
                lambda at: recent(at, refused=False), 2e5),
        counter("upstream_responses_total", {**partner, "code": "429"}, ticks, lambda at: recent(at, refused=True)),
        gauge("node_filesystem_files_free", node, ticks, wobble(rng, 6e5, 9)),
        gauge("node_filesystem_files", node, ticks, lambda _at: 3_276_800),
    ]  # fmt: skip


def answers(series: list[Series]) -> list[Answer]:
    codes = [
        total(web.rates([one]), {"code": one.labels["code"]}) for one in web.named(series, "upstream_responses_total")
    ]
    (free,) = web.named(series, "node_filesystem_files_free")
    labels = {name: value for name, value in free.labels.items() if name != "__name__"}
    (memory,) = web.named(series, "redis_memory_used_bytes")
    share = Series({"instance": "valkey-booking-0:9121"}, [(at, used / MAX_MEMORY) for at, used in memory.samples], 4)
    return [
        *web.http_answers(series, "booking-api", "travel", THRESHOLD, of="errors"),
        Answer("redis_memory_used_bytes / redis_memory_max_bytes", [share]),
        Answer('sum by (code) (rate(upstream_responses_total{upstream="fares.partner.example"}[5m]))', codes),
        Answer(INODES, [Series(labels, [(at, value / 3_276_800) for at, value in free.samples], 4)]),
    ]  # fmt: skip


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "booking-api fails for two reasons: a full cache, and a partner's used-up quota",
    "segment-loader filled valkey-booking to maxmemory, so holds cannot be stored; and, independently, the daily quota "
    "of fares.partner.example is used up, so quotes are refused with 429.",
    [
        Finding("cache-is-full",
                [r"(?i)OOM command not allowed", r"(?i)redis_memory_used_bytes"],
                ["query_logs", "query_metrics"]),
        Finding("partner-quota-is-used-up",
                [r"(?i)429 Too Many Requests, daily quota exceeded", r"(?i)x-ratelimit-remaining=0 ",
                 r"(?i)upstream_responses_total"],
                ["query_logs", "query_metrics"]),
        Finding("loader-filled-the-cache",
                [r"(?i)segment-loader 29512 started", r"(?i)wrote \d+ keys seg:\* to valkey-booking",
                 r"(?i)segment_loader write stopped", r"(?i)redis_db_keys"],
                ["query_logs", "query_metrics"]),
    ],
    [
        r"(?i)(429|quota|rate limit)[^.]{0,40}(caused|because of|due to|led to)[^.]{0,40}(maxmemory|valkey|cache)",
        r"(?i)(maxmemory|valkey|cache|segment)[^.]{0,40}(caused|led to)[^.]{0,40}(429|quota|rate limit)",
        r"(?i)(caused by|because of|due to) .{0,40}(inode|worker-5|seat map|security attack)",
        r"(?i)\b(only|single|sole) (root )?cause\b",
    ],
    "Neither fault explains the other: holds fail from 16:20 on, quotes from 16:24 on, through different dependencies. "
    "The warning about inodes of worker-5 is unrelated and hours old; Valkey's complaint about POST commands is "
    "constant.",
)  # fmt: skip


def build() -> Incident:
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    routes = {HOLD: 0.05, QUOTE: 0.11, READ: 0.26}
    calls = {
        pod.name: web.calls_of(rng_for(SLUG, "calls", pod.name), METRICS_FROM - 600, RECORDED, routes, outcome)
        for pod in PODS
    }
    series = [
        one
        for pod in PODS
        for one in web.pod_series(pod, calls[pod.name], ticks, rng_for(SLUG, "pod", pod.name), 0.2, 2.6e8)
    ]
    series += other_series(calls)
    subject = ActiveAlert(
        {
            "alertname": "BookingApiHighErrorRate",
            "severity": "critical",
            "service": "booking-api",
            "namespace": "travel",
            "team": "booking",
            "cluster": "prod-eu-2",
        },
        {
            "summary": "booking-api answers more than 5% of requests with 5xx",
            "description": "The share of 5xx answers of booking-api in namespace travel was above 5% for 5 minutes.",
        },
        FIRED,
        f"{web.error_ratio('booking-api')} > {THRESHOLD:g}",
    )
    inodes = ActiveAlert(
        {"alertname": "NodeFilesystemAlmostOutOfFiles", "severity": "info", "instance": "worker-5",
         "job": "node-exporter", "cluster": "prod-eu-2"},
        {"summary": "File system has few inodes left", "description": "worker-5 has less than 20% of its inodes left."},
        NODE_WARNED,
        INODES,
    )  # fmt: skip
    return Incident(SLUG, subject, [subject, inodes], RECORDED, logs(calls), series, answers(series), TRUTH)
