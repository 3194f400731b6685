"""What every page shares: who may see it, and which part of it htmx asks for.

One view serves a whole page and the part of it that htmx asks for; which part, the target's id says. Every address
renders whole without JavaScript.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control, patch_vary_headers
from django_htmx.middleware import HtmxDetails

from runs.access import Caller

P = ParamSpec("P")


def page_view(
    view: Callable[Concatenate[HttpRequest, Caller, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """For signed-in people. A browser that kept the page asks before it shows it again."""

    @wraps(view)
    def page(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return _to_sign_in(request)
        response = view(request, Caller(user=request.user), *args, **kwargs)
        if not response.has_header("Cache-Control"):
            patch_cache_control(response, private=True, no_cache=True)
        patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response

    return page


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A part of a page cannot be the sign-in page: htmx is told to leave for it, and to come back to where it was."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    if not htmx:
        return redirect_to_login(request.get_full_path())
    try:
        where = htmx.current_url_abs_path or "/"
    except ValueError:  # the header holds no address
        where = "/"
    there = redirect_to_login(where)
    return HttpResponse(headers={"HX-Redirect": there["Location"]})


def target_of(request: HttpRequest) -> str:
    """Id of the element that htmx will fill; empty where the whole page is asked for."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return (htmx.target or "") if htmx and not htmx.history_restore_request else ""
