"""The pages of runs. Mounted at the root by `superbiz.urls`."""

from django.urls import path

from audit import live_view, views

urlpatterns = [
    path("", views.run_list, name="runs"),
    path("runs/watched/", views.watched_runs, name="watched_runs"),
    path("runs/<str:run_id>/", views.run_page, name="run"),
    path("runs/<str:run_id>/cancel/", views.cancel_run, name="cancel_run"),
    path("runs/<str:run_id>/live/", live_view.live_run, name="live_run"),
    path("runs/<str:run_id>/events/<int:sequence_no>/restricted/", views.restricted, name="restricted"),
]
