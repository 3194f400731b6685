"""Records as they should not be, and are: each is shown for what it is, and nothing of it is lost or hidden."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from audit.models import AgentStep, TraceEvent
from runs.models import DiagnosisRun
from tests.audit.test_pages import page_of, part, signed_in
from tests.audit.told_runs import TOOL_EVENT, told_run
from tests.factories import RunFactory

pytestmark = pytest.mark.django_db

BEGAN = datetime(2031, 3, 4, 5, 6, 7, tzinfo=UTC)


def frame(run: DiagnosisRun, number: int, at: datetime = BEGAN, **changes: Any) -> TraceEvent:
    """A frame as the database takes it; its hashes are of nobody's interest here."""
    values: dict[str, Any] = {
        "phase": "AGENT",
        "event_type": "AGENT_MODEL_STEP",
        "status": "COMPLETED",
        "step_id": "stp_1",
        "summary": f"Event {number}.",
        "details": {"role": "aiops_planner"},
        "duration_ms": 10,
        "created_at": at,
        "previous_hash": "0" * 64,
        "hash": "1" * 64,
    }
    return TraceEvent(run=run, session_id=run.session_id, sequence_no=number, **values | changes)


def recorded(frames: Iterable[TraceEvent]) -> None:
    TraceEvent.objects.bulk_create(frames)


def ended(**changes: Any) -> DiagnosisRun:
    run: DiagnosisRun = RunFactory.create(success=True, **changes)
    return run


def rows_of(client: Client, run: DiagnosisRun, rest: str = "") -> list[str]:
    """The timeline's rows, as HTML, in their order."""
    text = client.get(page_of(run, rest)).content.decode()
    return re.findall(r'<li class="event .*?</li>', text, re.DOTALL)


def numbers(rows: Iterable[str]) -> list[int]:
    return [int(re.findall(r'id="event-(\d+)"', row)[0]) for row in rows]


def exported(client: Client, run: DiagnosisRun) -> Any:
    return json.loads(client.get(page_of(run, "trace.json")).content)


def panel(client: Client, run: DiagnosisRun, number: int) -> str:
    response = part(client, page_of(run, f"?event={number}"), "panel")
    assert response.status_code == 200
    return str(response.content.decode())


def test_events_of_one_timestamp_stand_in_the_order_of_their_numbers() -> None:
    run = ended()
    recorded(frame(run, number) for number in (3, 1, 2))
    client = signed_in()
    assert numbers(rows_of(client, run)) == [1, 2, 3]
    assert [event["sequenceNo"] for event in exported(client, run)["timeline"]] == [1, 2, 3]


def test_an_event_whose_step_is_missing_says_so_and_keeps_its_own_facts() -> None:
    run = ended()
    recorded([frame(run, 1, step_id="stp_gone")])
    client = signed_in()
    text = panel(client, run, 1)
    assert "What this event points at is not on record: stp_gone." in text
    assert "Event 1." in text
    assert exported(client, run)["timeline"][0]["stepId"] == "stp_gone"


def step(run: DiagnosisRun, **changes: Any) -> AgentStep:
    values: dict[str, Any] = {
        "id": "stp_1",
        "step_index": 0,
        "agent_name": "aiops_planner",
        "role": "aiops_planner",
        "model": "offline",
        "status": "COMPLETED",
        "started_at": BEGAN,
        "finished_at": BEGAN + timedelta(milliseconds=10),
        "duration_ms": 10,
    }
    return AgentStep.objects.create(run=run, session_id=run.session_id, **values | changes)


def test_a_tool_call_on_record_before_the_step_that_asked_for_it_is_found_from_both() -> None:
    run = ended()
    call = {"phase": "TOOL", "event_type": "TOOL_INVOCATION", "details": {"tool_name": "query_logs"}}
    recorded([frame(run, 1, invocation_id="inv_none", status="OK", **call), frame(run, 2)])
    step(run, tool_plan=[{"tool_name": "query_logs"}])
    client = signed_in()
    assert numbers(rows_of(client, run)) == [1, 2]
    # The call does not follow its step's event: it is named there, and how it went is told by its own event.
    assert "query_logs" in panel(client, run, 2)
    assert "What this event points at is not on record: inv_none." in panel(client, run, 1)


def test_a_step_without_an_end_in_an_ended_run_is_a_lost_attempt() -> None:
    run = ended()
    recorded([frame(run, 1, status="STARTED", duration_ms=None)])
    step(run, status="RUNNING", finished_at=None, duration_ms=None)
    client = signed_in()
    assert "No end of this step is on record" in panel(client, run, 1)
    (row,) = rows_of(client, run)
    assert "<svg" not in row
    assert exported(client, run)["steps"][0]["finishedAt"] is None


def test_an_end_before_its_start_is_shown_raw_with_a_warning_and_no_bar() -> None:
    run = ended()
    recorded([frame(run, 1), frame(run, 2, BEGAN + timedelta(seconds=1), duration_ms=-5_000)])
    step(run, finished_at=BEGAN - timedelta(seconds=5), duration_ms=-5_000)
    client = signed_in()
    row = rows_of(client, run)[1]
    assert "It ended before it began." in row
    assert "-5000 ms" in row
    assert "<svg" not in row
    text = panel(client, run, 2)
    assert "This step ended before it began:" in text
    assert "2031-03-04 05:06:02 UTC" in text
    assert exported(client, run)["steps"][0]["durationMs"] == -5_000


def test_an_event_before_the_first_one_has_a_minus() -> None:
    run = ended()
    recorded([frame(run, 1), frame(run, 2, BEGAN - timedelta(seconds=2))])
    first, second = rows_of(signed_in(), run)
    assert "+2.000" in first
    assert "+0.000" in second
    assert all(int(x) >= 0 for row in (first, second) for x in re.findall(r'<rect x="(-?\d+)"', row))


def test_integers_beyond_doubles_are_exact_on_screen_in_copy_and_in_export() -> None:
    exact = {"id": 2**63 + 1, "deep": [{"n": 2**53 + 1}]}
    run = told_run({"output": exact, "input_params": {"limit": 2**53 + 1}})
    client = signed_in()
    shown = unescape(re.sub(r"<[^>]+>", "", panel(client, run, TOOL_EVENT)))
    copied = client.get(page_of(run, f"events/{TOOL_EVENT}/output.json")).content.decode()
    taken = client.get(page_of(run, "trace.json")).content.decode()
    for text in (shown, copied):
        assert "9223372036854775809" in text
    for text in (shown, copied, taken):
        assert "9007199254740993" in text


def test_a_value_cut_inside_a_character_is_shown_up_to_it() -> None:
    half = "汉".encode()[:2].decode("utf-8", "replace")
    value = "汉" * 90_000 + half
    run = told_run({"output": {"text": value}, "output_preview": value[:2_000]})
    client = signed_in()
    text = panel(client, run, TOOL_EVENT)
    assert "汉汉" in text
    assert "characters more" in text
    kept = json.loads(client.get(page_of(run, f"events/{TOOL_EVENT}/output.json")).content)
    assert kept == {"text": value}


def test_spelled_out_characters_read_alike_wherever_they_are_shown() -> None:
    spelled = r"\u4f60\u597d total=10, active=10, idle=0, waiting=61"
    ref = {"raw_path": "$.lines[0].text", "text": spelled, "shown": True, "relevance": None}
    run = told_run({"evidence_refs": (ref,), "output": {"lines": [{"text": spelled}]}, "input_params": {"q": spelled}})
    client = signed_in()
    for text in (client.get(page_of(run)).content.decode(), panel(client, run, TOOL_EVENT)):
        assert "你好 total=10" in re.sub(r"<[^>]+>", "", text)
        assert r"\u4f60" not in text


def test_twenty_megabytes_of_nested_json_are_cut_on_the_page_and_whole_in_the_file() -> None:
    value = [[f"{'y' * 500}{n}{m}" for n in range(1_000)] for m in range(40)]
    run = told_run({"output": {"rows": value}})
    client = signed_in()
    text = panel(client, run, TOOL_EVENT)
    assert len(text) < 1_000_000
    assert "Cut here" in text
    whole = client.get(page_of(run, f"events/{TOOL_EVENT}/output.json")).content
    assert len(whole) > 20_000_000
    assert json.loads(whole)["rows"][39][999] == value[39][999]


def test_the_permalink_of_event_20_001_opens_it_among_its_neighbours() -> None:
    run = ended()
    recorded(frame(run, number, BEGAN + timedelta(milliseconds=number)) for number in range(1, 20_101))
    client = signed_in()
    response = client.get(page_of(run, "?event=20001"))
    text = response.content.decode()
    assert len(response.content) < 250_000
    assert 'data-panel="20001"' in text
    shown = numbers(rows_of(client, run, "?event=20001"))
    assert 20_001 in shown
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    assert re.search(r'id="event-20001".*?aria-current="true"', text, re.DOTALL)
    assert client.get(page_of(run, "?event=20101")).status_code == 404


def test_three_hours_without_an_event_are_told_and_drawn_short() -> None:
    run = ended()
    later = BEGAN + timedelta(hours=3)
    recorded(
        [
            frame(run, 1, duration_ms=500),
            frame(run, 2, later),
            frame(run, 3, later + timedelta(seconds=1), duration_ms=900),
        ]
    )
    rows = rows_of(signed_in(), run)
    assert ["2 h 59 min without an event" in row for row in rows] == [False, True, False]
    assert "+3 h 00" in rows[1]
    # The second that came after the three hours still fills most of the drawing.
    (width,) = re.findall(r'width="(\d+)"', rows[2])
    assert int(width) > 300


def test_when_clocks_go_back_an_hour_durations_and_order_stay_true() -> None:
    # In Berlin both of these are 02:30 in the same night.
    summer = datetime(2031, 10, 26, 0, 30, tzinfo=UTC)
    run = ended()
    recorded([frame(run, 1, summer), frame(run, 2, summer + timedelta(hours=1), duration_ms=3_600_000)])
    client = signed_in()
    first, second = rows_of(client, run)
    assert "+0.000" in first
    assert "+1 h 00" in second
    assert "without an event" not in second
    assert "1 h 00 min" in second
    panels = [panel(client, run, number) for number in (1, 2)]
    assert 'datetime="2031-10-26T00:30:00+00:00"' in panels[0]
    assert 'datetime="2031-10-26T01:30:00+00:00"' in panels[1]
