"""The HTTP API under /api: all routers together, and one shape for every error.

Every error is `{"code", "message", "details"?}`: no stack, no SQL, no path. django-ninja's own errors get it from the
handlers below; what Django answers before or beside ninja (404, 405, bad host, crash) gets it from `json_errors`.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import RequestDataTooBig
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.http.request import UnreadablePostError
from ninja import NinjaAPI, Router
from ninja.errors import HttpError, ValidationError

from audit.api import router as audit_router
from audit.api import run_for
from audit.shapes import RunShape
from audit.tombstones import visible_run_or_tombstone
from runs.access import ApiError, caller_auth
from runs.alerts_api import router as alerts_router
from runs.api import caller_of_view
from runs.api import router as runs_router
from runs.models.token import Scope
from runs.search_api import router as search_router
from superbiz.chat_api import router as chat_router

log = structlog.get_logger(__name__)

API_PREFIX = "/api/"
MAX_DETAILS = 20

CODES = {
    400: ("BAD_REQUEST", "The request cannot be understood."),
    401: ("UNAUTHENTICATED", "Sign in or send a token."),
    403: ("FORBIDDEN", "This is not allowed."),
    404: ("NOT_FOUND", "There is nothing here."),
    405: ("METHOD_NOT_ALLOWED", "This address does not take this method."),
    413: ("BODY_TOO_LARGE", "The body is larger than 1 MiB."),
    415: ("UNSUPPORTED_MEDIA_TYPE", "The body must be JSON."),
    422: ("VALIDATION_FAILED", "The request is not valid."),
    429: ("TOO_MANY_REQUESTS", "There were too many requests."),
    500: ("INTERNAL", "Something unexpected went wrong."),
    503: ("UNAVAILABLE", "The service cannot answer now."),
}

api = NinjaAPI(
    title="SuperBiz",
    version="1",
    description="Diagnoses alerts with cited evidence. Send `Authorization: Bearer TOKEN`, or sign in first.",
    auth=caller_auth,
)

composed = Router(tags=["runs"], auth=caller_auth, by_alias=True)


@composed.get("/runs/{run_id}", response=RunShape, summary="One run with its published result")
def get_run(request: HttpRequest, response: HttpResponse, run_id: str) -> Any:
    """Its evaluation of itself comes without the restricted parts, unless the caller may read reasoning."""
    caller = caller_of_view(request, Scope.RUNS_READ)
    if caller.may(Scope.REASONING_READ):
        response["Cache-Control"] = "no-store"
    return run_for(caller, visible_run_or_tombstone(caller, run_id))


api.add_router("", alerts_router)
api.add_router("", runs_router)
api.add_router("", composed)
api.add_router("", audit_router)
api.add_router("", search_router)
api.add_router("", chat_router)


# ---- errors ---------------------------------------------------------------------------------------------------


def error_response(
    status: int, code: str | None = None, message: str | None = None, details: Any = None
) -> JsonResponse:
    usual_code, usual_message = CODES.get(status, (HTTPStatus(status).name, HTTPStatus(status).phrase + "."))
    body: dict[str, Any] = {"code": code or usual_code, "message": message or usual_message}
    if details is not None:
        body["details"] = details
    response = JsonResponse(body, status=status)
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


@api.exception_handler(ApiError)
def _api_error(_request: HttpRequest, error: ApiError) -> HttpResponse:
    return error_response(error.status, error.code, error.message, error.details)


@api.exception_handler(ValidationError)
def _validation_error(_request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Where and why, never the value that was sent."""
    told = [
        {"where": [str(part)[:100] for part in item.get("loc", ())], "message": str(item.get("msg", ""))[:200]}
        for item in error.errors[:MAX_DETAILS]
    ]
    return error_response(422, details=told)


@api.exception_handler(HttpError)
def _http_error(_request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return error_response(400, "BAD_JSON", "The body is not valid JSON.")
    return error_response(error.status_code)


@api.exception_handler(Http404)
def _not_found(_request: HttpRequest, _error: Http404) -> HttpResponse:
    return error_response(404)


@api.exception_handler(RequestDataTooBig)
def _too_big(_request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
    return error_response(413)


@api.exception_handler(UnreadablePostError)
def _unreadable(_request: HttpRequest, _error: UnreadablePostError) -> HttpResponse:
    return error_response(400)


@api.exception_handler(DataError)
def _unfit_for_the_database(request: HttpRequest, error: DataError) -> HttpResponse:
    """A value that passed as text and that PostgreSQL cannot hold."""
    log.warning("the database refused a value", path=request.path, error=type(error).__name__)
    return error_response(422)


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def _database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    """503, so that a sender such as Alertmanager tries again."""
    log.error("the database does not answer", path=request.path, error=type(error).__name__)
    return error_response(503)


@api.exception_handler(Exception)
def _crash(request: HttpRequest, error: Exception) -> HttpResponse:
    log.error("request failed", path=request.path, exc_info=error)
    return error_response(500)


def no_such_endpoint(_request: HttpRequest) -> HttpResponse:
    """Answers every address under /api that nothing else does."""
    return error_response(404)


def _shaped(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    plain = not response.get("Content-Type", "").startswith(("application/json", "text/event-stream"))
    if response.status_code < HTTPStatus.BAD_REQUEST or not plain or not request.path.startswith(API_PREFIX):
        return response
    shaped = error_response(response.status_code)
    if "Allow" in response:
        shaped["Allow"] = response["Allow"]
    # Django's own mark, so that it logs what it answered once.
    shaped._has_been_logged = getattr(response, "_has_been_logged", False)  # type: ignore[attr-defined]
    return shaped


def json_errors(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: whatever error page Django made for an address under /api becomes the API's own shape."""
    if iscoroutinefunction(get_response):
        return _json_errors_async(get_response)

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return _shaped(request, get_response(request))

    return middleware


def _json_errors_async(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]],
) -> Callable[[HttpRequest], Awaitable[HttpResponseBase]]:
    async def middleware(request: HttpRequest) -> HttpResponseBase:
        return _shaped(request, await get_response(request))

    markcoroutinefunction(middleware)
    return middleware


json_errors.sync_capable = True  # type: ignore[attr-defined]
json_errors.async_capable = True  # type: ignore[attr-defined]
