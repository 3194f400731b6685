"""The URL root."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.templatetags.static import static
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from audit.streams import run_events
from superbiz import health
from superbiz.api import api, no_such_endpoint
from superbiz.password import change_password
from superbiz.signin import sign_in_link

urlpatterns = [
    path("admin/password_change/", change_password),
    path("admin/", admin.site.urls),
    path("api/runs/<str:run_id>/events", run_events),
    path("api/", api.urls),
    re_path("^api/", no_such_endpoint),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("sign-in/", LoginView.as_view(template_name="registration/sign_in.html"), name="sign_in"),
    path("sign-in/<str:token>/", sign_in_link, name="sign_in_link"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    # Where browsers look on pages that name no icon, such as the admin's.
    path("favicon.ico", RedirectView.as_view(url=static("icon.svg"))),
    path("", include("runs.urls")),
    path("", include("audit.urls")),
]
