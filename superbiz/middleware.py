"""Middleware of the project's own."""

import re
from collections.abc import Callable
from typing import TypeAlias

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.decorators import sync_only_middleware
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponseBase]

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


@sync_only_middleware
def no_control_characters(get_response: GetResponse) -> GetResponse:
    """400 for a NUL in the address; cookies that hold control characters count as not sent.

    PostgreSQL has no text with a NUL in it, so a query for one fails instead of finding nothing: no view, filter of
    the admin or session store should ever be asked about it. Cookies arrive quoted and may carry any octet; ours hold
    none of these.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        query = request.META.get("QUERY_STRING", "")
        if "\0" in request.path or "\0" in query or "%00" in query:
            raise BadRequest("The address holds a NUL")
        if any(map(_CONTROL.search, request.COOKIES.values())):
            # A cached property of every request class of Django: what is set here stays.
            request.COOKIES = {name: value for name, value in request.COOKIES.items() if not _CONTROL.search(value)}
        return get_response(request)

    return middleware


class StaticFiles(WhiteNoiseMiddleware):
    """Whitenoise, sending each file whole.

    It streams files in blocks that are read in place, which ASGI cannot wait for: Django would read the whole file
    first and warn of it, each time. The static files are small.
    """

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        body = b""
        if found.file is not None:
            with found.file:
                body = found.file.read()
        response = HttpResponse(body, status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


@sync_only_middleware
def one_thread(get_response: GetResponse) -> GetResponse:
    """To stand last: makes Django run all middleware of a request in one thread.

    Under ASGI each of Django's middlewares would otherwise go to a thread and back twice a request, which costs more
    than all else in a small request. Async views still run on the event loop, and so do their streams.
    """
    return get_response
