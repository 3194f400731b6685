"""A debug log switched on for a support case fills /var of a host; what shares the disk can no longer write.

`pdf-render` writes about 9 MB a second once it logs at DEBUG; its log is rotated daily only. `invoice-api` stores its
documents on the same file system and PostgreSQL its tables: both get ENOSPC. Inodes are plentiful all the time, and the
documents and tables themselves grow no faster than before.
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
    dotted,
    every,
    gauge,
    hex_id,
    iso,
    rng_for,
    truth_of_a_fault,
    utc,
    wobble,
)

SLUG = "disk-full"
FIRED = utc("2026-11-05 15:41:00")
RECORDED = FIRED + 7 * 60
METRICS_FROM = int(FIRED) - 105 * 60
LOGS_FROM = FIRED - 62 * 60
DEBUG_ON = utc("2026-11-05 14:48:12.310")
FULL = utc("2026-11-05 15:33:40")
DISK_WARNED = utc("2026-11-05 15:20:30")
SIZE, FREE_BEFORE = 75_161_927_680, 24_400_000_000
DEBUG_BYTES_S = FREE_BEFORE / (FULL - DEBUG_ON)
HOST = "vm-docs-2"
POD = web.Pod("invoice-api", "vm-docs-2:8080", "invoice-api", "docs", HOST)
DEBUG_LOG = "/var/log/pdf-render/debug.log"
THRESHOLD = 0.05
VAR = f'{{instance="{HOST}:9100",mountpoint="/var"}}'
SPACE_LEFT = f"node_filesystem_avail_bytes{VAR} / node_filesystem_size_bytes{VAR}"


def free_bytes(at: float) -> float:
    return FREE_BEFORE - min(FREE_BEFORE, max(0.0, at - DEBUG_ON) * DEBUG_BYTES_S)


def outcome(rng: Random, at: float, route: str) -> tuple[int, float]:
    usual_s = 0.04 + 0.2 * rng.random() ** 2
    if route == "POST /v1/invoices" and at > FULL and rng.random() < 0.93:
        return 500, usual_s
    return (201 if route.startswith("POST") else 200), usual_s


# --- logs ------------------------------------------------------------------------------------------------------------


def invoice_log(calls: list[web.Call]) -> LogFile:
    """A Python service under systemd, ISO times."""
    rng = rng_for(SLUG, "invoice")
    entries: noise.Entries = []

    def line(at: float, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:<7} [{logger}] {text}"))

    failures = 0
    for call in calls:
        if not LOGS_FROM <= call.done < RECORDED:
            continue
        trace = hex_id(rng, 16)
        if call.failed:
            number = f"R-2026-{rng.randrange(100_000, 999_999)}"
            path = f"/var/lib/invoice-api/docs/2026/11/{number}.pdf.part"
            text = f"storing {number} failed: [Errno 28] No space left on device: '{path}' trace={trace}"
            if failures % 8 == 0:
                text += (
                    "\nTraceback (most recent call last):\n"
                    '  File "/opt/invoice-api/invoices/store.py", line 71, in put\n    os.fsync(part.fileno())\n'
                    "OSError: [Errno 28] No space left on device"
                )
            line(call.done - 0.003, "ERROR", "invoices.store", text)
            failures += 1
        if call.failed or call.route.startswith("POST") or rng.random() < 0.35:
            level = "WARNING" if call.failed else "INFO"
            line(call.done, level, "invoices.http", f"{call.route} {call.status} {call.ms}ms trace={trace}")
    for at in every(rng, LOGS_FROM, RECORDED, 20):
        line(at, "DEBUG", "invoices.http", "GET /healthz 200 0ms")
    for at in every(rng, LOGS_FROM, RECORDED, 210):
        line(at, "WARNING", "invoices.tax", f"no tax id for customer c{rng.randrange(1000, 9999)}, reverse charge off")
    return LogFile("invoice-api/invoice-api.log", entries)


def render_log() -> LogFile:
    """Of the runaway file only what the shipper's sampling let through (1 line in 20,000)."""
    rng = rng_for(SLUG, "render")
    entries: noise.Entries = []

    def line(at: float, level: str, text: str) -> None:
        entries.append((at, f"{comma(at)} {level:<5} [render-{rng.randrange(1, 9)}] pdfrender.{text}"))

    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.17):
        line(at, "INFO", f"Job - rendered template={rng.choice(('invoice', 'label', 'packing-slip'))} "
                         f"pages={rng.randrange(1, 5)} in {rng.randrange(90, 900)}ms")  # fmt: skip
    line(DEBUG_ON + 1.1, "INFO", f"Boot - configuration reloaded: level=DEBUG, appender=file {DEBUG_LOG}, roll=daily")
    for at in arrivals(rng, DEBUG_ON + 2, FULL, 0.12):
        line(at, "DEBUG", f"layout.Glyph - run={rng.randrange(10_000, 99_999)} x={rng.randrange(600)} "
                          f"y={rng.randrange(800)} dump={hex_id(rng, 24)}")  # fmt: skip
    for at in every(rng, FULL + 3, RECORDED, 11):
        line(at, "ERROR", f"Appender - Unable to write to stream {DEBUG_LOG} for appender debugFile: "
                          "java.io.IOException: No space left on device")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 260):
        line(at, "WARN", "Font - font 'Helvetica Neue' is not installed, using 'Liberation Sans'")
    return LogFile("pdf-render/pdf-render.log", entries)


def host_log() -> LogFile:
    """What the host itself says: configuration runs, a disk watch, timers."""
    rng = rng_for(SLUG, "host")
    entries: noise.Entries = []

    def line(at: float, level: str, program: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {HOST} {program}: {level} {text}"))

    line(DEBUG_ON - 6, "INFO", "ansible[20114]", "play 'log levels' started, change requested by support case 48213")
    line(DEBUG_ON, "INFO", "ansible[20114]", "template /etc/pdf-render/log.properties changed: rootLogger.level = "
                                             "INFO -> DEBUG (pdf-render)")  # fmt: skip
    line(DEBUG_ON + 0.9, "INFO", "ansible[20114]", "handler: service pdf-render reloaded")
    for at in every(rng, LOGS_FROM, RECORDED, 300):
        used = 1 - free_bytes(at) / SIZE
        grown = max(0.0, min(at, FULL) - DEBUG_ON) * DEBUG_BYTES_S / 1e9 + 0.02
        level = "ERROR" if used > 0.99 else "WARN" if used > 0.85 else "INFO"
        line(at, level, "disk-watch[811]", f"/var {used:.0%} used, inodes 6% used, grown most in 24 h: {DEBUG_LOG} "
                                           f"+{grown:.1f} GB, /var/lib/invoice-api +0.2 GB")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 150):
        line(at, "INFO", "systemd[1]", rng.choice(("Started sysstat-collect.service.", "Finished logrotate.service.",
                                                   "Started Session of user deploy.")))  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 240):
        line(at, "WARNING", "chronyd[602]", "Source 203.0.113.123 offline")
    return LogFile(f"host/{HOST}.log", entries)


def database_log(calls: list[web.Call]) -> LogFile:
    rng = rng_for(SLUG, "pg")
    entries = noise.postgres(rng, LOGS_FROM, RECORDED, "invoices", "127.0.0")
    for at in arrivals(rng, FULL, RECORDED, 0.06):
        pid = rng.randrange(4000, 29_000)
        file = f"base/16401/{rng.randrange(17_000, 17_090)}"
        entries.append(noise.pg_line(at, pid, "ERROR", f'could not extend file "{file}": No space left on device'))
        entries.append((at, f"{dotted(at)} [{pid}] HINT:  Check free disk space."))
    return LogFile("postgres/pg-invoices.log", entries)


def logs(calls: list[web.Call]) -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    routes = {
        "/v1/invoices/{n}": ("invoice-api", 200, 0.07),
        "/labels/{n}": ("label-api", 200, 0.05),
        "/robots.txt": ("storefront", 404, 0.001),
    }
    bearer = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJpbnZvaWNlLXBheSJ9.bm90LXJlYWwtZWl0aGVy"
    return [
        invoice_log(calls),
        render_log(),
        host_log(),
        database_log(calls),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
                noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.12)),
        LogFile("payment-gateway/payment-gateway.json",
                noise.payment_gateway(rng_for(SLUG, "pay"), *span, 0.05, bearer)),
        LogFile("inventory-api/inventory-api.log", noise.python_stock(rng_for(SLUG, "stock"), *span, 0.08)),
    ]  # fmt: skip


# --- metrics ---------------------------------------------------------------------------------------------------------


def host_series() -> list[Series]:
    rng = rng_for(SLUG, "metrics")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    node = {"job": "node-exporter", "instance": f"{HOST}:9100"}
    var = {**node, "device": "/dev/vda3", "fstype": "ext4", "mountpoint": "/var"}
    root = {**node, "device": "/dev/vda2", "fstype": "ext4", "mountpoint": "/"}
    watched = {"job": "filestat-exporter", "instance": f"{HOST}:9943"}
    other = wobble(rng, 0, 3e6)

    def debug_log(at: int) -> float:
        return 18e6 + (FREE_BEFORE - free_bytes(at))

    return [
        gauge("node_filesystem_size_bytes", var, ticks, lambda _at: SIZE),
        gauge("node_filesystem_avail_bytes", var, ticks, lambda at: max(0.0, free_bytes(at) + min(0.0, other(at)))
              if at < FULL else 0),
        gauge("node_filesystem_files_free", var, ticks, lambda at: 4_412_000 - (at - METRICS_FROM) // 20),
        gauge("node_filesystem_avail_bytes", root, ticks, wobble(rng, 1.9e10, 2e6)),
        gauge("file_stat_size_bytes", {**watched, "path": DEBUG_LOG, "service": "pdf-render"}, ticks, debug_log),
        gauge("file_stat_size_bytes", {**watched, "path": "/var/log/invoice-api/access.log", "service": "invoice-api"},
              ticks, lambda at: 3.1e7 + 90 * (at - METRICS_FROM)),
        gauge("pg_database_size_bytes", {"job": "postgres-exporter", "instance": f"{HOST}:9187", "datname": "invoices"},
              ticks, lambda at: 3.12e10 + 4_000 * (min(at, FULL) - METRICS_FROM)),
        counter("node_cpu_seconds_total", {**node, "mode": "idle"}, ticks, wobble(rng, 2.9, 0.2), 3e6, 1),
        counter("node_disk_written_bytes_total", {**node, "device": "vda"}, ticks,
                lambda at: 1.1e6 + (DEBUG_BYTES_S if DEBUG_ON < at < FULL else 0), 8e11),
    ]  # fmt: skip


def answers(series: list[Series]) -> list[Answer]:
    (left,) = [one for one in web.named(series, "node_filesystem_avail_bytes") if one.labels["mountpoint"] == "/var"]
    labels = {name: value for name, value in left.labels.items() if name != "__name__"}
    share = Series(labels, [(at, value / SIZE) for at, value in left.samples], 4)
    low = [(at, value) for at, value in share.samples if value < 0.1]
    growth = web.rates(web.named(series, "file_stat_size_bytes"), "path", "service")
    return [
        *web.http_answers(series, "invoice-api", "docs", THRESHOLD, of="errors"),
        Answer(f"{SPACE_LEFT} < 0.1", [Series(labels, low, 4)]),
        Answer(SPACE_LEFT, [share]),
        Answer(f'deriv(file_stat_size_bytes{{instance="{HOST}:9943"}}[5m])', growth),
    ]


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "/var of vm-docs-2 is full: pdf-render's debug log took the space",
    "pdf-render was switched to DEBUG at 14:48 and wrote its debug.log until /var of vm-docs-2 was full, so "
    "invoice-api and PostgreSQL on that file system can no longer write and creating invoices fails with 500.",
    [
        Finding("no-space-left", [r"(?i)No space left on device", r"(?i)could not extend file"], ["query_logs"]),
        Finding("debug-log-took-the-space",
                [r"(?i)grown most in 24 h: /var/log/pdf-render/debug\.log", r"(?i)file_stat_size_bytes"],
                ["query_logs", "query_metrics"]),
        Finding("debug-was-switched-on",
                [r"(?i)rootLogger\.level = INFO -> DEBUG", r"(?i)configuration reloaded: level=DEBUG"],
                ["query_logs"]),
    ],
    [
        r"(?i)(caused by|because of|(?<!statement )due to) .{0,40}(postgres|wal\b|table growth|invoice documents|font)",
        r"(?i)inodes? (is|are|were|was) (exhausted|full|used up)",
        r"(?i)tax id[^.]{0,60}(cause|led to)",
    ],
    "PostgreSQL and invoice-api are victims: their data grow as slowly as before. 6% of the inodes are in use. The "
    "alert on the disk's space is related, an earlier warning of the same fault.",
)  # fmt: skip


def build() -> Incident:
    routes = {"GET /v1/invoices/{id}": 0.42, "POST /v1/invoices": 0.16}
    calls = web.calls_of(rng_for(SLUG, "calls"), METRICS_FROM - 600, RECORDED, routes, outcome)
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    series = web.pod_series(POD, calls, ticks, rng_for(SLUG, "pod"), 0.3, 4.1e8) + host_series()
    subject = ActiveAlert(
        {
            "alertname": "InvoiceApiHighErrorRate",
            "severity": "critical",
            "service": "invoice-api",
            "namespace": "docs",
            "team": "billing",
            "cluster": "dc-fra-1",
        },
        {
            "summary": "invoice-api answers more than 5% of requests with 5xx",
            "description": "The share of 5xx answers of invoice-api was above 5% for 5 minutes.",
        },
        FIRED,
        f"{web.error_ratio('invoice-api')} > {THRESHOLD:g}",
    )
    disk = ActiveAlert(
        {
            "alertname": "NodeFilesystemAlmostOutOfSpace",
            "severity": "warning",
            "instance": f"{HOST}:9100",
            "mountpoint": "/var",
            "device": "/dev/vda3",
            "cluster": "dc-fra-1",
        },
        {
            "summary": "File system has little space left",
            "description": f"/var on {HOST}:9100 has less than 10% of its space left.",
        },
        DISK_WARNED,
        f"{SPACE_LEFT} < 0.1",
    )
    return Incident(SLUG, subject, [subject, disk], RECORDED, logs(calls), series, answers(series), TRUTH)
