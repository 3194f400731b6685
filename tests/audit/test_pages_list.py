"""The run list over Django's client: rows, the address, figures, and what needs attention."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from django.core.cache import caches
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.pages import listfigures
from audit.pages.attention import MOST_COUNTED
from audit.pages.listaddress import COLUMNS, DEFAULT_COLUMNS, read
from audit.pages.listfigures import BARS, HEIGHT, STACK, draw, floor, step_for
from audit.pages.runlist import PAGE
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now
from tests.audit.told_runs import finish, opening, told_run
from tests.factories import RunFactory, SessionFactory, TokenFactory, UserFactory, subject

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(UserFactory.create())
    return client


def page(client: Client, query: str = "", **headers: str) -> str:
    response = client.get(f"/?{query}", headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def ids(text: str) -> list[str]:
    return re.findall(r'id="row-(run_[a-z0-9]+)"', text)


def row_of(text: str, run: DiagnosisRun) -> str:
    found = re.search(rf'<tr id="row-{run.id}".*?</tr>', text, re.DOTALL)
    assert found
    return found[0]


def address(query: str) -> Any:
    return read(QueryDict(query), NOW)


# ---- rows -------------------------------------------------------------------------------------------------------


def test_a_row_tells_subject_conclusion_outcome_verdict_times_and_cost(client: Client) -> None:
    run = told_run()
    row = row_of(page(client), run)
    for words in ("HighErrorRate", "checkout-api · critical", "The connection pool of checkout-api is exhausted."):
        assert words in row
    assert re.search(r"badge-good[^>]*>Answered<", row)
    assert "Pass" in row
    assert 'data-label="Tokens">120<' in row
    assert "s ago</time>" in row
    assert f'<time datetime="{run.queued_at.isoformat()}"' in row
    assert " UTC</time>" in row


def test_runs_without_an_answer_say_why_in_their_row(client: Client) -> None:
    run = RunFactory.create(
        failed=True, safe_content={"headline": "No model.", "reason": "It was away.", "lookedAt": []}
    )
    row = row_of(page(client), run)
    assert "No model. It was away." in row
    assert "Failed" in row


def test_an_answer_that_nothing_was_found_has_a_badge_of_its_own(client: Client) -> None:
    published = RunFactory.build(success=True).published_result
    nothing = published | {"claims": [published["claims"][1]], "conclusion": "These searches found nothing notable."}
    run = RunFactory.create(success=True, published_result=nothing)
    low = RunFactory.create(success=True, published_result=nothing, release_decision="RELEASED_LOW_CONFIDENCE")
    text = page(client)
    assert re.search(r"badge-normal[^>]*>Nothing found<", row_of(text, run))
    assert "These searches found nothing notable." in row_of(text, run)
    assert re.search(r"badge-warn[^>]*>Nothing found, low confidence<", row_of(text, low))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("x" * 5_000, "…"),
        ("\u202egnp.exe", "⟦U+202E⟧gnp.exe"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("延迟过高", "延迟过高"),
        ("a\u2028b", "a b"),
    ],
)
def test_hostile_names_are_shown_and_do_nothing(client: Client, name: str, shown: str) -> None:
    about = subject().model_dump(mode="json")
    about["alert"] |= {"alertname": name, "labels": {"service": name}}
    published = RunFactory.build(success=True).published_result | {"conclusion": name[:2000]}
    run = RunFactory.create(success=True, subject=about, published_result=published)
    for query in ("", "cols=trigger,intent,verdict,took,tokens,who,model,id,when", urlencode({"alert": name[:200]})):
        text = page(client, query)
        assert "<script>alert" not in text
        # The value of an input is what was asked for, and acts on nothing beside it.
        around = re.sub(r'value="[^"]*"', "", text)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", around)
        assert len(text) < 100_000
    assert shown in row_of(page(client), run)


def test_escapes_in_an_alert_are_read_once_and_alike_in_row_chip_and_search(client: Client) -> None:
    body = rb'{"alerts": [{"status": "firing", "labels": {"alertname": "\u4f60\u597d", "service": "checkout-api"}}]}'
    sender = Client()
    token = TokenFactory.create(secret="s", scopes=["alerts:write", "runs:read"])
    bearer = {"Authorization": "Bearer s"}
    answer = sender.post("/api/alerts/alertmanager", body, content_type="application/json", headers=bearer)
    assert answer.status_code == 202
    assert token.name in page(client, "cols=who")
    for query in ("", "q=你好", r"q=\u4f60\u597d", "alert=你好"):
        assert "<bdi>你好</bdi></a>" in page(client, query)
    found = sender.get("/api/runs", {"q": "你好", "alertName": "你好"}, headers=bearer).json()["items"]
    assert len(found) == 1


def test_columns_are_chosen_in_the_address_and_remembered(client: Client) -> None:
    run = RunFactory.create(success=True, model="openai:gpt-5", requested_by=UserFactory.create(username="mei"))
    assert "openai:gpt-5" not in page(client)
    text = page(client, "cols=who&cols=model&cols=")
    assert "openai:gpt-5" in row_of(text, run)
    assert "mei" in row_of(text, run)
    assert "Pass" not in row_of(text, run)
    assert "openai:gpt-5" in page(client)
    assert "openai:gpt-5" not in page(client, "cols=id")
    assert ">Duration<" not in page(client, "cols=")
    page(client, f"cols={','.join(DEFAULT_COLUMNS)}")
    assert "Pass" in row_of(page(client), run)
    assert set(COLUMNS) >= set(DEFAULT_COLUMNS)


def test_rows_take_the_same_few_queries_however_many_they_are(client: Client) -> None:
    told_run()

    def queries(query: str) -> int:
        caches["process"].clear()
        with CaptureQueriesContext(connection) as captured:
            page(client, query)
        return len(captured)

    asked = ("", "status=QUEUED", "who=x&q=high&label=a=b", "view=attention")
    few = [queries(query) for query in asked]
    RunFactory.create_batch(PAGE + 5)
    RunFactory.create_batch(5, failed=True)
    assert [queries(query) for query in asked] == few
    assert max(few) <= 14


def test_nobody_sees_or_counts_a_run_of_somebody_elses_conversation(client: Client) -> None:
    hidden = RunFactory.create(failed=True, session=SessionFactory.create(owner=UserFactory.create()))
    for query in ("", "view=attention", f"q={hidden.id}", "sort=longest"):
        assert ids(page(client, query)) == []
    assert 'class="count"' not in page(client)
    figures = client.get("/runs/figures/").content.decode()
    assert "<dd>0</dd>" in figures
    assert " new run" not in client.get(f"/runs/new/?after={place_before(hidden)}").content.decode()
    assert hidden.id not in client.get(f"/runs/watched/?id={hidden.id}").content.decode()


# ---- the address ------------------------------------------------------------------------------------------------


def test_the_list_filters_by_what_stands_in_the_address(client: Client) -> None:
    answered = told_run()
    failed = RunFactory.create(failed=True, query="Why is orders-api slow?", trigger="CHAT", subject={"version": 1})
    waiting = RunFactory.create(queued_at=datetime.now(UTC) - timedelta(hours=3))
    cases = {
        "": {answered, failed, waiting},
        "status=QUEUED": {waiting},
        "outcome=SUCCESS": {answered},
        "verdict=PASS": {answered},
        "trigger=CHAT": {failed},
        "alert=HighErrorRate": {answered, waiting},
        "label=service%3Dcheckout-api": {answered, waiting},
        "label=service%3Dcheckout-api&label=alertname%3DX": set(),
        "last=1h": {answered, failed},
        f"session={waiting.session_id}": {waiting},
        "q=orders": {failed},
        "q=HIGHERROR": {answered, waiting},
        "q=pool+exhausted": {answered},
        f"q={waiting.id[:14]}": {run for run in (answered, failed, waiting) if run.id.startswith(waiting.id[:14])},
        "q=orders&outcome=SUCCESS": set(),
    }
    for query, expected in cases.items():
        assert set(ids(page(client, query))) == {run.id for run in expected}, query


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("status=NONSENSE", "status “NONSENSE” was left out: it is one of QUEUED"),
        ("verdict=<b>", "verdict “&lt;b&gt;” was left out"),
        ("label=nonsense", "label “nonsense” was left out: a label is written key=value"),
        ("since=yesterday", "since “yesterday” was left out: a time is written"),
        ("until=9999-99-99", "was left out: a time is written"),
        ("since=0001-01-01T00:00%2B14:00", "was left out: a time is written"),
        ("last=soon", "last “soon” was left out: a span is written"),
        ("last=99999d", "a span is written"),
        ("sort=prettiest", "sort “prettiest” was left out"),
        ("cols=colour", "cols “colour” was left out"),
        ("view=everything", "view “everything” was left out"),
        ("before=nonsense", "the list begins at its start instead"),
        (f"q={'x' * 300}", "longer than 200 characters"),
        (f"who={'x' * 300}", "longer than 150 characters"),
        ("since=2031-03-04&until=2031-03-03", "ends before it begins"),
    ],
)
def test_a_wrong_value_is_named_and_the_rest_still_counts(client: Client, query: str, named: str) -> None:
    run = RunFactory.create(failed=True, trigger="CHAT")
    text = page(client, f"trigger=CHAT&{query}")
    assert named in text
    assert 'role="alert"' in text
    if "since=2031" not in query:
        assert ids(text) == [run.id]


def test_times_carry_a_zone_and_are_utc_without_one() -> None:
    noon = datetime(2031, 3, 4, 12, tzinfo=UTC)
    for written in ("2031-03-04T12:00", "2031-03-04T13:00%2B01:00", "2031-03-04T13:00+01:00", "2031-03-04T12:00Z"):
        assert address(f"since={written}").selection.since == noon
    assert address("last=90m").selection.since == NOW - timedelta(minutes=90)
    both = address("last=1h&since=2031-01-01").selection
    assert both.since == datetime(2031, 1, 1, tzinfo=UTC)


def test_every_state_survives_the_way_through_the_address() -> None:
    query = (
        "q=pool+%E8%BF%9E%E6%8E%A5&status=FAILED&verdict=REJECT&trigger=ALERT&alert=A+B&label=a%3Db&label=c%3Dd%3De"
        "&since=2031-03-04T05%3A06%2B01%3A00&sort=longest&view=attention&cols=who%2Cid"
    )
    once = address(query)
    again = address(once.query())
    assert dict(parse_qsl(once.query())) == dict(parse_qsl(query))
    assert (again.selection, again.order, again.columns, again.attention) == (
        once.selection,
        once.order,
        once.columns,
        once.attention,
    )
    assert once.wrong == ()


def test_a_filter_in_force_is_named_with_a_link_that_removes_it(client: Client) -> None:
    text = page(client, "status=FAILED&label=a%3Db+c%3Dd&view=attention")
    chips = re.findall(r'<a class="chip" href="/\?([^"]*)"', text)
    assert [dict(parse_qsl(each.replace("&amp;", "&"))) for each in chips] == [
        {"label": "c=d", "view": "attention"},
        {"status": "FAILED", "label": "c=d", "view": "attention"},
        {"status": "FAILED", "label": "a=b", "view": "attention"},
    ]


def test_what_htmx_pushes_is_the_address_without_empty_values(client: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "run-list"}
    response = client.get(
        "/?q=&status=FAILED&last=&cols=&cols=verdict&cols=took&cols=tokens&cols=when", headers=headers
    )
    assert response["HX-Push-Url"] == "/?status=FAILED"
    assert "<html" not in response.content.decode()
    assert client.get("/?q=&status=", headers=headers)["HX-Push-Url"] == "/"


@pytest.mark.parametrize("order", ["newest", "oldest", "longest", "most-tokens"])
def test_older_runs_come_page_by_page_without_gap_or_repeat(client: Client, order: str) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        RunFactory.create(
            failed=True,
            queued_at=moment + timedelta(seconds=n // 3),
            started_at=moment,
            finished_at=moment + timedelta(seconds=n % 7),
        ).id
        for n in range(2 * PAGE + 3)
    ]
    seen: list[str] = []
    query = f"trigger=ALERT&sort={order}"
    while query:
        text = page(client, query)
        seen += ids(text)
        older = re.search(r'id="older".*?href="/\?([^"]+)"', text, re.DOTALL)
        query = older[1].replace("&amp;", "&") if older else ""
        assert not query or "trigger=ALERT" in query
        RunFactory.create(failed=True)
    assert len(seen) == len(set(seen))
    assert set(made) <= set(seen)


def test_an_empty_list_says_how_to_start_and_a_filtered_one_how_to_go_back(client: Client) -> None:
    empty = page(client)
    assert "http://testserver/api/alerts/alertmanager" in empty
    assert "make demo" in empty
    assert "No run matches" in page(client, "q=nothing")
    assert "Nothing needs attention" in page(client, "view=attention")


@pytest.mark.django_db(transaction=True)
def test_what_takes_too_long_is_told_and_nobody_waits(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    RunFactory.create()
    monkeypatch.setattr("audit.views.runlist.ROWS_LIMIT_MS", 30)
    monkeypatch.setattr("audit.pages.listfigures.LIMIT_MS", 30)
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN; LOCK TABLE diagnosis_run IN ACCESS EXCLUSIVE MODE")
        told = page(client)
        assert "This search takes too long" in told
        assert "Needs attention</a>" in told
        figures = client.get("/runs/figures/", headers={"HX-Request": "true", "HX-Target": "figures"})
        assert "too many runs to count quickly" in figures.content.decode()
    finally:
        other.close()


# ---- while it is open -------------------------------------------------------------------------------------------


def place_before(run: DiagnosisRun) -> str:
    from runs.selection import cursor_at

    return cursor_at(run.queued_at - timedelta(seconds=1))


def test_open_runs_are_watched_until_none_is_open(client: Client) -> None:
    going, waiting = opening(), RunFactory.create()
    assert f"/runs/watched/?id={waiting.id}&amp;id={going.id}" in page(client)
    finish(going)
    text = client.get(f"/runs/watched/?id={going.id}&id={waiting.id}").content.decode()
    assert f"?id={waiting.id}" in text
    assert "Answered" in text
    assert "hx-trigger" not in client.get(f"/runs/watched/?id={going.id}").content.decode()


def test_new_runs_are_announced_and_not_pushed_under_the_reader(client: Client) -> None:
    RunFactory.create(trigger="CHAT")
    poll = re.search(r'hx-get="(/runs/new/[^"]+)"', page(client, "trigger=ALERT"))
    assert poll
    asked = poll[1].replace("&amp;", "&")
    assert " new run" not in client.get(asked).content.decode()
    RunFactory.create(trigger="CHAT")
    RunFactory.create_batch(2)
    text = client.get(asked).content.decode()
    assert "2 new runs" in text
    assert 'hx-get="/?trigger=ALERT"' in text
    assert asked.replace("&", "&amp;") in text
    assert client.get("/runs/new/?after=x").status_code == 400
    assert "/runs/new/" not in page(client, "sort=oldest")


# ---- needs attention --------------------------------------------------------------------------------------------


def with_gap() -> DiagnosisRun:
    run = opening()
    append_now(run, [emissions.released()])
    finish(run)
    return run


def test_what_needs_attention_stands_there_with_its_reason(client: Client) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    want = {
        RunFactory.create(failed=True): "failed",
        RunFactory.create(
            status="DEGRADED",
            outcome="DEGRADED",
            release_decision="WITHHELD",
            safe_content={"headline": "", "reason": "", "lookedAt": []},
            finished_at=long_ago,
        ): "withheld",
        RunFactory.create(success=True, release_decision="RELEASED_LOW_CONFIDENCE"): "low confidence",
        with_gap(): "record incomplete",
        RunFactory.create(running=True, heartbeat_at=long_ago): "its worker fell silent",
        RunFactory.create(running=True, started_at=long_ago): "past its deadline",
        RunFactory.create(queued_at=long_ago): "waits for a worker",
    }
    well = [told_run(), opening(), RunFactory.create()]
    rehearsed = RunFactory.create(failed=True, trigger="EVAL", rehearsal={"version": 1})
    text = page(client, "view=attention")
    assert set(ids(text)) == {run.id for run in want}
    for run, reason in want.items():
        assert reason in row_of(text, run), reason
    assert not {run.id for run in (*well, rehearsed)} & set(ids(text))
    counted = re.search(r'class="count"[^>]*>(\d+)<', page(client))
    assert counted
    assert int(counted[1]) == len(want)
    assert "runs-reasons" not in page(client)


def attention_count(client: Client) -> str:
    found = re.search(r'class="count"[^>]*>([^<]+)<', page(client))
    return found[1] if found else ""


def test_the_count_is_of_what_the_reader_sees_and_is_asked_for_once_in_a_few_seconds(client: Client) -> None:
    hidden = SessionFactory.create(owner=UserFactory.create())
    RunFactory.create(failed=True)
    RunFactory.create(failed=True, session=hidden)
    operators = [Client(), Client()]
    for operator in operators:
        operator.force_login(UserFactory.create(permissions=["see_all_sessions"]))
    assert (attention_count(client), attention_count(operators[0])) == ("1", "2")
    RunFactory.create(failed=True)
    assert (attention_count(client), attention_count(operators[1])) == ("1", "2")
    caches["process"].clear()
    assert (attention_count(client), attention_count(operators[1])) == ("2", "3")


def test_more_than_can_be_looked_at_are_not_counted_on(client: Client) -> None:
    RunFactory.create_batch(MOST_COUNTED + 5, failed=True)
    assert attention_count(client) == "99+"


def test_a_whole_record_is_told_from_one_with_a_gap() -> None:
    whole, gap, unrecorded = told_run(), with_gap(), RunFactory.create(success=True)
    for run in (whole, gap, unrecorded):
        run.refresh_from_db()
    assert (whole.record_complete, gap.record_complete, unrecorded.record_complete) == (True, False, None)


def test_stuck_runs_are_pinned_on_the_first_page_only_and_filters_hold_for_them(client: Client) -> None:
    stuck = RunFactory.create(queued_at=datetime.now(UTC) - timedelta(hours=1))
    RunFactory.create_batch(PAGE + 1, failed=True, trigger="CHAT")
    first = page(client, "view=attention")
    assert ids(first)[0] == stuck.id
    older = re.search(r'id="older".*?href="/\?([^"]+)"', first, re.DOTALL)
    assert older
    assert stuck.id not in ids(page(client, older[1].replace("&amp;", "&")))
    assert stuck.id not in ids(page(client, "view=attention&trigger=CHAT"))


# ---- figures ----------------------------------------------------------------------------------------------------


def test_figures_count_all_that_is_filtered_and_draw_their_outcomes(client: Client) -> None:
    at = datetime.now(UTC) - timedelta(hours=5)
    for n in range(1, 21):
        RunFactory.create(
            failed=True,
            queued_at=at + timedelta(minutes=n),
            started_at=at,
            finished_at=at + timedelta(seconds=n),
            input_tokens=n * 100,
        )
    RunFactory.create(failed=True, trigger="EVAL", rehearsal={"version": 1})
    RunFactory.create(trigger="CHAT", queued_at=at)
    text = client.get("/runs/figures/?trigger=ALERT").content.decode()
    assert "<dd>20</dd>" in text
    assert "10.0 s" in text
    assert "19.0 s" in text
    assert "1\u2009000" in text
    assert "bar-failed" in text
    assert "<html" in text
    part = client.get("/runs/figures/", headers={"HX-Request": "true", "HX-Target": "figures"}).content.decode()
    assert part.strip().startswith("<section")
    assert "<dd>21</dd>" in part
    link = re.search(r'<th scope="row"><a href="/\?([^"]+)"', part)
    assert link
    assert ids(page(client, link[1].replace("&amp;", "&")))


def test_no_run_no_chart(client: Client) -> None:
    text = client.get("/runs/figures/?q=nothing").content.decode()
    assert "<dd>0</dd>" in text
    assert "<svg" not in text


def test_bars_have_round_steps_and_are_never_too_many() -> None:
    for span in (timedelta(0), timedelta(minutes=40), timedelta(hours=30), timedelta(days=90), timedelta(days=40_000)):
        assert span / step_for(span) <= BARS
    assert step_for(timedelta(days=1)) == timedelta(hours=1)
    assert floor(datetime(2031, 3, 4, 12, 34, tzinfo=UTC), timedelta(hours=6)) == datetime(2031, 3, 4, 12, tzinfo=UTC)
    assert floor(datetime(2031, 3, 5, tzinfo=UTC), timedelta(days=7)).strftime("%A") == "Monday"


def test_bars_stack_to_the_height_of_their_counts_and_gaps_stay_empty() -> None:
    hour = timedelta(hours=1)
    chart = draw([(NOW, "SUCCESS", 3), (NOW, None, 1), (NOW + 2 * hour, "FAILED", 2)], NOW, NOW + 2 * hour, hour)
    assert [bar.total for bar in chart.bars] == [4, 0, 2]
    assert chart.tallest == 4
    assert sum(float(piece.height) for piece in chart.bars[0].pieces) == HEIGHT
    assert float(chart.bars[2].pieces[0].height) == HEIGHT / 2
    assert all(float(piece.y) >= 0 for bar in chart.bars for piece in bar.pieces)
    assert len(STACK) == len(chart.bars[0].counts) == len(chart.legend)
    assert listfigures.LIMIT_MS <= 2_000
