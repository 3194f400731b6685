"""The groups that come with the product, and how a migration gives them permissions.

A migration runs once, so what an administrator changes in a group afterwards stays. Permissions are made by Django
only when all migrations have run (`post_migrate`); so the ones that a group needs are made here, where they are
missing, under the names that Django would look for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

OPERATORS = "operators"
REASONING_READERS = "reasoning readers"
RULE_ADMINS = "rule admins"
PROMPT_ADMINS = "prompt admins"
AUDITORS = "auditors"
GROUPS = (OPERATORS, REASONING_READERS, RULE_ADMINS, PROMPT_ADMINS, AUDITORS)


def grant(apps: Any, grants: Mapping[str, Sequence[str]]) -> None:
    """Give each group, made where it is missing, the permissions `app.model.codename`. For a migration's RunPython.

    May be repeated: it adds what is missing and takes nothing away.
    """
    group_model = apps.get_model("auth", "Group")
    permission_model = apps.get_model("auth", "Permission")
    content_type_model = apps.get_model("contenttypes", "ContentType")
    for name, wanted in grants.items():
        group, _made = group_model.objects.get_or_create(name=name)
        for path in wanted:
            app, model, codename = path.split(".")
            content_type, _made = content_type_model.objects.get_or_create(app_label=app, model=model)
            permission, _made = permission_model.objects.get_or_create(
                content_type=content_type,
                codename=codename,
                defaults={"name": f"Can {codename.replace('_', ' ')}"},
            )
            group.permissions.add(permission)
