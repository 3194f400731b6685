"""What is tried before anything starts, and how a command tells what is wrong: one line, whatever it is."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import OperationalError

from superbiz import preflight
from superbiz.commandline import check_words, execute
from superbiz.env import BASE_DIR, ConfigurationError, Env, load_env
from tests.superbiz.instance import Instance, free_port

DEMO = BASE_DIR / "eval" / "incidents" / "pool-exhausted" / "evidence"


def env(**changes: object) -> Env:
    return load_env().model_copy(update=changes)


@pytest.fixture
def mute_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port that takes connections and never says a word."""
    monkeypatch.setattr(preflight, "CONNECT_WAIT_S", 1)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def wordy_server() -> Iterator[int]:
    """A port where another protocol is spoken."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def answer() -> None:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]


def test_the_servers_of_this_test_run_pass() -> None:
    preflight.check_all(env())


@pytest.mark.parametrize("server", ["nobody", "mute_server", "wordy_server"])
def test_servers_that_cannot_be_used_are_one_line_with_their_variable(
    server: str, request: pytest.FixtureRequest
) -> None:
    port = free_port() if server == "nobody" else request.getfixturevalue(server)
    with pytest.raises(ConfigurationError, match=r"^REDIS_URL names a server that cannot be used: [^\n]+\.$"):
        preflight.check_broker(env(redis_url=f"redis://127.0.0.1:{port}/0"))
    if server != "wordy_server":
        with pytest.raises(ConfigurationError, match=r"^DATABASE_URL names a database that cannot be used: [^\n]+\.$"):
            preflight.check_database(env(database_url=f"postgresql://127.0.0.1:{port}/x"))


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refused:
        preflight.check_database(env(database_url=f"postgresql://app:hunter2@127.0.0.1:{free_port()}/x"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"llm": "nosuch:model"}, "SUPERBIZ_LLM names a model that cannot be used: The model provider 'nosuch'"),
        ({"llm_verifier": "nosuch:model"}, "SUPERBIZ_LLM_VERIFIER names"),
        ({"llm": "openai:gpt-5"}, "SUPERBIZ_LLM names a model that cannot be used: .*SUPERBIZ_LLM_API_KEY"),
        ({"llm": "bedrock:x"}, "SUPERBIZ_LLM names .* needs a library that is not installed"),
        ({"recorded_evidence": BASE_DIR / "tests"}, r"SUPERBIZ_RECORDED_EVIDENCE names .*: meta\.json"),
    ],
    ids=str,
)
def test_what_runs_need_is_tried(changes: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=told) as refused:
        preflight.check_agent(env(**changes))
    assert "\n" not in str(refused.value)


def test_what_can_be_opened_passes() -> None:
    preflight.check_agent(
        env(llm="openai:any", llm_base_url="http://127.0.0.1:9/v1", llm_router="offline", recorded_evidence=DEMO)
    )


# ---- commands -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    return Instance(tmp_path_factory.mktemp("commands") / "var", free_port())


NOBODY = {"DATABASE_URL": "postgresql://127.0.0.1:1/x"}


@pytest.mark.parametrize(
    ("words", "environ", "told"),
    [
        (("verify_ledger",), NOBODY, "superbiz: DATABASE_URL "),
        (("up",), NOBODY, "superbiz: DATABASE_URL "),
        (("up",), {"REDIS_URL": "redis://127.0.0.1:1/0"}, "superbiz: REDIS_URL "),
        (("up",), {"SUPERBIZ_LLM": "nosuch:model"}, "superbiz: SUPERBIZ_LLM "),
        (("up",), {"SUPERBIZ_RECORDED_EVIDENCE": str(BASE_DIR / "tests")}, "superbiz: SUPERBIZ_RECORDED_EVIDENCE "),
        (("up", "x"), {}, "manage.py up: unrecognized arguments: x"),
        (("verify_ledger", "\udcff"), {}, "superbiz: Argument 2 is not UTF-8 text."),
        (("up",), {"SUPERBIZ_LLM": "openai:\udcff"}, "superbiz: SUPERBIZ_LLM must be UTF-8 text."),
    ],
    ids=str,
)
def test_a_command_that_cannot_start_says_so_in_one_line(
    instance: Instance, words: tuple[str, ...], environ: dict[str, str], told: str
) -> None:
    done = instance.manage(*words, **environ)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(told)
    assert not instance.places.postgres_data.exists()


def test_the_worker_does_not_start_where_every_run_would_fail(instance: Instance) -> None:
    done = instance.program(sys.executable, "-m", "celery", "-A", "superbiz", "worker", SUPERBIZ_LLM="nosuch:model")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "superbiz: SUPERBIZ_LLM names a model that cannot be used: The model provider 'nosuch' is not known."
    ]


def test_a_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        execute(["manage.py", "regate", "run_x", "--rule-set", "a\nb"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("manage.py regate: argument --rule-set: invalid int value")


def test_help_still_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        execute(["manage.py", "regate", "--help"])
    assert capsys.readouterr().out.startswith("usage: manage.py regate")


def test_a_database_that_goes_away_under_a_command_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_args: object, **_options: object) -> None:
        raise OperationalError("the connection is closed\nmore of it")

    monkeypatch.setattr("audit.management.commands.verify_ledger.Command.handle", gone)
    with pytest.raises(ConfigurationError, match=r"^The database does not answer: the connection is closed$"):
        execute(["manage.py", "verify_ledger"])


def test_words_that_are_text_pass() -> None:
    check_words(["diagnose", "报警.json", ""])


def test_a_runbook_whose_name_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pool\udcff.md").write_text("# Pool\n\nLook.\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"its name is not UTF-8 text"):
        call_command("import_runbooks", str(tmp_path))


# ---- notices --------------------------------------------------------------------------------------------------


def test_addresses_that_apprise_knows_are_taken() -> None:
    preflight.check_notices(env(notify_urls=()))
    preflight.check_notices(env(notify_urls=("json://hooks.example/x", "slack://TokenA/TokenB/TokenC123")))


def test_an_address_that_apprise_cannot_use_is_told_without_its_secrets() -> None:
    with pytest.raises(ConfigurationError) as refused:
        preflight.check_notices(env(notify_urls=("json://hooks.example/x", "nosuchservice://hunter2@host")))
    assert "SUPERBIZ_NOTIFY_URLS" in str(refused.value)
    assert "number 2, nosuchservice://" in str(refused.value)
    assert "hunter2" not in str(refused.value)
