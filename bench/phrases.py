"""The words of the seeded runs: alerts, services, log lines, questions and answers, in English and Chinese."""

import random
from dataclasses import dataclass
from typing import Any

from gatekeeper.types import ANSWER_VERSION

ALERTS = (
    "HighErrorRate",
    "CheckoutLatencyHigh",
    "PodCrashLooping",
    "DiskFillingUp",
    "KafkaConsumerLag",
    "CertificateExpiresSoon",
    "ReplicationLagHigh",
    "QueueBacklog",
    "CPUThrottlingHigh",
    "MemoryPressure",
    "TargetDown",
    "SlowQueries",
    "DNSFailures",
    "ThirdPartyRateLimited",
)
SERVICES = (
    "checkout-api",
    "orders-api",
    "payment-gateway",
    "inventory-api",
    "search-api",
    "cart-api",
    "booking-api",
    "notification-service",
    "recommend-api",
    "ledger-worker",
    "fulfilment-consumer",
    "storefront-bff",
)
SEVERITIES = ("critical", "warning", "warning", "info")
CLUSTERS = ("eu-1", "eu-2", "us-1", "ap-1")
PEOPLE = ("ines", "tomasz", "mei", "aarav", "lucia", "jonas")
TOKENS = ("alertmanager", "grafana")

FACTS = (
    "HikariPool-1 had no connection available: requests timed out after {n} ms",
    "the p99 of {service} rose to {n} ms",
    "{n} pods of {service} were killed for memory",
    "the certificate of {service} expired {n} hours ago",
    "consumer lag of {service} reached {n} messages",
    "{service} answered {n} requests with 503",
    "a deadlock on table orders held {n} transactions",
    "lookups of {service}.internal failed {n} times with NXDOMAIN",
    "the disk of {service} is full to {n} per mille",
    "upstream of {service} closed {n} connections early",
)
RARE = ("kernel: mce hardware error on socket {n}", "ntp: the clock stepped back by {n} ms")
CHINESE_FACTS = (
    "{service} 的连接池耗尽，请求在 {n} 毫秒后超时",
    "{service} 的 99 分位延迟上升到 {n} 毫秒",
    "{service} 的磁盘空间不足，仅剩 {n} 兆字节",
    "{service} 的证书已过期 {n} 小时",
    "{service} 的消息积压达到 {n} 条",
)
NOTHING = (
    "These queries found nothing notable in the window that they searched. This is not proof of absence.",
    "这些查询在所查的时间范围内没有发现值得注意的内容。这并不证明不存在问题。",
)


def _fact(rng: random.Random, service: str, *, chinese: bool = False) -> str:
    rare = rng.random() < 0.002
    facts = RARE if rare else CHINESE_FACTS if chinese else FACTS
    return rng.choice(facts).format(service=service, n=rng.randint(2, 60_000))


def line(rng: random.Random, service: str) -> str:
    """A log line."""
    return f"2031-03-04T05:06:{rng.randint(10, 59)}Z ERROR {service}: {_fact(rng, service)}"


def question(rng: random.Random, service: str, *, chinese: bool) -> str:
    if chinese:
        return rng.choice(("为什么 {0} 这么慢？", "{0} 的错误率为什么上升？", "{0} 报错怎么处理？")).format(service)
    asked = ("Why is {0} slow since this morning?", "What changed on {0} before the errors?", "How is {0} restarted?")
    return rng.choice(asked).format(service)


@dataclass(frozen=True, slots=True)
class Said:
    """What a run says at its end. `facts` are claims as published; `found` False: only searches that found nothing."""

    conclusion: str
    facts: tuple[str, str]
    found: bool
    headline: str
    reason: str


def conclusion(rng: random.Random, service: str, ending: str, *, chinese: bool) -> Said:
    facts = (_fact(rng, service, chinese=chinese), _fact(rng, service, chinese=chinese))
    if ending == "NOTHING":
        searched = (f"query_logs found nothing for {service}", f"query_metrics found nothing for {service}")
        headline = "Nothing notable was found by these searches"
        return Said(NOTHING[chinese], searched, False, headline, "Every released claim cites evidence.")
    if ending == "WITHHELD":
        reason = "Nothing was released because no claim survived the gates. Look at the tools below directly."
        return Said("", facts, True, "No diagnosis could be released", reason)
    if ending == "FAILED":
        return Said("", facts, True, "The run failed.", "The model could not be reached.")
    if ending == "CANCELLED":
        return Said("", facts, True, "The run was cancelled.", "The run did not end before its deadline.")
    said = f"证据指向日志中的这一现象：{facts[0]}。" if chinese else f"The evidence points to this: {facts[0]}."
    return Said(f"{said} {facts[1]}.", facts, True, "A diagnosis was released", "Every released claim cites evidence.")


def _claims(said: Said) -> list[tuple[str, str, str]]:
    """Id, kind and text of each."""
    kind = "observation" if said.found else "negative_observation"
    return [(f"c{n}", kind, text) for n, text in enumerate(said.facts, 1)]


def published(query: str, said: Said, *, low: bool) -> dict[str, Any]:
    """A `PublishedResult` as it is stored."""
    return {
        "query": query,
        "conclusion": said.conclusion,
        "scope": "Looked at query_logs around 05:00 to 05:10.",
        "confidence": "LOW" if low else "NORMAL",
        "statements": [{"text": text, "claimIds": [claim_id]} for claim_id, _, text in _claims(said)],
        "claims": [
            {
                "claimId": claim_id,
                "kind": kind,
                "claimText": text,
                "evidence": [
                    {
                        "sourceInvocationId": "inv_000001",
                        "toolName": "query_logs",
                        "rawPath": "$.lines[0].text" if said.found else "$.no_evidence",
                        "evidenceExcerpt": text,
                    }
                ],
            }
            for claim_id, kind, text in _claims(said)
        ],
        "limitations": ["Metrics could not be read."] if low else [],
        "sourceDocuments": [],
    }


def evaluation(said: Said, verdict: str) -> dict[str, Any]:
    """A `self_evaluation`: of the shape of the real one, with one gate round."""
    stands = verdict != "REJECT"
    claims = [
        {"claim_id": claim_id, "kind": kind, "claim_text": text, "critical": said.found, "evidence": []}
        for claim_id, kind, text in _claims(said)
    ]
    rules = [{"code": "GK005_EXCERPT_SUPPORTED", "mode": "ENFORCED", "severity": "REJECT", "reason": "compared"}]
    judged = [{**rule, "verdict": "PASS" if stands else "FAIL", "compared": {}, "citation": 0} for rule in rules]
    gate = {
        "version": 1,
        "verdict": verdict if stands else "REJECT",
        "rule_set_number": 1,
        "rule_set_digest": "d" * 64,
        "enabled_rules": [],
        "draft_rules": [],
        "claims": [
            {"claim_id": claim["claim_id"], "accepted": stands, "claim": claim, "rules": judged} for claim in claims
        ],
    }
    checks = [{"claim_id": claim["claim_id"], "supported": stands, "reason": "read it"} for claim in claims]
    return {
        "verifier_evaluation": {
            "verdict": verdict,
            "evaluation": {
                "verdict": verdict,
                "groundedness_score": 0.9,
                "critical_fact_count": 2,
                "claim_checks": checks,
                "facts_checked": [],
                "rationale": "each was held against its excerpt",
            },
            "contract_violations": [],
            "executor_structured_output": {"answer_version": ANSWER_VERSION, "claims": claims},
            "gatekeeper_result": {"rounds": [gate]},
            "tool_trace_summary": [],
            "prompt_audit": {"version": "aiops-prompts-v1", "prompts": []},
            "composer_output": None,
            "release": {"decision": "RELEASED" if stands else "WITHHELD", "dropped": []},
        },
        "aiops_rule_evaluation": None,
    }
