"""`manage.py up`, as a real process with real children."""

import http.cookiejar
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.superbiz.instance import BASE_DIR, Instance, Up, free_port, processes_of, running, wait_until_gone


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One running instance for the tests that leave it running."""
    with running(Instance(tmp_path_factory.mktemp("up") / "var", free_port())) as started:
        started.sign_in_link()
        yield started


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance(tmp_path / "var", free_port())


class Browser:
    """Keeps cookies, follows no redirect, takes every status as an answer."""

    def __init__(self) -> None:
        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_args: object) -> None:
                return None

        self.jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar), NoRedirect())

    def open(self, url: str, data: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Status, body and the address redirected to."""
        body = urllib.parse.urlencode(data).encode() if data is not None else None
        try:
            answer = self._opener.open(urllib.request.Request(url, body), timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.read().decode(), answer.headers.get("Location", "")


def press(browser: Browser, link: str) -> tuple[int, str]:
    _status, page, _ = browser.open(link)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    status, _page, where = browser.open(link, {"csrfmiddlewaretoken": token[1] if token else ""})
    return status, where


def test_the_printed_link_signs_in_once_and_looking_at_it_does_not_use_it_up(up: Up) -> None:
    assert Browser().open(up.link)[0] == Browser().open(up.link)[0] == 200

    browser = Browser()
    assert press(browser, up.link) == (302, "/")
    assert browser.open(f"{up.instance.url}/admin/")[0] == 200

    assert Browser().open(up.link)[0] == 410


def test_a_command_in_another_terminal_uses_the_running_servers(up: Up) -> None:
    before = up.instance.recorded_pids()
    done = up.instance.manage("shell", "-c", "from django.contrib.auth.models import User; print(User.objects.get())")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "admin"
    assert up.instance.recorded_pids() == before


def test_a_diagnosis_beside_it_reads_the_sources_that_the_command_names(up: Up) -> None:
    incident = BASE_DIR / "eval" / "incidents" / "cpu-red-herring"
    done = up.instance.manage(
        "diagnose", str(incident / "alert.json"), SUPERBIZ_RECORDED_EVIDENCE=str(incident / "evidence"), PORT=""
    )
    assert done.returncode == 0, done.stderr
    assert "due to lock timeout" in " ".join(done.stdout.split())
    assert f"http://127.0.0.1:{up.instance.port}/runs/" in done.stdout


def test_a_second_up_on_the_same_folder_is_one_line(up: Up) -> None:
    done = up.instance.manage("up", PORT=str(free_port()))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "SUPERBIZ_VAR" in done.stderr
    assert done.stdout == ""


def test_a_busy_port_is_one_line_and_starts_nothing(instance: Instance) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", instance.port))
        taken.listen()
        done = instance.manage("up")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"PORT {instance.port} " in done.stderr
    assert not instance.places.postgres_data.exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = Instance(tmp_path / "file" / "var", free_port()).manage("up")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "SUPERBIZ_VAR" in done.stderr


@pytest.mark.parametrize("name", ["beat", "worker", "web", "valkey"])
def test_what_dies_is_started_again_and_a_line_says_so(up: Up, name: str) -> None:
    said = {"valkey": "valkey-server", "web": "superbiz.web"}.get(name, f"superbiz --quiet {name}")
    (pid,) = processes_of(up.instance, said)
    victim = psutil.Process(pid)
    victim.kill()
    assert up.wait_for(rf"^{name} ended unexpectedly.*starting it again")
    while not processes_of(up.instance, said) - {victim.pid}:
        assert up.process.poll() is None
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_one_signal_stops_everything_and_leaves_no_process_and_no_socket(
    instance: Instance, number: signal.Signals
) -> None:
    with running(instance) as up:
        up.sign_in_link()
        pids = instance.recorded_pids()
        backends = {child.pid for pid in pids for child in psutil.Process(pid).children(recursive=True)}
        assert len(pids) == 5
        assert instance.sockets()

        assert up.stop(number) == 0

        assert wait_until_gone(pids | backends) == set()
        assert instance.sockets() == []
        assert not instance.places.services_file.exists()
        assert not instance.places.processes_file.exists()
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", instance.port))


@pytest.mark.parametrize("killed", ["everything", "only up itself"])
def test_the_next_start_recovers_from_a_kill(instance: Instance, killed: str) -> None:
    with running(instance) as up:
        up.sign_in_link()
        first = instance.recorded_pids()
        up.process.kill()
        up.process.wait()
        if killed == "everything":
            for pid in first:
                os.kill(pid, signal.SIGKILL)
        with running(instance) as again:
            again.sign_in_link()
            assert not first & instance.recorded_pids()
            assert wait_until_gone(first) == set()
            assert again.stop() == 0


def test_two_instances_with_two_folders_and_two_ports_live_side_by_side(up: Up, instance: Instance) -> None:
    with running(instance) as other:
        other.sign_in_link()
        assert Browser().open(f"{instance.url}/admin/login/")[0] == 200
        assert Browser().open(f"{up.instance.url}/admin/login/")[0] == 200
        assert other.stop() == 0
    assert up.process.poll() is None
