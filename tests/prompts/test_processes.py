"""What other processes pin when an activation has returned."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from psycopg.conninfo import make_conninfo

from prompts.actions import do_activate, save_version, sync_shipped
from prompts.models import Prompt
from superbiz.env import BASE_DIR

PROCESSES = 3
# As a worker does: the process stays, its connections too, and it pins whenever a run starts.
ANSWERING = """
import sys, django
django.setup()
from prompts.active import pin
for line in sys.stdin:
    print(pin(line.strip()).prompts["chat_verifier"].version, flush=True)
"""

Process = subprocess.Popen[str]


@pytest.fixture
def processes(transactional_db: None) -> Iterator[list[Process]]:
    sync_shipped()
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    database = make_conninfo(**{name: parameters[name] for name in names if parameters.get(name)})
    environment = {**os.environ, "DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "superbiz.settings"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWERING],
            cwd=BASE_DIR,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    yield started
    for process in started:
        process.communicate(timeout=20)


def pinned(process: Process) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("aiops-prompts\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_no_process_pins_a_stale_version_once_an_activation_has_returned(processes: list[Process], anna: User) -> None:
    prompt = Prompt.objects.get(name="chat_verifier")
    first = prompt.versions.get()
    second = save_version(first, first.text + "Be brief.\n", by=anna, reason="a try")
    assert [pinned(process) for process in processes] == [first.label] * PROCESSES
    for version in (second, first, second, first):
        shown = prompt.newest_activation()
        do_activate(version, shown=shown.id if shown else None, by=anna, reason="to and fro")
        assert [pinned(process) for process in processes] == [version.label] * PROCESSES
