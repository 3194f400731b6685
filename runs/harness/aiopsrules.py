"""Rules for reports about alerts. Pure: does the report speak of the alert that came in?

A failed rule caps the verdict at LOW_CONFID; a report about another alert is withheld.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gatekeeper.types import Claim, SourceKind
from runs.harness.context import KeptInvocation
from runs.harness.run import AlertSubject, Subject

IDENTITY_LABELS = (
    "service", "app", "application", "job", "instance", "pod", "deployment", "statefulset", "daemonset",
    "container", "node", "host", "topic", "consumergroup", "database", "queue", "persistentvolumeclaim",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AiopsFinding:
    code: str
    passed: bool
    reason: str
    withhold: bool = False


def evaluate(
    subject: Subject, claims: tuple[Claim, ...], invocations: Mapping[str, KeptInvocation]
) -> tuple[AiopsFinding, ...]:
    alert = subject.alert
    if alert is None:
        return ()
    return (
        _report_exists(claims),
        _about_the_alert(alert, subject, claims, invocations),
        _tools_tried(invocations),
        _main_subject(alert, subject, claims, invocations),
    )


def _report_exists(claims: tuple[Claim, ...]) -> AiopsFinding:
    return AiopsFinding("AR001_REPORT_EXISTS", bool(claims), "a report needs at least one claim that stands")


def _about_the_alert(
    alert: AlertSubject, subject: Subject, claims: tuple[Claim, ...], invocations: Mapping[str, KeptInvocation]
) -> AiopsFinding:
    """Own identity in a claim, its evidence or the question put to the tool. Only others': withheld."""
    own = _identity(alert)
    if any(_mentions(_said(claim, invocations), own) for claim in claims):
        return AiopsFinding("AR002_ABOUT_THE_ALERT", True, "claims or their evidence name the alert or its labels")
    foreign = _foreign_names(alert, subject, invocations)
    if any(_mentions(claim.claim_text, foreign) for claim in claims):
        return AiopsFinding("AR002_ABOUT_THE_ALERT", False, "the report is about another alert", withhold=True)
    return AiopsFinding("AR002_ABOUT_THE_ALERT", not claims, "no claim names the alert or its labels")


def _tools_tried(invocations: Mapping[str, KeptInvocation]) -> AiopsFinding:
    wanted = (SourceKind.TELEMETRY, SourceKind.KNOWLEDGE)
    missing = [k.value.lower() for k in wanted if not any(kept.reached(k) for kept in invocations.values())]
    reason = f"not tried: {', '.join(missing)}" if missing else "telemetry and knowledge were both tried"
    return AiopsFinding("AR003_TOOLS_TRIED", not missing, reason)


def _main_subject(
    alert: AlertSubject, subject: Subject, claims: tuple[Claim, ...], invocations: Mapping[str, KeptInvocation]
) -> AiopsFinding:
    """No other active alert is named by more of the critical claims than stay with this one."""
    own, foreign = _identity(alert), _foreign_names(alert, subject, invocations)
    critical = [claim for claim in claims if claim.critical] or list(claims)
    strayed = [c for c in critical if _mentions(c.claim_text, foreign) and not _mentions(c.claim_text, own)]
    passed = not critical or len(strayed) * 2 <= len(critical)
    return AiopsFinding("AR004_MAIN_SUBJECT", passed, "an unrelated active alert is not the main subject")


def _identity(alert: AlertSubject) -> frozenset[str]:
    values = [alert.labels.get(label, "") for label in IDENTITY_LABELS]
    return frozenset(text.lower() for text in (alert.alertname, *values) if len(text) >= 2)


def _foreign_names(alert: AlertSubject, subject: Subject, invocations: Mapping[str, KeptInvocation]) -> frozenset[str]:
    """Names of other alerts that the run knows of: the group's, and those a tool listed as active."""
    names = {other.alertname for other in subject.others}
    for kept in invocations.values():
        output = kept.record.output
        listed = output.get("alerts") if isinstance(output, dict) else None
        if kept.record.tool_name == "query_alerts" and isinstance(listed, list):
            names |= {str(item.get("alertname", "")) for item in listed if isinstance(item, dict)}
    return frozenset(name.lower() for name in names if name and name != alert.alertname)


def _said(claim: Claim, invocations: Mapping[str, KeptInvocation]) -> str:
    """A claim, its excerpts, and what the tools behind them were asked."""
    asked = [
        str(kept.record.input_params)
        for item in claim.evidence
        if (kept := invocations.get(item.source_invocation_id)) is not None
    ]
    return " ".join([claim.claim_text, *(item.evidence_excerpt for item in claim.evidence), *asked])


def _mentions(text: str, names: frozenset[str]) -> bool:
    """As words of their own: `db` is not in `feedback`, but `cart` is in `cart-5f9c6b7d4-8vq2m`."""
    lowered = text.lower()
    return any(
        name in lowered and re.search(rf"(?<![a-z0-9_]){re.escape(name)}(?![a-z0-9_])", lowered) for name in names
    )
