import asyncio
import gzip
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gatekeeper.types import EvidenceStatus
from runs.errors import ToolFailed, ToolRejected
from runs.harness.ports import ToolResult
from runs.tools import logfiles
from runs.tools.logs import LINE_CHARS, LogQuery, QueryLogs, search
from runs.tools.timewindow import Window
from tests.runs.tools.context import NOW, call, context

TRACE = """2026-11-12T10:00:03Z ERROR pool empty
java.sql.SQLTransientConnectionException: timed out
\tat com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:197)
Caused by: java.net.SocketTimeoutException: read
2026-11-12T10:00:04Z INFO after
"""


DAY = timedelta(hours=24)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    write(root / "checkout-api" / "app.log", TRACE)
    write(
        root / "gateway.jsonl",
        '{"time":"2026-11-12T10:00:01Z","level":40,"service":"gateway","msg":"upstream slow"}\n'
        '{"time":"2026-11-12T10:00:02Z","level":50,"service":"checkout-api","msg":"Upstream RESET by peer"}\n',
    )
    packed = root / "old" / "access.log.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(b'1.2.3.4 - - [12/Nov/2026:10:00:05 +0000] "GET /x HTTP/1.1" 500 12\n'))
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def query(folder: Path, **arguments: Any) -> ToolResult:
    return await call(QueryLogs(folder, 20), **arguments)


def texts(result: ToolResult) -> list[str]:
    return [line["text"] for line in result.output["lines"]]


async def test_all_formats_are_read_and_told_in_time_order(folder: Path) -> None:
    result = await query(folder)
    assert [(line["file"], line["line_no"], line["level"]) for line in result.output["lines"]] == [
        ("gateway.jsonl", 1, "WARN"),
        ("gateway.jsonl", 2, "ERROR"),
        ("checkout-api/app.log", 1, "ERROR"),
        ("checkout-api/app.log", 5, "INFO"),
        ("old/access.log.gz", 1, "ERROR"),
    ]
    assert result.output["scanned"]["files"] == 3
    assert result.output["scanned"]["lines"] == 8
    assert result.output["window"] == {"start": "2026-11-12T09:10:00Z", "end": "2026-11-12T10:10:00Z"}


async def test_a_stack_trace_belongs_to_its_head_line_and_is_searched_with_it(folder: Path) -> None:
    result = await query(folder, text="SocketTimeoutException")
    assert texts(result) == [TRACE.rsplit("\n", 2)[0]]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"text": "upstream reset"}, ["gateway.jsonl:2"]),
        ({"text": "reset UPSTREAM"}, ["gateway.jsonl:2"]),
        ({"text": "upstream", "level": "ERROR"}, ["gateway.jsonl:2"]),
        ({"any_of": ["pool empty", "SLOW"]}, ["gateway.jsonl:1", "checkout-api/app.log:1"]),
        ({"any_of": ["upstream"], "text": "peer"}, ["gateway.jsonl:2"]),
        ({"level": ["WARN"]}, ["gateway.jsonl:1"]),
        ({"level": "warning+", "service": "gateway"}, ["gateway.jsonl:1", "gateway.jsonl:2"]),
        ({"level": ["warn", "INFO"]}, ["gateway.jsonl:1", "checkout-api/app.log:5"]),
        (
            {"service": "checkout-api"},
            ["gateway.jsonl:2", "checkout-api/app.log:1", "checkout-api/app.log:5"],
        ),
        (
            {"start": "2026-11-12T10:00:02Z", "end": "2026-11-12T10:00:03Z"},
            ["gateway.jsonl:2", "checkout-api/app.log:1"],
        ),
    ],
)
async def test_conditions_narrow_together(folder: Path, conditions: dict[str, Any], found: list[str]) -> None:
    if conditions == {"level": "warning+", "service": "gateway"}:
        found = ["gateway.jsonl:1", "gateway.jsonl:2"]  # the path names the service, so all its lines count
    result = await query(folder, **conditions)
    assert [f"{line['file']}:{line['line_no']}" for line in result.output["lines"]] == found


async def test_nothing_found_says_what_was_asked_and_looked_at(folder: Path) -> None:
    result = await query(folder, text="nosuchword", level="ERROR", service="billing")
    assert result.status is EvidenceStatus.NO_EVIDENCE
    text = result.evidence_refs[0].text
    for part in (
        "query_logs",
        "'nosuchword'",
        "level ERROR",
        "2026-11-12T09:10:00Z to 2026-11-12T10:10:00Z",
        "3 files were opened and 8 lines read",
        "The data covers 2026-11-12T10:00:01Z to 2026-11-12T10:00:05Z.",
        "No file path names the service 'billing'",
        "gateway.jsonl",
    ):
        assert part in text


async def test_a_window_outside_the_data_says_so(folder: Path) -> None:
    result = await query(folder, start="2026-11-10T00:00:00Z", end="2026-11-11T00:00:00Z")
    assert "the window lies wholly outside it" in result.evidence_refs[0].text


async def test_an_empty_folder_is_no_evidence_and_a_missing_one_is_a_failure(tmp_path: Path) -> None:
    assert (await query(tmp_path)).status is EvidenceStatus.NO_EVIDENCE
    with pytest.raises(ToolFailed) as error:
        await query(tmp_path / "gone")
    assert str(tmp_path) not in error.value.safe_message


@pytest.mark.parametrize("arguments", [{"level": "LOUD"}, {"start": "whenever"}, {"start": "now", "end": "-1h"}])
async def test_bad_arguments_are_refused(folder: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolRejected):
        await query(folder, **arguments)


@pytest.mark.parametrize("arguments", [{"limit": 201}, {"limit": 0}, {"path": "/etc"}, {"text": 7}])
def test_arguments_of_another_shape_do_not_validate(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LogQuery.model_validate(arguments)


async def test_secrets_are_masked_and_long_lines_cut_with_a_mark(tmp_path: Path) -> None:
    secret = "https://app:" + "q" * 100 + "@host"
    padding = "y" * (LINE_CHARS - 60)
    write(tmp_path / "a.log", f"2026-11-12T10:00:00Z INFO {padding} {secret} {'z' * 5000}\n")
    line = (await query(tmp_path)).output["lines"][0]["text"]
    assert len(line) < LINE_CHARS + 20
    assert line.endswith("… [cut]")
    assert "qqqq" not in line


async def test_colours_are_stripped_before_level_and_text_are_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "a.log", "\x1b[90m2026-11-12T10:00:00Z\x1b[0m \x1b[31mERROR\x1b[0m bo\x1b[1mom\x1b[0m\n")
    assert texts(await query(tmp_path, level="ERROR", text="boom")) == ["2026-11-12T10:00:00Z ERROR boom"]


def second(number: int) -> str:
    return (datetime(2026, 11, 12, 10, 0, 0, tzinfo=UTC) + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_beyond_the_limit_rare_and_severe_lines_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    lines = [f"{second(i // 10)} WARN retry {i} of job" for i in range(3000)]
    lines.insert(1500, f"{second(150)} ERROR pool lost")
    lines.insert(2900, f"{second(289)} WARN certificate is near its end")
    write(tmp_path / "a.log", "\n".join(lines))
    result = await query(tmp_path, limit=10)
    assert result.output["matched"] == 3002
    found = texts(result)
    assert len(found) == 10
    assert f"{second(150)} ERROR pool lost" in found
    assert f"{second(289)} WARN certificate is near its end" in found
    assert found[0] == f"{second(0)} WARN retry 0 of job"
    assert found == sorted(found)
    assert [row["count"] for row in result.output["patterns"]] == [1, 1, 3000]
    assert result.output["patterns"][0]["text"] == f"1 line like this at 10:02:30Z: {second(150)} ERROR pool lost"
    assert result.output["patterns"][2]["text"].startswith("3000 lines like this between 10:00:00Z and 10:04:59Z: ")


async def test_many_different_lines_stay_within_bounds(tmp_path: Path) -> None:
    write(
        tmp_path / "a.log",
        "\n".join(f"{second(i % 500)} WARN word{chr(97 + i % 26) * (i % 180 + 1)} {i}" for i in range(9000)),
    )
    result = await query(tmp_path, limit=200)
    assert result.output["matched"] == 9000
    assert len(result.output["lines"]) == 200
    assert len(result.output["patterns"]) <= 40


async def test_a_file_without_times_counts_by_when_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "new.log", "ERROR undated\n")
    write(tmp_path / "old.log", "ERROR ancient\n")
    os.utime(tmp_path / "new.log", (NOW.timestamp(), NOW.timestamp()))
    os.utime(tmp_path / "old.log", (NOW.timestamp() - 86_400,) * 2)
    result = await query(tmp_path)
    assert texts(result) == ["ERROR undated"]
    assert result.output["lines"][0]["time"] is None


async def test_links_out_of_the_folder_and_binary_files_are_not_read(tmp_path: Path, folder: Path) -> None:
    write(tmp_path / "outside.log", "2026-11-12T10:00:00Z ERROR outside\n")
    (folder / "link.log").symlink_to(tmp_path / "outside.log")
    (folder / "up").symlink_to(tmp_path)
    (folder / "circle.log").symlink_to(folder / "circle.log")
    (folder / "nowhere.log").symlink_to(folder / "gone.log")
    (folder / "inside.log").symlink_to(folder / "gateway.jsonl")
    (folder / "core.bin").write_bytes(b"\x7fELF\0\0 2026-11-12T10:00:00Z ERROR outside\n")
    result = await query(folder, text="outside")
    assert result.status is EvidenceStatus.NO_EVIDENCE
    assert result.output["scanned"]["lines"] == 8  # the link inside the folder is not read twice


async def test_a_damaged_gzip_is_told_and_the_rest_is_still_searched(folder: Path) -> None:
    (folder / "bad.gz").write_bytes(gzip.compress(b"2026-11-12T10:00:00Z INFO x\n" * 100)[:40])
    result = await query(folder, text="reset")
    assert result.output["matched"] == 1
    assert result.output["scanned"]["unreadable"] == 1


def big_file(path: Path, megabytes: int) -> int:
    """Ascending times, one line about 100 bytes, ten lines a second; returns the number of lines."""
    begin = NOW - DAY
    count = megabytes * 10_000
    with path.open("w", encoding="utf-8") as opened:
        for block in range(0, count, 1000):
            stamps = [
                (begin + timedelta(seconds=(block + i) * 86_400 / count)).isoformat(timespec="milliseconds")
                for i in range(1000)
            ]
            opened.writelines(f"{stamp} INFO request {block + i} {'.' * 52}\n" for i, stamp in enumerate(stamps))
    return count


async def test_a_big_file_is_entered_at_the_window_and_left_after_it(tmp_path: Path) -> None:
    count = big_file(tmp_path / "big.log", 20)
    result = await query(tmp_path, start="-12h", end="-715m", limit=5)
    matched = result.output["matched"]
    assert matched == pytest.approx(count * 5 / 1440, rel=0.01)
    assert result.output["scanned"]["bytes"] < 2_000_000
    first = result.output["lines"][0]
    exact = (tmp_path / "big.log").read_text(encoding="utf-8").split("\n")[first["line_no"] - 1]
    assert exact == first["text"]


async def test_words_are_found_in_a_big_file_as_in_a_small_one(tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  File x\nValueError: Needle-7\n"
    lines = [f"{second(i // 100)} INFO tick {i} {'.' * 80}\n" for i in range(50_000)]
    for at, text in ((10, f"{second(0)} WARN needle-7 early\n"), (30_000, f"{second(300)} ERROR odd\n{trace}")):
        lines.insert(at, text)
    lines.append(f"{second(500)} WARN \x1b[1mnee\x1b[0mdle-7 coloured, without an end")
    write(tmp_path / "big.log", "".join(lines))
    assert (tmp_path / "big.log").stat().st_size > 4 * logfiles.CHUNK
    exact = (tmp_path / "big.log").read_text(encoding="utf-8").split("\n")
    for conditions in ({"text": "NEEDLE-7"}, {"any_of": ["needle-7", "absent"]}):
        result = await query(tmp_path, **conditions)
        assert [line["level"] for line in result.output["lines"]] == ["WARN", "ERROR", "WARN"]
        assert result.output["lines"][1]["text"].endswith("ValueError: Needle-7")
        assert [line["line_no"] for line in result.output["lines"]] == [11, 30_001, 50_006]
        assert result.output["scanned"]["lines"] == len(exact) - 1  # the last one has no end
    none = await query(tmp_path, text="needle-8")
    assert none.status is EvidenceStatus.NO_EVIDENCE
    assert f"{len(exact) - 1} lines read" in none.evidence_refs[0].text


async def test_times_that_do_not_ascend_are_searched_in_full(tmp_path: Path) -> None:
    lines = [f"{second(i % 600)} INFO tick {'.' * 80}" for i in range(12_000)]
    lines[11_000] = f"{second(1)} ERROR late writer"
    write(tmp_path / "mixed.log", "\n".join(lines))
    assert (await query(tmp_path, level="ERROR")).output["matched"] == 1


async def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    size = 60_000_000
    with (tmp_path / "big.log").open("w", encoding="utf-8") as opened:
        for number in range(size // 10_000):
            opened.write(f"{second(number // 20)} INFO request {number} {'.' * 9_950}\n")
    tracemalloc.start()
    try:
        found = search(tmp_path, LogQuery(limit=200), Window(NOW - DAY, NOW), NOW.timestamp(), lambda: False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.collection.matched == size // 10_000
    assert peak < size / 2


async def test_a_search_ends_when_it_is_told_to(tmp_path: Path) -> None:
    big_file(tmp_path / "big.log", 1)
    asked = iter([False, True])
    found = await asyncio.to_thread(
        search, tmp_path, LogQuery(), Window(NOW - DAY, NOW), NOW.timestamp(), lambda: next(asked)
    )
    assert not found.complete
    assert found.scanned.lines == 2 * logfiles.STOP_CHECK_LINES


async def test_a_search_whose_time_is_up_fails_unless_it_found_something(tmp_path: Path) -> None:
    big_file(tmp_path / "big.log", 1)
    tool = QueryLogs(tmp_path, timeout_s=1e-9)
    with pytest.raises(ToolFailed) as error:
        await call(tool, start="-24h", text="nosuchword")
    assert error.value.error_code == "TIMEOUT"
    found = await call(tool, start="-24h", level="INFO")
    assert "time limit" in found.output["incomplete"]


async def test_a_cancelled_call_frees_its_thread(tmp_path: Path) -> None:
    member = gzip.compress(b"2026-11-12T10:00:00Z INFO tick\n" * 40_000)
    (tmp_path / "hours-to-read.gz").write_bytes(member * 2000)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    task = asyncio.create_task(QueryLogs(tmp_path, 3600).run(LogQuery(), context()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The one thread takes this on only when the scan has ended; without the flag it never would.
    await asyncio.wait_for(asyncio.to_thread(int), timeout=60)
