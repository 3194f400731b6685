"""How long the gate takes: 1,000 claims over 1,000 refs of 2 KB, from cold."""

import statistics
import time

from bench.figures import Figure
from gatekeeper.gate import judge
from gatekeeper.shipped import shipped_rule_set
from gatekeeper.types import (
    ANSWER_VERSION,
    Case,
    Citation,
    Claim,
    ClaimKind,
    Draft,
    EvidenceRef,
    EvidenceStatus,
    Invocation,
    SourceKind,
    Verdict,
)

CLAIMS = 1_000
REF_CHARS = 2_048
REFS_PER_INVOCATION = 50
REPEATS = 9
AIM_MS = 50


def large_case() -> Case:
    """A case whose claims all hold: a log of `CLAIMS` refs, one claim about each. Nothing in it is folded yet."""
    invocations = {}
    claims = []
    for number in range(0, CLAIMS, REFS_PER_INVOCATION):
        invocation_id = f"inv_{number:06d}"
        refs = {}
        for line in range(number, number + REFS_PER_INVOCATION):
            path = f"$.lines[{line}].text"
            fact = (
                f"HikariPool-{line} - Connection is not available, request timed out after {30_000 + line}ms (total=10)"
            )
            refs[path] = EvidenceRef(path, _padded(line, fact))
            citation = Citation(invocation_id, "query_logs", path, fact)
            text = f"HikariPool-{line} had no connection available: a request timed out after {30_000 + line} ms."
            claims.append(Claim(f"c{line}", ClaimKind.OBSERVATION, text, line % 2 == 0, (citation,)))
        invocations[invocation_id] = Invocation(
            invocation_id, "query_logs", EvidenceStatus.OK, SourceKind.TELEMETRY, refs
        )
    return Case(Draft(ANSWER_VERSION, tuple(claims)), invocations, ("OrderServiceLatencyHigh on order-service",))


def _padded(line: int, fact: str) -> str:
    before = f"2031-03-04T05:06:07.{line % 1000:03d}Z ERROR [http-nio-8080-exec-{line}] c.a.orders.Pool : "
    filler = "   at com.acme.orders.OrderRepository.load(OrderRepository.java:88)\n"
    return (before + fact + "\n" + filler * (REF_CHARS // len(filler)))[:REF_CHARS]


def run() -> list[Figure]:
    """The medians of `REPEATS` cold judgements, by the CPU's clock and by the one on the wall.

    The gate waits for nothing: where the two differ, something else had the processor.
    """
    rule_set = shipped_rule_set()
    cpu_ms, wall_ms = [], []
    for _ in range(REPEATS):
        case = large_case()
        cpu, wall = time.process_time(), time.perf_counter()
        result = judge(case, rule_set)
        wall_ms.append((time.perf_counter() - wall) * 1_000)
        cpu_ms.append((time.process_time() - cpu) * 1_000)
        if result.verdict is not Verdict.PASS or len(result.accepted) != CLAIMS:
            raise RuntimeError("The benchmark's claims must all be accepted; the gate refused some.")
    name = "gate: 1,000 claims over 1,000 refs of 2 KB"
    return [
        Figure(f"{name} (CPU)", statistics.median(cpu_ms), "ms", aim=AIM_MS),
        Figure(f"{name} (wall clock)", statistics.median(wall_ms), "ms", aim=AIM_MS),
    ]
