"""The pages that belong to runs. Mounted at the root by `superbiz.urls`."""

from django.urls import path

from runs import alert_views, chat_views, feedback_views, knowledge_views

urlpatterns = [
    path("chat/", chat_views.chat_page, name="chat"),
    path("chat/<str:session_id>/", chat_views.conversation, name="conversation"),
    path("chat/<str:session_id>/clear/", chat_views.clear_conversation, name="clear_conversation"),
    path("chat/<str:session_id>/turns/<str:run_id>/", chat_views.turn, name="turn"),
    path("chat/<str:session_id>/turns/<str:run_id>/cancel/", chat_views.cancel_turn, name="cancel_turn"),
    path("chat/<str:session_id>/turns/<str:run_id>/again/", chat_views.ask_again, name="ask_again"),
    path("alerts/", alert_views.alert_list, name="alerts"),
    path("alerts/watched/", alert_views.watched_alerts, name="watched_alerts"),
    path("alerts/<int:alert_id>/", alert_views.alert_page, name="alert"),
    path("alerts/<int:alert_id>/diagnose/", alert_views.diagnose_alert, name="diagnose_alert"),
    path("alerts/<int:alert_id>/silence/", alert_views.silence_alert, name="silence_alert"),
    path("alerts/<int:alert_id>/silence/end/", alert_views.end_silence, name="end_silence"),
    path("knowledge/", knowledge_views.knowledge_list, name="knowledge"),
    path("knowledge/<str:document_id>/", knowledge_views.knowledge_document, name="document"),
    path("runs/<str:run_id>/feedback/", feedback_views.run_feedback, name="run_feedback"),
]
