"""Who ends a stream: its reader, who cancels the run, or the server, which lets it go."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from audit.hub import ReaderDropped
from runs.chat import Asked
from runs.models import DiagnosisRun
from superbiz.chat_api import _Turn, _TurnResponse, _watched
from tests.factories import RunFactory

pytestmark = pytest.mark.django_db(transaction=True)


def turn_of(run: DiagnosisRun) -> _Turn:
    return _Turn(Asked(run.id, run.session_id))


async def frames(end: Exception | None = None) -> AsyncGenerator[str, None]:
    for number in range(3):
        yield f"frame {number}"
    if end is not None:
        raise end


def closed(turn: _Turn) -> DiagnosisRun:
    """The run after the response was closed, as Django closes each."""
    _TurnResponse(turn, frames()).close()
    return DiagnosisRun.objects.get(id=turn.asked.run_id)


async def take_all(stream: AsyncGenerator[str, None]) -> list[str]:
    return [frame async for frame in stream]


def test_a_response_that_is_closed_before_its_end_cancels_the_run() -> None:
    run = closed(turn_of(RunFactory()))
    assert (run.status, run.cancel_reason) == ("CANCELLED", "CLIENT_DISCONNECTED")


@pytest.mark.parametrize("end", [None, ReaderDropped()], ids=["read to its end", "too far behind"])
def test_a_stream_that_ends_of_itself_lets_the_run_go(end: Exception | None) -> None:
    turn = turn_of(RunFactory())
    assert asyncio.run(take_all(_watched(turn, frames(end)))) == ["frame 0", "frame 1", "frame 2"]
    assert closed(turn).status == "QUEUED"


def test_a_failure_of_the_server_cancels_nothing() -> None:
    turn = turn_of(RunFactory())
    with pytest.raises(OSError, match="away"):
        asyncio.run(take_all(_watched(turn, frames(OSError("away")))))
    assert closed(turn).status == "QUEUED"


async def send(stream: AsyncGenerator[str, None]) -> None:
    """A response whose reader takes one frame and no more."""
    async for _ in stream:
        await asyncio.Event().wait()


async def dropped(turn: _Turn) -> bool:
    sending = asyncio.create_task(send(_watched(turn, frames(), stall_s=0.01)))
    await asyncio.wait([sending])
    return sending.cancelled()


def test_a_reader_that_takes_nothing_is_left_and_the_run_does_not_notice() -> None:
    turn = turn_of(RunFactory())
    assert asyncio.run(dropped(turn))
    assert closed(turn).status == "QUEUED"


async def gone(turn: _Turn) -> None:
    sending = asyncio.create_task(send(_watched(turn, frames())))
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait([sending])


def test_a_reader_that_goes_away_is_not_let_go() -> None:
    turn = turn_of(RunFactory())
    asyncio.run(gone(turn))
    assert not turn.let_go
    assert closed(turn).status == "CANCELLED"


async def deaf(waiting: asyncio.Event) -> AsyncGenerator[str, None]:
    """Takes a cancellation for its own and goes on, as a wait may whose end comes in the same instant."""
    waiting.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        yield "frame of nobody"
    yield "another"


async def gone_unheard(turn: _Turn) -> bool:
    waiting = asyncio.Event()
    sending = asyncio.create_task(take_all(_watched(turn, deaf(waiting))))
    await waiting.wait()
    sending.cancel()
    await asyncio.wait([sending])
    return sending.cancelled()


def test_a_reader_that_goes_away_unheard_is_noticed_at_the_next_frame() -> None:
    turn = turn_of(RunFactory())
    assert asyncio.run(gone_unheard(turn))
    assert closed(turn).status == "CANCELLED"
