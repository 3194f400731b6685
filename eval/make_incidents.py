"""Write the recorded incidents that the demo and the evaluations run on.

    python eval/make_incidents.py [--out FOLDER] [SLUG ...]

Standard library only, and deterministic: running it again changes no file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from incident_stories import (
    cpu_red_herring,
    disk_full,
    dns_failure,
    false_alarm,
    kafka_lag,
    oom_crash_loop,
    pool_exhausted,
    slow_queries,
    tls_expiry,
    two_causes,
)
from incident_stories.shape import write

STORIES = {
    "pool-exhausted": pool_exhausted.build,
    "cpu-red-herring": cpu_red_herring.build,
    "false-alarm": false_alarm.build,
    "disk-full": disk_full.build,
    "oom-crash-loop": oom_crash_loop.build,
    "slow-queries": slow_queries.build,
    "kafka-lag": kafka_lag.build,
    "tls-expiry": tls_expiry.build,
    "dns-failure": dns_failure.build,
    "two-causes": two_causes.build,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the recorded incidents.")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help=f"which ones (default: all of {', '.join(STORIES)})")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "incidents", help="the folder to write to")
    options = parser.parse_args()
    unknown = sorted(set(options.slugs) - set(STORIES))
    if unknown:
        parser.error(f"unknown incident: {', '.join(unknown)}")
    for slug in options.slugs or STORIES:
        write(STORIES[slug](), options.out / slug)


if __name__ == "__main__":
    main()
