"""The pages of runs, and of prompts where they meet runs. Mounted at the root by `superbiz.urls`."""

from django.urls import path

from audit import live_view
from audit.views import compare, export, prompts, record, rules, run, runlist, session

urlpatterns = [
    path("", runlist.run_list, name="runs"),
    path("runs/figures/", runlist.run_figures, name="run_figures"),
    path("runs/new/", runlist.new_runs, name="new_runs"),
    path("runs/watched/", runlist.watched_runs, name="watched_runs"),
    path("runs/compare/", compare.compare_runs, name="compare_runs"),
    path("runs/<str:run_id>/", run.run_page, name="run"),
    path("runs/<str:run_id>/cancel/", run.cancel_run, name="cancel_run"),
    path("runs/<str:run_id>/again/", run.run_again, name="run_again"),
    path("sessions/<str:session_id>/", session.session_page, name="session"),
    path("prompts/dry-runs/<str:run_id>/", prompts.dry_run, name="dry_run"),
    path("prompts/<str:name>/usage/", prompts.prompt_usage, name="prompt_usage"),
    path("prompts/<str:name>/versions/<int:number>/runs/", prompts.prompt_runs, name="prompt_runs"),
    path("prompts/<str:name>/versions/<int:number>/dry-run/", prompts.prompt_dry_run, name="prompt_dry_run"),
    path("prompts/<str:name>/versions/<int:number>/dry-runs/", prompts.prompt_dry_runs, name="prompt_dry_runs"),
    path("rules/usage/", rules.rules_usage, name="rules_usage"),
    path("rules/<str:code>/usage/", rules.rule_usage, name="rule_usage"),
    path("rules/<str:code>/runs/", rules.rule_runs, name="rule_runs"),
    path("rule-sets/<int:number>/runs/", rules.rule_set_runs, name="rule_set_runs"),
    path("rule-proposals/<int:proposal_id>/previews/", rules.rule_previews, name="rule_previews"),
    path("rule-previews/<int:preview_id>/", rules.rule_preview, name="rule_preview"),
    path("runs/<str:run_id>/trace.json", export.trace_json, name="trace_json"),
    path("runs/<str:run_id>/report.md", export.report, name="run_report"),
    path("runs/<str:run_id>/events/<int:sequence_no>/<str:part>.json", export.invocation_json, name="invocation_json"),
    path("runs/<str:run_id>/record/", record.record_check, name="record_check"),
    path("runs/<str:run_id>/live/", live_view.live_run, name="live_run"),
    path("runs/<str:run_id>/events/<int:sequence_no>/restricted/", run.restricted, name="restricted"),
]
