"""The pages that belong to runs. Mounted at the root by `superbiz.urls`."""

from django.urls import path

from runs import alert_views

urlpatterns = [
    path("alerts/", alert_views.alert_list, name="alerts"),
    path("alerts/watched/", alert_views.watched_alerts, name="watched_alerts"),
    path("alerts/<int:alert_id>/", alert_views.alert_page, name="alert"),
    path("alerts/<int:alert_id>/diagnose/", alert_views.diagnose_alert, name="diagnose_alert"),
    path("alerts/<int:alert_id>/silence/", alert_views.silence_alert, name="silence_alert"),
    path("alerts/<int:alert_id>/silence/end/", alert_views.end_silence, name="end_silence"),
]
