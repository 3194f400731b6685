"""Every page of the product keeps the rules of WCAG 2.2 AA that axe can check, in light and in dark.

A new page is a new row of `PAGES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import Permission, User
from playwright.sync_api import Browser, Page

from audit.readings import record_access
from runs import alert_actions, feedback, library
from runs.access import Caller
from runs.knowledge.chunking import read_markdown
from runs.models import Alert, RunFeedback
from runs.models.feedback import Rating
from tests.audit.told_runs import (
    GATE_EVENT,
    RELEASE_EVENT,
    STEP_EVENT,
    TOOL_EVENT,
    opening,
    pinned,
    told_run,
    two_runs,
)
from tests.browser.conftest import Server, visiting
from tests.factories import AlertFactory, RunFactory, SessionFactory, published

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
# In the dark nothing else can be otherwise.
RULES_OF_COLOUR = RULES | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
Prepare = Callable[[], str]


@dataclass(frozen=True)
class Looked:
    """`prepare` makes what the page shows and gives its path. `settled`: a selector to wait for."""

    name: str
    prepare: Prepare
    signed_in: bool = True
    settled: str = "body"


def fixed(path: str) -> Prepare:
    return lambda: path


def of_run(rest: str) -> Prepare:
    return lambda: f"/runs/{told_run().id}/{rest}"


def list_of_all_kinds(query: str) -> Prepare:
    def prepare() -> str:
        told_run()
        opening()
        RunFactory.create(failed=True, query="Why?", subject={"version": 1})
        RunFactory.create(success=True, release_decision="RELEASED_LOW_CONFIDENCE", verdict="LOW_CONFID")
        RunFactory.create(queued_at=datetime.now(UTC) - timedelta(hours=2))
        return f"/?{query}"

    return prepare


def read_run() -> str:
    """As an auditor who may see prompts and rules in the admin."""
    reader = User.objects.get(username="reader")
    codes = ("view_reasoningaccess", "view_prompt", "view_ruleset")
    reader.user_permissions.add(*Permission.objects.filter(codename__in=codes))
    User.objects.filter(id=reader.id).update(is_staff=True)
    run = told_run(pinned_prompts=pinned(chat_verifier=2, executor=1))
    record_access(Caller(user=reader), run.id, "reasoning")
    return f"/runs/{run.id}/"


def live_run() -> str:
    return f"/runs/{opening().id}/"


def again() -> str:
    """A run that asks another again, was asked again itself and can be once more."""
    User.objects.get(username="reader").user_permissions.add(Permission.objects.get(codename="submit_alerts"))
    alert = AlertFactory.create()
    run = told_run(alert=alert, trigger="MANUAL", again_of=RunFactory.create(success=True))
    RunFactory.create(trigger="MANUAL", again_of=run)
    return f"/runs/{run.id}/"


def compared() -> str:
    a, b = two_runs()
    return f"/runs/compare/?a={a.id}&b={b.id}"


def choosing() -> str:
    run = told_run()
    RunFactory.create(failed=True, session=run.session)
    return f"/runs/compare/?a={run.id}"


def alert_of_all_kinds() -> Alert:
    """One that is silenced, has runs and came before."""
    AlertFactory.create(fingerprint="aa", status="RESOLVED", last_run=RunFactory.create(failed=True))
    alert: Alert = AlertFactory.create(
        fingerprint="aa",
        labels={"service": "checkout-api"},
        annotations={"summary": "It burns."},
        generator_url="https://prometheus.example/graph",
        last_run=opening(),
    )
    reader = User.objects.get(username="reader")
    reader.user_permissions.add(Permission.objects.get(codename="submit_alerts"))
    alert_actions.silence(alert.id, Caller(user=reader), lasts=timedelta(hours=1), reason="Known.")
    return alert


def chat_of_all_kinds() -> str:
    """A conversation with an answer, of low confidence too, a failure, what goes on, and a cleared memory."""
    reader = User.objects.get(username="reader")
    session = SessionFactory.create(owner=reader, title="Why?", cleared_at=datetime.now(UTC) - timedelta(hours=1))
    in_it = {"session": session, "trigger": "CHAT", "query": "Why?"}
    RunFactory.create(failed=True, queued_at=datetime.now(UTC) - timedelta(hours=2), **in_it)
    low = published().model_dump(mode="json", by_alias=True) | {"confidence": "LOW"}
    RunFactory.create(success=True, release_decision="RELEASED_LOW_CONFIDENCE", published_result=low, **in_it)
    run = told_run(**in_it)
    feedback.rate(run, person_id=reader.pk, person_name="reader", rating=Rating.WRONG, note="It was the disk.")
    opening(**in_it)
    AlertFactory.create(labels={"service": "checkout-api"})
    return str(session.id)


def rated_run() -> str:
    chat_of_all_kinds()
    return f"/runs/{RunFeedback.objects.get().run_id}/feedback/"


def shelf_with_a_document() -> str:
    """Id of a document with every kind of block."""
    text = "# Pool\n\n- one\n- two\n\n| a | b |\n|---|---|\n| c | d |\n\n## Fix\n\nRoll back: `x`, [more](https://x.example/)."
    library.store(read_markdown("pool", f"{text}\n\n```\nkubectl\n```\n"), source="pool.md")
    return "pool"


PAGES = [
    Looked("sign-in", fixed("/sign-in/"), signed_in=False),
    Looked("sign-in link that is gone", fixed("/sign-in/no-such-token/"), signed_in=False),
    Looked("empty list", fixed("/")),
    Looked("list", list_of_all_kinds(""), settled=".chart"),
    Looked(
        "list, filtered with a wrong value", list_of_all_kinds("status=FAILED&verdict=X&cols=who,id"), settled=".chart"
    ),
    Looked("list without a match", list_of_all_kinds("q=xylophone")),
    Looked("needs attention", list_of_all_kinds("view=attention"), settled=".runs-stuck"),
    Looked("figures", lambda: list_of_all_kinds("")() and "/runs/figures/", settled=".chart"),
    Looked("run", of_run(""), settled="#timeline"),
    Looked("run, its readings and prompts", read_run, settled="#readings"),
    Looked("run that goes", live_run, settled="#timeline"),
    Looked("run again", again, settled=".again-links"),
    Looked("run, tool call", of_run(f"?event={TOOL_EVENT}"), settled="#panel [data-panel]"),
    Looked("run, model step", of_run(f"?event={STEP_EVENT}"), settled="#panel [data-panel]"),
    Looked("run, gate", of_run(f"?event={GATE_EVENT}"), settled="#panel [data-panel]"),
    Looked("run, release", of_run(f"?event={RELEASE_EVENT}"), settled="#panel [data-panel]"),
    Looked("comparison", compared, settled=".comparison"),
    Looked("comparison, to choose", choosing, settled=".compare-near"),
    Looked("comparison of what is not there", fixed("/runs/compare/?a=run_none&b=run_x")),
    Looked("reasoning", of_run(f"events/{STEP_EVENT}/restricted/")),
    Looked("empty inbox", fixed("/alerts/")),
    Looked("inbox", lambda: alert_of_all_kinds() and "/alerts/", settled=".alerts"),
    Looked("inbox without a match", fixed("/alerts/?state=firing")),
    Looked("alert", lambda: f"/alerts/{alert_of_all_kinds().id}/", settled=".history"),
    Looked("knowledge", lambda: shelf_with_a_document() and "/knowledge/", settled=".knowledge-list"),
    Looked("knowledge, searched", lambda: shelf_with_a_document() and "/knowledge/?q=pool", settled=".knowledge-found"),
    Looked("document", lambda: f"/knowledge/{shelf_with_a_document()}/?excerpt=Roll+back", settled=".passage-found"),
    Looked("chat, nothing asked yet", fixed("/chat/")),
    Looked("chat", lambda: chat_of_all_kinds() and "/chat/", settled="#chats"),
    Looked("conversation", lambda: f"/chat/{chat_of_all_kinds()}/", settled=".turn-steps"),
    Looked("feedback", rated_run, settled=".feedback-others"),
    Looked("not found", fixed("/no/such/page")),
    Looked("bad request", fixed("/runs/new/?after=x")),
]


def axe_reports(page: Page, within: str = "main", context: str | None = None) -> list[str]:
    """What axe finds in light and then in dark. What is folded away in `within` is part of the page."""
    page.evaluate(f"document.querySelectorAll('{within} details').forEach((each) => {{ each.open = true; }})")
    reports, grounds = [], set()
    for scheme, rules in (("light", RULES), ("dark", RULES_OF_COLOUR)):
        # No colour is caught on its way to another.
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        grounds.add(page.evaluate("getComputedStyle(document.body).color"))
        found = Axe().run(page, context=context, options=rules)
        reports += [f"{scheme}: {found.generate_report()}"] if found.violations_count else []
    assert len(grounds) > 1, "the page looks the same in the dark"
    page.emulate_media(color_scheme="light")
    return reports


@pytest.mark.parametrize("looked", PAGES, ids=lambda looked: looked.name)
def test_axe_finds_nothing(browser: Browser, server: Server, reader: User, looked: Looked) -> None:
    path = looked.prepare()
    with visiting(browser, server.base) as visitor:
        if looked.signed_in:
            visitor.come_as(reader)
        visitor.open(path)
        visitor.page.wait_for_selector(looked.settled)
        assert axe_reports(visitor.page) == []
