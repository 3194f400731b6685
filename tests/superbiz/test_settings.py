"""Django's settings as they follow from the environment, each read in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from superbiz.env import BASE_DIR
from tests.superbiz.instance import Instance

_TELL = (
    "import json, sys; from superbiz import settings as s; print(json.dumps({n: getattr(s, n) for n in sys.argv[1:]}))"
)


def tell(var: Path, *names: str, **environ: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _TELL, *names],
        cwd=BASE_DIR,
        env=Instance(var, 8000).environ(**environ),
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://postgres:@/db?host=/run/pg",
            {"NAME": "db", "USER": "postgres", "PASSWORD": "", "HOST": "/run/pg", "PORT": ""},
        ),
        (
            "postgresql://app:p%40ss@db.example:5433/app?sslmode=require",
            {"NAME": "app", "USER": "app", "PASSWORD": "p@ss", "HOST": "db.example", "PORT": "5433"},
        ),
        (
            "postgres://app@%2Frun%2Fpg/app",
            {"NAME": "app", "USER": "app", "PASSWORD": "", "HOST": "/run/pg", "PORT": ""},
        ),
    ],
)
def test_database_addresses_of_every_form(tmp_path: Path, url: str, expected: dict[str, str]) -> None:
    database = tell(tmp_path, "DATABASES", DATABASE_URL=url)["DATABASES"]["default"]
    assert {name: database[name] for name in expected} == expected
    assert database["CONN_MAX_AGE"] == 0
    assert "-c jit=off" in database["OPTIONS"]["options"]
    if "sslmode" in url:
        assert database["OPTIONS"]["sslmode"] == "require"


@pytest.mark.parametrize(("process", "connections"), [("web", 20), ("worker", 16), ("beat", 2), ("command", 4)])
def test_each_process_has_its_share_of_connections(tmp_path: Path, process: str, connections: int) -> None:
    database = tell(tmp_path, "DATABASES", SUPERBIZ_PROCESS=process)["DATABASES"]["default"]
    assert database["OPTIONS"]["pool"]["max_size"] == connections


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("redis://cache:6379/2", "redis://cache:6379/2"),
        ("valkey://cache:6379/2", "redis://cache:6379/2"),
        ("unix:///run/valkey.sock?db=3", "redis+socket:///run/valkey.sock?virtual_host=3"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock?virtual_host=0"),
    ],
)
def test_the_broker_is_the_same_server(tmp_path: Path, url: str, broker: str) -> None:
    assert tell(tmp_path, "CELERY_BROKER_URL", REDIS_URL=url)["CELERY_BROKER_URL"] == broker


@pytest.mark.parametrize(
    ("environ", "behind_tls"),
    [
        ({}, False),
        ({"SUPERBIZ_ALLOWED_HOSTS": "localhost,127.0.0.1"}, False),
        ({"SUPERBIZ_ALLOWED_HOSTS": "superbiz.example"}, True),
        ({"SUPERBIZ_ALLOWED_HOSTS": "superbiz.example", "SUPERBIZ_DEBUG": "true"}, False),
    ],
)
def test_https_is_demanded_only_where_there_can_be_any(
    tmp_path: Path, environ: dict[str, str], behind_tls: bool
) -> None:
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT")
    told = tell(tmp_path, *names, "SECURE_HSTS_SECONDS", **environ)
    assert {told[name] for name in names} == {behind_tls}
    assert (told["SECURE_HSTS_SECONDS"] > 0) is behind_tls


def test_a_real_host_passes_the_deployment_checks(tmp_path: Path) -> None:
    done = Instance(tmp_path, 8000).manage(
        "check", "--deploy", "--fail-level", "WARNING", SUPERBIZ_ALLOWED_HOSTS="superbiz.example"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.django_db
def test_pages_allow_nothing_inline_and_nobody_elses_content(client: Client) -> None:
    answer = client.get("/admin/login/")
    policy = answer.headers["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == directives["connect-src"] == "'self'"
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"


def test_log_lines_are_key_value_whoever_writes_them() -> None:
    code = (
        "import os, logging; os.environ['DJANGO_SETTINGS_MODULE'] = 'superbiz.settings'\n"
        "import django; django.setup(); import structlog\n"
        "structlog.get_logger('runs.tasks').warning('run claimed', run_id='r1', note='two words')\n"
        "logging.getLogger('some.library').error('went %s', 'wrong', extra={'odd key': 1})\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: logging.getLogger('audit').exception('failed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=BASE_DIR, capture_output=True, text=True, check=True)
    ours, theirs, failed = done.stderr.splitlines()
    assert 'level=warning logger=runs.tasks event="run claimed"' in ours
    assert "run_id=r1" in ours
    assert 'note="two words"' in ours
    assert 'level=error logger=some.library event="went wrong"' in theirs
    assert "odd_key=1" in theirs
    assert "ZeroDivisionError" in failed


def test_sending_to_a_dead_broker_fails_at_once_instead_of_trying_on(tmp_path: Path) -> None:
    code = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'superbiz.settings'\n"
        "import django; django.setup()\n"
        "from kombu.exceptions import OperationalError\n"
        "from superbiz.celery import app\n"
        "try: app.send_task('anything')\n"
        "except OperationalError: print('gave up')\n"
    )
    environ = Instance(tmp_path, 8000).environ(REDIS_URL=f"unix://{tmp_path}/none.sock")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BASE_DIR, env=environ, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "gave up\n"
