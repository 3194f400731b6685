"""Alerts as they come in real life, over HTTP on a running instance, and what its pages then show."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx
import pytest

from tests.e2e.outside import HOOK, Outside, alert_body, alert_of, browser_of, evidence_of, make_callers
from tests.superbiz.instance import Instance, running, with_tables

GRAFANA = "/api/alerts/grafana"
AI_OPS = "/api/ai_ops"
FUTURE = "2999-01-01T00:00:00-04:00"


@dataclass(frozen=True)
class Site:
    instance: Instance
    machine: Outside
    reader: Outside
    browser: httpx.Client

    def page(self, path: str) -> str:
        answer = self.browser.get(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.text

    def alert_paths(self) -> list[str]:
        return re.findall(r'<a href="(/alerts/\d+/)" data-row>', self.page("/alerts/"))

    def check_looks(self, path: str) -> str:
        """No page says what only a programmer would write, and nothing of an alert acts on it."""
        body = self.page(path)
        told = unescape(re.sub(r"<[^>]+>", " ", body.split("<main")[-1]))
        assert not re.search(r"\b(None|undefined|NaN|null)\b", told), path
        assert "<script>alert" not in body
        assert "\0" not in body
        return told

    def press(self, path: str, **fields: str) -> httpx.Response:
        """Submit a form of a page, as a browser would."""
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.page("/alerts/"))
        assert token
        sent = {"csrfmiddlewaretoken": token[1], **fields}
        return self.browser.post(path, data=sent, headers={"Referer": f"{self.instance.url}/alerts/"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    instance = with_tables(tmp_path_factory.mktemp("alerts") / "var")
    ignored = {"SUPERBIZ_ALERT_IGNORE_NAMES": "Watchdog, Heart beat *"}
    with running(instance, SUPERBIZ_RECORDED_EVIDENCE=evidence_of("pool-exhausted"), **ignored) as up:
        up.sign_in_link()
        tokens = {"machine": ["alerts:write", "runs:read"], "reader": ["runs:read"]}
        callers = make_callers(instance, tokens, {"operator": (False, ["submit_alerts", "see_all"])})
        with browser_of(instance, "operator") as browser:
            yield Site(instance, callers["machine"], callers["reader"], browser)


def counts(told: dict[str, Any]) -> tuple[int, int, int, int, int]:
    return (*(told[name] for name in ("accepted", "deduplicated", "resolved", "ignored")), len(told["runs"]))


def take(site: Site, body: Any, path: str = HOOK) -> dict[str, Any]:
    answer = site.machine.post(path, body)
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told


def labelled(name: str, **labels: Any) -> dict[str, Any]:
    return {"alertname": name, "service": "checkout-api", **labels}


@dataclass(frozen=True)
class Case:
    """`counts`: accepted, deduplicated, resolved, ignored, runs. `shown`: words of the alert's page."""

    name: str
    body: Any
    counts: tuple[int, int, int, int, int] = (1, 0, 0, 0, 1)
    shown: tuple[str, ...] = ()


TWIN = {"labels": labelled("Twin")}
CASES = [
    Case("no fingerprint, status or instance", {"alerts": [{"labels": labelled("Bare")}]}, shown=("Bare", "Firing")),
    Case("integer group key", {"groupKey": 17, "alerts": [{"labels": labelled("KeyIsANumber")}]}, shown=("17",)),
    Case(
        "severity in an annotation only",
        {"alerts": [{"labels": labelled("SeverityNoted"), "annotations": {"severity": "critical"}}]},
        shown=("critical",),
    ),
    Case(
        "an offset",
        {"alerts": [{"labels": labelled("Offset"), "startsAt": "2026-11-12T10:04:00-04:00"}]},
        shown=("2026-11-12 14:04:00 UTC",),
    ),
    Case("the future", {"alerts": [{"labels": labelled("Future"), "startsAt": FUTURE}]}, shown=("2999-01-01",)),
    Case("no times", {"alerts": [{"labels": labelled("Timeless"), "startsAt": None, "endsAt": None}]}, shown=("–",)),
    Case(
        "NUL and script",
        {"alerts": [{"labels": labelled("<script>alert(1)</script>"), "annotations": {"summary": "a\0b"}}]},
        shown=("<script>alert(1)</script>", "a\ufffdb"),
    ),
    Case(
        "signs kept exactly",
        {"alerts": [{"labels": labelled("± 5"), "annotations": {"summary": "%E9%93%B6 is 100% complete ±"}}]},
        shown=("± 5", "%E9%93%B6 is 100% complete ±"),
    ),
    Case(
        "unexpanded templates",
        {"alerts": [{"labels": labelled("{{ $labels.x }}"), "annotations": {"summary": "{{ $value }} {% now %}"}}]},
        shown=("{{ $labels.x }}", "{{ $value }} {% now %}"),
    ),
    Case(
        "no value, instance or job",
        {"alerts": [{"labels": {"alertname": "Nothing", "instance": None, "job": None, "value": None}}]},
        shown=("Nothing",),
    ),
    Case("no labels at all", {"alerts": [{}]}, shown=("UnnamedAlert", "It came without labels.")),
    Case(
        "several in one body",
        {"alerts": [{"labels": labelled(f"Several{n}", severity=s)} for n, s in enumerate(("info", "critical"))]},
        counts=(2, 0, 0, 0, 1),
    ),
    Case("duplicates in one body", {"alerts": [TWIN, TWIN, TWIN]}, counts=(1, 2, 0, 0, 1), shown=("1 time",)),
    Case("a repeat in another order", {"alerts": [{"labels": dict(reversed(TWIN["labels"].items()))}]},
         counts=(0, 1, 0, 0, 0), shown=("2 times",)),
    Case("heartbeats", {"alerts": [{"labels": labelled("Watchdog")}, {"labels": labelled("Heart beat eu")}]},
         counts=(0, 0, 0, 2, 0)),
    Case("an end of an unknown alert", {"status": "resolved", "alerts": [{"labels": labelled("Unknown")}]},
         counts=(0, 0, 1, 0, 0)),
    Case("an end of a known one", {"status": "resolved", "alerts": [TWIN]}, counts=(0, 0, 1, 0, 0),
         shown=("Resolved",)),
]  # fmt: skip


def test_alerts_are_taken_as_they_come_and_can_be_looked_at(site: Site) -> None:
    """In one order: some cases are about what another one left."""
    for case in CASES:
        told = take(site, json.dumps(case.body).encode())
        assert counts(told) == case.counts, case.name
        newest, *_older = site.alert_paths()
        shown = site.check_looks(newest)
        for words in case.shown:
            assert words in shown, (case.name, words)
        for run in told["runs"]:
            site.check_looks(f"/runs/{run['runId']}/")
    site.check_looks("/alerts/")
    for run in site.machine.found("/api/runs", limit=200)["items"]:
        assert site.machine.ended(run["runId"])["outcome"] in {"SUCCESS", "DEGRADED"}
        site.check_looks(f"/runs/{run['runId']}/")


def test_grafana_s_test_alert_comes_in(site: Site) -> None:
    alert = {
        "status": "firing",
        "labels": {"alertname": "TestAlert", "instance": "Grafana"},
        "annotations": {"summary": "Notification test"},
        "startsAt": "2026-11-12T10:04:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "?orgId=1",
        "fingerprint": "57c6d9296de2ad39",
        "values": None,
        "valueString": "[ metric='foo' labels={instance=bar} value=10 ]",
    }
    assert counts(take(site, {"receiver": "", "orgId": 1, "alerts": [alert]}, GRAFANA)) == (1, 0, 0, 0, 1)
    told = site.check_looks(site.alert_paths()[0])
    assert "Open at its source" not in told
    assert "[ metric='foo' labels={instance=bar} value=10 ]" in told


@pytest.mark.parametrize("path", [HOOK, GRAFANA, AI_OPS])
def test_a_wrong_token_and_a_wrong_body_are_refused(site: Site, path: str) -> None:
    assert Outside(site.instance.url, "wrong").post(path, {"alerts": []}).status_code == 401
    assert site.reader.post(path, {"alerts": []}).status_code == 403
    assert site.machine.post(path, b"[" * 50_000 + b"]" * 50_000).status_code == 400
    assert site.machine.post(path, b" " * (1024 * 1024 + 1)).status_code == 413


def test_a_whole_mebibyte_is_taken(site: Site) -> None:
    body = {"alerts": [{"labels": labelled("Large"), "annotations": {"summary": ""}}]}
    body["alerts"][0]["annotations"]["summary"] = "x" * (1024 * 1024 - len(json.dumps(body)))
    sent = json.dumps(body).encode()
    assert len(sent) == 1024 * 1024
    assert counts(take(site, sent)) == (1, 0, 0, 0, 1)
    assert len(site.page(site.alert_paths()[0])) < 100_000


def test_a_diagnosis_is_asked_for_by_hand(site: Site) -> None:
    alert = alert_of("pool-exhausted", "00000000000009f1", alertname="ByHand")
    told = [take(site, {"alert": alert}, AI_OPS) for _ in range(2)]
    assert told[0]["runId"] != told[1]["runId"]
    run = site.machine.ended(told[1]["runId"])
    assert (run["trigger"], run["outcome"]) == ("MANUAL", "SUCCESS")
    # The bundled recording has its own active alerts.
    active = take(site, b"", AI_OPS)
    assert site.machine.ended(active["runId"])["outcome"] in {"SUCCESS", "DEGRADED"}
    assert active["runs"] == [{key: active[key] for key in ("runId", "sessionId", "alertName", "url")}]


def test_a_person_diagnoses_silences_and_ends_the_silence(site: Site) -> None:
    body = alert_body("pool-exhausted")
    alert = body["alerts"][0] | {"fingerprint": "00000000000009f2"}
    first = site.machine.start(alert)
    site.machine.ended(first)
    (path,) = [path for path in site.alert_paths() if first in site.page(path)]
    where = site.press(f"{path}diagnose/").url.path
    second = where.split("/")[2]
    assert second not in {first, ""}
    assert site.machine.ended(second)["outcome"] == "SUCCESS"
    assert "rolled out" in site.press(f"{path}silence/", lasts="1h", reason="The fix is rolled out.").text
    told = site.check_looks(path)
    assert "Silenced:" in told
    assert site.page(path).count("data-row") == 2
    assert "Silenced:" not in site.press(f"{path}silence/end/").text
