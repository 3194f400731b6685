"""What is taken along of a run: exact, harmless where it is pasted, never a restricted text."""

import json
from typing import Any

import pytest

from audit.models import ReasoningAccess
from audit.pages.markdown import fenced, prose
from tests.audit.test_pages import page_of, reader_of_reasoning, signed_in
from tests.audit.told_runs import EXCERPT, FRAMES, STEP_EVENT, TOOL_EVENT, opening, told_run
from tests.factories import RunFactory, SessionFactory, UserFactory

pytestmark = pytest.mark.django_db

EXACT = {"big": 2**53 + 1, "huge": 10**300, "share": 0.1, "text": "你好\u202e <script>", "spelled": r"\u4f60"}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if not key.endswith("At")}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_the_trace_is_exported_as_the_api_has_it_with_every_digit() -> None:
    run = told_run({"output": EXACT, "input_params": {"limit": 2**60 + 1}})
    client = signed_in(is_superuser=True)
    response = client.get(page_of(run, "trace.json"))
    assert response["Content-Disposition"] == f'attachment; filename="{run.id}.json"'
    exported = json.loads(response.content)
    api = client.get(f"/api/diagnosis/{run.session_id}/trace?runId={run.id}").json()
    exported["run"].pop("selfEvaluation")
    api["run"].pop("selfEvaluation")
    assert without_times(exported) == without_times(api)
    # The API writes milliseconds.
    assert exported["timeline"][1]["createdAt"] == "2026-01-31T08:00:00Z"
    assert len(exported["timeline"]) == FRAMES
    assert exported["toolInvocations"][0]["inputParams"] == {"limit": 2**60 + 1}
    assert "1152921504606846977" in response.content.decode()


def test_the_json_of_a_tool_call_is_what_is_on_record() -> None:
    run = told_run({"output": EXACT, "input_params": {"limit": 2**60 + 1}})
    client = signed_in()
    output = client.get(page_of(run, f"events/{TOOL_EVENT}/output.json"))
    assert output["Content-Type"].startswith("application/json")
    assert json.loads(output.content) == EXACT
    assert json.loads(client.get(page_of(run, f"events/{TOOL_EVENT}/arguments.json")).content) == {"limit": 2**60 + 1}


def test_what_is_no_tool_call_has_no_json() -> None:
    run = told_run()
    for rest in (
        f"events/{STEP_EVENT}/output.json",
        f"events/{TOOL_EVENT}/thought.json",
        "events/99999999999/output.json",
    ):
        assert signed_in().get(page_of(run, rest)).status_code == 404


def test_nothing_restricted_is_taken_along_by_anybody() -> None:
    run = told_run()
    client = signed_in(reader_of_reasoning())
    for rest in ("trace.json", "report.md", f"events/{TOOL_EVENT}/output.json"):
        assert "SECRET" not in client.get(page_of(run, rest)).content.decode()
    assert not ReasoningAccess.objects.exists()


@pytest.mark.parametrize("rest", ["trace.json", "report.md", f"events/{TOOL_EVENT}/output.json"])
def test_only_who_may_read_the_run_takes_it_along(rest: str) -> None:
    run = told_run(session=SessionFactory.create(owner=UserFactory.create()))
    assert signed_in().get(page_of(run, rest)).status_code == 404


def test_a_report_holds_the_answer_its_evidence_and_the_way_to_the_page() -> None:
    run = told_run()
    text = signed_in().get(page_of(run, "report.md")).content.decode()
    assert text.startswith("**HighErrorRate** · Answered, Pass\n")
    assert "The connection pool of checkout-api is exhausted." in text
    assert f"```\n   {EXCERPT}\n   ```" in text
    assert "Metrics could not be read." in text
    assert f"<http://testserver/runs/{run.id}/>" in text


def test_a_report_of_a_run_without_an_answer_says_why() -> None:
    failed = RunFactory.create(failed=True)
    text = signed_in().get(page_of(failed, "report.md")).content.decode()
    assert "The run failed." in text
    assert "No answer yet." in signed_in().get(page_of(opening(), "report.md")).content.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words, 3.5 %", "plain words, 3.5 %"),
        ("*bold* _x_ `c` [a](b) <b>", r"\*bold\* \_x\_ \`c\` \[a\](b) \<b\>"),
        ("@channel a@b.example", "@\u2060channel a@\u2060b.example"),
        ("# head\n- item\n1. one", "\\# head\n\\- item\n\\1. one"),
        ("a\u202eb", "a⟦U+202E⟧b"),
    ],
)
def test_prose_is_words_and_nothing_else(text: str, expected: str) -> None:
    assert prose(text) == expected


def test_an_excerpt_cannot_end_its_fence() -> None:
    assert fenced("a\n```\n@here ````") == ["`````", "a\n```\n@here ````", "`````"]
