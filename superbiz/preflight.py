"""What is tried before anything starts, so that a wrong setting is one sentence now and not failed runs later.

Every function raises `ConfigurationError`, whose text names the variable.
"""

import asyncio

import psycopg
import redis
from psycopg.conninfo import conninfo_to_dict
from redis.backoff import NoBackoff
from redis.retry import Retry

from runs.errors import ConfigurationError as Unusable
from runs.llm.select import OFFLINE, build_models, close_models
from runs.tools.recorded import load_recording
from superbiz.env import LLM_ROLES, ConfigurationError, Env

CONNECT_WAIT_S = 5


def check_database(env: Env) -> None:
    """Whether the server that `DATABASE_URL` names, if it names one, lets us in."""
    if env.database_url is None:
        return
    wait_s = conninfo_to_dict(env.database_url).get("connect_timeout", CONNECT_WAIT_S)
    try:
        psycopg.connect(env.database_url, connect_timeout=wait_s).close()
    except psycopg.Error as error:
        raise ConfigurationError(f"DATABASE_URL names a database that cannot be used: {_first_line(error)}") from error


def check_broker(env: Env) -> None:
    """Whether the server that `REDIS_URL` names, if it names one, answers."""
    if env.redis_url is None:
        return
    once = Retry(NoBackoff(), 0)
    try:
        with redis.Redis.from_url(
            env.redis_url, socket_connect_timeout=CONNECT_WAIT_S, socket_timeout=CONNECT_WAIT_S, retry=once
        ) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        raise ConfigurationError(f"REDIS_URL names a server that cannot be used: {_first_line(error)}") from error


def check_models(env: Env) -> None:
    """Whether each model can be opened: its provider is known, its library installed, its key there.

    Loads the library of a provider (a second and more) only where one is set. Calls no model.
    """
    variables = {f"SUPERBIZ_LLM_{role.upper()}": getattr(env, f"llm_{role}") for role in LLM_ROLES}
    for variable, spec in {"SUPERBIZ_LLM": env.llm, **variables}.items():
        if spec and spec != OFFLINE:
            try:
                _open_and_close(env, spec)
            except Unusable as error:
                raise ConfigurationError(f"{variable} names a model that cannot be used: {error}") from error


def _open_and_close(env: Env, spec: str) -> None:
    key = env.llm_api_key.get_secret_value() if env.llm_api_key else None
    models = build_models(spec, {}, env.llm_base_url, key, env.llm_output, env.model_timeout_s)
    asyncio.run(close_models(models.values()))


def check_evidence(env: Env) -> None:
    """Whether the recorded evidence can be read, where some is set."""
    if env.recorded_evidence is None:
        return
    try:
        load_recording(env.recorded_evidence)
    except Unusable as error:
        raise ConfigurationError(f"SUPERBIZ_RECORDED_EVIDENCE names a folder that cannot be used: {error}") from error


def check_notices(env: Env) -> None:
    """Whether Apprise knows each address for notices. Loads it only where there is one; calls no service."""
    if not env.notify_urls:
        return
    import apprise

    for number, url in enumerate(env.notify_urls, start=1):
        if apprise.Apprise.instantiate(url) is None:
            service = url.partition("://")[0].lower()
            raise ConfigurationError(
                f"SUPERBIZ_NOTIFY_URLS holds an address that Apprise cannot use: number {number}, {service}://."
            )


def check_agent(env: Env) -> None:
    """What a worker needs to drive runs and to tell of them."""
    check_evidence(env)
    check_models(env)
    check_notices(env)


def check_all(env: Env) -> None:
    """The cheap ones first."""
    check_database(env)
    check_broker(env)
    check_agent(env)


def _first_line(error: Exception) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".") + "."
