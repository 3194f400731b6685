import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.alertpayload import (
    MAX_URL,
    MAX_VALUE,
    BadPayload,
    moment,
    query_text,
    read_alert,
    read_json,
    read_notice,
    severity_rank,
)
from runs.harness.run import AlertSubject

ALERT = {
    "status": "firing",
    "labels": {"alertname": "HighErrorRate", "severity": "critical", "service": "checkout-api"},
    "annotations": {"summary": "5% of requests fail"},
    "startsAt": "2026-11-12T10:04:00.123456789Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus:9090/graph",
    "fingerprint": "fadce6591a79153c",
}


def one(**changes: Any) -> AlertSubject:
    return read_notice({"alerts": [ALERT | changes]}).alerts[0].subject


def test_a_whole_alert_is_read_as_it_is() -> None:
    incoming = read_notice({"version": "4", "groupKey": "{}:{}", "alerts": [ALERT]}).alerts[0]
    assert incoming.subject == AlertSubject(
        alertname="HighErrorRate",
        severity="critical",
        status="firing",
        starts_at=datetime(2026, 11, 12, 10, 4, 0, 123456, tzinfo=UTC),
        labels=ALERT["labels"],
        annotations=ALERT["annotations"],
        generator_url="http://prometheus:9090/graph",
        fingerprint="fadce6591a79153c",
    )
    assert incoming.ends_at is None


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"status": None}, "status", "firing"),
        ({"status": "RESOLVED"}, "status", "resolved"),
        ({"status": 7}, "status", "firing"),
        ({"startsAt": "yesterday"}, "starts_at", None),
        ({"startsAt": None}, "starts_at", None),
        ({"startsAt": "2026-11-12T10:04:00"}, "starts_at", datetime(2026, 11, 12, 10, 4, tzinfo=UTC)),
        ({"startsAt": "9999-12-31T23:59:59-23:00"}, "starts_at", None),
        ({"startsAt": [1]}, "starts_at", None),
        ({"labels": None}, "alertname", "UnnamedAlert"),
        ({"labels": {"alertname": "A\0B\ud800"}}, "alertname", "A\ufffdB\ufffd"),
        ({"labels": {"alertname": "A", "n": 3, "x": None, "d": {"k": [1]}}}, "labels",
         {"alertname": "A", "n": "3", "x": "", "d": '{"k": [1]}'}),
        ({"labels": {"alertname": "A"}, "annotations": {"severity": "warning"}}, "severity", "warning"),
        ({"labels": {"alertname": "A" * 5000}}, "alertname", "A" * 200),
        ({"generatorURL": 5}, "generator_url", "5"),
    ],
)  # fmt: skip
def test_odd_fields_are_taken_as_well_as_can_be(changes: dict[str, Any], field: str, value: object) -> None:
    assert getattr(one(**changes), field) == value


@pytest.mark.parametrize(
    "kept", ["±", "%E9%93%B6", "100% complete", "{{ $value }} {% now %}", "<script>", "银行", "a\tb\nc", "\u202e"]
)
def test_signs_are_kept_exactly(kept: str) -> None:
    subject = one(labels={"alertname": kept, "x": kept}, annotations={"summary": kept})
    assert (subject.alertname, subject.labels["x"], subject.annotations["summary"]) == (kept, kept, kept)


def test_what_grafana_measured_stands_behind_an_annotation_of_that_name() -> None:
    measured = {"valueString": "[ value=10 ]", "panelURL": "", "dashboardURL": None, "annotations": {"summary": "s"}}
    assert one(**measured).annotations == {"summary": "s", "valueString": "[ value=10 ]"}
    assert one(**measured | {"annotations": {"valueString": "mine"}}).annotations == {"valueString": "mine"}


@pytest.mark.parametrize("missing", [{"fingerprint": None}, {"fingerprint": 3}, {"fingerprint": ""}])
def test_a_missing_fingerprint_comes_from_the_labels_in_any_order(missing: dict[str, Any]) -> None:
    labels = {"b": "2", "a": "1", "alertname": "X"}
    again = dict(reversed(labels.items()))
    assert one(labels=labels, **missing).fingerprint == one(labels=again, **missing).fingerprint
    assert one(labels=labels | {"a": "0"}, **missing).fingerprint != one(labels=labels, **missing).fingerprint


@pytest.mark.parametrize("given_print", ["x" * 5000, "../../etc", "a b", "\0", "é"])
def test_a_fingerprint_fits_a_session_id(given_print: str) -> None:
    fingerprint = one(fingerprint=given_print).fingerprint
    assert len(fingerprint) == 16
    assert fingerprint.isalnum()


def test_common_labels_stand_in_for_missing_ones() -> None:
    notice = read_notice(
        {"commonLabels": {"severity": "page", "alertname": "C"}, "alerts": [{}, {"labels": {"alertname": "D"}}]}
    )
    assert [(a.subject.alertname, a.subject.severity) for a in notice.alerts] == [("C", "page"), ("D", "page")]


@pytest.mark.parametrize(("key", "kept"), [(17, "17"), (None, ""), ({"a": 1}, '{"a": 1}'), ("g" * 5000, "g" * 1000)])
def test_a_group_key_may_be_anything(key: object, kept: str) -> None:
    assert read_notice({"groupKey": key, "alerts": []}).group_key == kept


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b'{"a": "\0"}', b"[" * 50_000 + b"]" * 50_000, b"1" * 10_000, b"{'a': 1}"]
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadPayload) as refused:
        read_json(body)
    assert (refused.value.status, refused.value.code) == (400, "BAD_JSON")


@pytest.mark.parametrize(
    "value",
    [
        *([], 3, None, "x", {}, {"alerts": {}}, {"alerts": [1]}, {"alerts": [{}] * 501}),
        *({"alerts": [{"labels": "x"}]}, {"alerts": [{"labels": {}, "annotations": [1]}]}),
    ],
)
def test_what_is_no_notice_is_refused(value: object) -> None:
    with pytest.raises(BadPayload) as refused:
        read_notice(value)
    assert refused.value.status == 422


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.none() | st.dictionaries(st.text(max_size=12), JSON, max_size=4)
NAMED = st.fixed_dictionaries({}, optional={**dict.fromkeys(ALERT, JSON), "labels": OBJECT, "annotations": OBJECT})


@given(st.lists(NAMED, max_size=3), JSON, JSON)
def test_nothing_in_an_alert_breaks_the_reading(alerts: list[dict[str, Any]], labels: object, key: object) -> None:
    for incoming in read_notice({"alerts": alerts, "commonLabels": labels, "groupKey": key}).alerts:
        stored = incoming.subject.model_dump_json()
        assert "\0" not in json.loads(stored)["alertname"]
        assert len(query_text(incoming.subject)) <= 2000


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1e30, None),
        (float("nan"), None),
        (True, None),
        ("1969-12-31T23:59:59Z", None),
        ("2026-01-01T00:00:00+02:00", datetime(2025, 12, 31, 22, tzinfo=UTC)),
        ("2026-01-01T00:00:00-04:00", datetime(2026, 1, 1, 4, tzinfo=UTC)),
        ("2999-01-01T00:00:00Z", datetime(2999, 1, 1, tzinfo=UTC)),
    ],
)
def test_times(value: object, at: datetime | None) -> None:
    assert moment(value) == at


def test_severities_are_ordered() -> None:
    ordered = ["critical", "high", "warning", "unheard-of", "info"]
    assert sorted(ordered, key=severity_rank) == ordered
    assert severity_rank(" CRITICAL ") == severity_rank("p1")
    assert severity_rank("major") == severity_rank("error")


@pytest.mark.parametrize(
    ("labels", "annotations", "query"),
    [
        ({"service": "checkout-api"}, {"summary": "5% fail"}, "HighErrorRate on checkout-api: 5% fail"),
        ({"instance": "10.0.0.1:9100"}, {"description": "a\n b"}, "HighErrorRate on 10.0.0.1:9100: a b"),
        ({}, {}, "HighErrorRate"),
    ],
)
def test_the_question_names_alert_place_and_summary(labels: Any, annotations: Any, query: str) -> None:
    assert query_text(AlertSubject(alertname="HighErrorRate", labels=labels, annotations=annotations)) == query


LEAKY = {
    "alertname": "SignInFails",
    "service": "checkout-api",
    "dsn": "postgres://app:S3cretPw9@db/orders",
    "api_token": "abcdef0123456789",
}
LEAKY_NOTES = {
    "summary": "password=hunter2Secret99 was refused",
    "description": "Authorization: Bearer abcdefghijklmnop12345678",
}
SECRETS = ("S3cretPw9", "abcdef0123456789", "hunter2Secret99", "abcdefghijklmnop12345678", "graphKey0123456")


def test_secrets_are_masked_before_anything_is_kept() -> None:
    body = {
        "groupKey": '{}:{dsn="postgres://app:S3cretPw9@db/orders"}',
        "commonAnnotations": LEAKY_NOTES,
        "alerts": [{"labels": LEAKY, "generatorURL": "http://prometheus:9090/graph?token=graphKey0123456&g0.expr=up"}],
    }
    notice = read_notice(body)
    subject = notice.alerts[0].subject
    kept = "\n".join([notice.group_key, subject.model_dump_json(), query_text(subject)])
    assert [secret for secret in SECRETS if secret in kept] == []
    assert subject.labels["dsn"] == "postgres://app:[redacted]@db/orders"
    assert subject.labels["api_token"] == "[redacted]"
    assert query_text(subject) == "SignInFails on checkout-api: password=[redacted] was refused"
    assert subject.generator_url.endswith("&g0.expr=up")


def test_a_name_beside_the_labels_is_masked_too() -> None:
    subject = read_alert({"alertname": "token=abcdef0123456789 expired", "labels": {}}, {}).subject
    assert subject.alertname == "token=[redacted] expired"


def test_alerts_that_differ_in_a_secret_alone_stay_two() -> None:
    one, other = (
        read_alert({"labels": {**LEAKY, "api_token": value}}, {}) for value in ("first-0123456", "other-0123456")
    )
    assert one.subject.labels == other.subject.labels
    assert one.fingerprint != other.fingerprint


def test_masks_do_not_grow_over_the_bounds() -> None:
    values = " ".join(["password=abc1"] * 200)[:MAX_VALUE]
    subject = read_alert({"labels": {"x": values}, "generatorURL": "http://a/?" + "&token=a1b2c3d4" * 200}, {}).subject
    assert len(subject.labels["x"]) == MAX_VALUE
    assert len(subject.generator_url) <= MAX_URL
    assert "a1b2c3d4" not in subject.generator_url
