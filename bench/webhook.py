"""How fast alerts are taken in: 100 a second for 10 s, each one new, against a whole `manage.py up`.

Web, worker and beat run as they always do, but no run comes further than its first model call: the model server
takes the question and never answers. So the worker's 32 threads are taken before the measurement begins, and what is
measured is the intake (checked, stored, committed, handed to the broker) and not the diagnoses that follow.
"""

import asyncio
import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.apart import Instance, bare_environment, instance, line_with, program
from bench.figures import Figure
from bench.openloop import Answered, Client
from superbiz.env import BASE_DIR

PER_SECOND = 100
SECONDS = 10
WARM_UP = 100
CALM_S = 3.0
PATH = "/api/alerts/alertmanager"
INCIDENT = BASE_DIR / "eval" / "incidents" / "pool-exhausted" / "alert.json"


def bodies(count: int, first: int) -> list[bytes]:
    """The bundled incident's alert, each time with a fingerprint of its own."""
    body = json.loads(INCIDENT.read_text(encoding="utf-8"))
    made = []
    for number in range(first, first + count):
        alerts = [{**alert, "fingerprint": f"{number:08x}{place:08x}"} for place, alert in enumerate(body["alerts"])]
        made.append(json.dumps({**body, "alerts": alerts}).encode())
    return made


def create_token(own: Instance) -> str:
    words = [sys.executable, "manage.py", "create_token", "bench", "--scope", "alerts:write"]
    made = subprocess.run(words, cwd=BASE_DIR, env=own.environ, capture_output=True, text=True, check=True)
    return made.stdout.strip()


async def _load(port: int, token: str) -> list[Answered]:
    client = Client(port, token)
    try:
        await client.post_all(PATH, bodies(WARM_UP, 0), PER_SECOND / 2)
        await asyncio.sleep(CALM_S)
        return await client.post_all(PATH, bodies(PER_SECOND * SECONDS, WARM_UP), PER_SECOND)
    finally:
        client.close()


def _check(answers: list[Answered]) -> None:
    for answer in answers:
        if answer.status != 202 or len(json.loads(answer.body)["runs"]) != 1:
            raise RuntimeError(f"An alert was answered {answer.status}: {answer.body[:500]!r}")


def measure(model_url: str) -> list[Figure]:
    settings = {"SUPERBIZ_LLM": "openai:bench", "SUPERBIZ_LLM_BASE_URL": model_url, "SUPERBIZ_LLM_API_KEY": "bench"}
    with (
        instance(**settings) as own,
        program([sys.executable, "manage.py", "up"], own.environ, own.log) as up,
    ):
        line_with(up, "SuperBiz is running", own.log)
        answers = asyncio.run(_load(own.port, create_token(own)))
    _check(answers)
    latencies = [answer.latency_s * 1_000 for answer in answers]
    cuts = statistics.quantiles(latencies, n=100)
    return [
        Figure("webhook: p50 at 100 alerts/s", cuts[49], "ms"),
        Figure("webhook: p99 at 100 alerts/s", cuts[98], "ms", aim=50),
    ]


def run() -> list[Figure]:
    words = [sys.executable, "-m", "tests.servers.openai_compatible", "--hang", "aiops_supervision"]
    with TemporaryDirectory(prefix="superbiz-bench-") as folder:
        log = Path(folder) / "model.log"
        with program(words, bare_environment(), log) as server:
            return measure(line_with(server, "http", log))
