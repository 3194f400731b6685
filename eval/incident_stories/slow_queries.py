"""A migration rebuilds a MySQL table without one of its indexes; a query of member-api reads the whole table now.

Alert and the service's own log are Chinese; MySQL's slow log, the deployer and other services are English. Locks are
quiet all the time: the statements work, they do not wait.
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
    comma,
    counter,
    every,
    gauge,
    hex_id,
    iso,
    rng_for,
    truth_of_a_fault,
    utc,
    wobble,
)

SLUG = "slow-queries"
FIRED = utc("2026-11-20 06:20:30")
RECORDED = FIRED + 7 * 60 + 30
METRICS_FROM = int(FIRED) - 105 * 60 - 30
LOGS_FROM = FIRED - 46 * 60
MIGRATION = utc("2026-11-20 06:11:42.470")
REPORT_LATE = utc("2026-11-20 02:30:00")
THRESHOLD = 3.0
TIMEOUT_S = 8.0
TABLE_ROWS = 4_816_204
POINTS, PROFILE = "GET /v1/members/{id}/points", "GET /v1/members/{id}"
PODS = [
    web.Pod("member-api-6d8b5c9f74-2vhkq", "10.42.1.52:8080", "member-api", "member", "worker-1"),
    web.Pod("member-api-6d8b5c9f74-p7zmn", "10.42.3.71:8080", "member-api", "member", "worker-3"),
]
QUERY = "SELECT id, member_id, delta, reason, created_at FROM points_ledger WHERE member_id = {} "
QUERY += "ORDER BY created_at DESC LIMIT 20"
BACKUP_LATE = 'time() - backup_last_success_timestamp_seconds{job="mysql-backup"} > 93600'


def outcome(rng: Random, at: float, route: str) -> tuple[int, float]:
    usual_s = 0.02 + 0.11 * rng.random() ** 2
    if route != POINTS or at < MIGRATION:
        return 200, usual_s
    scan_s = 5.2 + 4.2 * rng.random()
    return (504, TIMEOUT_S + usual_s) if scan_s > TIMEOUT_S else (200, scan_s + usual_s)


# --- logs ------------------------------------------------------------------------------------------------------------


def member_log(pod: web.Pod, calls: list[web.Call]) -> LogFile:
    """A Spring service whose messages are Chinese."""
    rng = rng_for(SLUG, "log", pod.name)
    entries: noise.Entries = []

    def line(at: float, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:>5} 1 --- [nio-8080-exec-{rng.randrange(1, 40)}] {logger:<28} : {text}"))

    failures = 0
    for call in calls:
        if not LOGS_FROM <= call.done < RECORDED:
            continue
        trace, member = hex_id(rng, 16), rng.randrange(200_000, 900_000)
        path = call.route.removeprefix("GET ").format(id=member)
        if call.failed:
            text = f"查询会员积分流水失败: member_id={member}, 数据库查询超时 {TIMEOUT_S:.0f}s traceId={trace}"
            if failures % 15 == 0:
                text += (
                    "\ncom.mysql.cj.jdbc.exceptions.MySQLTimeoutException: Statement cancelled due to timeout or client"
                    " request\n\tat com.mysql.cj.jdbc.ClientPreparedStatement.executeInternal"
                    "(ClientPreparedStatement.java:945)\n\tat shop.member.points.PointsRepository.latest"
                    "(PointsRepository.java:58)"
                )
            line(call.done - 0.004, "ERROR", "shop.member.points.Service", text)
            failures += 1
        elif call.route == POINTS and call.took > 1 and rng.random() < 0.5:
            line(call.done - 0.002, "WARN", "shop.member.sql.SlowSql",
                 f"慢SQL 耗时 {call.ms}ms, 表 points_ledger, 语句 PointsRepository.latest traceId={trace}")  # fmt: skip
        if call.failed or call.took > 1 or rng.random() < 0.2:
            line(call.done, "INFO", "shop.member.web.Access", f"GET {path} {call.status} {call.ms}ms traceId={trace}")
    for at in every(rng, LOGS_FROM, RECORDED, 15):
        line(at, "DEBUG", "shop.member.web.Access", "GET /actuator/health 200 1ms")
    for at in every(rng, LOGS_FROM, RECORDED, 75):
        line(at, "INFO", "shop.member.level.Job", f"会员等级重算完成, 本批 {rng.randrange(80, 400)} 人")
    for at in every(rng, LOGS_FROM, RECORDED, 160):
        line(at, "WARN", "shop.member.sms.Client", "短信通道 B 响应慢, 已切换到通道 A")
    for at in every(rng, LOGS_FROM, RECORDED, 900):
        line(at, "DEBUG", "com.zaxxer.hikari.pool.Pool", "Pool stats (total=30, idle=17, waiting=0) "
             "jdbc:mysql://member_app:Autumn-Member-7@mysql-member-0:3306/member?useSSL=true")  # fmt: skip
    return LogFile(f"member-api/{pod.name}.log", entries)


def slow_log(calls: list[web.Call]) -> LogFile:
    """MySQL's slow query log with `long_query_time = 1`; an entry spans several lines."""
    rng = rng_for(SLUG, "slow")
    entries: noise.Entries = []

    def entry(at: float, user: str, took: float, lock: float, sent: int, examined: int, sql: str) -> None:
        entries.append((at, (
            f"# Time: {iso(at)[:-1]}{rng.randrange(1000):03d}Z\n"
            f"# User@Host: {user}[{user}] @  [10.42.{rng.choice((1, 3))}.{rng.randrange(2, 250)}]  "
            f"Id: {rng.randrange(71_000, 72_000)}\n"
            f"# Query_time: {took:.6f}  Lock_time: {lock:.6f} Rows_sent: {sent}  Rows_examined: {examined}\n"
            f"SET timestamp={int(at - took)};\n{sql};")))  # fmt: skip

    for call in calls:
        if call.route == POINTS and call.took > 1 and LOGS_FROM <= call.done < RECORDED and rng.random() < 0.4:
            rows = 0 if call.failed else 20
            entry(call.done - 0.005, "member_app", min(call.took, TIMEOUT_S), 3e-6 + 2e-6 * rng.random(), rows,
                  TABLE_ROWS + rng.randrange(900), QUERY.format(rng.randrange(200_000, 900_000)))  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 420):
        entry(at, "bi_reader", 1.4 + rng.random(), 2e-6, 31, rng.randrange(190_000, 210_000),
              "SELECT DATE(paid_at), COUNT(*) FROM orders GROUP BY DATE(paid_at)")  # fmt: skip
    return LogFile("mysql/mysql-member-0-slow.log", entries)


def mysql_log() -> LogFile:
    rng = rng_for(SLUG, "mysqld")
    entries: noise.Entries = []

    def line(at: float, level: str, code: str, subsystem: str, text: str) -> None:
        thread = rng.randrange(70_000, 72_000)
        entries.append((at, f"{iso(at)[:-1]}{rng.randrange(1000):03d}Z {thread} [{level}] [{code}] "
                            f"[{subsystem}] {text}"))  # fmt: skip

    for at in every(rng, LOGS_FROM, RECORDED, 45):
        line(at, "Note", "MY-010914", "Server", "Aborted connection to db: 'member' user: 'health' host: '10.42.0.1' "
                                                "(Got an error reading communication packets)")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 600):
        line(at, "Warning", "MY-013360", "Server", "Plugin mysql_native_password reported: ''mysql_native_password' is "
                                                   "deprecated'")  # fmt: skip
    return LogFile("mysql/mysql-member-0.err.log", entries)


def migration_log() -> LogFile:
    """Flyway's own log and the deployer's."""

    def line(at: float, level: str, text: str) -> tuple[float, str]:
        return at, f"{comma(at)} {level:<5} {text}"

    at = MIGRATION
    flyway = "org.flywaydb.core.internal.command.DbMigrate -"
    return LogFile(
        "member-migrate/member-migrate-87-c5xzd.log",
        [
            line(at - 97.2, "INFO", f'{flyway} Current version of schema `member`: 86'),
            line(at - 97.1, "INFO", f'{flyway} Migrating schema `member` to version "87 - points ledger by month"'),
            line(at - 96.9, "INFO", "member.migrate.Sql - CREATE TABLE points_ledger_new (id BIGINT, member_id BIGINT, "
                                    "delta INT, reason VARCHAR(64), created_at DATETIME(3), PRIMARY KEY (id, "
                                    "created_at)) PARTITION BY RANGE COLUMNS(created_at)"),
            line(at - 96.4, "INFO", f"member.migrate.Sql - copying points_ledger, {TABLE_ROWS} rows"),
            line(at - 0.2, "INFO", "member.migrate.Sql - RENAME TABLE points_ledger TO points_ledger_old, "
                                   "points_ledger_new TO points_ledger"),
            line(at, "WARN", "member.migrate.Compare - points_ledger: index idx_member_created (member_id, created_at) "
                             "of points_ledger_old does not exist in the new table"),
            line(at + 0.1, "INFO", f"{flyway} Successfully applied 1 migration to schema `member`, now at version "
                                   "v87 (execution time 01:37.302s)"),
        ],
    )  # fmt: skip


def logs(calls: dict[str, list[web.Call]]) -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    every_call = sorted((call for many in calls.values() for call in many), key=lambda call: call.done)
    routes = {
        "/v1/members/{n}": ("member-api", 200, 0.05),
        "/coupons": ("coupon-api", 200, 0.04),
        "/favicon.ico": ("storefront", 404, 0.001),
    }
    bearer = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZW1iZXItcGF5In0.bm90LWEtc2lnbmF0dXJl"
    return [
        *(member_log(pod, calls[pod.name]) for pod in PODS),
        slow_log(every_call),
        mysql_log(),
        migration_log(),
        LogFile("coupon-api/coupon-api.log", noise.coupons_in_chinese(rng_for(SLUG, "coupon"), *span, 0.14)),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
                noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.1)),
        LogFile("payment-gateway/payment-gateway.json",
                noise.payment_gateway(rng_for(SLUG, "pay"), *span, 0.06, bearer)),
    ]  # fmt: skip


# --- metrics ---------------------------------------------------------------------------------------------------------


def database_series(calls: dict[str, list[web.Call]]) -> list[Series]:
    rng = rng_for(SLUG, "metrics", "mysql")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    labels = {"job": "mysqld-exporter", "instance": "mysql-member-0:9104"}
    scans = [call for many in calls.values() for call in many if call.route == POINTS and call.took > 1]

    def running(at: int) -> int:
        return sum(1 for call in scans if call.at <= at < call.done)

    def read_per_s(at: int) -> float:
        return 2_400 + 300 * rng.random() + running(at) * TABLE_ROWS / 7

    return [
        gauge("mysql_global_status_threads_running", labels, ticks, lambda at: 3 + rng.randrange(3) + running(at)),
        gauge("mysql_global_status_threads_connected", labels, ticks, lambda _at: 66 + rng.randrange(5)),
        counter("mysql_global_status_slow_queries", labels, ticks,
                lambda at: sum(1 for c in scans if at - STEP_S < c.done <= at) / STEP_S + (at % 420 < STEP_S) / STEP_S,
                18_430),
        counter("mysql_global_status_handlers_total", {**labels, "handler": "read_rnd_next"}, ticks, read_per_s, 7e9),
        gauge("mysql_global_status_innodb_row_lock_current_waits", labels, ticks, lambda _at: 0),
        counter("mysql_global_status_innodb_row_lock_waits", labels, ticks, lambda _at: 0, 212),
        counter("mysql_global_status_questions", labels, ticks, wobble(rng, 410, 20), 3e9),
        counter("node_cpu_seconds_total", {"job": "node-exporter", "instance": "mysql-member-0", "mode": "idle"}, ticks,
                lambda at: max(0.4, 6.4 + 0.3 * rng.random() - 0.8 * running(at)), 2e6, 1),
        gauge("backup_last_success_timestamp_seconds", {"job": "mysql-backup", "instance": "mysql-report-0"}, ticks,
              lambda _at: REPORT_LATE - 93_600),
    ]  # fmt: skip


def answers(series: list[Series]) -> list[Answer]:
    def rate_of(name: str, **match: str) -> list[Series]:
        return web.rates(web.named(series, name, **match), "instance")

    (backup,) = web.named(series, "backup_last_success_timestamp_seconds")
    labels = {name: value for name, value in backup.labels.items() if name != "__name__"}
    return [
        *web.http_answers(series, "member-api", "member", THRESHOLD, of="latency"),
        Answer('rate(mysql_global_status_slow_queries{instance="mysql-member-0:9104"}[5m])',
               rate_of("mysql_global_status_slow_queries")),
        Answer('rate(mysql_global_status_handlers_total{handler="read_rnd_next"}[5m])',
               rate_of("mysql_global_status_handlers_total")),
        Answer('rate(mysql_global_status_innodb_row_lock_waits[5m])',
               rate_of("mysql_global_status_innodb_row_lock_waits")),
        Answer(BACKUP_LATE, [Series(labels, [(at, at - value) for at, value in backup.samples])]),
    ]  # fmt: skip


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "会员积分查询变慢: 迁移后的 points_ledger 缺少索引",
    "Migration 87 rebuilt points_ledger without the index idx_member_created, so each query for a member's points "
    "reads all 4.8 million rows and takes 5 to 8 seconds or ends in a timeout.",
    [
        Finding("queries-are-slow",
                [r"慢SQL 耗时 \d+ms", r"查询会员积分流水失败", r"(?i)MySQLTimeoutException",
                 r"(?i)mysql_global_status_slow_queries"],
                ["query_logs", "query_metrics"]),
        Finding("whole-table-is-read",
                [r"(?i)Rows_examined: 48\d{5}", r"(?i)mysql_global_status_handlers_total"],
                ["query_logs", "query_metrics"]),
        Finding("index-is-missing-since-the-migration",
                [r"(?i)index idx_member_created .{0,80}does not exist",
                 r"(?i)to version \"87 - points ledger by month\"", r"(?i)RENAME TABLE points_ledger TO"],
                ["query_logs"]),
    ],
    [
        r"(?i)(caused by|because of|(?<!statement )due to) .{0,40}(lock|deadlock|cpu|backup|connection pool|sms)",
        r"(锁等待|死锁|短信通道|备份|连接池|CPU)[^。]{0,20}(导致|引起|是根因|是原因)",
        r"(?i)orders GROUP BY[^.]{0,60}(cause|led to)",
    ],
    "Lock_time of every slow statement is some microseconds and no row lock waits: it is work, not waiting. The CPU of "
    "the database rises because of the scans. The slow report of bi_reader and the slow SMS channel are as frequent "
    "before as after; the late backup of another instance is an unrelated active alert.",
)  # fmt: skip


def build() -> Incident:
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    routes = {PROFILE: 0.5, POINTS: 0.16}
    calls = {
        pod.name: web.calls_of(rng_for(SLUG, "calls", pod.name), METRICS_FROM - 600, RECORDED, routes, outcome)
        for pod in PODS
    }
    series = [
        one
        for pod in PODS
        for one in web.pod_series(pod, calls[pod.name], ticks, rng_for(SLUG, "pod", pod.name), 0.35, 7.6e8)
    ]
    series += database_series(calls)
    subject = ActiveAlert(
        {
            "alertname": "MemberApiHighLatency",
            "severity": "critical",
            "service": "member-api",
            "namespace": "member",
            "team": "member",
            "cluster": "prod-cn-1",
        },
        {
            "summary": "member-api 接口 P95 延迟超过 3 秒",
            "description": "命名空间 member 中 member-api 的请求耗时 P95 连续 5 分钟高于 3 秒, "
            "会员中心积分页打开缓慢或超时。",
        },
        FIRED,
        f"{web.p95('member-api')} > {THRESHOLD:g}",
    )
    backup = ActiveAlert(
        {"alertname": "MySQLBackupTooOld", "severity": "warning", "instance": "mysql-report-0", "job": "mysql-backup",
         "cluster": "prod-cn-1"},
        {"summary": "mysql-report-0 超过 26 小时没有成功备份", "description": "最近一次成功备份早于 26 小时之前。"},
        REPORT_LATE,
        BACKUP_LATE,
    )  # fmt: skip
    return Incident(SLUG, subject, [subject, backup], RECORDED, logs(calls), series, answers(series), TRUTH)
