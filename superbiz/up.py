"""`manage.py up`: check, start the servers, bring the database up to date, run web, worker and beat until Ctrl-C."""

import asyncio
import contextlib
import errno
import http.client
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from superbiz import signin
from superbiz.bootstrap import migrate_if_needed, release_connections, sync_shipped
from superbiz.embedded import OWNER_WAIT_S, EmbeddedServers, ServiceError, locked, own_services, prepare_folders
from superbiz.env import BASE_DIR, Env
from superbiz.places import Places
from superbiz.preflight import check_all
from superbiz.processes import Supervisor, programs
from superbiz.programs import Program, end_leftovers

READY_WAIT_S = 90.0
HOPELESS_AFTER_DEATHS = 3
DEMO_EVIDENCE = BASE_DIR / "eval" / "incidents" / "pool-exhausted" / "evidence"
HOST = "127.0.0.1"

T = TypeVar("T")


def base_url(env: Env) -> str:
    return f"http://{HOST}:{env.port}"


def say(line: str) -> None:
    """One line to the person at the terminal; a terminal that is gone hears nothing, and the work goes on."""
    with contextlib.suppress(OSError):
        print(line, flush=True)  # noqa: T201


@contextlib.contextmanager
def ground(env: Env) -> Iterator[EmbeddedServers]:
    """The checked ground to stand on: a folder that can be written, this instance's lock, a free port, the servers.

    Raises `ServiceError`.
    """
    places = Places(env.var)
    prepare_folders(places)
    with locked(places.up_lock) as mine:
        if not mine:
            raise ServiceError(f"Another `up` is running on SUPERBIZ_VAR ({env.var}); stop it or set another folder.")
        with locked(places.owner_lock, wait_s=OWNER_WAIT_S) as servers_mine:
            if not servers_mine:
                raise ServiceError(f"A command still uses the servers under {env.var}; try again when it has ended.")
            end_leftovers(places.processes_file)
            check_port(env.port)
            with own_services(env) as servers:
                yield servers


def check_port(port: int) -> None:
    """Raises `ServiceError` unless `port` can be served."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            why = "in use by another program" if error.errno == errno.EADDRINUSE else str(error.strerror).lower()
            raise ServiceError(f"PORT {port} is not free on {HOST}: {why}; set PORT to another one.") from error


async def up(env: Env, *, demo: bool) -> int:
    """Run everything until SIGINT, SIGTERM or SIGHUP; returns the exit code. Raises `ConfigurationError`."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    await _unless(stopping, asyncio.to_thread(check_all, env))
    if stopping.is_set():
        return 0
    code = 0
    with ground(env) as servers:
        supervisor = Supervisor(servers, say)
        children = programs(env, _demo_env(env) if demo else {})
        watching = asyncio.create_task(supervisor.watch())
        try:
            if await _unless(stopping, _bring_up(env, supervisor, children)):
                if demo:
                    from superbiz.demo import run_demo

                    code = await _unless(stopping, run_demo(base_url(env))) or 0
                await _unless(stopping, watching)
        finally:
            watching.cancel()
            say("Stopping …")
            await supervisor.stop(list(children))
    return code


async def _unless(stopping: asyncio.Event, work: Awaitable[T]) -> T | None:
    """The result of `work`, or None when a stop is asked for first; `work` is then cancelled and waited for."""
    task = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        return await task
    task.cancel()
    await asyncio.wait({task})
    return None


async def _in_thread(function: Callable[[], T]) -> T:
    """Run blocking database work; a cancellation waits until it has ended, so that its server outlives it."""
    task = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _bring_up(env: Env, supervisor: Supervisor, children: dict[str, Program]) -> bool:
    """Migrate, start the children, wait until they answer, tell the person where. Raises `ServiceError`."""
    for name in env.unread:
        say(f"{name} is set, but this version has no part that uses it yet.")
    if env.notify_urls and env.public_url is None:
        say(f"SUPERBIZ_PUBLIC_URL is not set: the links in notices lead to {env.base_url}/, on this machine only.")
    fresh = await _in_thread(migrate_if_needed)
    if fresh:
        # Nothing may run before its rules and prompts are there. Later starts load changes while the children start.
        await _in_thread(sync_shipped)
    for program in children.values():
        supervisor.start(program)
    if not fresh:
        await _in_thread(sync_shipped)
    await _until_ready(env, supervisor, children)
    link = await _in_thread(lambda: signin.issue_link(base_url(env)))
    await _in_thread(release_connections)
    say(f"SuperBiz is running at {base_url(env)}/")
    say(f"Sign in (one use, {signin.LINK_MINUTES} minutes): {link}")
    say(f"Logs: {Places(env.var).log}/   Stop: Ctrl-C")
    return True


async def _until_ready(env: Env, supervisor: Supervisor, children: dict[str, Program]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_WAIT_S
    while (told := await asyncio.to_thread(_ask_readiness, env.port)) is not None:
        hopeless = supervisor.deaths >= HOPELESS_AFTER_DEATHS
        if hopeless or loop.time() > deadline:
            what = "keeps failing" if hopeless else f"is not ready after {READY_WAIT_S:g} s"
            raise ServiceError(f"SuperBiz {what}; see {children['web'].log.parent}/. The web process: {told}")
        await asyncio.sleep(0.1)


def _ask_readiness(port: int) -> str | None:
    """None when everything that the web process needs answers; else what it says instead."""
    asked = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        asked.request("GET", "/readyz")
        answer = asked.getresponse()
        return None if answer.status == http.HTTPStatus.OK else answer.read(500).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"no answer ({type(error).__name__})"
    finally:
        asked.close()


def _demo_env(env: Env) -> dict[str, str]:
    """The demo's incident brings its own evidence, unless other evidence was asked for."""
    return {} if env.recorded_evidence else {"SUPERBIZ_RECORDED_EVIDENCE": str(DEMO_EVIDENCE)}
