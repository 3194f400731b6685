"""The embedded servers: started for a command, shared with its guests, recovered after a kill."""

import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from superbiz.embedded import MAX_CONNECTIONS, ServiceError, locked, prepare_folders, services
from superbiz.env import BASE_DIR, Env
from superbiz.places import SOCKET_PATH_MAX, Places, secret_key
from superbiz.settings import CONNECTION_BUDGET
from tests.superbiz.instance import Instance, free_port, wait_until_gone


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Env:
    """Settings that name no servers, with the environment restored after `services()` has exported some."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("SUPERBIZ_VAR", str(tmp_path / "var"))
    return Env()


def test_real_servers_run_for_the_block_and_leave_nothing(env: Env) -> None:
    with services(env) as found:
        assert found.started_here
        with psycopg.connect(found.database_url) as connection:
            settings = {
                name: connection.execute("SELECT current_setting(%s)", [name]).fetchone()[0]  # type: ignore[index]
                for name in ("server_version_num", "max_connections", "fsync", "listen_addresses", "server_encoding")
            }
            extensions = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
        with redis.Redis.from_url(found.redis_url) as client:
            assert client.ping()
        pids = Instance(env.var, 0).recorded_pids()
    assert settings.pop("server_version_num").startswith("18")
    assert settings == {
        "max_connections": str(MAX_CONNECTIONS),
        "fsync": "on",
        "listen_addresses": "",
        "server_encoding": "UTF8",
    }
    assert {("vector",), ("pg_trgm",)} <= set(extensions)
    assert len(pids) == 2
    assert wait_until_gone(pids) == set()
    assert Instance(env.var, 0).sockets() == []


def test_logs_and_data_are_nobody_elses_to_read(env: Env) -> None:
    old = Places(env.var).log / "postgres.log"
    old.parent.mkdir(parents=True)
    old.touch(mode=0o644)
    with services(env):
        places = Places(env.var)
        logs = {path.name: stat.S_IMODE(path.stat().st_mode) for path in places.log.iterdir()}
        private = (places.log, places.beat_schedule.parent, places.valkey_data, places.postgres_data)
        folders = {path.name: stat.S_IMODE(path.stat().st_mode) for path in private}
        assert not places.run.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH)
    assert logs == {"postgres.log": 0o600, "valkey.log": 0o600}
    assert set(folders.values()) == {0o700}


def test_data_outlives_the_servers(env: Env) -> None:
    with services(env) as found, psycopg.connect(found.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with services(env) as found, psycopg.connect(found.database_url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_servers_that_were_named_are_used_as_they_are(env: Env) -> None:
    named = env.model_copy(update={"database_url": "postgresql://db/app", "redis_url": "redis://cache/0"})
    with services(named) as found:
        assert (found.database_url, found.redis_url) == ("postgresql://db/app", "redis://cache/0")
        assert not found.started_here
    assert not env.var.exists()


def test_a_second_user_joins_the_running_servers(env: Env) -> None:
    with services(env) as owner:
        before = Instance(env.var, 0).recorded_pids()
        with services(env) as guest:
            assert (guest.database_url, guest.redis_url) == (owner.database_url, owner.redis_url)
            assert not guest.started_here
        assert Instance(env.var, 0).recorded_pids() == before
        with psycopg.connect(owner.database_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_long_path_falls_back_to_a_short_socket_folder(env: Env) -> None:
    deep = env.model_copy(update={"var": env.var / ("d" * SOCKET_PATH_MAX)})
    with services(deep) as found, psycopg.connect(found.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        sockets = Places(deep.var).sockets
        assert sockets.is_dir()
        assert deep.var not in sockets.parents
    assert not sockets.exists()


@pytest.mark.parametrize("name", ["with space", "percent%20", "comma,quote'"])
def test_a_folder_with_an_awkward_name_works(env: Env, name: str) -> None:
    awkward = env.model_copy(update={"var": env.var / name})
    with services(awkward) as found, psycopg.connect(found.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_owner_leaves_nothing_in_the_way(env: Env) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _HOLD], cwd=BASE_DIR, env=Instance(env.var, 1).environ(), stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"running\n"
    left = Instance(env.var, 0).recorded_pids()
    owner.kill()
    owner.communicate()
    with services(env) as found, psycopg.connect(found.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert wait_until_gone(left) == set()


_HOLD = """
import sys, time
from superbiz.embedded import services
from superbiz.env import load_env
with services(load_env()):
    print("running", flush=True)
    time.sleep(600)
"""


def test_data_of_another_major_version_is_one_clear_sentence(env: Env) -> None:
    data = Places(env.var).postgres_data
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("16\n")
    with pytest.raises(ServiceError, match=r"PostgreSQL 16 and this is 18.*SUPERBIZ_VAR"), services(env):
        raise AssertionError("not reached")
    assert Instance(env.var, 0).recorded_pids() == set()


def test_a_command_on_a_fresh_folder_brings_and_takes_its_own_servers(env: Env) -> None:
    instance = Instance(env.var, free_port())
    done = instance.manage("sync_rules")
    assert done.returncode == 0, done.stderr
    assert instance.recorded_pids() == set()
    assert instance.sockets() == []


def test_a_terminated_command_stops_the_servers_it_started(env: Env) -> None:
    instance = Instance(env.var, free_port())
    waiting = subprocess.Popen(
        [sys.executable, "manage.py", "shell", "-c", "import time; print('up', flush=True); time.sleep(600)"],
        cwd=BASE_DIR,
        env=instance.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    for line in waiting.stdout:
        if line == "up\n":
            break
    pids = instance.recorded_pids()
    assert len(pids) == 2
    waiting.send_signal(signal.SIGTERM)
    waiting.communicate()
    assert waiting.returncode == 128 + signal.SIGTERM
    assert wait_until_gone(pids) == set()


def test_a_lock_is_had_once_and_shared_by_many(env: Env) -> None:
    places = Places(env.var)
    prepare_folders(places)
    with locked(places.up_lock) as first, locked(places.up_lock) as second:
        assert first is not None
        assert second is None
    with locked(places.guests_lock, shared=True) as one, locked(places.guests_lock, shared=True) as two:
        assert one is not None
        assert two is not None
        with locked(places.guests_lock) as alone:
            assert alone is None


def test_the_secret_key_is_made_once_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    key = secret_key(tmp_path / "var")
    assert len(key) >= 50
    assert secret_key(tmp_path / "var") == key
    assert (tmp_path / "var" / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["secret_key"]


def test_the_connection_budget_stays_well_under_the_servers_limit() -> None:
    assert sum(CONNECTION_BUDGET.values()) <= MAX_CONNECTIONS // 2
