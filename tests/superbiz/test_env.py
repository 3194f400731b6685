"""Settings: every wrong value stops start-up with one sentence that names its variable."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from superbiz.env import BASE_DIR, LLM_ROLES, ConfigurationError, load_env, setting_names


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in os.environ:
        if name.startswith("SUPERBIZ_") or name in setting_names():
            monkeypatch.delenv(name)
    return monkeypatch


def test_defaults_are_the_documented_ones(environ: pytest.MonkeyPatch) -> None:
    env = load_env()
    told = (env.port, env.llm, env.llm_output, env.run_max_model_calls, env.run_max_tool_calls)
    assert told == (8000, "offline", "native", 24, 32)
    assert (env.run_max_same_tool_calls, env.run_max_tokens, env.run_deadline_s) == (6, 200_000, 300)
    assert (env.tool_timeout_s, env.model_timeout_s, env.alert_repeat_window_s) == (20, 90, 3600)
    assert (env.worker_concurrency, env.debug, env.var) == (32, False, BASE_DIR / "var")
    assert env.database_url is env.redis_url is None
    assert env.loopback_only


def test_an_empty_variable_is_an_unset_one(environ: pytest.MonkeyPatch) -> None:
    defaults = load_env()
    for name in setting_names():
        environ.setenv(name, "")
    assert load_env() == defaults


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PORT", "abc", "must be a whole number"),
        ("PORT", "8000.5", "must be a whole number"),
        ("PORT", "0", "must be at least 1"),
        ("PORT", "70000", "must be at most 65535"),
        ("SUPERBIZ_DEBUG", "perhaps", "must be true or false"),
        ("SUPERBIZ_SECRET_KEY", "short", "at least 32 characters"),
        ("SUPERBIZ_ALLOWED_HOSTS", "https://superbiz.example", "without scheme or port"),
        ("SUPERBIZ_ALLOWED_HOSTS", "superbiz.example:443", "without scheme or port"),
        ("DATABASE_URL", "sqlite:///db.sqlite3", "must be a PostgreSQL address"),
        ("DATABASE_URL", "postgresql://localhost", "must name a database"),
        ("REDIS_URL", "http://localhost", "must be redis://"),
        ("REDIS_URL", "unix:/run/valkey.sock", "must be redis://"),
        ("REDIS_URL", "redis://localhost/first", "must be redis://"),
        ("SUPERBIZ_LLM", "gpt-5", "PROVIDER:MODEL"),
        ("SUPERBIZ_LLM", "openai:", "PROVIDER:MODEL"),
        ("SUPERBIZ_LLM_VERIFIER", "gpt 5", "PROVIDER:MODEL"),
        ("SUPERBIZ_LLM_OUTPUT", "json", "must be one of"),
        ("SUPERBIZ_LLM_BASE_URL", "llm.example/v1", "http://"),
        ("SUPERBIZ_RUN_MAX_TOKENS", "-1", "must be at least 1"),
        ("SUPERBIZ_TOOL_TIMEOUT_S", "0", "must be more than 0"),
        ("SUPERBIZ_TOOL_TIMEOUT_S", "nan", "must be"),
        ("SUPERBIZ_MODEL_TIMEOUT_S", "soon", "must be a number"),
        ("PROMETHEUS_URL", "prometheus:9090", "http://"),
        ("LOKI_URL", "http://", "http://"),
        ("SUPERBIZ_MYSQL_URL", "postgresql://host/db", "mysql://"),
        ("SUPERBIZ_LOG_DIR", "/no/such/folder", "existing folder"),
        ("SUPERBIZ_RECORDED_EVIDENCE", "/no/such/folder", "existing folder"),
        ("SUPERBIZ_MCP_CONFIG", "/no/such/file.json", "readable JSON file"),
        ("SUPERBIZ_NOTIFY_URLS", "ops@example.org", "Apprise"),
        ("SUPERBIZ_WORKER_CONCURRENCY", "0", "must be at least 1"),
        ("SUPERBIZ_PROCESS", "cron", "must be one of"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_variable(
    environ: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    environ.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        load_env()
    sentence = str(caught.value)
    assert sentence.startswith(name + " ")
    assert told in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://app:hunter2@db/app"),
        ("REDIS_URL", "http://:hunter2@cache"),
        ("SUPERBIZ_SECRET_KEY", "hunter2"),
        ("SUPERBIZ_MYSQL_URL", "postgres://reader:hunter2@db/app"),
        ("SUPERBIZ_NOTIFY_URLS", "hunter2"),
        ("ELASTICSEARCH_URL", "elastic://elastic:hunter2@search:9200"),
    ],
)
def test_a_complaint_never_repeats_a_secret(environ: pytest.MonkeyPatch, name: str, value: str) -> None:
    environ.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        load_env()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("SUPERBIZ_LMM", "SUPERBIZ_LLM"),
        ("SUPERBIZ_RUN_DEADLINE", "SUPERBIZ_RUN_DEADLINE_S"),
        ("SUPERBIZ_LLM_VERIFYER", "SUPERBIZ_LLM_VERIFIER"),
        ("SUPERBIZ_ALLOWED_HOST", "SUPERBIZ_ALLOWED_HOSTS"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(environ: pytest.MonkeyPatch, wrong: str, nearest: str) -> None:
    environ.setenv(wrong, "1")
    with pytest.raises(ConfigurationError, match=rf"^{wrong} is not .* {nearest}\.$"):
        load_env()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("valkey://cache:6379/2", "redis://cache:6379/2"),
        ("valkeys://cache:6379/2", "rediss://cache:6379/2"),
        ("redis://:secret@cache", "redis://:secret@cache"),
        ("rediss://cache:6380/0?ssl_cert_reqs=none", "rediss://cache:6380/0?ssl_cert_reqs=none"),
        ("unix:///run/valkey.sock?db=3", "unix:///run/valkey.sock?db=3"),
    ],
)
def test_redis_addresses(environ: pytest.MonkeyPatch, given: str, kept: str) -> None:
    environ.setenv("REDIS_URL", given)
    assert load_env().redis_url == kept


@pytest.mark.parametrize("role", LLM_ROLES)
def test_each_role_may_have_its_own_model(environ: pytest.MonkeyPatch, role: str) -> None:
    environ.setenv("SUPERBIZ_LLM", "openai:gpt-5")
    environ.setenv(f"SUPERBIZ_LLM_{role.upper()}", "anthropic:claude-sonnet-5")
    env = load_env()
    models = {name: env.llm_for(name) for name in LLM_ROLES}
    assert models.pop(role) == "anthropic:claude-sonnet-5"
    assert set(models.values()) == {"openai:gpt-5"}


@pytest.mark.parametrize(
    ("hosts", "loopback_only"),
    [("localhost", True), ("127.0.0.1,[::1]", True), ("localhost, superbiz.example", False), ("*", False)],
)
def test_loopback_only_hosts_are_recognised(environ: pytest.MonkeyPatch, hosts: str, loopback_only: bool) -> None:
    environ.setenv("SUPERBIZ_ALLOWED_HOSTS", hosts)
    assert load_env().loopback_only is loopback_only


def test_settings_that_nothing_reads_are_named(environ: pytest.MonkeyPatch) -> None:
    assert load_env().unread == ()
    environ.setenv("LOKI_URL", "http://loki.example:3100")
    environ.setenv("SUPERBIZ_MYSQL_URL", "mysql://reader:pw@db.example:3306/orders")
    environ.setenv("SUPERBIZ_NOTIFY_URLS", "json://hooks.example/x")
    assert load_env().unread == ("LOKI_URL", "SUPERBIZ_MYSQL_URL")


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("json://a.example", ("json://a.example",)),
        ("json://a.example, slack://t/o/k", ("json://a.example", "slack://t/o/k")),
        ("json://a.example slack://t/o/k,", ("json://a.example", "slack://t/o/k")),
        (
            "mailto://u:p@h.example?to=a@x.example,b@x.example,json://a",
            ("mailto://u:p@h.example?to=a@x.example,b@x.example", "json://a"),
        ),
    ],
)
def test_addresses_for_notices_may_hold_commas(
    environ: pytest.MonkeyPatch, value: str, addresses: tuple[str, ...]
) -> None:
    environ.setenv("SUPERBIZ_NOTIFY_URLS", value)
    assert load_env().notify_urls == addresses


def test_names_of_ignored_alerts_may_hold_spaces(environ: pytest.MonkeyPatch) -> None:
    assert "Watchdog" in load_env().alert_ignore_names
    environ.setenv("SUPERBIZ_ALERT_IGNORE_NAMES", "Dead man's snitch, Heartbeat*,")
    assert load_env().alert_ignore_names == ("Dead man's snitch", "Heartbeat*")


def test_links_that_leave_the_site_lead_to_its_public_address(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("PORT", "8123")
    assert load_env().base_url == "http://127.0.0.1:8123"
    environ.setenv("SUPERBIZ_PUBLIC_URL", "https://superbiz.example/ops/")
    assert load_env().base_url == "https://superbiz.example/ops"


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({"mcpServers": []})])
def test_an_mcp_file_must_hold_servers(environ: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(content)
    environ.setenv("SUPERBIZ_MCP_CONFIG", str(path))
    with pytest.raises(ConfigurationError, match=r"^SUPERBIZ_MCP_CONFIG "):
        load_env()


def test_the_value_shows_no_secrets_and_cannot_be_changed(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("DATABASE_URL", "postgresql://app:hunter2@db/app")
    environ.setenv("SUPERBIZ_LLM_API_KEY", "hunter2")
    env = load_env()
    assert "hunter2" not in repr(env)
    with pytest.raises(ValueError, match="frozen"):
        env.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "check"],
        ["manage.py", "up"],
        ["-m", "celery", "-A", "superbiz", "worker"],
        ["-m", "superbiz.web"],
        ["-c", "import superbiz.asgi"],
    ],
    ids=["command", "up", "celery", "web", "asgi"],
)
def test_every_entry_point_says_it_in_one_line_and_leaves_with_2(command: list[str], tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in setting_names()}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=BASE_DIR,
        env={**clean, "SUPERBIZ_VAR": str(tmp_path / "var"), "PORT": "abc"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "superbiz: PORT must be a whole number.\n"
    assert done.stdout == ""
