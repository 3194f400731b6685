"""A service's certificate ends at midnight because cert-manager could not renew it for ten days; callers refuse it.

`risk-engine` itself is healthy and idle afterwards: no handshake is completed. cert-manager's errors are as frequent
before midnight as after it, which makes them look like noise; here they tell why. Alert and caller's log are Chinese.
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

SLUG = "tls-expiry"
FIRED = utc("2026-11-22 00:09:30")
RECORDED = FIRED + 8 * 60
METRICS_FROM = int(FIRED) - 105 * 60 - 30
LOGS_FROM = FIRED - 46 * 60
EXPIRES = utc("2026-11-22 00:00:00")
RENEWAL_FAILED = utc("2026-11-12 00:10:00")
THRESHOLD = 0.2
PAY, QUERY = "POST /v1/payments", "GET /v1/payments/{id}"
PODS = [
    web.Pod("pay-gateway-79c6f4d8b-5wqzl", "10.42.1.66:8080", "pay-gateway", "pay", "worker-1"),
    web.Pod("pay-gateway-79c6f4d8b-x2hvn", "10.42.6.29:8080", "pay-gateway", "pay", "worker-6"),
]
NOT_READY = 'certmanager_certificate_ready_status{condition="False"} == 1'
HANDSHAKES = 'sum by (service) (rate(tls_handshake_errors_total{service="risk-engine"}[5m]))'


def outcome(rng: Random, at: float, route: str) -> tuple[int, float]:
    usual_s = 0.03 + 0.18 * rng.random() ** 2
    # A kept-alive connection outlives the certificate: it was checked when it was opened. They last a few minutes.
    reused = rng.random() < max(0.0, 1 - (at - EXPIRES) / 200)
    if route == PAY and at > EXPIRES and not reused:
        return 503, usual_s
    return (201 if route == PAY else 200), usual_s


# --- logs ------------------------------------------------------------------------------------------------------------


def gateway_log(pod: web.Pod, calls: list[web.Call]) -> LogFile:
    """A Go service whose messages are Chinese, the errors it wraps English."""
    rng = rng_for(SLUG, "log", pod.name)
    entries: noise.Entries = []

    def line(at: float, level: str, msg: str, **fields: object) -> None:
        entries.append((at, noise.json_line(ts=iso(at), level=level, service="pay-gateway", msg=msg, **fields)))

    for call in calls:
        if not LOGS_FROM <= call.done < RECORDED:
            continue
        trace = hex_id(rng, 16)
        if call.failed:
            now = iso(call.done)[:19] + "Z"
            order = f"o_{hex_id(rng, 8)}"
            line(call.done - 0.002, "error", "调用风控服务失败, 支付已拒绝", order=order, trace_id=trace,
                 error='Post "https://risk-engine.risk.svc:8443/v1/score": tls: failed to verify certificate: x509: '
                       f"certificate has expired or is not yet valid: current time {now} is after "
                       "2026-11-22T00:00:00Z")  # fmt: skip
        if call.route == PAY or rng.random() < 0.3:
            line(call.done, "warn" if call.failed else "info", "请求完成", route=call.route, status=call.status,
                 took_ms=call.ms, trace_id=trace)  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 15):
        line(at, "debug", "健康检查", path="/healthz", status=200)
    for at in every(rng, LOGS_FROM, RECORDED, 170):
        line(at, "warn", "银行通道响应超过 800ms", channel=rng.choice(("unionpay", "icbc")), took_ms=830)
    for at in every(rng, LOGS_FROM, RECORDED, 1200):
        line(at, "debug", "对外请求", url="https://api.bank.example/v3/token",
             header=f"Authorization: Bearer sk-pay-{hex_id(rng, 32)}")  # fmt: skip
    return LogFile(f"pay-gateway/{pod.name}.json", entries)


def engine_log(calls: list[web.Call]) -> LogFile:
    """risk-engine, a Go service that reports what `net/http` says about each failed handshake."""
    rng = rng_for(SLUG, "risk")
    entries: noise.Entries = []

    def line(at: float, level: str, msg: str, **fields: object) -> None:
        entries.append((at, noise.json_line(ts=iso(at), level=level, service="risk-engine", msg=msg, **fields)))

    for call in calls:
        if not LOGS_FROM <= call.done < RECORDED or call.route != PAY:
            continue
        if call.failed and rng.random() < 0.4:
            caller = f"10.42.{rng.choice((1, 6))}.{rng.randrange(2, 250)}:{rng.randrange(32_768, 60_999)}"
            line(call.done - 0.004, "warn",
                 f"http: TLS handshake error from {caller}: remote error: tls: bad certificate")  # fmt: skip
        elif not call.failed and rng.random() < 0.5:
            line(call.done - 0.01, "info", "scored", score=rng.randrange(1, 60), rules=38, took_ms=rng.randrange(4, 22))
    for at in every(rng, LOGS_FROM, RECORDED, 20):
        line(at, "debug", "probe", path="/livez", port=9090, status=200)
    for at in every(rng, LOGS_FROM, RECORDED, 240):
        line(at, "warn", "device fingerprint missing, default risk used", client="h5")
    return LogFile("risk-engine/risk-engine.json", entries)


def cert_manager_log() -> LogFile:
    """The controller retries its issuer all the time, at the same rate for ten days."""
    rng = rng_for(SLUG, "cert-manager")
    entries: noise.Entries = []

    def line(at: float, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:<5} cert-manager/{logger} {text}"))

    for at in every(rng, LOGS_FROM, RECORDED, 180):
        line(at, "ERROR", "issuers", 'error getting signing CA for internal-ca: secret "internal-ca-2025" not found')
        waiting = "referenced Issuer internal-ca is not ready, will retry"
        line(at + 0.2, "WARN", "certificaterequests", f"CertificateRequest risk/risk-engine-tls-7: {waiting}")
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.03):
        name = rng.choice(("shop/storefront-tls", "shop/cart-tls", "pay/pay-gateway-tls"))
        line(at, "INFO", "certificates", f"{name} is up to date, renewal due in {rng.randrange(20, 70)} days")
    at = EXPIRES + 1.3
    ended = "certificate expired on 2026-11-22T00:00:00Z, reissue pending since 2026-11-12T00:00:00Z"
    line(at, "WARN", "certificates", f"risk/risk-engine-tls: {ended}")
    return LogFile("cert-manager/controller.log", entries)


def logs(calls: dict[str, list[web.Call]]) -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    every_call = sorted((call for many in calls.values() for call in many), key=lambda call: call.done)
    routes = {
        "/pay/{n}": ("pay-gateway", 200, 0.08),
        "/account": ("storefront", 200, 0.05),
        "/robots.txt": ("storefront", 404, 0.001),
    }
    return [
        *(gateway_log(pod, calls[pod.name]) for pod in PODS),
        engine_log(every_call),
        cert_manager_log(),
        LogFile("coupon-api/coupon-api.log", noise.coupons_in_chinese(rng_for(SLUG, "coupon"), *span, 0.12)),
        LogFile("cart-api/cart-api.json", noise.cart_service(rng_for(SLUG, "cart"), *span, 0.1)),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
                noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.1)),
    ]  # fmt: skip


# --- metrics ---------------------------------------------------------------------------------------------------------


def other_series(calls: dict[str, list[web.Call]]) -> list[Series]:
    rng = rng_for(SLUG, "metrics", "others")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    refused = [call.done for many in calls.values() for call in many if call.failed]
    scored = [call.done for many in calls.values() for call in many if call.route == PAY and not call.failed]
    engine = {"job": "risk-engine", "service": "risk-engine", "namespace": "risk", "instance": "10.42.3.12:9090"}

    def recent(at: int, events: list[float]) -> float:
        return sum(1 for moment in events if at - STEP_S < moment <= at) / STEP_S

    many = [
        counter("tls_handshake_errors_total", engine, ticks, lambda at: recent(at, refused), 2),
        counter("http_requests_total", {**engine, "code": "200"}, ticks, lambda at: recent(at, scored), 9e6),
        gauge("up", engine, ticks, lambda _at: 1),
        counter("container_cpu_usage_seconds_total", {"namespace": "risk", "pod": "risk-engine-0",
                                                      "container": "risk-engine"}, ticks,
                lambda at: 0.04 + 0.3 * recent(at, scored) + 0.01 * rng.random(), 8e3, 1),
        gauge("node_timex_offset_seconds", {"job": "node-exporter", "instance": "worker-1"}, ticks,
              lambda _at: 0.0004 + 0.0002 * rng.random(), 6),
    ]  # fmt: skip
    ends = {"risk-engine-tls": ("risk", EXPIRES), "pay-gateway-tls": ("pay", EXPIRES + 41 * 86_400),
            "storefront-tls": ("shop", EXPIRES + 63 * 86_400)}  # fmt: skip
    for name, (namespace, end) in ends.items():
        labels = {"job": "cert-manager", "name": name, "exported_namespace": namespace}
        many.append(gauge("certmanager_certificate_expiration_timestamp_seconds", labels, ticks,
                          lambda _at, end=end: end))  # fmt: skip
        ready = int(name != "risk-engine-tls")
        for condition, value in (("True", ready), ("False", 1 - ready)):
            many.append(gauge("certmanager_certificate_ready_status", {**labels, "condition": condition}, ticks,
                              lambda _at, value=value: value))  # fmt: skip
    for service, per_s in (("cart-api", 3.8), ("coupon-api", 2.4)):
        labels = {"job": service, "service": service, "namespace": "shop", "code": "200"}
        many.append(counter("http_requests_total", labels, ticks, wobble(rng, per_s, per_s / 12), 2e6))
    return many


def answers(series: list[Series]) -> list[Answer]:
    handshakes = web.rates(web.named(series, "tls_handshake_errors_total"), "service")
    not_ready = [
        Series({name: value for name, value in one.labels.items() if name != "__name__"}, one.samples)
        for one in web.named(series, "certmanager_certificate_ready_status", condition="False", name="risk-engine-tls")
    ]
    return [
        *web.http_answers(series, "pay-gateway", "pay", THRESHOLD, of="errors"),
        Answer(HANDSHAKES, handshakes),
        Answer(NOT_READY, not_ready),
    ]


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "risk-engine 的证书过期, pay-gateway 拒绝与它建立 TLS 连接",
    "The certificate risk-engine-tls ended at 2026-11-22T00:00:00Z because cert-manager could not renew it: the "
    "signing CA's secret internal-ca-2025 is missing; pay-gateway refuses the expired certificate.",
    [
        Finding("certificate-has-expired",
                [r"(?i)certificate has expired or is not yet valid", r"(?i)certificate expired on 2026-11-22"],
                ["query_logs"]),
        Finding("it-is-risk-engines",
                [r"(?i)risk-engine\.risk\.svc:8443", r"(?i)risk/risk-engine-tls", r"调用风控服务失败",
                 r"(?i)TLS handshake error"],
                ["query_logs", "query_metrics"]),
        Finding("renewal-failed",
                [r"(?i)internal-ca-2025", r"(?i)Issuer internal-ca is not ready"], ["query_logs"]),
    ],
    [
        r"(?i)(caused by|because of|due to) .{0,40}(clock|ntp|dns|network|bank|overload|fingerprint)",
        r"(时钟|网络|银行通道|过载|DNS)[^。]{0,20}(导致|引起|是根因|是原因)",
        r"(?i)(pay-gateway-tls|storefront-tls) (has |is )?expired",
    ],
    "The clocks are right (offset below a millisecond), and not-yet-valid is only half of the library's sentence. "
    "cert-manager's errors are as frequent before midnight as after, and yet they are why. The warning about the "
    "certificate that is not ready is ten days old and belongs to this fault.",
)  # fmt: skip


def build() -> Incident:
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    calls = {
        pod.name: web.calls_of(
            rng_for(SLUG, "calls", pod.name), METRICS_FROM - 600, RECORDED, {PAY: 0.14, QUERY: 0.15}, outcome
        )
        for pod in PODS
    }
    series = [
        one
        for pod in PODS
        for one in web.pod_series(pod, calls[pod.name], ticks, rng_for(SLUG, "pod", pod.name), 0.2, 1.9e8)
    ]
    series += other_series(calls)
    subject = ActiveAlert(
        {
            "alertname": "PayGatewayHighErrorRate",
            "severity": "critical",
            "service": "pay-gateway",
            "namespace": "pay",
            "team": "pay",
            "cluster": "prod-cn-1",
        },
        {
            "summary": "pay-gateway 错误率超过 20%",
            "description": "命名空间 pay 中 pay-gateway 的 5xx 比例连续 5 分钟高于 20%, 用户无法支付。",
        },
        FIRED,
        f"{web.error_ratio('pay-gateway')} > {THRESHOLD:g}",
    )
    certificate = ActiveAlert(
        {
            "alertname": "CertManagerCertNotReady",
            "severity": "warning",
            "job": "cert-manager",
            "name": "risk-engine-tls",
            "exported_namespace": "risk",
            "condition": "False",
            "cluster": "prod-cn-1",
        },
        {
            "summary": "证书 risk/risk-engine-tls 未就绪",
            "description": "cert-manager 无法续签证书 risk/risk-engine-tls, 状态持续为 Ready=False。",
        },
        RENEWAL_FAILED,
        NOT_READY,
    )
    return Incident(SLUG, subject, [subject, certificate], RECORDED, logs(calls), series, answers(series), TRUTH)
