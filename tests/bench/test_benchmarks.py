"""The parts of the benchmarks do what they say. Nothing is timed."""

import asyncio
import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from bench import apart, gate, kernel, storm, throughput, webhook, workload
from bench.__main__ import BENCHMARKS
from bench.openloop import Answered, Client
from gatekeeper.gate import judge
from gatekeeper.shipped import shipped_rule_set
from runs.alertpayload import read_json, read_notice
from runs.tools.recorded import load_recording


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_module_that_can_be_run(name: str) -> None:
    module = __import__(f"bench.{name}", fromlist=["run"])
    assert callable(module.run)


def test_every_claim_of_the_gates_case_stands() -> None:
    assert len(judge(gate.large_case(), shipped_rule_set()).accepted) == gate.CLAIMS


@pytest.mark.parametrize("calls", [1, 3])
async def test_the_instant_run_takes_the_whole_road_and_is_released(calls: int) -> None:
    listener = kernel.Listener()
    done = await kernel.drive(kernel.run_input(), kernel.kit(workload.InstantModel(calls_a_round=calls), listener))
    assert (done.status, listener.steps) == ("SUCCESS", workload.STEPS)
    assert done.emitted.tool_invocations == workload.ROUNDS * calls


def test_the_throughputs_evidence_is_read_by_the_tools(tmp_path: Path) -> None:
    throughput.record_evidence(tmp_path)
    recording = load_recording(tmp_path)
    assert recording.metrics is not None
    assert recording.alerts is not None
    assert recording.logs is not None


def test_every_alert_of_the_webhook_load_is_another_one() -> None:
    notices = [read_notice(read_json(body)) for body in webhook.bodies(20, first=5)]
    prints = [alert.fingerprint for notice in notices for alert in notice.alerts]
    assert len(set(prints)) == len(prints) >= 20


def test_the_storm_holds_each_alert_once_and_some_in_groups() -> None:
    notices = [read_notice(read_json(body)) for body in storm.storm_bodies(640)]
    prints = [alert.fingerprint for notice in notices for alert in notice.alerts]
    assert len(set(prints)) == len(prints) == 640
    assert {len(notice.alerts) for notice in notices} == {1, storm.GROUP}


def test_a_storm_in_which_an_alert_was_refused_has_no_figures() -> None:
    refused = storm.Storm([Answered(503, b"{}", 0.1)], 1.0, {})
    with pytest.raises(RuntimeError, match="503"):
        storm.figures(refused, 0, 0)


def test_an_instance_knows_no_setting_of_this_machine_and_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPERBIZ_LLM", "openai:gpt-5")
    monkeypatch.setenv("MAKEFLAGS", "n")
    with apart.instance(SUPERBIZ_DEBUG="true") as own:
        assert "SUPERBIZ_LLM" not in own.environ
        assert "MAKEFLAGS" not in own.environ
        assert own.environ["SUPERBIZ_DEBUG"] == "true"
        assert own.environ["SUPERBIZ_VAR"].startswith(str(own.folder))
    assert not own.folder.exists()


def test_a_program_and_its_children_end_with_the_block(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('child', child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with apart.program([sys.executable, "-c", code], dict(os.environ), tmp_path / "log") as process:
        child = psutil.Process(int(apart.line_with(process, "child", tmp_path / "log").split()[1]))
    assert process.returncode is not None
    child.wait(timeout=30)


def test_a_program_that_ends_too_early_is_told_with_its_log(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    with (
        apart.program(words, dict(os.environ), tmp_path / "log") as process,
        pytest.raises(RuntimeError, match="no such thing"),
    ):
        apart.line_with(process, "ready", tmp_path / "log")


async def test_the_load_counts_latency_from_when_a_request_was_due() -> None:
    """The server answers nothing until all requests are there: the first has waited longest."""
    everyone_is_here = asyncio.Barrier(3)
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(await reader.readexactly(1))
        assert b"Authorization: Bearer secret" in head
        await everyone_is_here.wait()
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        client = Client(server.sockets[0].getsockname()[1], "secret")
        answers = await client.post_all("/", [b"1", b"2", b"3"], per_second=20)
        client.close()
    assert sorted(seen) == [b"1", b"2", b"3"]
    assert [(answer.status, json.loads(answer.body)) for answer in answers] == [(202, {})] * 3
    assert answers[0].latency_s > answers[1].latency_s > answers[2].latency_s
