"""Every setting that comes from the environment, as one typed and frozen value.

`load_env()` returns the `Env` or raises `ConfigurationError`, whose text is one sentence that names the
variable. An empty variable counts as unset. The launchers (`manage.py`, `superbiz.asgi`, `superbiz.celery`)
go through `load_env_or_exit()`, which prints that sentence and leaves with exit code 2.
"""

import difflib
import functools
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn
from urllib.parse import parse_qs, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

BASE_DIR = Path(__file__).resolve().parent.parent
CONFIGURATION_EXIT_CODE = 2

ProcessKind = Literal["web", "worker", "beat", "command"]
LlmRole = Literal["router", "system_chat", "planner", "executor", "verifier", "composer", "supervisor"]
LLM_ROLES: tuple[LlmRole, ...] = (
    "router",
    "system_chat",
    "planner",
    "executor",
    "verifier",
    "composer",
    "supervisor",
)

# Set by the launchers and by CI, not by people; known so that they are not taken for a typing slip.
INTERNAL_NAMES = frozenset({"SUPERBIZ_PROCESS", "SUPERBIZ_CI"})
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
SECRET_KEY_MIN_CHARS = 32
UNREAD_FIELDS = ("loki_url", "elasticsearch_url", "mysql_url", "mcp_config", "otel_endpoint")
# Alerts that fire all the time, to show that alerting works: they say nothing about a fault.
HEARTBEATS = ("Watchdog", "DeadMansSwitch", "PrometheusAlertmanagerE2eDeadManSwitch", "AlwaysFiring", "InfoInhibitor")


class ConfigurationError(Exception):
    """A wrong setting; the text is one sentence that names the variable."""


def _split_words(value: Any) -> Any:
    return tuple(part for part in re.split(r"[\s,]+", value) if part) if isinstance(value, str) else value


def _split_commas(value: Any) -> Any:
    """Names of alerts may hold spaces."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _split_addresses(value: Any) -> Any:
    """At white space, and at a comma where another address follows: an address may hold commas of its own."""
    if not isinstance(value, str):
        return value
    return tuple(part for part in re.split(r"\s+|,(?=\s*(?:[A-Za-z][A-Za-z0-9+.-]*://|$))", value) if part.strip(","))


def _database_url(value: str) -> str:
    try:
        parts = conninfo_to_dict(value)
    except ProgrammingError as error:
        raise ValueError("must be a PostgreSQL address such as postgresql://user:password@host:5432/name") from error
    if not parts.get("dbname") and not parts.get("service"):
        raise ValueError("must name a database, as in postgresql://user:password@host:5432/name")
    return value


def _redis_url(value: str) -> str:
    """The address with redis-py's scheme names: `valkey://` is `redis://`, `valkeys://` is `rediss://`."""
    address = re.sub(r"^valkey(s?)://", r"redis\1://", value)
    try:
        parts = urlsplit(address)
        reachable = bool(parts.path.strip("/")) if parts.scheme == "unix" else bool(parts.hostname and parts.port != 0)
        query = parse_qs(parts.query)
    except ValueError:
        reachable, query, parts = False, {}, urlsplit("")
    number = query.get("db", [parts.path.strip("/") if parts.scheme != "unix" else ""])[-1]
    if not re.match(r"(redis|rediss|unix)://", address) or not reachable or not (number == "" or number.isdigit()):
        raise ValueError(
            "must be redis://host:6379/0, rediss://host:6379/0, valkey://host:6379/0 or unix:///path/to/socket?db=0"
        )
    return address


def _http_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or re.search(r"\s", value):
        raise ValueError("must be an address that starts with http:// or https://")
    return value.rstrip("/")


def _mysql_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme == "mysql" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError("must be an address such as mysql://reader:password@host:3306/name")
    return value


def _llm(value: str) -> str:
    if value == "offline" or re.fullmatch(r"[a-z][a-z0-9_-]*:\S+", value):
        return value
    raise ValueError("must be 'offline' or PROVIDER:MODEL, for example openai:gpt-5")


def _secret_key(value: SecretStr) -> SecretStr:
    if len(value.get_secret_value()) < SECRET_KEY_MIN_CHARS:
        raise ValueError(f"must have at least {SECRET_KEY_MIN_CHARS} characters")
    return value


def _hosts(value: tuple[str, ...]) -> tuple[str, ...]:
    for host in value:
        if "/" in host or not re.fullmatch(r"\*|\.?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", host):
            raise ValueError(f"must be host names separated by commas, without scheme or port, and {host!r} is not one")
    return value


def _existing_folder(value: Path) -> Path:
    if not value.is_dir():
        raise ValueError(f"must be an existing folder, and {str(value)!r} is not one")
    return value.resolve()


def _mcp_config(value: Path) -> Path:
    try:
        content = json.loads(value.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"must be a readable JSON file, and {str(value)!r} is not one") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be a JSON file, and {str(value)!r} does not hold valid JSON") from error
    if not isinstance(content, dict) or not isinstance(content.get("mcpServers"), dict):
        raise ValueError("must be a JSON file with an object under the key 'mcpServers'")
    return value.resolve()


def _notify_urls(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(re.match(r"[a-z][a-z0-9+.-]*://\S", url, re.IGNORECASE) for url in value):
        raise ValueError("must be Apprise addresses such as slack://… or mailto://…, separated by commas or spaces")
    return value


HttpUrl = Annotated[str | None, AfterValidator(lambda value: value if value is None else _http_url(value))]
RoleModel = Annotated[str | None, AfterValidator(lambda value: value if value is None else _llm(value))]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_words)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_commas)]
Addresses = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_addresses), AfterValidator(_notify_urls)]


def _named(name: str, default: Any = None, **limits: Any) -> Any:
    return Field(default, validation_alias=name, **limits)


class Env(BaseSettings):
    """The settings of `docs/settings.md`; names, defaults and units are theirs (`_S` means seconds)."""

    model_config = SettingsConfigDict(
        frozen=True, env_ignore_empty=True, case_sensitive=True, extra="ignore", hide_input_in_errors=True
    )

    database_url: Annotated[str | None, AfterValidator(lambda v: v if v is None else _database_url(v))] = _named(
        "DATABASE_URL", repr=False
    )
    redis_url: Annotated[str | None, AfterValidator(lambda v: v if v is None else _redis_url(v))] = _named(
        "REDIS_URL", repr=False
    )
    var: Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())] = _named(
        "SUPERBIZ_VAR", BASE_DIR / "var"
    )
    port: int = _named("PORT", 8000, ge=1, le=65535)
    secret_key: Annotated[SecretStr | None, AfterValidator(lambda v: v if v is None else _secret_key(v))] = _named(
        "SUPERBIZ_SECRET_KEY"
    )
    allowed_hosts: Annotated[Words, AfterValidator(_hosts)] = _named("SUPERBIZ_ALLOWED_HOSTS", LOOPBACK_HOSTS)
    debug: bool = _named("SUPERBIZ_DEBUG", False)

    llm: Annotated[str, AfterValidator(_llm)] = _named("SUPERBIZ_LLM", "offline")
    llm_base_url: HttpUrl = _named("SUPERBIZ_LLM_BASE_URL")
    llm_api_key: SecretStr | None = _named("SUPERBIZ_LLM_API_KEY")
    llm_output: Literal["native", "tool", "prompted"] = _named("SUPERBIZ_LLM_OUTPUT", "native")
    llm_router: RoleModel = _named("SUPERBIZ_LLM_ROUTER")
    llm_system_chat: RoleModel = _named("SUPERBIZ_LLM_SYSTEM_CHAT")
    llm_planner: RoleModel = _named("SUPERBIZ_LLM_PLANNER")
    llm_executor: RoleModel = _named("SUPERBIZ_LLM_EXECUTOR")
    llm_verifier: RoleModel = _named("SUPERBIZ_LLM_VERIFIER")
    llm_composer: RoleModel = _named("SUPERBIZ_LLM_COMPOSER")
    llm_supervisor: RoleModel = _named("SUPERBIZ_LLM_SUPERVISOR")

    run_max_model_calls: int = _named("SUPERBIZ_RUN_MAX_MODEL_CALLS", 24, ge=1, le=1000)
    run_max_tool_calls: int = _named("SUPERBIZ_RUN_MAX_TOOL_CALLS", 32, ge=1, le=1000)
    run_max_same_tool_calls: int = _named("SUPERBIZ_RUN_MAX_SAME_TOOL_CALLS", 6, ge=1, le=1000)
    run_max_tokens: int = _named("SUPERBIZ_RUN_MAX_TOKENS", 200_000, ge=1, le=100_000_000)
    run_deadline_s: int = _named("SUPERBIZ_RUN_DEADLINE_S", 300, ge=1, le=86_400)
    tool_timeout_s: float = _named("SUPERBIZ_TOOL_TIMEOUT_S", 20.0, gt=0, le=3600, allow_inf_nan=False)
    model_timeout_s: float = _named("SUPERBIZ_MODEL_TIMEOUT_S", 90.0, gt=0, le=3600, allow_inf_nan=False)

    prometheus_url: HttpUrl = _named("PROMETHEUS_URL")
    alertmanager_url: HttpUrl = _named("ALERTMANAGER_URL")
    loki_url: HttpUrl = _named("LOKI_URL")
    elasticsearch_url: HttpUrl = _named("ELASTICSEARCH_URL", repr=False)
    log_dir: Annotated[Path | None, AfterValidator(lambda v: v if v is None else _existing_folder(v))] = _named(
        "SUPERBIZ_LOG_DIR"
    )
    mysql_url: Annotated[str | None, AfterValidator(lambda v: v if v is None else _mysql_url(v))] = _named(
        "SUPERBIZ_MYSQL_URL", repr=False
    )
    mcp_config: Annotated[Path | None, AfterValidator(lambda v: v if v is None else _mcp_config(v))] = _named(
        "SUPERBIZ_MCP_CONFIG"
    )
    recorded_evidence: Annotated[Path | None, AfterValidator(lambda v: v if v is None else _existing_folder(v))] = (
        _named("SUPERBIZ_RECORDED_EVIDENCE")
    )

    alert_repeat_window_s: int = _named("SUPERBIZ_ALERT_REPEAT_WINDOW_S", 3600, ge=0, le=31_536_000)
    alert_ignore_names: Names = _named("SUPERBIZ_ALERT_IGNORE_NAMES", HEARTBEATS)
    notify_urls: Addresses = _named("SUPERBIZ_NOTIFY_URLS", (), repr=False)
    notify_started: bool = _named("SUPERBIZ_NOTIFY_STARTED", False)
    public_url: HttpUrl = _named("SUPERBIZ_PUBLIC_URL")
    otel_endpoint: HttpUrl = _named("OTEL_EXPORTER_OTLP_ENDPOINT")
    worker_concurrency: int = _named("SUPERBIZ_WORKER_CONCURRENCY", 32, ge=1, le=256)
    process: ProcessKind = _named("SUPERBIZ_PROCESS", "command")

    def llm_for(self, role: LlmRole) -> str:
        """The model of one role: its own override, else `SUPERBIZ_LLM`."""
        override: str | None = getattr(self, f"llm_{role}")
        return override or self.llm

    @property
    def base_url(self) -> str:
        """Where people reach the pages, without a slash at the end: for links that leave the site."""
        return self.public_url or f"http://127.0.0.1:{self.port}"

    @property
    def loopback_only(self) -> bool:
        """Whether every allowed host is this machine's loopback, so that plain HTTP is all there is."""
        return all(host in LOOPBACK_HOSTS for host in self.allowed_hosts)

    @property
    def unread(self) -> tuple[str, ...]:
        """Variables that are set and that no part of this version reads: whoever set them should know."""
        fields = type(self).model_fields
        return tuple(str(fields[name].validation_alias) for name in UNREAD_FIELDS if getattr(self, name))


def setting_names() -> tuple[str, ...]:
    """Every environment variable that `Env` reads, in the order of its fields."""
    return tuple(str(field.validation_alias) for field in Env.model_fields.values())


def _refuse_unknown_names(environ: Mapping[str, str]) -> None:
    known = {*setting_names(), *INTERNAL_NAMES}
    for name in sorted(environ):
        if name.startswith("SUPERBIZ_") and environ[name] and name not in known:
            nearest = difflib.get_close_matches(name, sorted(known - INTERNAL_NAMES), n=1, cutoff=0)[0]
            raise ConfigurationError(f"{name} is not a setting of SuperBiz; the nearest one is {nearest}.")


def _refuse_undecodable(environ: Mapping[str, str]) -> None:
    """What a value names is stored, shown and sent as UTF-8."""
    for name in setting_names():
        try:
            environ.get(name, "").encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"{name} must be UTF-8 text.") from error


def _sentence(error: ValidationError) -> str:
    """The first problem of a validation as one sentence: `NAME must …`."""
    first = error.errors(include_url=False)[0]
    name, context = str(first["loc"][0]), first.get("ctx", {})
    match first["type"]:
        case "value_error":
            told = str(context["error"])
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            told = "must be a whole number"
        case "float_parsing" | "finite_number":
            told = "must be a number"
        case "bool_parsing" | "bool_type":
            told = "must be true or false"
        case "greater_than_equal":
            told = f"must be at least {context['ge']}"
        case "greater_than":
            told = f"must be more than {context['gt']}"
        case "less_than_equal":
            told = f"must be at most {context['le']}"
        case "literal_error":
            told = f"must be one of {context['expected']}"
        case _:
            told = f"is not valid: {first['msg']}"
    return f"{name} {told}."


def load_env() -> Env:
    """Read the environment; raises `ConfigurationError` for a wrong value or an unknown `SUPERBIZ_` name."""
    _refuse_unknown_names(os.environ)
    _refuse_undecodable(os.environ)
    try:
        return Env()
    except ValidationError as error:
        raise ConfigurationError(_sentence(error)) from error


@functools.cache
def load_env_or_exit() -> Env:
    """The process's one `Env`; a wrong setting is printed as one line on stderr and ends it with code 2."""
    try:
        return load_env()
    except ConfigurationError as error:
        exit_with(error)


def exit_with(error: Exception) -> NoReturn:
    """Print an error as one line on stderr and leave with exit code 2."""
    print(f"superbiz: {error}", file=sys.stderr)  # noqa: T201  # before logging is configured
    raise SystemExit(CONFIGURATION_EXIT_CODE)
