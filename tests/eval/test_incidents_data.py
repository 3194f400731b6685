"""The recorded incidents are what the generator writes, and say what their `truth.json` claims."""

import gzip
import itertools
import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from runs.tools.logfiles import Scan, events_of, list_files
from runs.tools.recorded import load_recording

EVAL = Path(__file__).resolve().parents[2] / "eval"
INCIDENTS = EVAL / "incidents"
RUNBOOKS = EVAL.parent / "runs/knowledge/runbooks"
SLUGS = sorted(path.name for path in INCIDENTS.iterdir())
STEP_S = 30
FOR_S = 300
SEVERE = re.compile(r'\b(ERROR|FATAL|PANIC)\b|"level":"(error|fatal)"')


def read_json(slug: str, name: str) -> Any:
    return json.loads((INCIDENTS / slug / name).read_text())


def content(path: Path) -> bytes:
    """A file's bytes; of a `.gz` what is inside, since compressed bytes depend on the zlib at hand."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def log_lines(slug: str, only: str = "") -> list[str]:
    files = sorted(path for path in (INCIDENTS / slug / "evidence/logs" / only).rglob("*") if path.is_file())
    return [line for path in files for line in content(path).decode().splitlines()]


def metric_names(slug: str) -> list[str]:
    return sorted({series["metric"]["__name__"] for series in read_json(slug, "evidence/metrics.json")["series"]})


def expression(alert: dict[str, Any]) -> str:
    return parse_qs(urlsplit(alert["generatorURL"]).query)["g0.expr"][0]


def unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


FAULT_BEGAN = {
    "pool-exhausted": unix("2026-11-12T09:50:00Z"),
    "cpu-red-herring": unix("2026-11-17T14:10:21Z"),
    "disk-full": unix("2026-11-05T15:33:40Z"),
    "oom-crash-loop": unix("2026-11-19T13:24:08Z"),
    "slow-queries": unix("2026-11-20T06:11:42Z"),
    "kafka-lag": unix("2026-11-26T08:41:27Z"),
    "tls-expiry": unix("2026-11-22T00:00:00Z"),
    "dns-failure": unix("2026-11-25T10:30:41Z"),
    "two-causes": unix("2026-11-27T16:20:05Z"),
}
DIES_WITHOUT_A_WORD = {"oom-crash-loop"}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incidents")
    subprocess.run([sys.executable, EVAL / "make_incidents.py", "--out", folder], check=True)
    return folder


def test_there_are_ten_incidents_three_of_them_in_chinese_and_twenty_runbooks() -> None:
    chinese = re.compile(r"[\u4e00-\u9fff]")
    in_chinese = [
        slug
        for slug in SLUGS
        if chinese.search((INCIDENTS / slug / "alert.json").read_text(encoding="utf-8"))
        and any(chinese.search(line) for line in log_lines(slug))
    ]
    assert len(SLUGS) >= 10
    assert len(in_chinese) >= 3
    assert len(list(RUNBOOKS.glob("*.md"))) >= 20


def test_every_incident_but_the_false_alarm_has_a_fault_with_a_known_beginning() -> None:
    assert {*FAULT_BEGAN, "false-alarm"} == set(SLUGS)


def test_the_generator_reproduces_the_committed_files(generated: Path) -> None:
    def files(root: Path) -> dict[str, bytes]:
        return {path.relative_to(root).as_posix(): content(path) for path in root.rglob("*") if path.is_file()}

    made, committed = files(generated), files(INCIDENTS)
    assert sorted(made) == sorted(committed)
    assert [name for name in made if made[name] != committed[name]] == []


def test_running_the_generator_again_changes_no_file(generated: Path) -> None:
    before = {path: path.read_bytes() for path in generated.rglob("*") if path.is_file()}
    subprocess.run([sys.executable, EVAL / "make_incidents.py", "--out", generated, "disk-full"], check=True)
    assert {path: path.read_bytes() for path in generated.rglob("*") if path.is_file()} == before


def test_compressed_logs_carry_no_time_of_making() -> None:
    compressed = sorted(INCIDENTS.rglob("*.gz"))
    assert len(compressed) == len(SLUGS)
    for path in compressed:
        assert path.read_bytes()[4:8] == bytes(4), path


def test_the_recordings_stay_small() -> None:
    sizes = {path: path.stat().st_size for path in INCIDENTS.rglob("*") if path.is_file()}
    assert max(sizes.values()) < 600_000
    assert sum(sizes.values()) < 9_200_000


def test_an_unknown_slug_is_one_line_and_a_code() -> None:
    ended = subprocess.run([sys.executable, EVAL / "make_incidents.py", "no-such"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith("unknown incident: no-such")


@pytest.mark.parametrize("slug", SLUGS)
class TestEveryIncident:
    def test_has_logs_of_several_services_with_real_noise(self, slug: str) -> None:
        folders = [path for path in (INCIDENTS / slug / "evidence/logs").iterdir() if path.is_dir()]
        lines = log_lines(slug)
        assert len(folders) >= 5
        assert 3000 <= len(lines) <= 8000
        assert any("\x1b[" in line for line in lines)
        assert any("Bearer " in line for line in lines)

    def test_logs_and_samples_end_when_they_were_recorded(self, slug: str) -> None:
        recorded = unix(read_json(slug, "evidence/meta.json")["recorded_at"])
        metrics = read_json(slug, "evidence/metrics.json")
        assert 0 < recorded - unix(read_json(slug, "alert.json")["alerts"][0]["startsAt"]) < 900
        assert max(at for one in metrics["series"] for at, _ in one["values"]) <= recorded
        stamps = [re.search(r"2026-11-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}", line) for line in log_lines(slug)]
        times = [found[0].replace("T", " ").replace(",", ".") for found in stamps if found]
        assert len(times) > 0.8 * len(stamps)
        assert unix(f"{max(times)}+00:00") <= recorded

    def test_the_evidence_tools_can_read_it(self, slug: str) -> None:
        recording = load_recording(INCIDENTS / slug / "evidence")
        assert recording.logs is not None
        recorded = recording.recorded_at.timestamp()
        for file in list_files(recording.logs):
            events = list(events_of(file, Scan(recorded - 7200, recorded, recorded, stop=lambda: False)))
            assert events, file.name
            assert [event.raw for event in events if event.head.time is None] == [], file.name

    def test_samples_are_evenly_spaced_over_about_two_hours(self, slug: str) -> None:
        metrics = read_json(slug, "evidence/metrics.json")
        for one in metrics["series"] + [one for answer in metrics["answers"] for one in answer["result"]]:
            times = [at for at, _ in one["values"]]
            assert all((at - times[0]) % STEP_S == 0 for at in times), one["metric"]
            assert times == sorted(set(times)), one["metric"]
            assert all(isinstance(value, str) and float(value) >= 0 for _, value in one["values"]), one["metric"]
        longest = max(len(one["values"]) for one in metrics["series"])
        assert 200 <= longest <= 260

    def test_no_series_is_recorded_twice(self, slug: str) -> None:
        labels = [
            json.dumps(one["metric"], sort_keys=True) for one in read_json(slug, "evidence/metrics.json")["series"]
        ]
        assert len(labels) == len(set(labels))

    def test_the_webhook_body_is_a_complete_group_of_version_4(self, slug: str) -> None:
        body = read_json(slug, "alert.json")
        assert body["version"] == "4"
        assert body["status"] == "firing"
        (alert,) = body["alerts"]
        assert body["groupLabels"].items() <= body["commonLabels"].items()
        assert body["commonLabels"].items() <= alert["labels"].items()
        assert re.fullmatch(r"[0-9a-f]{16}", alert["fingerprint"])

    def test_the_subject_is_among_the_active_alerts(self, slug: str) -> None:
        (subject,) = read_json(slug, "alert.json")["alerts"]
        active = {alert["fingerprint"]: alert for alert in read_json(slug, "evidence/alerts.json")}
        assert active[subject["fingerprint"]]["labels"] == subject["labels"]

    def test_the_rules_own_expressions_have_recorded_answers(self, slug: str) -> None:
        queries = [answer["query"] for answer in read_json(slug, "evidence/metrics.json")["answers"]]
        assert len(queries) == len(set(queries))
        for alert in read_json(slug, "evidence/alerts.json"):
            assert expression(alert) in queries

    def test_the_truth_is_well_formed(self, slug: str) -> None:
        truth = read_json(slug, "truth.json")
        assert set(truth) == {
            "title",
            "cause",
            "expected_findings",
            "forbidden_findings",
            "expect_outcome",
            "expect_nothing_found",
            "note",
        }
        assert set(truth["expect_outcome"].split("|")) <= {"SUCCESS", "DEGRADED"}
        assert truth["expect_nothing_found"] == (truth["expected_findings"] == [])
        for finding in truth["expected_findings"]:
            assert set(finding["must_cite_tool"]) <= {"query_logs", "query_metrics", "query_alerts", "query_mysql"}
        for pattern in truth["forbidden_findings"]:
            assert not re.search(pattern, truth["cause"]), pattern

    def test_no_line_of_log_and_no_runbook_says_what_is_forbidden(self, slug: str) -> None:
        """Whatever can be quoted may be quoted: a forbidden finding is one that only a reader can draw."""
        said = [
            *log_lines(slug),
            *(line for path in RUNBOOKS.glob("*.md") for line in path.read_text().split("---\n", 2)[2].splitlines()),
        ]
        for pattern in read_json(slug, "truth.json")["forbidden_findings"]:
            assert [line for line in said if re.search(pattern, line)] == [], pattern


@pytest.mark.parametrize("slug", list(FAULT_BEGAN))
class TestIncidentsWithAFault:
    def test_every_expected_finding_stands_in_the_evidence(self, slug: str) -> None:
        evidence = "\n".join([*log_lines(slug), *metric_names(slug)])
        for finding in read_json(slug, "truth.json")["expected_findings"]:
            for pattern in finding["any_of"]:
                assert re.search(pattern, evidence), (finding["id"], pattern)

    def test_the_rule_was_true_for_five_minutes_when_it_fired(self, slug: str) -> None:
        (subject,) = read_json(slug, "alert.json")["alerts"]
        answers = {a["query"]: a["result"] for a in read_json(slug, "evidence/metrics.json")["answers"]}
        fired = unix(subject["startsAt"])
        (series,) = answers[expression(subject)]
        held = {at for at, _ in series["values"]}
        ticks = [
            at for at in range(int(fired - FOR_S) // STEP_S * STEP_S, int(fired) + 1, STEP_S) if at > fired - FOR_S
        ]
        assert held >= set(ticks)
        assert min(held) > fired - 2 * FOR_S
        assert series["metric"].items() <= subject["labels"].items()

    def test_severe_lines_are_a_small_part(self, slug: str) -> None:
        lines = log_lines(slug)
        severe = [line for line in lines if SEVERE.search(line)]
        assert 0.01 < len(severe) / len(lines) < 0.15

    def test_the_service_itself_has_no_severe_line_before_the_fault(self, slug: str) -> None:
        (subject,) = read_json(slug, "alert.json")["alerts"]
        severe = [line for line in log_lines(slug, subject["labels"]["service"]) if SEVERE.search(line)]
        stamps = [re.search(r"2026-11-\d\dT[\d:.]+Z", line) for line in severe]
        times = [unix(found[0]) for found in stamps if found]
        assert len(times) == len(severe)
        if slug in DIES_WITHOUT_A_WORD:
            assert times == []
        else:
            assert FAULT_BEGAN[slug] < min(times) < unix(subject["startsAt"])


def test_the_pool_is_cut_by_the_release_and_full_ever_after() -> None:
    series = read_json("pool-exhausted", "evidence/metrics.json")["series"]

    def by_pod(name: str) -> dict[str, list[float]]:
        return {
            one["metric"]["pod"]: [float(value) for _, value in one["values"]]
            for one in series
            if one["metric"]["__name__"] == name
        }

    sizes, active, pending = (by_pod(f"hikaricp_connections_{name}") for name in ("max", "active", "pending"))
    assert sorted(size for values in sizes.values() for size in set(values)) == [10, 10, 50, 50]
    for pod, values in sizes.items():
        if values[0] == 10:
            assert set(active[pod][-20:]) == {10}
            assert min(pending[pod][-20:]) > 0
        else:
            assert max(active[pod]) < 50
            assert max(pending[pod]) == 0


def test_the_busy_node_was_busy_long_before_orders_became_slow() -> None:
    answers = {a["query"]: a["result"] for a in read_json("cpu-red-herring", "evidence/metrics.json")["answers"]}
    (busy,) = answers['1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) > 0.9']
    (subject,) = read_json("cpu-red-herring", "alert.json")["alerts"]
    (slow,) = answers[expression(subject)]
    assert busy["values"][0][0] + 20 * 60 < slow["values"][0][0]


def test_orders_pods_are_equally_slow_on_busy_and_quiet_nodes() -> None:
    answers = {a["query"]: a["result"] for a in read_json("cpu-red-herring", "evidence/metrics.json")["answers"]}
    (by_pod,) = [result for query, result in answers.items() if "by (le, pod, node)" in query]
    last = {one["metric"]["node"]: float(one["values"][-1][1]) for one in by_pod}
    assert sorted(last) == ["worker-1", "worker-2", "worker-3"]
    assert all(10 < value < 15 for value in last.values())


def values(slug: str, name: str, /, **labels: str) -> dict[int, float]:
    """The samples of the one series of this name with these labels."""
    wanted = {"__name__": name, **labels}.items()
    (found,) = [one for one in read_json(slug, "evidence/metrics.json")["series"] if wanted <= one["metric"].items()]
    return {at: float(value) for at, value in found["values"]}


def halves(slug: str, samples: dict[int, float]) -> tuple[list[float], list[float]]:
    """Values before and after the fault began."""
    began = FAULT_BEGAN[slug]
    return [v for at, v in samples.items() if at < began], [v for at, v in samples.items() if at >= began]


def test_the_debug_log_takes_what_the_file_system_loses_and_inodes_are_left() -> None:
    free = values("disk-full", "node_filesystem_avail_bytes", mountpoint="/var")
    log = values("disk-full", "file_stat_size_bytes", service="pdf-render")
    first, last = min(free), max(free)
    assert free[last] == 0
    assert (log[last] - log[first]) / (free[first] - free[last]) == pytest.approx(1, abs=0.01)
    assert min(values("disk-full", "node_filesystem_files_free").values()) > 4_000_000


def test_old_pods_stay_below_the_memory_limit_and_new_ones_reach_it() -> None:
    series = read_json("oom-crash-loop", "evidence/metrics.json")["series"]
    limit = 512 * 1024 * 1024
    used = {
        one["metric"]["pod"]: max(float(value) for _, value in one["values"])
        for one in series
        if one["metric"]["__name__"] == "container_memory_working_set_bytes"
    }
    assert len(used) == 4
    assert all((peak > 0.9 * limit) == ("7f4b6c8d55" in pod) and peak <= limit for pod, peak in used.items())
    assert sum("OOMKilled" in line for line in log_lines("oom-crash-loop", "deployer")) >= 6


def test_slow_statements_read_the_whole_table_and_wait_for_no_lock() -> None:
    examined = [line for line in log_lines("slow-queries", "mysql") if "Rows_examined: 48" in line]
    assert len(examined) > 50
    assert all(float(re.findall(r"Lock_time: ([\d.]+)", line)[0]) < 0.001 for line in examined)
    assert set(values("slow-queries", "mysql_global_status_innodb_row_lock_current_waits").values()) == {0}
    before, after = halves("slow-queries", values("slow-queries", "mysql_global_status_threads_running"))
    assert max(before) < max(after)


def test_one_partition_lags_and_its_offset_stands_still() -> None:
    for partition in map(str, range(6)):
        lag = values("kafka-lag", "kafka_consumergroup_lag", partition=partition)
        _, committed = halves(
            "kafka-lag", values("kafka-lag", "kafka_consumergroup_current_offset", partition=partition)
        )
        assert (max(lag.values()) > 1000) == (partition == "3")
        assert (len(set(committed[2:])) == 1) == (partition == "3")
    assert set(values("kafka-lag", "kafka_topic_partition_under_replicated_partition").values()) == {0}


def test_the_certificate_ends_when_the_fault_begins_and_its_issuer_failed_before_as_after() -> None:
    ends = values("tls-expiry", "certmanager_certificate_expiration_timestamp_seconds", name="risk-engine-tls")
    assert set(ends.values()) == {FAULT_BEGAN["tls-expiry"]}
    failed = [unix(line.split()[0]) for line in log_lines("tls-expiry", "cert-manager") if "internal-ca-2025" in line]
    gaps = [later - earlier for earlier, later in itertools.pairwise(failed)]
    assert min(failed) < FAULT_BEGAN["tls-expiry"] < max(failed)
    assert max(gaps) - min(gaps) < 1


def test_only_names_outside_the_cluster_fail() -> None:
    answers = log_lines("dns-failure", "coredns")
    inside = [line for line in answers if "cluster.local" in line]
    failed = [line for line in answers if "[ERROR]" in line]
    assert all("NOERROR" in line for line in inside)
    assert max(line[:23] for line in inside) > min(line[:23] for line in failed)
    assert all("->10.20.0.200:53: i/o timeout" in line for line in failed)
    shouting = {path.name for path in (INCIDENTS / "dns-failure/evidence/logs").iterdir()
                if any(SEVERE.search(re.sub(r"\x1b\[\d*m", "", line))
                       for line in log_lines("dns-failure", path.name))}  # fmt: skip
    assert shouting == {"coredns", "notification-service", "payment-gateway", "shipping-api", "storefront-bff"}


def test_two_faults_begin_apart_and_hit_different_routes() -> None:
    lines = [json.loads(line) for line in log_lines("two-causes", "booking-api")]
    failed = [line for line in lines if line.get("status", 0) >= 500]
    first = {route: min(unix(line["timestamp"]) for line in failed if line["route"] == route)
             for route in {line["route"] for line in failed}}  # fmt: skip
    assert set(first) == {"POST /v1/holds", "GET /v1/quotes"}
    assert first["GET /v1/quotes"] - first["POST /v1/holds"] > 180
    memory = values("two-causes", "redis_memory_used_bytes")
    full = [at for at, used in memory.items() if used == max(memory.values())]
    assert min(full) - STEP_S <= first["POST /v1/holds"] <= min(full) + 2 * STEP_S


class TestFalseAlarm:
    def test_holds_no_severe_line(self) -> None:
        assert [line for line in log_lines("false-alarm") if SEVERE.search(line)] == []

    def test_its_own_expression_was_true_at_no_recorded_time(self) -> None:
        (subject,) = read_json("false-alarm", "alert.json")["alerts"]
        answers = {a["query"]: a["result"] for a in read_json("false-alarm", "evidence/metrics.json")["answers"]}
        assert answers[expression(subject)] == []

    def test_warnings_of_the_service_come_as_often_before_the_alert_as_after(self) -> None:
        lines = [json.loads(line) for line in log_lines("false-alarm", "search-api")]
        warned = [line for line in lines if line["level"] == "warn"]
        times = [unix(line["ts"]) for line in lines]
        begin, length = min(times), (max(times) - min(times)) / 3
        thirds = [0, 0, 0]
        for line in warned:
            thirds[min(2, int((unix(line["ts"]) - begin) / length))] += 1
        assert len({line["msg"] for line in warned}) == 2
        assert max(thirds) - min(thirds) <= 4

    def test_every_answer_of_the_service_was_a_success(self) -> None:
        lines = [json.loads(line) for line in log_lines("false-alarm", "search-api")]
        assert {line["status"] for line in lines if "status" in line} == {200}
