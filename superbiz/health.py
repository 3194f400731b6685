"""/healthz: this process answers. /readyz: the whole of it can work. /metrics: Prometheus text."""

import ipaddress
import os
from collections.abc import Callable

import redis
import structlog
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from runs import live
from runs.access import ApiError, caller_of, require
from runs.models.token import Scope
from superbiz.api import error_response
from superbiz.places import SHARED_METRICS

log = structlog.get_logger(__name__)


@never_cache
@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 when the database, the broker and a worker answer; else 503. The JSON says which of them do.

    `toolsLeftAlone`: tools whose source failed so often that workers do not ask it for a while. Runs go on without.
    """
    parts = {name: _answers(name, ask) for name, ask in PARTS.items()}
    ready = all(parts.values())
    body = {
        "status": "ready" if ready else "not ready",
        "parts": parts,
        "missing": [name for name, answers in parts.items() if not answers],
        "toolsLeftAlone": live.tools_left_alone() if parts["broker"] else [],
    }
    return JsonResponse(body, status=200 if ready else 503)


def _database() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return True


def _broker() -> bool:
    live.workers()
    return True


def _worker() -> bool:
    return bool(live.workers())


PARTS: dict[str, Callable[[], bool]] = {"database": _database, "broker": _broker, "worker": _worker}


def _answers(name: str, ask: Callable[[], bool]) -> bool:
    try:
        return ask()
    except (DatabaseError, redis.RedisError, OSError) as error:
        log.warning("not ready", part=name, error=type(error).__name__)
        return False


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """For loopback, and for callers who may read runs."""
    if not _from_loopback(request):
        try:
            require(caller_of(request), Scope.RUNS_READ)
        except ApiError as error:
            return error_response(error.status, error.code, error.message)
    return HttpResponse(_metrics_text(), content_type=CONTENT_TYPE_LATEST)


def _metrics_text() -> bytes:
    """Of all processes that share a folder of metrics (`up` gives them one), else of this one."""
    if SHARED_METRICS not in os.environ:
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)


def _from_loopback(request: HttpRequest) -> bool:
    """Asked from this machine itself: by no proxy, which would ask from loopback on behalf of others."""
    if request.headers.get("X-Forwarded-For") or request.headers.get("Forwarded"):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
