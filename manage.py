#!/usr/bin/env python
"""Django's command line, on the embedded servers where no others are set."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from superbiz.commandline import check_words, execute
from superbiz.env import ConfigurationError, exit_with, load_env_or_exit

# Commands that read no database, or see to the servers themselves.
WITHOUT_SERVICES = frozenset(
    {"check", "collectstatic", "compilemessages", "diffsettings", "findstatic", "help", "makemessages", "up", "version"}
)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Leave through the `finally` blocks, so that a terminated command stops the servers that it started."""
    raise SystemExit(128 + number)


def _run(argv: list[str]) -> None:
    words = argv[1:]
    if not words or words[0] in WITHOUT_SERVICES or words[0].startswith("-") or {"-h", "--help"} & set(words):
        execute(argv)
        return

    from superbiz.embedded import services
    from superbiz.preflight import check_database

    signal.signal(signal.SIGTERM, _end)
    env = load_env_or_exit()
    check_database(env)
    with services(env) as found:
        if found.started_here:
            from superbiz.bootstrap import prepare_for

            prepare_for(words[0])
        else:
            # The servers' owner has told more of the environment than this process began with.
            load_env_or_exit.cache_clear()
        execute(argv)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "superbiz.settings")
    load_env_or_exit()
    try:
        check_words(sys.argv[1:])
        _run(sys.argv)
    except ConfigurationError as error:
        exit_with(error)


if __name__ == "__main__":
    main()
