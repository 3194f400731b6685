"""The one-time sign-in link that `up` prints, and the page behind it.

A link is a random token whose SHA-256 is kept in the cache with the user's key, for `LINK_MINUTES`. Opening it only
shows a button: mail and chat programs that fetch previews must not use it up. Pressing the button deletes the entry,
and the one whose delete counted is signed in.
"""

import hashlib
import secrets
from http import HTTPStatus

from django.contrib.auth import get_user_model, login
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

ADMIN_NAME = "admin"
LINK_MINUTES = 15


def _key(token: str) -> str:
    return f"sign-in:{hashlib.sha256(token.encode()).hexdigest()}"


def issue_link(base_url: str) -> str:
    """A fresh link for the superuser `admin`, who is made (without a usable password) if missing."""
    users = get_user_model()
    admin, _made = users.objects.get_or_create(
        username=ADMIN_NAME,
        defaults={"is_staff": True, "is_superuser": True, "password": f"!{secrets.token_urlsafe(30)}"},
    )
    token = secrets.token_urlsafe(32)
    cache.set(_key(token), admin.pk, timeout=LINK_MINUTES * 60)
    return base_url + reverse("sign_in_link", args=[token])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows the button; POST uses the link up and signs in; 410 when it is unknown, used or too old."""
    key = _key(token)
    user = get_user_model().objects.filter(pk=cache.get(key), is_active=True).first()
    if user is None:
        return render(request, "registration/sign_in_link_gone.html", status=HTTPStatus.GONE)
    if request.method != "POST":
        return render(request, "registration/sign_in_link.html", {"username": user.get_username()})
    if not cache.delete(key):
        return render(request, "registration/sign_in_link_gone.html", status=HTTPStatus.GONE)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("/")
