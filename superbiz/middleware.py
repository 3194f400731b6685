"""Middleware of the project's own."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_only_middleware


@sync_only_middleware
def one_thread(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """To stand last: makes Django run all middleware of a request in one thread.

    Under ASGI each of Django's middlewares would otherwise go to a thread and back twice a request, which costs more
    than all else in a small request. Async views still run on the event loop, and so do their streams.
    """
    return get_response
