"""Log lines of healthy services: what fills the files around the few lines that matter.

Each function gives (time, text) entries for one file over [start, end); none of them changes its habits when the
incident begins, harmless warnings included.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime

from .shape import arrivals, comma, dotted, every, hex_id, iso

Entries = list[tuple[float, str]]
Line = Callable[[float, str, str, str], None]
"""(time, level, logger, text): how a story writes a line in the form of its service."""

RED, GREEN, YELLOW, CYAN, DIM, RESET = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[2m", "\x1b[0m"
SKUS = ("TEE-BLK-M", "TEE-WHT-L", "HOOD-GRY-S", "MUG-0042", "CAP-NVY", "SOCK-3PK", "POSTER-A2", "BAG-TOTE")


def json_line(**fields: object) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def ingress(
    rng: random.Random, start: float, end: float, routes: dict[str, tuple[str, int, float]], per_s: float
) -> Entries:
    """An ingress controller's sampled JSON access log; `routes`: path → (upstream, status, usual seconds)."""
    entries: Entries = []
    paths = list(routes)
    for at in arrivals(rng, start, end, per_s):
        path = paths[int(rng.random() ** 2 * len(paths))]
        upstream, status, usual_s = routes[path]
        entries.append(
            (
                at,
                json_line(
                    ts=iso(at),
                    remote_addr=f"10.42.{rng.randrange(8)}.{rng.randrange(2, 250)}",
                    method="GET",
                    uri=path.format(n=rng.randrange(10_000, 99_999)),
                    status=status,
                    bytes=rng.randrange(180, 9000),
                    request_time=round(usual_s * (0.6 + 0.9 * rng.random()), 3),
                    upstream=upstream,
                    req_id=hex_id(rng, 32),
                ),
            )
        )
    for at in every(rng, start, end, 10):
        entries.append(
            (
                at,
                json_line(
                    ts=iso(at), remote_addr="10.42.0.1", method="GET", uri="/healthz", status=200, bytes=2,
                    request_time=0.0, upstream="-", req_id=hex_id(rng, 32),
                ),
            )
        )  # fmt: skip
    return entries


def payment_gateway(rng: random.Random, start: float, end: float, per_s: float, token: str) -> Entries:
    """JSON with `@timestamp`: authorisations, declined cards, a webhook signature that fails now and then."""
    entries: Entries = []
    for at in arrivals(rng, start, end, per_s):
        provider = rng.choice(("adyen", "adyen", "stripe"))
        base: dict[str, object] = {"@timestamp": iso(at), "service": "payment-gateway", "provider": provider}
        if rng.random() < 0.06:
            event: dict[str, object] = {
                "level": "warn",
                "msg": "authorisation declined",
                "code": rng.choice(("05", "51", "54")),
            }
        else:
            event = {"level": "info", "msg": "authorised", "amount_minor": rng.randrange(900, 24_000)}
        fields = base | event | {"duration_ms": rng.randrange(700, 1900), "trace_id": hex_id(rng, 16)}
        entries.append((at, json_line(**fields)))
    for at in every(rng, start, end, 15):
        entries.append((at, json_line(**{"@timestamp": iso(at), "service": "payment-gateway", "level": "debug",
                                         "msg": "GET /health 200", "user_agent": "kube-probe/1.31"})))  # fmt: skip
    for at in every(rng, start, end, 700):
        entries.append((at, json_line(**{"@timestamp": iso(at), "service": "payment-gateway", "level": "error",
                                         "msg": "webhook rejected: signature mismatch",
                                         "remote": "203.0.113.77"})))  # fmt: skip
    for at in every(rng, start, end, 1400):
        entries.append((at, json_line(**{"@timestamp": iso(at), "service": "payment-gateway", "level": "debug",
                                         "msg": "outgoing request", "url": "https://api.payments.example/v2/tokens",
                                         "headers": f"Authorization: Bearer {token}"})))  # fmt: skip
    return entries


def python_stock(rng: random.Random, start: float, end: float, per_s: float) -> Entries:
    """A Python service that logs with colours, as it would to a terminal."""
    entries: Entries = []

    def line(at: float, colour: str, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{DIM}{comma(at)}{RESET} {colour}{level:<7}{RESET} {CYAN}{logger}{RESET} {text}"))

    for at in arrivals(rng, start, end, per_s):
        sku, left = rng.choice(SKUS), rng.randrange(3, 900)
        line(at, GREEN, "INFO", "inventory.stock", f"reserved sku={sku} qty={rng.randrange(1, 4)} left={left}")
    for at in every(rng, start, end, 20):
        line(at, GREEN, "INFO", "uvicorn.access", '10.42.0.1:41882 - "GET /healthz HTTP/1.1" 200 OK')
    for at in every(rng, start, end, 95):
        line(at, YELLOW, "WARNING", "inventory.stock", f"low stock sku={rng.choice(SKUS)} left={rng.randrange(1, 5)}")
    for at in every(rng, start, end, 240):
        line(at, YELLOW, "WARNING", "inventory.supplier",
             f"supplier feed slow, retry 1/3 after {rng.randrange(2, 5)}s")  # fmt: skip
        line(at + 4, GREEN, "INFO", "inventory.supplier", f"supplier feed ok after retry rows={rng.randrange(90, 400)}")
    return entries


def cart_service(rng: random.Random, start: float, end: float, per_s: float) -> Entries:
    """A Go service, zap's JSON with `ts`."""
    entries: Entries = []
    for at in arrivals(rng, start, end, per_s):
        event = rng.choice(("cart updated", "cart read", "cart read", "cart merged after sign-in"))
        entries.append((at, json_line(ts=iso(at), level="info", logger="cart", msg=event,
                                      cart=f"c_{hex_id(rng, 10)}", items=rng.randrange(1, 9),
                                      took_ms=rng.randrange(2, 24))))  # fmt: skip
    for at in every(rng, start, end, 130):
        entries.append((at, json_line(ts=iso(at), level="warn", logger="cart.session",
                                      msg="session cookie without SameSite, treated as Lax",
                                      ua="LegacyKiosk/3.2")))  # fmt: skip
    for at in every(rng, start, end, 60):
        entries.append((at, json_line(ts=iso(at), level="debug", logger="http", msg="probe", path="/livez",
                                      status=200)))  # fmt: skip
    return entries


def pg_line(at: float, pid: int, severity: str, text: str) -> tuple[float, str]:
    """One line of PostgreSQL's log with `log_line_prefix = '%m [%p] '`."""
    return at, f"{dotted(at)} [{pid}] {severity}:  {text}"


def postgres(rng: random.Random, start: float, end: float, database: str, clients: str) -> Entries:
    """PostgreSQL's own log with `log_checkpoints`, `log_connections` and `log_autovacuum_min_duration` on."""
    entries: Entries = []

    def line(at: float, pid: int, severity: str, text: str) -> None:
        entries.append(pg_line(at, pid, severity, text))

    for at in every(rng, start, end, 300):
        pages, seconds = rng.randrange(1800, 4200), rng.randrange(2500, 2699) / 10
        line(at, 31, "LOG", "checkpoint starting: time")
        done = (
            f"checkpoint complete: wrote {pages} buffers ({pages / 5243:.1f}%); 0 WAL file(s) added, 0 removed, "
            f"{pages // 900} recycled; write={seconds - 0.4:.3f} s, sync=0.021 s, total={seconds:.3f} s"
        )
        line(at + seconds, 31, "LOG", done)
    for at in arrivals(rng, start, end, 1 / 25):
        pid, host, port = rng.randrange(4000, 29_000), rng.randrange(2, 250), rng.randrange(32_768, 60_999)
        line(at, pid, "LOG", f"connection received: host={clients}.{host} port={port}")
        who = f"user={database}_app database={database} SSL enabled (protocol=TLSv1.3)"
        line(at + 0.006, pid, "LOG", f"connection authorized: {who}")
    for at in every(rng, start, end, 410):
        table, pages = rng.choice(("outbox", "idempotency_keys", "sessions")), rng.randrange(300, 900)
        vacuumed = f'automatic vacuum of table "{database}.public.{table}": index scans: 1, pages: 0 removed'
        line(at, rng.randrange(4000, 29_000), "LOG", f"{vacuumed}, {pages} remain")
    for at in every(rng, start, end, 520):
        line(at, rng.randrange(4000, 29_000), "WARNING", "there is no transaction in progress")
    return entries


def jvm_gc(rng: random.Random, start: float, end: float, period_s: float, heap_mb: int, first: int) -> Entries:
    """`-Xlog:gc` lines of a JVM whose heap is in order."""
    entries: Entries = []
    for number, at in enumerate(every(rng, start, end, period_s), first):
        before = int(heap_mb * (0.55 + 0.1 * rng.random()))
        after = int(heap_mb * (0.24 + 0.03 * rng.random()))
        entries.append((at, (f"[{iso(at)}][info][gc] GC({number}) Pause Young (Normal) (G1 Evacuation Pause) "
                            f"{before}M->{after}M({heap_mb}M) {5 + 9 * rng.random():.3f}ms")))  # fmt: skip
    return entries


def notifications(rng: random.Random, start: float, end: float, per_s: float) -> Entries:
    """A Java mailer with log4j's comma times."""
    entries: Entries = []
    for at in arrivals(rng, start, end, per_s):
        thread, kind = rng.randrange(1, 5), rng.choice(("order-confirmation", "shipping-update", "password-reset"))
        entries.append((at, (f"{comma(at)} INFO  [mail-{thread}] shop.notify.Mailer - sent template={kind} "
                            f"to=u{rng.randrange(1000, 99_999)} smtp=250 in {rng.randrange(40, 320)}ms")))  # fmt: skip
    for at in every(rng, start, end, 170):
        entries.append((at, (f"{comma(at)} WARN  [mail-{rng.randrange(1, 5)}] shop.notify.Mailer - greylisted by "
                            "mx.example.net (451 4.7.1), retry in 300s")))  # fmt: skip
    for at in every(rng, start, end, 30):
        entries.append((at, f"{comma(at)} DEBUG [http-1] shop.notify.Health - GET /health 200"))
    return entries


def day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def coupons_in_chinese(rng: random.Random, start: float, end: float, per_s: float) -> Entries:
    """A Python service whose messages are Chinese, with colours."""
    entries: Entries = []

    def line(at: float, colour: str, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{DIM}{comma(at)}{RESET} {colour}{level:<7}{RESET} {CYAN}{logger}{RESET} {text}"))

    for at in arrivals(rng, start, end, per_s):
        kind, user = rng.choice(("新人", "满减", "生日")), rng.randrange(10_000, 99_999)
        line(at, GREEN, "INFO", "coupon.issue", f"发放优惠券 模板={kind} 用户=u{user} 剩余={rng.randrange(20, 9000)}")
    for at in every(rng, start, end, 20):
        line(at, GREEN, "INFO", "uvicorn.access", '10.42.0.1:50122 - "GET /healthz HTTP/1.1" 200 OK')
    for at in every(rng, start, end, 110):
        line(at, YELLOW, "WARNING", "coupon.rule", "规则缓存已过期, 重新加载")
    for at in every(rng, start, end, 260):
        line(at, YELLOW, "WARNING", "coupon.stock", f"优惠券库存不足 20 张 批次=b{rng.randrange(100, 999)}")
    return entries
