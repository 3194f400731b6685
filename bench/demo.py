"""How long it takes from a fresh clone to a released report: `make demo`, the first time and the second.

The first time makes the virtual environment and installs into it; the packages are in pip's cache by then, so that
the network's speed does not count.
"""

import subprocess
import sys
import time
from pathlib import Path

from bench.apart import Instance, instance, line_with, program
from bench.figures import Figure
from superbiz.env import BASE_DIR

# The report ends with the address of the run's page; the demo's first line about a run is before it.
TAKEN_IN = "was taken in as"
REPORT_ENDS = "/runs/run_"


def warm_cache(own: Instance) -> None:
    """Let pip download what it does not have yet."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    target = str(own.folder / "downloads")
    with own.log.open("ab") as log:
        subprocess.run(
            [*words, "-r", "requirements.txt", "-d", target], cwd=BASE_DIR, env=own.environ, stderr=log, check=True
        )


def time_demo(own: Instance, clone: Path) -> float:
    """Seconds from the command to the end of the report."""
    started = time.perf_counter()
    with program(["make", "demo"], own.environ, own.log, clone) as demo:
        line_with(demo, TAKEN_IN, own.log)
        line_with(demo, REPORT_ENDS, own.log)
        return time.perf_counter() - started


def run() -> list[Figure]:
    with instance() as own:
        warm_cache(own)
        clone = own.folder / "clone"
        subprocess.run(["git", "clone", "--quiet", str(BASE_DIR), str(clone)], env=own.environ, check=True)
        first = time_demo(own, clone)
        second = time_demo(own, clone)
    return [
        Figure("demo: make demo on a fresh clone", first, "s", aim=120),
        Figure("demo: make demo, second time", second, "s", aim=15),
    ]
