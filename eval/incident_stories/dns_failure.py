"""CoreDNS is told to forward to a resolver that is switched off: names outside the cluster resolve no more.

Many services shout at once, each in the words of its own runtime, and each seems to have lost another partner. Names
inside the cluster are answered by CoreDNS itself and go on working, so the services reach each other.
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
    above,
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
)

SLUG = "dns-failure"
FIRED = utc("2026-11-25 10:39:00")
RECORDED = FIRED + 6 * 60
METRICS_FROM = int(FIRED) - 102 * 60
LOGS_FROM = FIRED - 42 * 60
CHANGED = utc("2026-11-25 10:30:41.870")
MAIL_FIRED = utc("2026-11-25 10:40:30")
RELOADED = CHANGED + 38
THRESHOLD = 0.1
RESOLVER, GONE = "10.20.0.2", "10.20.0.200"
EXTERNAL = ("api.payments.example", "smtp.mail.example", "rates.carrier.example", "img.cdn.example")
POD = web.Pod("payment-gateway-6f9d7c8b44-q5m8x", "10.42.3.57:8080", "payment-gateway", "shop", "worker-3")
SERVFAILS = 'sum by (rcode) (rate(coredns_dns_responses_total{job="coredns",rcode="SERVFAIL"}[5m]))'
MAIL_FAILED = 'sum by (service, namespace) (rate(mail_failed_total{service="notification-service"}[5m]))'
DNS_PODS = {"coredns-7b9c5f6d88-4xkzt": "10.42.0.7", "coredns-7b9c5f6d88-hs6vl": "10.42.4.9"}


def cached(rng: Random, at: float) -> bool:
    """CoreDNS keeps answers for 30 s, and the clients' connections last a while."""
    return rng.random() < max(0.06, 1 - (at - RELOADED) / 90)


def outcome(rng: Random, at: float, route: str) -> tuple[int, float]:
    usual_s = 0.25 + 0.5 * rng.random() ** 2
    if route == "POST /v1/authorisations" and at > RELOADED and not cached(rng, at):
        return 502, 10.0 + 0.03 * rng.random()
    return (201 if route.startswith("POST") else 200), usual_s if route.startswith("POST") else 0.01


# --- logs ------------------------------------------------------------------------------------------------------------


def gateway_log(calls: list[web.Call]) -> LogFile:
    """A Go service."""
    rng = rng_for(SLUG, "gateway")
    entries: noise.Entries = []

    def line(at: float, level: str, msg: str, **fields: object) -> None:
        entries.append((at, noise.json_line(ts=iso(at), level=level, service="payment-gateway", msg=msg, **fields)))

    for call in calls:
        if not LOGS_FROM <= call.done < RECORDED:
            continue
        trace = hex_id(rng, 12)
        if call.failed:
            why = rng.choice((f"read udp {POD.address.split(':')[0]}:{rng.randrange(32_768, 60_999)}->10.43.0.10:53: "
                              "i/o timeout", "server misbehaving"))  # fmt: skip
            line(call.done - 0.002, "error", "authorisation failed", trace_id=trace,
                 error='Post "https://api.payments.example/v2/authorise": dial tcp: lookup api.payments.example on '
                       f"10.43.0.10:53: {why}")  # fmt: skip
        if call.route.startswith("POST") or rng.random() < 0.2:
            line(call.done, "warn" if call.failed else "info", "request", route=call.route, status=call.status,
                 took_ms=call.ms, trace_id=trace)  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 20):
        line(at, "debug", "GET /health 200", user_agent="kube-probe/1.31")
    for at in every(rng, LOGS_FROM, RECORDED, 190):
        line(at, "warn", "authorisation declined", code=rng.choice(("05", "51", "54")))
    for at in every(rng, LOGS_FROM, RECORDED, 1300):
        line(at, "debug", "outgoing request", headers=f"Authorization: Bearer sk-gw-{hex_id(rng, 32)}")
    return LogFile(f"payment-gateway/{POD.name}.json", entries)


def coredns_log(pod: str, address: str) -> LogFile:
    """CoreDNS' log as the container runtime keeps it, with the `errors` and `reload` plugins."""
    rng = rng_for(SLUG, "coredns", pod)
    entries: noise.Entries = []

    def line(at: float, level: str, text: str) -> None:
        entries.append((at, f"{iso(at)[:-1]}{rng.randrange(1_000_000):06d}Z stdout F [{level}] {text}"))

    at = RELOADED + (0.4 if address.endswith(".7") else 3.1)
    line(at, "INFO", "Reloading")
    line(at + 0.03, "INFO", f"plugin/reload: Running configuration SHA512 = {hex_id(rng_for(SLUG, 'sha'), 128)}")
    line(at + 0.04, "INFO", "Reloading complete")
    for at in arrivals(rng, RELOADED + 8, RECORDED, 0.13):
        name, kind = rng.choice(EXTERNAL), rng.choice(("A", "A", "AAAA"))
        line(at, "ERROR", f"plugin/errors: 2 {name}. {kind}: read udp {address}:{rng.randrange(32_768, 60_999)}->"
                          f"{GONE}:53: i/o timeout")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 60):
        service = rng.choice(("payment-gateway.shop", "cart-api.shop", "pg-orders.data", "redis.shop"))
        asked = f'"A IN {service}.svc.cluster.local. udp 52 false 512"'
        line(at, "INFO", f"{address}:{rng.randrange(32_768, 60_999)} - {rng.randrange(60_000)} {asked} NOERROR "
                         f"qr,aa,rd 102 0.00{rng.randrange(10, 40)}s")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 450):
        line(at, "WARNING", "No files matching import glob pattern: /etc/coredns/custom/*.override")
    return LogFile(f"coredns/{pod}.log", entries)


def platform_log() -> LogFile:
    """What the platform's configuration tool applied."""

    def line(at: float, level: str, text: str) -> tuple[float, str]:
        return at, f"{iso(at)} {level:<5} platform-sync {text}"

    rng = rng_for(SLUG, "platform")
    routine = [
        line(at, "INFO", f"synced {rng.randrange(180, 190)} objects, 0 changed, revision {hex_id(rng, 7)}")
        for at in every(rng, LOGS_FROM, RECORDED, 180)
    ]
    return LogFile(
        "platform-sync/sync.log",
        [
            *routine,
            line(CHANGED - 1, "INFO", "sync started, revision 4e81c0d: move resolvers to the new subnet"),
            line(CHANGED, "INFO", f"configmap kube-system/coredns changed: forward . {RESOLVER} -> forward . {GONE}"),
            line(CHANGED + 0.5, "INFO", "sync finished, 1 object changed"),
        ],
    )


def mail_log() -> LogFile:
    """A Java mailer; its usual lines, and its own words for a name that does not resolve."""
    rng = rng_for(SLUG, "mail")
    entries = noise.notifications(rng, LOGS_FROM, RELOADED + 15, 0.1)
    entries += [entry for entry in noise.notifications(rng, RELOADED + 15, RECORDED, 0.004) if " sent " not in entry[1]]
    for number, at in enumerate(arrivals(rng, RELOADED + 20, RECORDED, 0.07)):
        text = (
            f"{comma(at)} ERROR [mail-{rng.randrange(1, 5)}] shop.notify.Mailer - sending failed: "
            "java.net.UnknownHostException: smtp.mail.example: Temporary failure in name resolution"
        )
        if number % 20 == 0:
            text += "\n\tat java.base/java.net.Inet6AddressImpl.lookupAllHostAddr(Native Method)"
            text += "\n\tat java.base/java.net.InetAddress$PlatformResolver.lookupByName(InetAddress.java:1225)"
        entries.append((at, text))
    return LogFile("notification-service/notify.log", entries)


def shipping_log() -> LogFile:
    """A Python service with colours."""
    rng = rng_for(SLUG, "shipping")
    usual = noise.python_stock(rng, LOGS_FROM, RECORDED, 0.06)
    entries = [(at, text.replace("inventory.", "shipping.")) for at, text in usual]
    for at in arrivals(rng, RELOADED + 10, RECORDED, 0.05):
        text = "carrier rates failed: socket.gaierror: [Errno -3] Temporary failure in name resolution"
        who = f"{noise.CYAN}shipping.rates{noise.RESET}"
        entries.append((at, f"{noise.DIM}{comma(at)}{noise.RESET} {noise.RED}ERROR  {noise.RESET} {who} {text}"))
    return LogFile("shipping-api/shipping-api.log", entries)


def frontend_log() -> LogFile:
    """Node.js."""
    rng = rng_for(SLUG, "bff")
    entries: noise.Entries = []
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.14):
        broken = at > RELOADED and rng.random() < 0.25 and not cached(rng, at)
        level, msg = ("error", "getaddrinfo EAI_AGAIN img.cdn.example") if broken else ("info", "page rendered")
        entries.append((at, noise.json_line(time=iso(at), level=level, service="storefront-bff", msg=msg,
                                            page=rng.choice(("home", "product")), reqId=hex_id(rng, 8))))  # fmt: skip
    return LogFile("storefront-bff/bff.json", entries)


def logs(calls: list[web.Call]) -> list[LogFile]:
    routes = {
        "/product/{n}": ("storefront-bff", 200, 0.12),
        "/cart": ("cart-api", 200, 0.05),
        "/robots.txt": ("storefront-bff", 404, 0.001),
    }
    access = noise.ingress(rng_for(SLUG, "ingress"), LOGS_FROM, RECORDED, routes, 0.14)
    return [
        gateway_log(calls),
        *(coredns_log(pod, address) for pod, address in DNS_PODS.items()),
        platform_log(),
        mail_log(),
        shipping_log(),
        frontend_log(),
        LogFile("cart-api/cart-api.json", noise.cart_service(rng_for(SLUG, "cart"), LOGS_FROM, RECORDED, 0.08)),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz", access),
    ]


# --- metrics ---------------------------------------------------------------------------------------------------------


def other_series() -> list[Series]:
    rng = rng_for(SLUG, "metrics")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)

    def after(at: int, value: float, before: float = 0.0) -> float:
        return (value if at > RELOADED + 20 else before) * (0.9 + 0.2 * rng.random())

    many = []
    for pod, address in DNS_PODS.items():
        labels = {"job": "coredns", "namespace": "kube-system", "pod": pod, "instance": f"{address}:9153"}
        many += [
            counter("coredns_dns_responses_total", {**labels, "rcode": "NOERROR"}, ticks,
                    lambda at: after(at, 31, 42), 9e7),
            counter("coredns_dns_responses_total", {**labels, "rcode": "NXDOMAIN"}, ticks,
                    lambda at: after(at, 96, 97), 2e8),
            counter("coredns_dns_responses_total", {**labels, "rcode": "SERVFAIL"}, ticks,
                    lambda at: after(at, 19), 88),
            counter("coredns_forward_healthcheck_failures_total", {**labels, "to": f"{GONE}:53"},
                    [at for at in ticks if at > RELOADED], lambda at: after(at, 1.9)),
            gauge("up", labels, ticks, lambda _at: 1),
            counter("container_cpu_usage_seconds_total", {"namespace": "kube-system", "pod": pod,
                                                          "container": "coredns"}, ticks,
                    lambda _at: 0.08 + 0.01 * rng.random(), 2e4, 1),
        ]  # fmt: skip
    mail = {"job": "notification-service", "service": "notification-service", "namespace": "shop"}
    return [
        *many,
        counter("mail_failed_total", mail, ticks, lambda at: after(at, 1.4), 41),
        counter("mail_sent_total", mail, ticks, lambda at: after(at, 0.04, 2.2), 8e5),
        counter("http_requests_total", {"job": "cart-api", "service": "cart-api", "namespace": "shop", "code": "200"},
                ticks, lambda _at: 3.4 + 0.4 * rng.random(), 4e6),
    ]  # fmt: skip


def answers(series: list[Series]) -> list[Answer]:
    responses = web.named(series, "coredns_dns_responses_total")
    rcodes = [
        total(web.rates([one for one in responses if one.labels["rcode"] == rcode]), {"rcode": rcode})
        for rcode in ("NOERROR", "NXDOMAIN", "SERVFAIL")
    ]
    (mail,) = web.rates(web.named(series, "mail_failed_total"), "service", "namespace")
    return [
        *web.http_answers(series, "payment-gateway", "shop", THRESHOLD, of="errors"),
        Answer('sum by (rcode) (rate(coredns_dns_responses_total{job="coredns"}[5m]))', rcodes),
        Answer(f"{SERVFAILS} > 1", above(rcodes[2], 1)),
        Answer(f"{MAIL_FAILED} > 0.5", above(mail, 0.5)),
        Answer(MAIL_FAILED, [mail]),
    ]


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "Names outside the cluster do not resolve: CoreDNS forwards to a dead resolver",
    "A change of the coredns configmap at 10:30 replaced the resolver 10.20.0.2 with 10.20.0.200, which does not "
    "answer, so every lookup of a name outside the cluster times out and many services fail at once.",
    [
        Finding("names-do-not-resolve",
                [r"(?i)lookup api\.payments\.example", r"(?i)Temporary failure in name resolution",
                 r"(?i)EAI_AGAIN", r"(?i)UnknownHostException"],
                ["query_logs"]),
        Finding("coredns-gets-no-answer-upstream",
                [r"(?i)->10\.20\.0\.200:53: i/o timeout", r"(?i)coredns_forward_healthcheck_failures_total",
                 r"(?i)coredns_dns_responses_total"],
                ["query_logs", "query_metrics"]),
        Finding("forwarder-was-changed",
                [r"(?i)forward \. 10\.20\.0\.2 -> forward \. 10\.20\.0\.200"], ["query_logs"]),
    ],
    [
        r"(?i)(caused by|because of|due to) .{0,40}(payment provider|carrier|smtp server|cdn|kubernetes api)",
        r"(?i)(api\.payments\.example|smtp\.mail\.example|payment provider) (is|was) (down|unavailable|failing)",
        r"(?i)cluster\.local[^.]{0,60}(fail|not resolve)",
    ],
    "No partner is down: nobody can look their names up. Names inside the cluster resolve. NXDOMAIN answers are normal "
    "(search domains, ndots) and as frequent as before. The alert on mail is another victim of the same fault.",
)  # fmt: skip


def build() -> Incident:
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    routes = {"POST /v1/authorisations": 0.22, "GET /v1/methods": 0.3}
    calls = web.calls_of(rng_for(SLUG, "calls"), METRICS_FROM - 600, RECORDED, routes, outcome)
    series = web.pod_series(POD, calls, ticks, rng_for(SLUG, "pod"), 0.15, 1.2e8) + other_series()
    common = {"namespace": "shop", "cluster": "prod-eu-1"}
    subject = ActiveAlert(
        {"alertname": "PaymentGatewayHighErrorRate", "severity": "critical", "service": "payment-gateway", **common},
        {
            "summary": "payment-gateway answers more than 10% of requests with 5xx",
            "description": "The share of 5xx answers of payment-gateway in namespace shop was above 10% for 5 minutes.",
        },
        FIRED,
        f"{web.error_ratio('payment-gateway')} > {THRESHOLD:g}",
    )
    mail = ActiveAlert(
        {"alertname": "MailDeliveryFailing", "severity": "warning", "service": "notification-service", **common},
        {"summary": "notification-service cannot send mail", "description": "More than 0.5 mails a second fail."},
        MAIL_FIRED,
        f"{MAIL_FAILED} > 0.5",
    )
    dns = ActiveAlert(
        {"alertname": "CoreDNSErrorsHigh", "severity": "critical", "rcode": "SERVFAIL", "cluster": "prod-eu-1"},
        {"summary": "CoreDNS answers SERVFAIL", "description": "CoreDNS answers more than 1 request/s with SERVFAIL."},
        FIRED - 50,
        f"{SERVFAILS} > 1",
    )
    return Incident(SLUG, subject, [subject, mail, dns], RECORDED, logs(calls), series, answers(series), TRUTH)
