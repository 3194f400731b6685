"""Bring a database up to this code: migrations, then the shipped rules, prompts and runbooks."""

import io

import django
from django.core.management import call_command, get_commands
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from superbiz.env import BASE_DIR

# Any number will do, as long as every instance that shares the database asks for the same one.
_MIGRATION_LOCK = 7_283_561
OUR_APPS = frozenset({"superbiz", "audit", "runs", "gatekeeper", "prompts"})
RUNBOOKS = BASE_DIR / "runs" / "knowledge" / "runbooks"


def migrate_if_needed() -> bool:
    """Apply missing migrations, one instance at a time; returns whether there were any."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
        try:
            executor = MigrationExecutor(connection)
            if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
                return False
            call_command("migrate", interactive=False, verbosity=0)
            return True
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATION_LOCK])


def sync_shipped() -> None:
    """Load the rules, prompts and runbooks that come with the code; each command does nothing when nothing changed."""
    commands = get_commands()
    for name, arguments in (("sync_rules", []), ("sync_prompts", []), ("import_runbooks", [str(RUNBOOKS)])):
        if name in commands:
            call_command(name, *arguments, verbosity=0, stdout=io.StringIO())


def release_connections() -> None:
    """Give this process's connections back and close their pool."""
    connections.close_all()
    for wrapper in connections.all(initialized_only=True):
        wrapper.close_pool()  # type: ignore[attr-defined]  # the PostgreSQL wrapper's own


def prepare_for(command: str) -> None:
    """Before one of our own commands on an embedded database: make sure that its tables and shipped data are there."""
    django.setup()
    if get_commands().get(command) in OUR_APPS:
        migrate_if_needed()
        sync_shipped()
