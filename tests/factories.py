"""Rows for tests, valid under every constraint of the tables."""

from datetime import UTC, datetime
from typing import Any

import factory
from django.contrib.auth.models import Permission, User
from factory.django import DjangoModelFactory

from runs import ids
from runs.access import token_digest
from runs.harness.run import AlertSubject, Conclusion, Emitted, PublishedResult, SafeContent, Subject
from runs.models import Alert, ApiToken, ChatSession, DiagnosisRun


def now() -> datetime:
    return datetime.now(UTC)


class UserFactory(DjangoModelFactory[User]):
    """`UserFactory(permissions=["see_all_sessions"])`: a person who holds these, by codename."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"person-{n}")
    password = factory.django.Password("a good password")

    @factory.post_generation
    def permissions(self, create: bool, extracted: Any, **_others: Any) -> None:
        if extracted:
            found = list(Permission.objects.filter(codename__in=extracted))
            assert len(found) == len(extracted), f"there are {found} of {extracted}"
            self.user_permissions.set(found)  # type: ignore[attr-defined]


class SessionFactory(DjangoModelFactory[ChatSession]):
    class Meta:
        model = ChatSession

    id = factory.Sequence(lambda n: f"session-{n}")
    created_at = factory.LazyFunction(now)
    updated_at = factory.LazyFunction(now)


class AlertFactory(DjangoModelFactory[Alert]):
    class Meta:
        model = Alert

    fingerprint = factory.Sequence(lambda n: f"{n:016x}")
    alert_name = "HighErrorRate"
    severity = "critical"
    source = Alert.Source.ALERTMANAGER
    first_received_at = factory.LazyFunction(now)
    last_received_at = factory.SelfAttribute("first_received_at")


class RunFactory(DjangoModelFactory[DiagnosisRun]):
    """A run that waits; the traits take it further."""

    class Meta:
        model = DiagnosisRun

    id = factory.LazyFunction(ids.run_id)
    session = factory.SubFactory(SessionFactory)
    trigger = "ALERT"
    status = "QUEUED"
    query = "HighErrorRate on checkout-api"
    subject = factory.LazyFunction(lambda: subject().model_dump(mode="json"))
    queued_at = factory.LazyFunction(now)

    class Params:
        running = factory.Trait(
            status="RUNNING",
            attempts=1,
            lease_token="lease-1",
            heartbeat_at=factory.LazyFunction(now),
            started_at=factory.LazyFunction(now),
        )
        failed = factory.Trait(
            status="FAILED",
            outcome="FAILED",
            failure_code="INTERNAL",
            safe_content={"headline": "The run failed.", "reason": "It did.", "lookedAt": []},
            attempts=1,
            started_at=factory.LazyFunction(now),
            finished_at=factory.LazyFunction(now),
        )
        success = factory.Trait(
            status="SUCCESS",
            outcome="SUCCESS",
            verdict="PASS",
            intent="DIAGNOSIS",
            release_decision="RELEASED",
            published_result=factory.LazyFunction(lambda: published().model_dump(mode="json", by_alias=True)),
            safe_content={"headline": "Released.", "reason": "It stood.", "lookedAt": []},
            attempts=1,
            started_at=factory.LazyFunction(now),
            finished_at=factory.LazyFunction(now),
        )


class TokenFactory(DjangoModelFactory[ApiToken]):
    """`TokenFactory(secret="…")`: the token that a caller sends."""

    class Meta:
        model = ApiToken
        exclude = ("secret",)

    secret = "a-token"
    name = factory.Sequence(lambda n: f"token-{n}")
    digest = factory.LazyAttribute(lambda row: token_digest(row.secret))
    scopes = ["runs:read"]
    created_at = factory.LazyFunction(now)


def subject() -> Subject:
    return Subject(
        alert=AlertSubject(
            alertname="HighErrorRate",
            severity="critical",
            labels={"alertname": "HighErrorRate", "service": "checkout-api"},
            fingerprint="00000000000000aa",
        )
    )


def published() -> PublishedResult:
    """Two statements over two claims, one of them a negative observation."""
    return PublishedResult.model_validate(
        {
            "query": "HighErrorRate on checkout-api",
            "conclusion": "The connection pool of checkout-api is exhausted.",
            "scope": "checkout-api, 10:00 to 10:10 UTC",
            "confidence": "NORMAL",
            "statements": [
                {"text": "The pool is exhausted: 10 of 10 connections are active.", "claimIds": ["c1"]},
                {"text": "No deployment was found in the window.", "claimIds": ["c2"]},
            ],
            "claims": [
                {
                    "claimId": "c1",
                    "kind": "observation",
                    "claimText": "10 of 10 connections are active.",
                    "evidence": [
                        {
                            "sourceInvocationId": "inv_aaaaaa",
                            "toolName": "query_logs",
                            "rawPath": "$.lines[0].text",
                            "evidenceExcerpt": "total=10, active=10, idle=0, waiting=61",
                        }
                    ],
                },
                {
                    "claimId": "c2",
                    "kind": "negative_observation",
                    "claimText": "The search for deployments found nothing.",
                    "evidence": [
                        {
                            "sourceInvocationId": "inv_bbbbbb",
                            "toolName": "query_logs",
                            "rawPath": "$.no_evidence",
                            "evidenceExcerpt": "query_logs found nothing for 'deploy'",
                        }
                    ],
                },
            ],
            "limitations": ["Metrics could not be read."],
            "sourceDocuments": [
                {"documentId": "connection-pool-exhausted", "title": "Database connection pool exhausted"}
            ],
        }
    )


def conclusion(**changes: Any) -> Conclusion:
    """A released conclusion; `changes` make it another."""
    values: dict[str, Any] = {
        "status": "SUCCESS",
        "safe_content": SafeContent(headline="The pool is exhausted.", reason="Released.", looked_at=["query_logs"]),
        "self_evaluation": {"verifier_evaluation": {"verdict": "PASS"}},
        "emitted": Emitted(events=5, steps=2, tool_invocations=1, model_calls=2),
        "verdict": "PASS",
        "release_decision": "RELEASED",
        "published": published(),
    }
    return Conclusion(**(values | changes))


def withheld(**changes: Any) -> Conclusion:
    return conclusion(
        **{"status": "DEGRADED", "release_decision": "WITHHELD", "verdict": "REJECT", "published": None} | changes
    )
