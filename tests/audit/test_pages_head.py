"""What stands at the top of a run's page: everything that tells how far its answer can be trusted."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from runs.models import DiagnosisRun
from tests.audit.test_pages import page_of, part, signed_in
from tests.audit.told_runs import TOOL_EVENT, opening, pinned, told_run

pytestmark = pytest.mark.django_db
FACT = re.compile(r"<div><dt>(.*?)</dt><dd[^>]*>(.*?)</dd></div>", re.DOTALL)


def facts(text: str) -> dict[str, str]:
    """Words by label."""
    return {label: " ".join(re.sub("<[^>]+>", " ", value).split()) for label, value in FACT.findall(text)}


def test_the_head_tells_all_that_a_run_cost_and_ran_with() -> None:
    run = told_run(pinned_prompts=pinned(chat_verifier=2))
    DiagnosisRun.objects.filter(id=run.id).update(cost_usd=Decimal("0.0123"))
    text = signed_in().get(page_of(run)).content.decode()
    told = facts(text)
    assert told["Verdict"] == "Pass"
    assert told["Tokens"] == "120"
    assert told["Cost"] == "$0.0123"
    assert told["Model"] == "offline"
    assert told["Prompts"] == "aiops-prompts-v1 chat-verifier-v2"
    assert told["Rule set"] == "1"
    assert told["Record"].startswith("whole")
    assert re.fullmatch(r"\d+ ms|[\d.]+ s", told["Duration"])
    assert re.search(r"<h1>HighErrorRate <span[^>]*>checkout-api</span></h1>", text)
    assert re.search(r'class="badge badge-big badge-good" title="SUCCESS">Answered<', text)


@dataclass(frozen=True)
class Links:
    name: str
    person: dict[str, Any]
    prompts: bool
    rules: bool


@pytest.mark.parametrize(
    "case",
    [
        Links("anybody", {}, prompts=False, rules=False),
        Links("staff without them", {"is_staff": True}, prompts=False, rules=False),
        Links("not let into the admin", {"permissions": ["view_prompt", "view_ruleset"]}, prompts=False, rules=False),
        Links("prompts", {"is_staff": True, "permissions": ["view_prompt"]}, prompts=True, rules=False),
        Links("rules", {"is_staff": True, "permissions": ["view_ruleset"]}, prompts=False, rules=True),
    ],
    ids=lambda case: case.name,
)
def test_versions_and_rule_set_lead_to_the_admin_and_to_their_runs_for_whom_it_is_open(case: Links) -> None:
    run = told_run(pinned_prompts=pinned(chat_verifier=2))
    text = signed_in(**case.person).get(page_of(run)).content.decode()
    assert ('href="/admin/prompts/prompt/chat_verifier/versions/2/"' in text) is case.prompts
    assert ('href="/prompts/chat_verifier/versions/2/runs/"' in text) is case.prompts
    assert ('href="/admin/gatekeeper/ruleset/number/1/"' in text) is case.rules
    assert ('href="/rule-sets/1/runs/"' in text) is case.rules


def test_before_it_has_pinned_its_prompts_a_run_names_none() -> None:
    assert facts(signed_in().get(page_of(opening())).content.decode())["Prompts"] == "–"


def test_a_row_and_the_details_give_an_event_its_own_address() -> None:
    run, client = told_run(), signed_in()
    rows = client.get(page_of(run, "?q=query_logs")).content.decode()
    assert f'href="?event={TOOL_EVENT}&amp;q=query_logs#panel"' in rows
    panel = part(client, page_of(run, f"?event={TOOL_EVENT}&q=query_logs"), "panel").content.decode()
    found = re.search(r'panel-link" href="([^"]+)"', panel)
    assert found
    assert found[1] == page_of(run, f"?event={TOOL_EVENT}#panel")
    assert f'data-panel="{TOOL_EVENT}"' in client.get(found[1]).content.decode()
