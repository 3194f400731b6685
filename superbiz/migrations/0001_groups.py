from django.db import migrations

from superbiz.groups import AUDITORS, OPERATORS, PROMPT_ADMINS, REASONING_READERS, RULE_ADMINS, grant

SEE_ALL_SESSIONS = "runs.diagnosisrun.see_all_sessions"
SEE_RULES = ("gatekeeper.rule.view_rule", "gatekeeper.ruleset.view_ruleset")
SEE_PROMPTS = (
    "prompts.prompt.view_prompt",
    "prompts.promptversion.view_promptversion",
    "prompts.promptactivation.view_promptactivation",
)
GRANTS = {
    OPERATORS: [
        SEE_ALL_SESSIONS,
        "runs.diagnosisrun.cancel_any_run",
        "runs.alert.submit_alerts",
        "runs.apitoken.view_apitoken",
        "runs.apitoken.add_apitoken",
        "runs.apitoken.change_apitoken",
    ],
    REASONING_READERS: ["audit.agentreasoning.read_reasoning"],
    RULE_ADMINS: [SEE_ALL_SESSIONS, *SEE_RULES, "gatekeeper.rule.change_rule"],
    PROMPT_ADMINS: [
        SEE_ALL_SESSIONS,
        *SEE_PROMPTS,
        "prompts.prompt.change_prompt",
        "prompts.prompt.activate_prompt",
    ],
    AUDITORS: [
        SEE_ALL_SESSIONS,
        *(
            f"audit.{model}.view_{model}"
            for model in (
                *("traceevent", "tracehead", "agentstep", "modelcallrow", "toolinvocation"),
                *("agentreasoning", "reasoningaccess", "prunedrun"),
            )
        ),
        *SEE_RULES,
        *SEE_PROMPTS,
        "runs.apitoken.view_apitoken",
        "auth.user.view_user",
        "auth.group.view_group",
        "axes.accessattempt.view_accessattempt",
        "axes.accesslog.view_accesslog",
    ],
}


def make_groups(apps, _schema_editor):
    grant(apps, GRANTS)


def keep_what_staff_could_do(apps, _schema_editor):
    """Until now staff saw all sessions and sent alerts in because they were staff."""
    operators = apps.get_model("auth", "Group").objects.get(name=OPERATORS)
    for person in apps.get_model("auth", "User").objects.filter(is_staff=True, is_superuser=False):
        person.groups.add(operators)


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("audit", "0001_initial"),
        ("runs", "0003_access"),
        ("gatekeeper", "0001_initial"),
        ("prompts", "0001_initial"),
        ("axes", "0010_accessattemptexpiration"),
    ]

    operations = [
        migrations.RunPython(make_groups, migrations.RunPython.noop),
        migrations.RunPython(keep_what_staff_could_do, migrations.RunPython.noop),
    ]
