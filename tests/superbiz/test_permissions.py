"""Who may do what in the admin: every page and every action, for every group.

The pages are found by walking the admin's own URLs, so a new page fails here until it has its row.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.db import models
from django.test import Client, RequestFactory
from django.urls import NoReverseMatch, URLPattern, URLResolver, reverse

from audit.models import PrunedRun
from audit.readings import record_access
from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.types import RuleMode
from prompts.actions import sync_shipped
from runs import alert_actions
from runs.access import Caller
from runs.models import RunNotice
from superbiz.groups import AUDITORS, GROUPS, OPERATORS, PROMPT_ADMINS, REASONING_READERS, RULE_ADMINS
from tests.audit.recording import finished_run
from tests.factories import AlertFactory, TokenFactory, UserFactory, now

pytestmark = pytest.mark.django_db

SUPERUSER = "superuser"
STAFF = "staff in no group"
PLAIN = "plain person"
NOBODY = "nobody"
CALLERS = (*GROUPS, SUPERUSER, STAFF, PLAIN, NOBODY)

EVERY_STAFF = {*GROUPS, SUPERUSER, STAFF}
EVERYONE = {*CALLERS}
CHIEF = {SUPERUSER}
AUDITED = {AUDITORS, SUPERUSER}


@dataclass(frozen=True)
class Row:
    """Who may see a model's pages, add, change and delete there, and take its actions and its pages of their own."""

    view: set[str]
    add: set[str]
    change: set[str]
    delete: set[str]
    own: dict[str, set[str]]
    actions: dict[str, set[str]]


def row(
    view: set[str],
    *,
    add: set[str] | None = None,
    change: set[str] | None = None,
    delete: set[str] | None = None,
    own: dict[str, set[str]] | None = None,
    actions: dict[str, set[str]] | None = None,
) -> Row:
    return Row(view, add or set(), change or set(), delete or set(), own or {}, actions or {})


TOKEN_MAKERS = {OPERATORS, SUPERUSER}
PROMPTS_STEERED = {PROMPT_ADMINS, SUPERUSER}
PROMPTS_SEEN = {AUDITORS, *PROMPTS_STEERED}
RULES_STEERED = {RULE_ADMINS, SUPERUSER}
RULES_SEEN = {AUDITORS, *RULES_STEERED}
WATCHERS = {OPERATORS, AUDITORS, SUPERUSER}
TABLE = {
    "audit.traceevent": row(AUDITED),
    "audit.tracehead": row(AUDITED),
    "audit.agentstep": row(AUDITED),
    "audit.modelcallrow": row(AUDITED),
    "audit.toolinvocation": row(AUDITED),
    "audit.agentreasoning": row(AUDITED),
    "audit.reasoningaccess": row(AUDITED),
    "audit.prunedrun": row(AUDITED),
    "admin.logentry": row(AUDITED),
    "axes.accessattempt": row(AUDITED, actions={"unlock": CHIEF}),
    "axes.accesslog": row(AUDITED),
    "auth.user": row(AUDITED, add=CHIEF, change=CHIEF, own={"auth_user_password_change": CHIEF}),
    "auth.group": row(AUDITED, add=CHIEF, change=CHIEF, delete=CHIEF, actions={"delete_selected": CHIEF}),
    "prompts.prompt": row(
        PROMPTS_SEEN,
        own={
            "prompts_version": PROMPTS_SEEN,
            "prompts_compare": PROMPTS_SEEN,
            "prompts_edit": PROMPTS_STEERED,
            "prompts_activate": PROMPTS_STEERED,
        },
    ),
    "prompts.promptactivation": row(PROMPTS_SEEN),
    "gatekeeper.rule": row(RULES_SEEN),
    "gatekeeper.ruleproposal": row(RULES_SEEN),
    "gatekeeper.ruleset": row(
        RULES_SEEN,
        own={
            "gatekeeper_ruleset_page": RULES_SEEN,
            "gatekeeper_ruleset_compare": RULES_SEEN,
            "gatekeeper_ruleset_restore": RULES_STEERED,
        },
    ),
    "runs.alertsilence": row(WATCHERS),
    "runs.runnotice": row(WATCHERS),
    "runs.apitoken": row(
        AUDITED | TOKEN_MAKERS,
        add=TOKEN_MAKERS,
        own={
            "runs_apitoken_scopes": TOKEN_MAKERS,
            "runs_apitoken_rotate": TOKEN_MAKERS,
            "runs_apitoken_end_old_secret": TOKEN_MAKERS,
            "runs_apitoken_revoke": TOKEN_MAKERS,
        },
    ),
}
# Pages of the admin that belong to no model.
SITE_PAGES = {
    "index": EVERY_STAFF,
    "login": EVERYONE,
    "logout": EVERYONE,
    "password_change": EVERY_STAFF,
    "password_change_done": EVERY_STAFF,
    "autocomplete": set(),
    "jsi18n": EVERY_STAFF,
    "view_on_site": EVERY_STAFF,
    "app_list": EVERY_STAFF,
}


def key_of(model: type[models.Model]) -> str:
    return f"{model._meta.app_label}.{model._meta.model_name}"


REGISTERED = {key_of(model): model for model in admin.site._registry}


def names_in(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from names_in(pattern.url_patterns)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield pattern.name


@pytest.fixture(autouse=True)
def _groups(db: None) -> None:
    """Tests that commit empty all tables; what the migrations filled is filled again here."""
    for name in GROUP_MIGRATIONS:
        import_module(f"superbiz.migrations.{name}").make_groups(apps, None)


GROUP_MIGRATIONS = ("0001_groups", "0002_notices_and_silences", "0003_changes")


@pytest.fixture
def rows() -> dict[str, models.Model]:
    """One row of every model that the admin shows."""
    UserFactory.create()
    run = finished_run()
    moment = {"created_at": now(), "due_at": now(), "changed_at": now()}
    RunNotice.objects.create(run=run, occasion="FINISHED", target="0" * 16, service="json #1", **moment)
    alert = AlertFactory.create()
    alert_actions.silence(alert.id, Caller(user=UserFactory.create()), lasts=timedelta(hours=1), reason="Known.")
    record_access(Caller(user=UserFactory.create()), run.id, "reasoning")
    PrunedRun.objects.create(
        run_id="run_gone",
        session_id="s",
        pruned_at=now(),
        pruned_by="casey",
        reason="old",
        trace_event_count=1,
        trace_head_hash="0" * 64,
    )
    sync_shipped()
    rulesets.sync()
    off = Changes(rules={"GK009_CURRENT_STATE": RuleChange(mode=RuleMode.OFF)})
    rulesets.propose(rulesets.newest_row().number, off, by=UserFactory.create(), reason="Trying.")
    TokenFactory(previous_digest="0" * 64, previous_ends_at=now() + timedelta(hours=1))
    AccessAttempt.objects.create(
        username="casey", ip_address="192.0.2.1", user_agent="x", failures_since_start=5, attempt_time=now()
    )
    LogEntry.objects.log_actions(UserFactory.create().pk, [run], CHANGE, "Said why.", single_object=True)
    AccessLog.objects.create(username="casey", ip_address="192.0.2.1", attempt_time=now())
    found = {key: model._default_manager.first() for key, model in REGISTERED.items()}
    missing = [key for key, instance in found.items() if instance is None]
    assert missing == [], "give these models a row in this fixture"
    return {key: instance for key, instance in found.items() if instance is not None}


def client_of(caller: str) -> Client:
    client = Client()
    if caller != NOBODY:
        user = UserFactory.create(is_staff=caller != PLAIN, is_superuser=caller == SUPERUSER)
        if caller in GROUPS:
            user.groups.add(Group.objects.get(name=caller))
        client.force_login(user)
    return client


@pytest.fixture
def clients() -> dict[str, Client]:
    return {caller: client_of(caller) for caller in CALLERS}


def let_in(client: Client, address: str) -> bool:
    """Neither refused nor sent to sign in."""
    answer = client.get(address)
    to_sign_in = answer.status_code == 302 and "login" in answer["Location"]
    assert answer.status_code in {200, 302, 403, 404, 405}, (address, answer.status_code)
    return answer.status_code != 403 and not to_sign_in


def who_gets_in(clients: dict[str, Client], address: str) -> set[str]:
    return {caller for caller, client in clients.items() if let_in(client, address)}


def test_every_model_of_the_admin_has_its_row() -> None:
    assert TABLE.keys() == REGISTERED.keys()


def test_every_page_of_the_admin_is_in_the_table() -> None:
    usual = {
        f"{key.replace('.', '_')}_{page}"
        for key in REGISTERED
        for page in ("changelist", "add", "history", "delete", "change")
    }
    own = {name for each in TABLE.values() for name in each.own}
    assert set(names_in(admin.site.get_urls())) == usual | own | SITE_PAGES.keys()


@pytest.mark.parametrize("key", sorted(REGISTERED))
def test_who_gets_where(key: str, rows: dict[str, models.Model], clients: dict[str, Client]) -> None:
    expected, base, pk = TABLE[key], f"admin:{key.replace('.', '_')}", rows[key].pk
    for page, allowed in {
        "changelist": expected.view,
        "change": expected.view | expected.change,
        "history": expected.view | expected.change,
        "delete": expected.delete,
    }.items():
        arguments = [] if page == "changelist" else [pk]
        assert who_gets_in(clients, reverse(f"{base}_{page}", args=arguments)) == allowed, page
    assert who_gets_in(clients, reverse(f"{base}_add")) == expected.add
    for name, allowed in expected.own.items():
        assert who_gets_in(clients, address_of(name, pk)) == allowed, name


def address_of(name: str, pk: Any) -> str:
    for arguments in ([pk], [pk, 1]):
        with suppress(NoReverseMatch):
            return reverse(f"admin:{name}", args=arguments)
    return reverse(f"admin:{name}")


@pytest.mark.parametrize("key", sorted(REGISTERED))
def test_who_saves_changes(key: str, rows: dict[str, models.Model], clients: dict[str, Client]) -> None:
    address = reverse(f"admin:{key.replace('.', '_')}_change", args=[rows[key].pk])
    saved = {caller for caller, client in clients.items() if client.post(address, {}).status_code == 200}
    assert saved == TABLE[key].change


@pytest.mark.parametrize("key", sorted(REGISTERED))
def test_who_may_take_which_action(key: str) -> None:
    model_admin = admin.site._registry[REGISTERED[key]]
    found: dict[str, set[str]] = {}
    for caller in EVERY_STAFF:
        request: Any = RequestFactory().get("/")
        request.user = User.objects.get(pk=client_of(caller).session["_auth_user_id"])
        for name in model_admin.get_actions(request):
            found.setdefault(name, set()).add(caller)
    assert found == TABLE[key].actions


@pytest.mark.parametrize("name", sorted(SITE_PAGES.keys() - {"logout"}))
def test_who_gets_to_the_pages_of_the_site(name: str, clients: dict[str, Client]) -> None:
    arguments = {"view_on_site": ["1", "1"], "app_list": ["audit"]}.get(name, [])
    assert who_gets_in(clients, reverse(f"admin:{name}", args=arguments)) == SITE_PAGES[name]


def test_who_signs_out_is_out(clients: dict[str, Client]) -> None:
    for client in clients.values():
        client.post(reverse("admin:logout"))
    assert who_gets_in(clients, reverse("admin:index")) == set()


# ---- beyond the admin -----------------------------------------------------------------------------------------

BEYOND = {
    "runs.see_all_sessions": {OPERATORS, RULE_ADMINS, PROMPT_ADMINS, AUDITORS, SUPERUSER},
    "runs.cancel_any_run": {OPERATORS, SUPERUSER},
    "runs.submit_alerts": {OPERATORS, SUPERUSER},
    "audit.read_reasoning": {REASONING_READERS, SUPERUSER},
    "gatekeeper.change_rule": {RULE_ADMINS, SUPERUSER},
    "prompts.change_prompt": {PROMPT_ADMINS, SUPERUSER},
    "prompts.activate_prompt": {PROMPT_ADMINS, SUPERUSER},
}


@pytest.mark.parametrize("permission", BEYOND)
def test_who_holds_what_pages_outside_the_admin_ask_for(permission: str) -> None:
    holders = {
        caller
        for caller in EVERY_STAFF | {PLAIN}
        if User.objects.get(pk=client_of(caller).session["_auth_user_id"]).has_perm(permission)
    }
    assert holders == BEYOND[permission]
