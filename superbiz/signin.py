"""The one-time sign-in link that `up` and `sign_in_link` print, and the page behind it.

A link is a random token whose SHA-256 is kept in the cache with the user's key, for `LINK_MINUTES`. Opening it only
shows a button: mail and chat programs that fetch previews must not use it up. Pressing the button deletes the entry,
and the one whose delete counted is signed in. Whoever tries out links is stopped for a while: `WRONG_LINKS` a quarter
of an hour and address. (Wrong passwords are counted by django-axes, see the settings.)
"""

import hashlib
import secrets
from http import HTTPStatus

import structlog
from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

log = structlog.get_logger(__name__)

ADMIN_NAME = "admin"
LINK_MINUTES = 15
WRONG_LINKS = 20
LOCK_OUT_MINUTES = int(settings.AXES_COOLOFF_TIME.total_seconds()) // 60


class NoLink(ValueError):
    """There can be no link for this name. The message is one sentence for the person who asked."""


def _key(token: str) -> str:
    return f"sign-in:{hashlib.sha256(token.encode()).hexdigest()}"


def issue_link(base_url: str, name: str = ADMIN_NAME) -> str:
    """A fresh link for a person; the superuser `admin` is made (without a usable password) if missing.

    Raises `NoLink` for somebody who is not there or was deactivated.
    """
    users = get_user_model()
    if name == ADMIN_NAME:
        users.objects.get_or_create(
            username=ADMIN_NAME,
            defaults={"is_staff": True, "is_superuser": True, "password": f"!{secrets.token_urlsafe(30)}"},
        )
    person = users.objects.filter(username=name).first() if "\0" not in name else None
    if person is None:
        raise NoLink(f"There is no user {name}.")
    if not person.is_active:
        raise NoLink(f"{name} was deactivated; no link would sign them in.")
    token = secrets.token_urlsafe(32)
    cache.set(_key(token), person.pk, timeout=LINK_MINUTES * 60)
    log.info("sign-in link issued", user=name)
    return base_url + reverse("sign_in_link", args=[token])


def _wrong_key(request: HttpRequest) -> str:
    return f"sign-in-wrong:{request.META.get('REMOTE_ADDR', '')}"


def _note_wrong(request: HttpRequest) -> None:
    key = _wrong_key(request)
    cache.add(key, 0, timeout=LINK_MINUTES * 60)
    try:
        cache.incr(key)
    except ValueError:
        # It lapsed between the two.
        cache.set(key, 1, timeout=LINK_MINUTES * 60)


def _gone(request: HttpRequest) -> HttpResponse:
    _note_wrong(request)
    return render(request, "registration/sign_in_link_gone.html", {"minutes": LINK_MINUTES}, status=HTTPStatus.GONE)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows the button; POST uses the link up and signs in; 410 when it is unknown, used or too old.

    429 for an address that tried too many wrong ones.
    """
    if cache.get(_wrong_key(request), 0) >= WRONG_LINKS:
        context = {"minutes": LINK_MINUTES}
        return render(request, "registration/locked_out.html", context, status=HTTPStatus.TOO_MANY_REQUESTS)
    key = _key(token)
    user = User.objects.filter(pk=cache.get(key), is_active=True).first()
    if user is None:
        return _gone(request)
    if request.method != "POST":
        return render(request, "registration/sign_in_link.html", {"username": user.get_username()})
    if not cache.delete(key):
        return _gone(request)
    login(request, user, backend="superbiz.backends.OneQueryBackend")
    return redirect("/")


def locked_out(request: HttpRequest, _response: HttpResponse | None, _credentials: object) -> HttpResponse:
    """What django-axes answers to a name that failed too often from one address."""
    context = {"minutes": LOCK_OUT_MINUTES, "by_name": True}
    return render(request, "registration/locked_out.html", context, status=HTTPStatus.TOO_MANY_REQUESTS)
