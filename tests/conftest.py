"""One PostgreSQL and one Valkey for a whole test run; a database and a Valkey number for each xdist worker.

The process that was started by hand (xdist's controller, or plain pytest) owns the servers. Tests that commit
(`transactional_db`, `live_server`) work as usual: see `tests/postgres`.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest

# How long an example takes says what else the machine does.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

SERVERS = pytest.StashKey[Any]()
TOLD = "told at the end"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or session.config.option.collectonly:
        return
    from superbiz.embedded import EmbeddedServers, prepare_folders
    from superbiz.env import load_env
    from superbiz.programs import ProcessRecord
    from tests import settings

    own = {"database_url": None} if settings.STARTS_POSTGRES else {}
    own |= {"redis_url": None} if settings.STARTS_VALKEY else {}
    prepare_folders(settings.PLACES_OF_RUN)
    servers = EmbeddedServers(
        load_env().model_copy(update=own),
        ProcessRecord(settings.PLACES_OF_RUN.processes_file),
        # The data is thrown away: no need to wait for the disk.
        postgres_options={"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"},
    )
    servers.start()
    session.config.stash[SERVERS] = servers


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    servers = config.stash.get(SERVERS, None)
    if servers is not None:
        servers.stop()
    if "PYTEST_XDIST_WORKER" not in os.environ and "superbiz-tests-" in os.environ.get("SUPERBIZ_VAR", ""):
        shutil.rmtree(os.environ["SUPERBIZ_VAR"], ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def _valkey_of_this_worker() -> Iterator[Any]:
    import redis
    from django.conf import settings

    with redis.Redis.from_url(settings.REDIS_URL) as client:
        yield client


@pytest.fixture(autouse=True)
def _empty_valkey(_valkey_of_this_worker: Any) -> None:
    """Every test starts with an empty cache, broker and message bus, and knows nothing of the one before."""
    from django.core.cache import caches

    _valkey_of_this_worker.flushdb()
    caches["process"].clear()


@pytest.fixture
def tell_at_the_end(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Puts a line under the test run's summary: what was counted shows in an ordinary run, by way of xdist too."""
    properties: list[tuple[str, object]] = request.node.user_properties

    def tell(line: str) -> None:
        properties.append((TOLD, line))

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for group in terminalreporter.stats.values() for report in group]
    # What a test said stands in its report and again in that of its teardown.
    told = {
        (report.nodeid, line): None
        for report in reports
        for key, line in getattr(report, "user_properties", ())
        if key == TOLD
    }
    if told:
        terminalreporter.section("counts")
        for _, line in sorted(told):
            terminalreporter.write_line(line)
