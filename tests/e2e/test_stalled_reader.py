"""A client that opens a run's stream and reads nothing is left, and neither the run nor other readers notice."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from audit.streams import STALL_S
from tests.e2e.outside import Outside, check_record, make_callers, verify_ledger
from tests.e2e.recovering import WEB
from tests.superbiz.instance import PATIENCE_S, Instance, processes_of, running, with_tables

FRAMES = 8_000

# A run that goes and tells more than the buffers between the two processes hold. No worker has it, so its heartbeat
# lies ahead: nobody takes it for lost.
BEGIN = f"""
from datetime import timedelta
from django.db import transaction
from audit.recorder import LedgerRecorder
from runs.harness.events import Emission, Frame
from tests.audit import emissions
from tests.audit.recording import ref
from tests.factories import RunFactory, now
told = emissions.routing().frame
run = RunFactory.create(running=True, heartbeat_at=now() + timedelta(hours=1), emitted={{"1": {{}}}})
recorder = LedgerRecorder()
with transaction.atomic():
    recorder.write(ref(run), emissions.started())
    for _ in range({FRAMES} - 2):
        recorder.write(ref(run), Emission(Frame(told.event_type, told.details, "连" * 200, now())))
print(run.id)
"""
END = f"""
from runs import lifecycle
from runs.harness.run import Emitted, Spending
from runs.models import DiagnosisRun
from runs.tally import Tally
from tests.audit.recording import ref
from tests.factories import conclusion
run = DiagnosisRun.objects.get(id="RUN")
counted = Tally(1, Spending(), Emitted(events={FRAMES} - 1, steps=0, tool_invocations=0, model_calls=0))
assert lifecycle.finish(ref(run), conclusion(), counted)
"""


@dataclass(frozen=True)
class Place:
    instance: Instance
    api: Outside

    def python(self, code: str) -> str:
        done = self.instance.manage("shell", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def web(self) -> psutil.Process:
        (pid,) = processes_of(self.instance, WEB)
        return psutil.Process(pid)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    instance = with_tables(tmp_path_factory.mktemp("stalled") / "var")
    with running(instance) as up:
        up.sign_in_link()
        yield Place(instance, make_callers(instance, {"reader": ["runs:read"]})["reader"])


def open_stream(place: Place, run_id: str) -> socket.socket:
    """Asked for, and not a byte of the answer's events read."""
    stream = socket.socket()
    # Before connecting: the window that the kernel offers follows from it.
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream.settimeout(PATIENCE_S)
    stream.connect(("127.0.0.1", place.instance.port))
    head = f"GET /api/runs/{run_id}/events HTTP/1.1\r\nHost: 127.0.0.1:{place.instance.port}\r\n"
    stream.sendall(f"{head}Authorization: {place.api.http.headers['Authorization']}\r\n\r\n".encode())
    assert stream.recv(12) == b"HTTP/1.1 200"
    return stream


def is_held(place: Place, stream: socket.socket) -> bool:
    """Whether the web process still has its end of the connection."""
    port = stream.getsockname()[1]
    return any(other.raddr and other.raddr.port == port for other in place.web().net_connections("tcp"))


def wait_until_let_go(place: Place, stream: socket.socket) -> None:
    give_up = time.monotonic() + STALL_S + PATIENCE_S
    while is_held(place, stream):
        assert time.monotonic() < give_up, "the web process still holds a connection that nobody reads"
        time.sleep(0.5)


def test_a_reader_who_takes_nothing_is_dropped_and_the_run_does_not_notice(place: Place) -> None:
    run_id = place.python(BEGIN).split()[-1]
    with open_stream(place, run_id) as stalled:
        assert is_held(place, stalled)
        place.python(END.replace("RUN", run_id, 1))
        run = place.api.run(run_id)
        assert run["status"] == "SUCCESS"
        # While one takes nothing, another gets all of it.
        told = [event.id for event in place.api.events(run_id) if event.event == "event"]
        assert told == list(range(1, FRAMES + 1))
        wait_until_let_go(place, stalled)
    check_record(place.api.trace(run))
    verify_ledger(place.instance, run_id)
    # Whoever was dropped goes on after the last number that arrived.
    assert [event.id for event in place.api.events(run_id, after=FRAMES - 2)][:-1] == [FRAMES - 1, FRAMES]
