"""A model that invents evidence: what it invented is found, taken out, and shown to nobody but readers of reasoning.

Each forged claim's text holds a marker, so that a search for it over everything that leaves tells what got through.
"""

import html
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.e2e.outside import (
    Outside,
    alert_of,
    browser_of,
    check_record,
    details_of,
    evidence_of,
    make_callers,
    sent,
    verify_ledger,
)
from tests.servers.brain import Brain, Forgery
from tests.servers.chat_wire import Question, Reaction
from tests.servers.openai_compatible import OpenAICompatibleServer
from tests.superbiz.instance import Instance, running, with_tables

MARKER = "FABRICATED"
REJECTED_BY = {
    Forgery.INVENTED_INVOCATION: "GK002_INVOCATION_EXISTS",
    Forgery.OTHER_RUN: "GK002_INVOCATION_EXISTS",
    Forgery.NO_EVIDENCE_AT_ALL: "GK002_INVOCATION_EXISTS",
    Forgery.WRONG_TOOL: "GK003_TOOL_MATCHES",
    Forgery.INVENTED_PATH: "GK004_PATH_EXISTS",
    Forgery.EDITED_DIGIT: "GK005_EXCERPT_SUPPORTED",
    Forgery.POSITIVE_AS_NEGATIVE: "GK006_NEGATIVE_EVIDENCE",
}
BESIDE, ALONE = "beside honest claims", "alone"
EVERY_KIND = "every kind"


@dataclass(frozen=True)
class Case:
    """`lie`: a forgery's name, or every kind at once. `company`: whether honest claims stand beside it."""

    lie: str
    company: str

    @property
    def forgeries(self) -> tuple[Forgery, ...]:
        return tuple(Forgery) if self.lie == EVERY_KIND else (Forgery[self.lie],)

    @property
    def codes(self) -> set[str]:
        return {REJECTED_BY[forgery] for forgery in self.forgeries}

    @property
    def label(self) -> str:
        """What the alert's label `lie` says, so that the model knows how to lie in this run."""
        return f"{self.lie}/{self.company}"


CASES = [
    Case(lie, company) for lie in (*(forgery.name for forgery in Forgery), EVERY_KIND) for company in (BESIDE, ALONE)
]


class Liar:
    """A model that lies in each run as the label `lie` of its alert or `[lie=…]` in its question says; else honest."""

    def __init__(self) -> None:
        self.other_run: Mapping[str, str] | None = None

    def __call__(self, question: Question) -> Reaction:
        given = question.inputs[0] if question.schema == "executor_evidence_v2" else {}
        asked = re.search(r"\[lie=(.+)\]", str(given.get("query", "")))
        label = asked[1] if asked else ((given.get("alert") or {}).get("labels") or {}).get("lie", "")
        lie, _, company = label.partition("/")
        if not lie:
            return Brain()(question)
        return Brain(Case(lie, company).forgeries, honest=company == BESIDE, other_run=self.other_run)(question)


@dataclass(frozen=True)
class Site:
    instance: Instance
    reader: Outside
    """May read runs and send alerts, not read reasoning."""
    reasoner: Outside
    """May read reasoning as well."""
    honest: dict[str, Any]
    """The honest run, ended, whose citation the others steal."""
    run_ids: Mapping[Case, str]

    def run(self, case: Case) -> dict[str, Any]:
        return self.reader.ended(self.run_ids[case])


def alert(number: int, case: Case | None) -> dict[str, Any]:
    labels = {} if case is None else {"lie": case.label}
    return alert_of("pool-exhausted", f"{number:016x}", **labels)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    liar = Liar()
    instance = with_tables(tmp_path_factory.mktemp("fabrication") / "var")
    with OpenAICompatibleServer(liar) as server:
        settings = {
            "SUPERBIZ_LLM": "openai:test-model",
            "SUPERBIZ_LLM_BASE_URL": server.base_url,
            "SUPERBIZ_LLM_API_KEY": "unused",
            "SUPERBIZ_RECORDED_EVIDENCE": evidence_of("pool-exhausted"),
        }
        with running(instance, **settings) as up:
            up.sign_in_link()
            callers = make_callers(
                instance,
                {
                    "reader": ["alerts:write", "runs:read"],
                    "reasoner": ["runs:read", "reasoning:read"],
                },
                {
                    "person": (False, []),
                    "staff": (True, ["view_"]),
                    "steerer": (True, ["view_", "change_prompt", "change_rule"]),
                    "auditor": (True, ["view_", "read_reasoning"]),
                },
            )
            reader = callers["reader"]
            honest = reader.ended(reader.start(alert(1, None)))
            assert honest["outcome"] == "SUCCESS"
            stolen = honest["publishedResult"]["claims"][0]["evidence"][0]
            liar.other_run = {
                "source_invocation_id": stolen["sourceInvocationId"],
                "tool_name": stolen["toolName"],
                "raw_path": stolen["rawPath"],
                "evidence_excerpt": stolen["evidenceExcerpt"],
            }
            run_ids = {case: reader.start(alert(number, case)) for number, case in enumerate(CASES, start=2)}
            yield Site(instance, reader, callers["reasoner"], honest, run_ids)


def case_id(case: Case) -> str:
    return f"{case.lie}, {case.company}".replace(" ", "-")


each_case = pytest.mark.parametrize("case", CASES, ids=case_id)


@each_case
def test_nothing_invented_leaves(site: Site, case: Case) -> None:
    run = site.run(case)
    trace = site.reader.trace(run)
    events = site.reader.events(run["runId"])
    assert MARKER not in json.dumps([run, trace, [event.data for event in events]])
    assert MARKER not in site.reader.get("/api/runs", limit=200).text
    check_record(trace)
    assert len(events) == len(trace["timeline"]) + 1


@each_case
def test_the_rule_that_caught_it_stands_in_the_record(site: Site, case: Case) -> None:
    trace = site.reader.trace(site.run(case))
    for guard in ("EVIDENCE_GUARD_INITIAL", "EVIDENCE_GUARD_REPAIR"):
        (decision,) = details_of(trace, guard)
        assert case.codes <= set(decision["failedRules"])
        assert decision["removed"] == len(case.forgeries)


@each_case
def test_what_is_left_is_published_with_low_confidence_and_nothing_is_withheld_with_its_reasons(
    site: Site, case: Case
) -> None:
    run = site.run(case)
    if case.company == ALONE:
        assert (run["outcome"], run["releaseDecision"]) == ("DEGRADED", "WITHHELD")
        assert run["publishedResult"] is None
        safe = run["safeContent"]
        assert all(safe[part] for part in ("headline", "reason", "lookedAt"))
        assert any("query_logs" in line for line in safe["lookedAt"])
    else:
        assert (run["outcome"], run["releaseDecision"]) == ("SUCCESS", "RELEASED_LOW_CONFIDENCE")
        published = run["publishedResult"]
        assert (published["confidence"], run["verdict"]) == ("LOW", "LOW_CONFID")
        assert [claim["claimText"] for claim in published["claims"]]
        assert published["limitations"]
        invented = {claim["claimId"] for claim in published["claims"] if claim["claimId"].startswith("x-")}
        assert invented == set()


@each_case
def test_readers_of_reasoning_see_the_draft(site: Site, case: Case) -> None:
    run = site.reasoner.run(site.run(case)["runId"])
    path = f"/api/diagnosis/{run['sessionId']}/trace/reasoning"
    said = json.dumps(site.reasoner.found(path, runId=run["runId"]))
    kept = json.dumps(run["selfEvaluation"])
    for forgery in case.forgeries:
        assert forgery.marker in said
        assert forgery.marker in kept
    assert site.reader.get(path, runId=run["runId"]).status_code == 403


def test_the_records_of_all_runs_are_whole(site: Site) -> None:
    for case in CASES:
        site.run(case)
    done = site.instance.manage("verify_ledger")
    assert done.returncode == 0, done.stdout + done.stderr
    assert MARKER not in done.stdout + done.stderr


def test_an_honest_run_is_published_with_normal_confidence(site: Site) -> None:
    assert site.honest["publishedResult"]["confidence"] == "NORMAL"
    (decision,) = details_of(site.reader.trace(site.honest), "EVIDENCE_GUARD_INITIAL")
    assert (decision["verdict"], decision["removed"]) == ("PASS", 0)
    verify_ledger(site.instance, site.honest["runId"])


@pytest.mark.parametrize(("company", "code"), [(BESIDE, 0), (ALONE, 3)])
def test_the_command_s_report_is_free_of_it(site: Site, tmp_path: Any, company: str, code: int) -> None:
    file = tmp_path / "alert.json"
    file.write_text(json.dumps(alert(900 + code, Case(EVERY_KIND, company))))
    done = site.instance.manage("diagnose", str(file))
    assert done.returncode == code, done.stdout + done.stderr
    assert "run_" in done.stdout
    assert MARKER not in done.stdout + done.stderr


PANEL = {"HX-Request": "true", "HX-Target": "panel"}


@pytest.mark.parametrize("name", ["person", "staff"])
@pytest.mark.parametrize("company", [BESIDE, ALONE])
def test_the_pages_show_it_to_no_one_without_the_permission(site: Site, name: str, company: str) -> None:
    run = site.run(Case(EVERY_KIND, company))
    page = f"/runs/{run['runId']}/"
    timeline = site.reader.trace(run)["timeline"]
    with browser_of(site.instance, name) as browser:
        for path in ("/", page, f"{page}live/"):
            shown = browser.get(path)
            assert (shown.status_code, MARKER in shown.text) == (200, False), path
        told = run["safeContent"]["headline"] if company == ALONE else "low confidence"
        assert told.lower() in html.unescape(browser.get(page).text).lower()
        for event in timeline:
            shown = browser.get(page, params={"event": event["sequenceNo"]}, headers=PANEL)
            assert (shown.status_code, MARKER in shown.text) == (200, False), event
        for event in (timeline[-1], *(each for each in timeline if "GUARD" in each["eventType"])):
            assert browser.get(f"{page}events/{event['sequenceNo']}/restricted/").status_code == 403
        whole = browser.get(page, params={"event": timeline[-1]["sequenceNo"]})
        assert (whole.status_code, MARKER in whole.text) == (200, False)


def test_a_page_shows_the_draft_to_readers_of_reasoning_and_puts_that_on_record(site: Site) -> None:
    run = site.run(Case(EVERY_KIND, BESIDE))
    (guard,) = (e for e in site.reader.trace(run)["timeline"] if e["eventType"] == "EVIDENCE_GUARD_INITIAL")
    with browser_of(site.instance, "auditor") as browser:
        shown = browser.get(f"/runs/{run['runId']}/events/{guard['sequenceNo']}/restricted/")
        assert shown.status_code == 200
        assert shown.headers["Cache-Control"] == "no-store"
        for forgery in Forgery:
            assert forgery.marker in shown.text
        reads = browser.get("/admin/audit/reasoningaccess/", params={"q": run["runId"]}).text
        assert "auditor" in reads


MODEL_LISTS = re.compile(r'href="(/admin/audit/\w+/)"')
ROWS = re.compile(r'href="(/admin/audit/\w+/[^"/]+/change/)[^"]*"')


def test_the_admin_shows_it_to_no_one_without_the_permission(site: Site) -> None:
    run = site.run(Case(EVERY_KIND, BESIDE))
    with browser_of(site.instance, "staff") as browser:
        index = browser.get("/admin/")
        lists = set(MODEL_LISTS.findall(index.text))
        rows = set()
        for path in lists:
            page = browser.get(path, params={"q": run["runId"]})
            assert (page.status_code, MARKER in page.text) == (200, False), path
            rows |= set(ROWS.findall(page.text))
        for path in rows:
            page = browser.get(path)
            assert (page.status_code, MARKER in page.text) == (200, False), path
    assert len(lists) >= 6
    assert {path.split("/")[3] for path in rows} >= {"agentstep", "modelcallrow", "toolinvocation", "traceevent"}


# ---- every other way out ----------------------------------------------------------------------------------------

PARTS = ("", "run-list", "figures", "comparison", "record-check", "dry-run", "usage", "rule-usage", "rule-preview",
         "rule-previews", "alert-list", "alert-runs", "conversation", "turn", "run", "panel")  # fmt: skip
PROPOSE = """
from django.contrib.auth.models import User
from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
changes = Changes(rules={"GK005_EXCERPT_SUPPORTED": RuleChange(params={"min_chars": 5000})})
shown = rulesets.newest_row().number
print(rulesets.propose(shown, changes, by=User.objects.get(username="steerer"), reason="try it").pk)
"""


def check_free_of_it(browser: httpx.Client, *addresses: str) -> None:
    """Whole, and as each part that a page of ours asks for."""
    for address in addresses:
        for part in ("",) if address.endswith((".json", ".md")) else PARTS:
            shown = browser.get(address, headers={"HX-Request": "true", "HX-Target": part} if part else {})
            assert (shown.status_code, MARKER in shown.text) == (200, False), (address, part)


@pytest.mark.parametrize("company", [BESIDE, ALONE])
def test_exports_lists_comparisons_and_alerts_are_free_of_it(site: Site, company: str) -> None:
    run = site.run(Case(EVERY_KIND, company))
    page, session = f"/runs/{run['runId']}/", run["sessionId"]
    calls = [event for event in site.reader.trace(run)["timeline"] if event["eventType"] == "TOOL_INVOCATION"]
    outputs = [f"{page}events/{call['sequenceNo']}/{part}.json" for call in calls for part in ("arguments", "output")]
    assert outputs
    for name in ("person", "auditor"):
        with browser_of(site.instance, name) as browser:
            found = re.findall(r'href="(/alerts/\d+/)"', browser.get("/alerts/").text)
            assert found
            check_free_of_it(
                browser,
                *(f"{page}trace.json", f"{page}report.md", f"{page}record/", *outputs, f"/sessions/{session}/"),
                *("/?q=checkout", "/runs/figures/", f"/runs/watched/?id={run['runId']}"),
                *(f"/runs/compare/?a={site.honest['runId']}&b={run['runId']}", "/alerts/", *set(found)),
            )


@pytest.mark.parametrize("company", [BESIDE, ALONE])
def test_dry_runs_and_tries_of_rules_are_free_of_it(site: Site, company: str) -> None:
    case = Case(EVERY_KIND, company)
    run = site.run(case)
    proposal = site.instance.manage("shell", "-c", PROPOSE).stdout.split()[-1]
    with browser_of(site.instance, "steerer") as browser:
        start = "/prompts/chat_verifier/versions/1/dry-run/"
        tried = sent(browser, browser.get(start).text, start, run=run["runId"]).url.path
        rehearsal = site.reader.ended(tried.split("/")[-2])
        for guard in ("EVIDENCE_GUARD_INITIAL", "EVIDENCE_GUARD_REPAIR"):
            (decision,) = details_of(site.reader.trace(rehearsal), guard)
            assert case.codes <= set(decision["failedRules"])
        begin = f"/rule-proposals/{proposal}/previews/"
        preview = sent(browser, browser.get(begin).text, begin, size="100").url.path
        while "every 1s" in (told := browser.get(preview).text):
            time.sleep(0.1)
        assert "would come out otherwise" in told
        check_free_of_it(browser, start, tried, begin, preview, f"/runs/{rehearsal['runId']}/")
        check_free_of_it(browser, "/rules/GK005_EXCERPT_SUPPORTED/runs/", "/prompts/chat_verifier/versions/1/runs/")


@pytest.mark.parametrize("company", [BESIDE, ALONE])
def test_a_conversation_is_free_of_it(site: Site, company: str) -> None:
    case = Case(EVERY_KIND, company)
    with browser_of(site.instance, "person") as browser:
        question = f"Why is checkout-api failing? [lie={case.label}]"
        began = sent(browser, browser.get("/chat/").text, "/chat/", query=question)
        (run_id,) = set(re.findall(r'id="turn-(run_\w+)"', began.text))
        run = site.reader.ended(run_id)
        decisions = details_of(site.reader.trace(run), "EVIDENCE_GUARD_INITIAL")
        assert case.codes <= set(decisions[0]["failedRules"])
        turn = f"{began.url.path}turns/{run_id}/"
        check_free_of_it(browser, "/chat/", began.url.path, turn, f"/runs/{run_id}/", f"/runs/{run_id}/report.md")
