"""`make bench`: every benchmark, one table, compared with the committed baseline.

    python -m bench [NAME …] [--save]

With names only those benchmarks run; --save writes what was measured into the baseline.
One that cannot be measured is told, the others go on, and the exit code is 1.
"""

import argparse
import importlib
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, read_baseline, write_baseline

BENCHMARKS = (
    "gate",
    "kernel",
    "ledger",
    "throughput",
    "webhook",
    "storm",
    "explorer",
    "live",
    "preview",
    "streams",
    "cancel",
    "demo",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--save", action="store_true", help="write the figures into the baseline")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    console = Console()
    figures: list[Figure] = []
    failed = False
    for name in arguments.names or BENCHMARKS:
        console.print(f"{name} …", style="dim")
        try:
            figures += importlib.import_module(f"bench.{name}").run()
        except (RuntimeError, OSError, EOFError, subprocess.SubprocessError) as error:
            failed = True
            console.print(f"{name} could not be measured: {error or type(error).__name__}", style="red", markup=False)
    console.print(_table(figures))
    if arguments.save:
        write_baseline(figures)
    return int(failed)


def _table(figures: list[Figure]) -> Table:
    baseline = read_baseline()
    table = Table("figure", title="Benchmarks")
    for column in ("measured", "unit", "aim", "met", "baseline", "ratio (above 1: worse)"):
        table.add_column(column, justify="right")
    for figure in figures:
        known = baseline.get(figure.name)
        ratio = figure.against(known)
        sign = "≥" if figure.higher_is_better else "≤"
        table.add_row(
            figure.name,
            f"{figure.value:,.3f}",
            figure.unit,
            f"{sign} {figure.aim:g}" if figure.aim is not None else "",
            {True: "yes", False: "NO", None: ""}[figure.meets_aim],
            f"{known:,.3f}" if known is not None else "",
            f"{ratio:.2f}" if ratio is not None else "",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
