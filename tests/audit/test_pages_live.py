"""The run's page while the run goes: rows as server-sent HTML."""

import re
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.test import AsyncClient

from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now
from tests.audit.told_runs import FRAMES, finish, opening, told_run
from tests.factories import SessionFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


async def watch(run: DiagnosisRun, query: str = "", **user: Any) -> HttpResponse | StreamingHttpResponse:
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(UserFactory.create)(**user))
    return await client.get(f"/runs/{run.id}/live/{query}")  # type: ignore[return-value]


async def text_of(response: HttpResponse | StreamingHttpResponse) -> str:
    assert isinstance(response, StreamingHttpResponse)
    return "".join([part.decode() async for part in response])


async def test_rows_come_in_the_pages_own_template_and_end_with_done() -> None:
    run = await sync_to_async(told_run)()
    response = await watch(run)
    assert response["Content-Type"].startswith("text/event-stream")
    assert "no-store" in response["Cache-Control"]
    text = await text_of(response)
    assert re.findall(r"^id: (\d+)\nevent: row$", text, re.MULTILINE) == [str(n) for n in range(1, FRAMES + 1)]
    assert re.findall(r'id="event-(\d+)"', text) == [str(n) for n in range(1, FRAMES + 1)]
    assert text.endswith("event: done\ndata: \n\n")
    assert "SECRET" not in text


@pytest.mark.parametrize(("query", "first"), [("?after=10", "11"), ("?after=0", "1")])
async def test_it_resumes_after_the_row_the_page_has(query: str, first: str) -> None:
    run = await sync_to_async(told_run)()
    assert re.findall(r"^id: (\d+)", await text_of(await watch(run, query)), re.MULTILINE)[0] == first


async def test_rows_are_sent_as_they_are_committed() -> None:
    run = await sync_to_async(opening)()
    response = await watch(run, "?after=3")
    assert isinstance(response, StreamingHttpResponse)
    parts = aiter(response)
    assert "retry" in (await anext(parts)).decode()
    await sync_to_async(append_now)(run, [emissions.guarded()])
    assert 'id="event-4"' in (await anext(parts)).decode()
    await sync_to_async(finish)(run)
    assert "data-terminal" in (await anext(parts)).decode()
    assert "done" in (await anext(parts)).decode()
    with pytest.raises(StopAsyncIteration):
        await anext(parts)


async def test_only_who_may_read_the_run_may_watch_it() -> None:
    owner = await sync_to_async(UserFactory.create)()
    session = await sync_to_async(SessionFactory.create)(owner=owner)
    run = await sync_to_async(told_run)(session=session)
    assert (await AsyncClient().get(f"/runs/{run.id}/live/")).status_code == 401
    assert (await watch(run)).status_code == 404
    assert (await watch(run, permissions=["see_all_sessions"])).status_code == 200


async def test_a_position_that_is_no_number_is_400_and_other_methods_are_405() -> None:
    run = await sync_to_async(told_run)()
    assert (await watch(run, "?after=x")).status_code == 400
    assert (await AsyncClient().post(f"/runs/{run.id}/live/")).status_code == 405
